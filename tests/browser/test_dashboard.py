"""`vario serve` in a real browser: live, closer and closer, by keyboard alone, on a phone, and with hostile runs."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("polars")

from tests.browser.reports import hostile
from tests.cli.dumps import broken_at, trl_run
from tests.dashboard.serving import Dashboard, Growing, copied, served, until
from tests.effort import LONG

PHONE = {"width": 360, "height": 740}
WIDE = "() => [document.documentElement.scrollWidth, window.innerWidth]"
SPANS = "() => [...document.querySelectorAll('[data-panels] .chart')].map((c) => [+c.dataset.first, +c.dataset.last])"
OPEN_ALL = "() => document.querySelectorAll('details').forEach((d) => { d.open = true; })"
SOON = 10_000
"""Milliseconds for what takes one or two."""
POINTS = 1_000_000 if LONG else 100_000
"""Of the long run. A million are judged for half a minute."""
TURNS = 3 if LONG else 1
"""Times that a new finding is waited for."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    home = tmp_path_factory.mktemp("home")
    copied(home / "runs", "grpo-drift", "grpo-healthy-kl", "dpo-healthy")
    trl_run(home / "runs/parser", broken_at(60))
    hostile(home / "runs/hostile")
    (home / "empty").mkdir()
    with served("runs", "empty", cwd=home) as dashboard:
        dashboard.judged("grpo-drift", "grpo-healthy-kl", "dpo-healthy", "parser", "hostile")
        yield dashboard


def addresses(dashboard: Dashboard) -> dict[str, str]:
    ids = dashboard.ids()
    drift, well, texts, bad = ids["grpo-drift"], ids["grpo-healthy-kl"], ids["parser"], ids["hostile"]
    return {
        "index": "/", "found-nothing": "/?find=nobody", "history": "/alerts", "rules": "/rules", "rule": "/rules/kl-runaway",
        "choose": "/compare", "compare": f"/compare?run={drift}&run={well}", "compare-kl": f"/compare?run={drift}&run={well}&by=KL",
        "run": f"/runs/{drift}", "zoomed": f"/runs/{drift}?from=20&to=40", "preference": f"/runs/{ids['dpo-healthy']}",
        "with-texts": f"/runs/{texts}", "samples": f"/runs/{texts}/samples", "group": f"/runs/{texts}/samples?group=98/1",
        "review": f"/runs/{texts}/review", "waiting": f"/runs/{ids['empty']}", "hostile": f"/runs/{bad}",
        "hostile-texts": f"/runs/{bad}/samples?from=92&n=40", "hostile-compared": f"/compare?run={bad}&run={drift}",
    }  # fmt: skip


NAMES = (
    "index", "found-nothing", "history", "rules", "rule", "choose", "compare", "compare-kl", "run", "zoomed", "preference", "with-texts", "samples",
    "group", "review", "waiting", "hostile", "hostile-texts", "hostile-compared",
)  # fmt: skip


def opened(visit: Any, dashboard: Dashboard, path: str, **more: Any) -> Any:
    page = visit(dashboard.origin + path, within=dashboard.origin, **more)
    if page.locator("[data-live]").count():
        page.wait_for_function("() => document.querySelector('[data-line=events]').textContent.startsWith('live')", timeout=SOON)
    return page


