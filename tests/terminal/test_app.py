"""The terminal application, driven by its keys on recorded runs that grow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static

from tests.terminal.feeds import HOSTILE, Lab, Nothing, hostile, lab, recorded, sampled, watched
from vario.surfaces.cli.text import diagnosis_text
from vario.surfaces.live.watched import ReviewPlan, WatchedRun
from vario.surfaces.spark import BARS, sparkline
from vario.surfaces.terminal.app import WatchApp
from vario.surfaces.terminal.columns import cells, clean
from vario.surfaces.terminal.main_screen import MainScreen
from vario.surfaces.terminal.parts import Rows, Words
from vario.surfaces.terminal.sheet import Sheet
from vario.surfaces.terminal.sheets import HELP

Drive = Callable[[WatchApp, Pilot[None]], Coroutine[Any, Any, None]]
ALL = 10_000
"""Rows that come at once: the whole run."""


def drive(feed: Lab, what: Drive, size: tuple[int, int] = (120, 40)) -> None:
    async def run() -> None:
        app = WatchApp(feed)
        async with app.run_test(size=size) as pilot:
            await what(app, pilot)
        assert app.stop(20.0)

    asyncio.run(run())


async def until(app: WatchApp, pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    for _ in range(400):
        app.screen.paint()  # type: ignore[attr-defined]
        if condition():
            return
        await pilot.pause(0.05)
    pytest.fail(f"it did not come:\n{text_of(app)}")


async def settled(app: WatchApp, pilot: Pilot[None]) -> None:
    """All runs have come whole, and are shown."""
    await until(app, pilot, lambda: all(v.diagnosis is not None for v in main(app)._follower.latest.runs))
    await still(app, pilot)


async def still(app: WatchApp, pilot: Pilot[None]) -> None:
    """No turn comes any more, and the last one is shown."""
    main(app)._feed.every = 3600.0
    for _ in range(2):  # when the second is asked for, what came of the first has been taken
        passed = threading.Event()
        main(app)._follower.ask("waiting for a turn", passed.set)
        await until(app, pilot, passed.is_set)
    app.screen.paint()  # type: ignore[attr-defined]
    await pilot.pause()


def main(app: WatchApp) -> MainScreen:
    (found,) = [s for s in app.screen_stack if isinstance(s, MainScreen)]
    return found


def rows(app: WatchApp, name: str) -> list[str]:
    return [str(o.prompt) for o in app.screen.query_one(f"#{name}", Rows).options]


def words(app: WatchApp, name: str) -> str:
    return app.screen.query_one(f"#{name}", Words).text.plain


def text_of(app: WatchApp) -> str:
    """What is displayed, texts and lists."""
    texts = [w.text.plain for w in app.screen.query(Words) if displayed(w)]
    return "\n".join([*texts, *(str(o.prompt) for r in app.screen.query(Rows) if displayed(r) for o in r.options)])


def displayed(widget: Widget) -> bool:
    return all(w.display for w in widget.ancestors_with_self if isinstance(w, Widget))


def test_the_verdict_gauges_and_findings_of_what_needs_attention_first() -> None:
    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        assert [r.split()[:2] for r in rows(app, "runs")] == [
            ["!!", "grpo-proxy-hack"],
            ["!", "grpo-length-hack"],
            ["ok", "grpo-healthy"],
        ]
        diagnosis = main(app).view.diagnosis
        assert words(app, "verdict").startswith(
            f" STOP   {diagnosis.verdict.confidence} confidence   {diagnosis.verdict.trajectory}"
        )
        assert diagnosis.verdict.narrative[:40] in words(app, "verdict")
        gauges = words(app, "gauge-rows").splitlines()
        assert [g for g in gauges if " " not in g] == ["primary", "secondary", "tertiary"]
        (kl,) = [g for g in gauges if g.startswith("kl/reference")]
        assert "0.00222 -> 0.745" in kl
        assert "nats/token" in kl
        assert kl.endswith("plateau")
        reading = diagnosis.readings["kl/reference"]
        bars = "".join(c for c in kl if c in BARS)
        assert bars == sparkline("kl/reference", reading.spark, reading.spread, len(bars))
        assert len(bars) > 6
        assert rows(app, "findings")[0].split()[:6] == ["!!", "reward-hacking", "since", "51", "seen", "60"]
        detail = words(app, "finding")
        (finding,) = [f for f in diagnosis.findings if f.name == "reward-hacking"]
        assert finding.evidence[0] in " ".join(detail.split())
        assert "change beta (now 0.002) to 0.004: only delays" in detail
        assert "loss-rises-while-learning" in words(app, "beside")
        assert f"{len(diagnosis.unknown)} checks could not run" in words(app, "beside")
        assert "200 rows" in words(app, "standing")
        assert words(app, "standing").startswith("ended")
        assert "3 runs: 1 critical, 1 with warnings, 1 fine" in words(app, "head")

    drive(lab("grpo-healthy", "grpo-length-hack", "grpo-proxy-hack", rows=ALL), what)


def test_findings_open_worsen_and_pass_as_the_run_grows() -> None:
    feed = lab("grpo-reward-bug", rows=80, every=3600.0)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(
            app, pilot, lambda: app.screen.query_one("#findings", Rows).option_count > 0 and "opened" in text_of(app)
        )
        assert rows(app, "findings")[0].startswith("i  reward-plateaued")
        screen, turn = main(app), feed.turn
        screen._follower.ask("a turn", lambda: turn() and None)
        await until(app, pilot, lambda: "reward-function-broke" in text_of(app))
        assert rows(app, "findings")[0].startswith("!! reward-function-broke")
        assert "STOP" in words(app, "verdict")
        assert not app.screen.query_one("#runs-pane").display  # one run needs no list

    drive(feed, what)


def test_keys_choose_a_run_and_the_choice_outlives_a_new_order() -> None:
    feed = lab("grpo-healthy", "grpo-reward-bug", rows=50, every=3600.0)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.latest.looked_at is not None)
        assert [r.split()[1] for r in rows(app, "runs")] == ["grpo-healthy", "grpo-reward-bug"]
        assert main(app).view.name == "grpo-healthy"
        main(app)._follower.ask("a turn", lambda: feed.turn() and None)
        await until(app, pilot, lambda: rows(app, "runs")[0].split()[1] == "grpo-reward-bug")
        assert main(app).view.name == "grpo-healthy"
        assert app.screen.query_one("#runs", Rows).highlighted == 1
        await pilot.press("k")
        assert main(app).view.name == "grpo-reward-bug"
        await pilot.press("down")
        assert main(app).view.name == "grpo-healthy"
        await pilot.press("left")
        assert main(app).view.name == "grpo-reward-bug"
        await pilot.press("enter")
        assert app.focused.id == "findings"
        await pilot.press("right")
        assert main(app).view.name == "grpo-healthy"
        assert app.focused.id == "findings"
        await pilot.press("escape", "k")
        assert app.focused.id == "runs"
        ids = []
        for _ in range(4):
            await pilot.press("tab")
            ids.append(app.focused.id)
        assert ids == ["gauges", "findings", "detail", "runs"]

    drive(feed, what)


def test_a_finding_is_acknowledged_with_a_reason() -> None:
    feed = lab("grpo-proxy-hack", rows=ALL)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        await pilot.press("a", "enter")
        assert "needs a reason" in words(app, "latest")
        await pilot.press("a", "x", "escape")
        assert not app.screen.query_one("#ask").display
        await pilot.press("a")
        assert app.focused.value == ""
        assert feed.reasons == {}
        assert "Why may reward-hacking stand?" in words(app, "question")
        await pilot.press("q", "?", " ", "[", "r", "e", "d", "]", "enter")
        await until(app, pilot, lambda: rows(app, "findings")[0].startswith("a  reward-hacking"))
        assert feed.reasons == {"grpo-proxy-hack": {"reward-hacking": "q? [red]"}}
        assert "acknowledged: q? [red]" in words(app, "finding")
        assert "1 run: 1 fine" in words(app, "head")  # it has ended, and nothing else is open
        assert not app.screen.query_one("#ask").display

    drive(feed, what)


def test_what_cannot_be_done_is_said() -> None:
    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        assert "writes none: log_completions=True" in words(app, "review")
        await pilot.press("r")
        assert "writes no completions" in words(app, "latest")
        await pilot.press("a")
        assert "no open finding" in words(app, "latest")
        assert not app.screen.query_one("#ask").display
        assert "No warning" in text_of(app)

    drive(lab("dpo-healthy", rows=ALL), what)


def test_completions_are_due_until_somebody_has_read_them() -> None:
    run = watched("grpo-healthy", rows=ALL, run=sampled(recorded("grpo-healthy")))
    run.plan = ReviewPlan(every=50)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        assert "nobody has read any; 8 are due since step 180" in words(app, "review")
        await pilot.press("c")
        assert words(app, "text").count(", reward ") == 8
        assert "vario samples" in words(app, "text")
        await pilot.press("q", "r")
        await until(app, pilot, lambda: "due" not in words(app, "review"))
        assert "read" in words(app, "review")
        assert "at step 180" in words(app, "review")

    drive(Lab([run]), what)


def test_every_sheet_opens_on_its_key_and_closes() -> None:
    feed = Lab(
        [watched("grpo-proxy-hack", rows=ALL, troubles=("row 3 is torn",))], messages=["no state store: read-only"]
    )

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: dict(main(app)._follower.latest.runs[0].troubles).get("row 3 is torn", 0) > 1)
        await settled(app, pilot)
        view = main(app).view
        diagnosis, times = view.diagnosis, dict(view.troubles)["row 3 is torn"]
        assert f"{times} troubles (t)" in words(app, "standing")
        assert words(app, "latest").startswith("! no state store: read-only")
        expected = {
            "question_mark": ["acknowledge the chosen finding", "nothing asks for you"],
            "n": [diagnosis.notes[0].name, diagnosis.notes[-1].text[:30]],
            "u": ["log_completions=True", "outputs-garbled"],
            "t": ["no state store: read-only", f"row 3 is torn ({times} times)"],
            "l": ["opened critical reward-hacking", "ended info stop (high confidence)"],
            "v": [clean(line) for line in diagnosis_text(diagnosis).splitlines()],
            "c": ["log_completions=True"],
            "enter": ["reward-hacking  RU105", "ruled out" if diagnosis.findings[0].excluded else "likely causes"],
        }
        for key, parts in expected.items():
            await pilot.press(key)
            assert isinstance(app.screen, Sheet), key
            text = words(app, "text")
            assert all(part in text for part in parts), (key, text)
            await pilot.press("escape" if key == "n" else "q")
            assert isinstance(app.screen, MainScreen), key
        app.screen.query_one("#gauges").focus()
        await pilot.press("enter")
        assert "frac_reward_zero_std" in words(app, "text")  # the trainer's own key
        await pilot.press("q")
        await until(app, pilot, lambda: not words(app, "latest").startswith("!"))  # what was read is known

    drive(feed, what)


def test_help_names_every_key() -> None:
    told = " ".join(keys for keys, _ in HELP).replace(",", " ").split()
    for binding in (*MainScreen.BINDINGS, *WatchApp.BINDINGS, *Rows.BINDINGS):
        for key in binding.key.split(","):  # type: ignore[union-attr]
            known = {"question_mark": "help", "escape": "esc", "ctrl+c": "q", "ctrl+q": "q"}.get(key, key)
            assert known in told or known == "help", key


def test_a_failing_turn_is_a_trouble_and_the_app_lives_on() -> None:
    feed = lab("grpo-proxy-hack", rows=100)
    feed.errors.append(RuntimeError("the disk is gone [bold]"))

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        assert "a look at the runs failed: RuntimeError: the disk is gone [bold]" in words(app, "latest")
        await pilot.press("t")
        assert "the watch itself" in words(app, "text")

    drive(feed, what)


def test_the_screen_answers_while_a_turn_runs() -> None:
    feed = lab("grpo-healthy", "grpo-proxy-hack", rows=ALL, slow=3.0, every=0.0)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.turning_since is not None and feed.turns == 1)
        await pilot.press("j")
        assert main(app).view.name == "grpo-proxy-hack"
        await pilot.press("question_mark")
        assert isinstance(app.screen, Sheet)
        assert feed.turns == 1
        assert main(app)._follower.latest.looked_at is None

    drive(feed, what)


def test_what_has_not_changed_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[str | None] = []
    update = Static.update

    def counted(self: Static, *args: Any, **more: Any) -> None:
        updates.append(self.id)
        update(self, *args, **more)

    monkeypatch.setattr(Static, "update", counted)

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        assert len(updates) > 5
        updates.clear()
        for _ in range(3):
            app.screen.paint()  # type: ignore[attr-defined]
        assert updates == []

    drive(lab("grpo-proxy-hack", "grpo-healthy", rows=ALL), what)


def test_every_line_fits_its_place_and_is_inert() -> None:
    run = watched("grpo-proxy-hack", rows=ALL, run=hostile(recorded("grpo-proxy-hack")), troubles=(HOSTILE,))
    feed = Lab([run, watched("dpo-overtrain", rows=ALL), WatchedRun(HOSTILE, Nothing())], messages=[HOSTILE])

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.latest.of(run).diagnosis is not None)
        await still(app, pilot)
        app.screen.query_one("#findings").focus()
        for width, height in ((200, 60), (80, 24), (60, 20), (30, 8)):
            await pilot.resize_terminal(width, height)
            await until(app, pilot, lambda at=(width, height): app.screen.size == at)  # type: ignore[misc]
            for key in ("", *(("question_mark", "n", "u", "t", "l", "v", "enter") if width == 60 else ())):
                if key:
                    await pilot.press(key)
                app.screen.paint()  # type: ignore[attr-defined]
                text = text_of(app)
                if width >= 60 and key != "v":  # the diagnosis is 80 columns wide wherever it stands
                    assert not [line for line in text.splitlines() if cells(line) > width], (width, key)
                assert "\x1b" not in text
                assert "\u202e" not in text
                assert "\u2028" not in text
                if key in ("t", "u"):
                    assert "[red]c[/red]" in "".join(text.split())
                if key:
                    await pilot.press("q")
            await pilot.press("right", "right", "right")
            assert main(app).view.watched is run

    drive(feed, what)


def test_fifty_runs_are_a_list_that_scrolls_to_the_one_that_matters() -> None:
    runs = [WatchedRun("later", Nothing()) for _ in range(44)]
    runs += [
        watched(name, rows=30) for name in ("dpo-healthy", "rloo-healthy", "grpo-healthy", "grpo-drift", "grpo-resumed")
    ]
    feed = Lab([*runs, watched("grpo-all-zero", rows=30)], every=3600.0)
    for i, run in enumerate(feed.runs):
        run.name = f"sweep/{i:02d}-{run.name}"

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.latest.looked_at is not None)
        await pilot.pause()
        listed = rows(app, "runs")
        assert len(listed) == 50
        assert listed[0].startswith("!!")
        assert "-all-zero" in listed[0]
        assert "sweep/" in text_of(app)
        assert sum(row.startswith("..") for row in listed) == 44
        assert "50 runs: 1 critical" in words(app, "head")
        await pilot.press("G")
        assert app.screen.query_one("#runs", Rows).scroll_offset.y > 0
        assert main(app).view.name == main(app)._follower.latest.runs[-1].name
        await pilot.press("g")
        assert main(app).view.name == "sweep/49-grpo-all-zero"

    drive(feed, what, (80, 24))


def test_a_run_that_has_not_begun_is_waited_for() -> None:
    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.latest.looked_at is not None)
        assert "WAITING" in words(app, "verdict")
        assert "no rows yet" in words(app, "verdict")
        for key in ("n", "u", "v", "c", "t"):
            await pilot.press(key)
            assert words(app, "text")
            await pilot.press("q")
        await pilot.press("a")
        await pilot.press("r")

    drive(Lab([WatchedRun("later", Nothing())]), what)


def test_a_feed_without_a_run_yet_shows_the_first_that_comes() -> None:
    feed = Lab([])

    async def what(app: WatchApp, pilot: Pilot[None]) -> None:
        await until(app, pilot, lambda: main(app)._follower.latest.looked_at is not None)
        assert "0 runs" in words(app, "head")
        await pilot.press("n", "q", "a", "enter")
        feed.runs.append(watched("dpo-healthy", rows=ALL))
        await until(app, pilot, lambda: "dpo-healthy" in text_of(app))
        assert "1 run" in words(app, "head")

    drive(feed, what)