@pytest.mark.parametrize("name", NAMES)
def test_every_page(name: str, shown: Dashboard, visit: Any, keep: Any, violations: Any) -> None:
    """No error, no foreign request, nothing serious by axe with everything open, in both colours; and it fits a phone."""
    page = opened(visit, shown, addresses(shown)[name])
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("h1").count() == 1
    keep(page)
    page.evaluate(OPEN_ALL)
    page.wait_for_load_state("networkidle") if page.locator("[data-live]").count() == 0 else page.wait_for_timeout(300)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    keep(page, "dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    wide, window = page.evaluate(WIDE)
    assert wide <= window
    keep(page, "phone")
    assert page.evaluate("() => window.pwned") is None


@pytest.mark.parametrize("name", ["index", "compare", "run", "samples", "review", "rules"])
def test_the_keyboard_reaches_everything(name: str, shown: Dashboard, visit: Any) -> None:
    page = opened(visit, shown, addresses(shown)[name])
    wanted = page.evaluate(
        """() => { const all = [...document.querySelectorAll('a, button, input:not([type=hidden]), select, summary, .plotted')]
          .filter((e) => e.checkVisibility() && !e.hidden); all.forEach((e, i) => { e.dataset.stop = i; }); return all.length; }"""
    )
    reached = set()
    for _ in range(wanted + 40):
        page.keyboard.press("Tab")
        at = page.evaluate("() => { const s = document.activeElement.dataset.stop; return s === undefined ? null : +s; }")
        if at is not None:
            if at == 0 and len(reached) > 1:
                break
            reached.add(at)
    assert reached == set(range(wanted))


def test_a_drag_narrows_every_chart(shown: Dashboard, visit: Any) -> None:
    page = opened(visit, shown, addresses(shown)["run"])
    first, last = page.evaluate(SPANS)[0]
    plotted = page.locator("#chart-reward-mean .plotted")
    plotted.scroll_into_view_if_needed()
    box = plotted.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 25, steps=4)
    assert page.locator(".chosen").count() == 1
    page.mouse.up()
    page.wait_for_function("(whole) => +document.querySelector('.chart').dataset.last < whole", arg=last, timeout=SOON)
    spans = page.evaluate(SPANS)
    assert len({tuple(s) for s in spans}) == 1
    a, b = spans[0]
    assert abs(a - (first + 0.25 * (last - first))) <= 2
    assert abs(b - (first + 0.5 * (last - first))) <= 2
    assert f"from={a}&to={b}" in page.url
    assert page.input_value("[name=from]") == str(a)
    again = opened(visit, shown, page.url.removeprefix(shown.origin))
    assert again.evaluate(SPANS) == spans
    page.go_back()
    page.wait_for_function("(whole) => +document.querySelector('.chart').dataset.last === whole", arg=last, timeout=SOON)
    assert {tuple(s) for s in page.evaluate(SPANS)} == {(first, last)}
    assert page.input_value("[name=from]") == ""
    page.go_forward()
    page.wait_for_function("(to) => +document.querySelector('.chart').dataset.last === to", arg=b, timeout=SOON)
    page.click("text=All steps")
    page.wait_for_function("(whole) => +document.querySelector('.chart').dataset.last === whole", arg=last, timeout=SOON)
    assert "from=" not in page.url


def test_a_finger_draws_the_steps_too(shown: Dashboard, visit: Any) -> None:
    page = opened(visit, shown, addresses(shown)["run"], **PHONE, has_touch=True)
    last = page.evaluate(SPANS)[0][1]
    plotted = page.locator("#chart-reward-mean .plotted")
    plotted.scroll_into_view_if_needed()
    box = plotted.bounding_box()
    session = page.context.new_cdp_session(page)
    y = box["y"] + box["height"] / 2

    def touch(kind: str, share: float | None) -> None:
        points = [] if share is None else [{"x": box["x"] + share * box["width"], "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.2)
    for share in (0.3, 0.4, 0.5, 0.6):
        touch("touchMove", share)
    touch("touchEnd", None)
    page.wait_for_function("(whole) => +document.querySelector('.chart').dataset.last < whole", arg=last, timeout=SOON)


def test_closer_with_the_keys(shown: Dashboard, visit: Any) -> None:
    page = opened(visit, shown, addresses(shown)["run"])
    first, last = page.evaluate(SPANS)[0]
    page.focus("#chart-reward-mean .plotted")

    def pressed(key: str) -> list[int]:
        before = page.evaluate(SPANS)[0]
        page.keyboard.press(key)
        page.wait_for_function("(b) => { const d = document.querySelector('.chart').dataset; return +d.first !== b[0] || +d.last !== b[1]; }", arg=before, timeout=SOON)
        assert page.evaluate("() => document.activeElement.closest('.chart')?.id") == "chart-reward-mean"
        return page.evaluate(SPANS)[0]

    for _ in range(30):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#chart-reward-mean .reading').textContent.startsWith('step 30:')", timeout=SOON)
    a, b = pressed("+")
    assert b - a == pytest.approx((last - first) / 2, abs=2)
    assert a <= 30 <= b
    # the reading is where it was
    page.wait_for_function("() => document.querySelector('#chart-reward-mean .reading').textContent.startsWith('step 30:')", timeout=SOON)
    c, d = pressed("+")
    assert a <= c <= 30 <= d <= b
    e, f = pressed("-")
    assert f - e > d - c
    assert pressed("0") == [first, last]


def test_full_resolution_of_many_points(tmp_path: Path, visit: Any, keep: Any) -> None:
    """A file of columns with very many rows: of a hundred steps each value is shown as it was written."""
    run = tmp_path / "runs/long"
    run.mkdir(parents=True)
    values = np.round(np.linspace(0.2, 0.7, POINTS) + 0.05 * np.random.default_rng(0).standard_normal(POINTS), 6)
    (run / "metrics.csv").write_text("step,reward\n" + "".join(f"{i},{v!r}\n" for i, v in enumerate(values.tolist(), 1)))
    with served("runs", "--no-replay", cwd=tmp_path) as dashboard:
        name = until(lambda: next((i for n, i in dashboard.ids().items() if dashboard.ask(f"/runs/{i}/diagnosis.json").status == 200), None), 120.0)
        page = opened(visit, dashboard, f"/runs/{name}")
        chart = page.locator(".chart").first
        assert int(chart.get_attribute("data-whole-last")) == POINTS
        assert len(chart.get_attribute("data-steps").split()) < 5_000
        first, last = POINTS // 2 + 1, POINTS // 2 + 100
        page.fill("[name=from]", str(first))
        page.fill("[name=to]", str(last))
        page.press("[name=to]", "Enter")
        page.wait_for_function("(s) => document.querySelector('.chart').dataset.first === s", arg=str(first), timeout=SOON)
        assert chart.get_attribute("data-steps").split() == [str(s) for s in range(first, last + 1)]
        assert [float(v) for v in chart.get_attribute("data-values").split()] == values[first - 1 : last].tolist()
        plotted = page.locator(".plotted").first
        plotted.scroll_into_view_if_needed()
        box = plotted.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 30)
        page.wait_for_function("() => document.querySelector('.reading').textContent !== ''", timeout=SOON)
        assert page.inner_text(".reading") == f"step {last}: {values[last - 1]!s}"
        keep(page)
        page.close()


def test_a_new_finding_comes_to_the_open_page(tmp_path: Path, visit: Any, keep: Any, record_property: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Row by row; what the reader has opened, written and stands on stays."""
    took = []
    for turn in range(TURNS):
        grows = Growing(tmp_path / f"{turn}/runs/grows", "grpo-drift")
        grows.write(80)
        with served("runs", cwd=tmp_path / str(turn)) as dashboard:
            name = dashboard.judged("grows")["grows"]
            page = opened(visit, dashboard, f"/runs/{name}")
            before = page.locator("article.finding").count()
            page.locator("#chart-reward-mean details > summary").click()
            page.focus("#chart-reward-mean .plotted")
            for _ in range(10):
                page.keyboard.press("ArrowRight")
            due = None
            while page.locator("article.finding").count() == before:
                assert grows.written < len(grows.rows), "no finding ever came"
                wrote = grows.write(grows.written + 10)
                rows = grows.written
                page.wait_for_function("(n) => document.querySelector('.chart').dataset.wholeLast >= n", arg=rows, timeout=SOON)
                document = json.loads(dashboard.ask(f"/runs/{name}/diagnosis.json").text)
                if any(f["severity"] != "info" for f in document["findings"]):
                    page.wait_for_function("(n) => document.querySelectorAll('article.finding').length > n", arg=before, timeout=SOON)
                    due = time.time() - wrote
            assert due is not None
            took.append(due)
            assert page.evaluate("() => document.querySelector('#chart-reward-mean details').open")
            assert page.evaluate("() => document.activeElement.closest('.chart')?.id") == "chart-reward-mean"
            assert page.inner_text("#chart-reward-mean .reading").startswith("step 10:")
            assert "new: " in page.inner_text("[data-line=events]")
            letters = page.evaluate("() => [...document.querySelectorAll('article.finding .badge')].map((b) => b.textContent)")
            drawn = page.evaluate("() => [...document.querySelectorAll('[data-panels] svg .letter text')].map((t) => t.textContent)")
            assert set(letters) <= set(drawn)
            summary = page.locator(".said details > summary").first
            summary.click()
            field = page.locator(".said [name=reason]").first
            field.fill("half a rea")
            rows = grows.written + 10
            grows.write(rows)
            page.wait_for_function("(n) => document.querySelector('.chart').dataset.wholeLast >= n", arg=rows, timeout=SOON)
            page.keyboard.type("son")
            assert page.locator(".said [name=reason]").first.input_value() == "half a reason"
            keep(page, str(turn))
            page.close()
    with capsys.disabled():
        print(f"\na finding was on the page after {statistics.median(took):.2f} s (median of {len(took)}; {max(took):.2f} s at most)")
    record_property("seconds", took)
    assert max(took) < 10.0


def test_what_is_said_in_the_browser(tmp_path: Path, visit: Any) -> None:
    copied(tmp_path / "runs", "grpo-drift")
    trl_run(tmp_path / "runs/texts")
    with served("runs", cwd=tmp_path) as dashboard:
        ids = dashboard.judged("grpo-drift", "texts")
        index = opened(visit, dashboard, "/")
        page = opened(visit, dashboard, f"/runs/{ids['grpo-drift']}")
        page.locator(".said details > summary").first.press("Enter")
        page.locator(".said [name=reason]").first.fill("known <b>here</b>")
        page.locator(".said button", has_text="Acknowledge").first.press("Enter")
        page.wait_for_selector("text=acknowledged by")
        assert "known <b>here</b>" in page.inner_text("body")
        index.wait_for_selector("text=(known)", timeout=SOON)
        review = opened(visit, dashboard, f"/runs/{ids['texts']}/review")
        marked = review.locator("article.sample").first.get_attribute("id")
        review.locator("button", has_text="bad").first.press("Enter")
        review.wait_for_selector("text=1 bad", timeout=SOON)
        assert review.locator(f"#{marked}").count() == 0
        for one in (index, page, review):
            one.close()
        assert (tmp_path / "runs/texts/vario-marks.jsonl").read_text().count("\n") == 1


def test_the_page_survives_what_happens_to_the_run(tmp_path: Path, visit: Any) -> None:
    grows = Growing(tmp_path / "runs/grows", "grpo-drift")
    grows.write(60)
    (tmp_path / "later").mkdir()
    with served("runs", "later", "--every", "0.2", cwd=tmp_path) as dashboard:
        ids = dashboard.judged("grows")
        page = opened(visit, dashboard, f"/runs/{ids['grows']}")
        waiting = visit(f"{dashboard.origin}/runs/{ids['later']}", within=dashboard.origin)
        shutil.rmtree(grows.folder)
        again = Growing(tmp_path / "runs/grows", "grpo-reward-bug")
        again.write()
        page.wait_for_selector("#finding-reward-function-broke", timeout=2 * SOON)
        assert "STOP" in page.title()
        shutil.copy(again.folder / "metrics.jsonl", tmp_path / "later/metrics.jsonl")
        waiting.wait_for_selector(".chart", timeout=2 * SOON)
        for one in (page, waiting):
            one.close()
