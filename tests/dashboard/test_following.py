"""A dashboard of runs that others write, that vanish, that are replaced, and that people say something of."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cli.dumps import broken_at, trl_run
from tests.dashboard.serving import PATIENCE, Dashboard, Growing, copied, environment, served, until
from vario.surfaces.state.places import NAME as STATE

VARIO = (sys.executable, "-m", "vario.surfaces.cli")


class Line:
    """A line of server-sent events."""

    def __init__(self, dashboard: Dashboard, query: str = "", **headers: str) -> None:
        self._connection = dashboard.connect()
        self._connection.request("GET", f"/events{query}", headers={k.replace("_", "-"): v for k, v in headers.items()})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.getheader("content-type", "").startswith("text/event-stream")

    def next(self) -> tuple[int, dict[str, int]]:
        """The id and the runs of the next event that has any."""
        known = 0
        while True:
            line = self._answer.readline().decode().strip()
            if line.startswith("id: "):
                known = int(line[4:])
            if line.startswith("data: "):
                return known, json.loads(line[6:])

    def first_id(self) -> int:
        while not (line := self._answer.readline().decode()).startswith("id: "):
            pass
        return int(line[4:])

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def listening(dashboard: Dashboard, query: str = "", **headers: str) -> Iterator[Line]:
    line = Line(dashboard, query, **headers)
    try:
        yield line
    finally:
        line.close()


def diagnose(run: Path) -> dict[str, object]:
    done = subprocess.run([*VARIO, "diagnose", str(run), "--format", "json"], env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    return json.loads(done.stdout)


def test_a_change_is_told(home: Path) -> None:
    grows = Growing(home / "runs/grows", "grpo-drift")
    grows.write(30)
    copied(home / "runs", "grpo-healthy-kl")
    with served("runs", "--every", "0.2", cwd=home) as dashboard:
        ids = dashboard.judged("grows", "grpo-healthy-kl")
        with listening(dashboard) as line:
            before = line.first_id()
            grows.write(40)
            version, changed = line.next()
        assert set(changed) == {ids["grows"]}
        assert version > before
        # who comes again is told of what changed meanwhile, and of nothing else
        with listening(dashboard, last_event_id=str(before)) as line:
            assert set(line.next()[1]) == {ids["grows"]}
        with listening(dashboard, f"?since={before}") as line:
            assert set(line.next()[1]) == {ids["grows"]}
        # a number that is no version: everything from now on; one of the future or of before this dashboard: everything
        for strange in ("x", "-1", "1e3", "%C2%B2", "9" * 5000):
            with listening(dashboard, f"?since={strange}") as line:
                assert line.first_id() >= version
        for other in ("0", str(version + 10**9)):
            with listening(dashboard, f"?since={other}") as line:
                assert set(line.next()[1]) == {*ids.values(), ""}  # the empty name is the list itself


def test_a_page_of_the_dashboard_before_is_told_of_everything(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    with served("runs", cwd=home) as dashboard:
        dashboard.judged("grpo-drift")
        state = re.search(r'data-state="(\d+)"', dashboard.ask("/").text)
        assert state is not None
    with served("runs", cwd=home) as dashboard:
        ids = dashboard.judged("grpo-drift")
        with listening(dashboard, f"?since={state[1]}") as line:
            assert set(line.next()[1]) == {*ids.values(), ""}  # the empty name is the list itself


def test_a_run_appears(home: Path) -> None:
    (home / "runs").mkdir()
    with served("runs", "later", "--every", "0.2", cwd=home) as dashboard:
        page = dashboard.ask("/")
        assert page.status == 200
        waiting = until(dashboard.ids)
        assert set(waiting) == {"runs", "later"}
        for run in waiting.values():
            assert "not judged yet" in dashboard.ask(f"/runs/{run}").text
            assert dashboard.ask(f"/runs/{run}/panels").status == 404
            assert dashboard.ask(f"/runs/{run}/diagnosis.json").status == 404
            assert dashboard.ask(f"/compare?run={run}").status == 200
        with listening(dashboard) as line:
            line.first_id()
            shutil.copytree(copied(home / "made", "grpo-drift") / "grpo-drift", home / "later")
            changed: set[str] = set()
            while waiting["later"] not in changed:
                changed |= set(line.next()[1])
        # it has the address that it had while it was waited for
        assert dashboard.judged("later")["later"] == waiting["later"]
        copied(home / "runs", "grpo-healthy-kl")
        dashboard.judged("grpo-healthy-kl")
        assert "No run yet" not in dashboard.ask("/").text
        assert dashboard.ask(f"/runs/{waiting['runs']}").status == 404


def test_a_run_vanishes_is_cut_and_is_replaced(home: Path) -> None:
    run = Growing(home / "runs/mine", "grpo-drift")
    run.write(60)
    trl_run(home / "runs/texts")
    with served("runs", "--every", "0.2", cwd=home) as dashboard:
        ids = dashboard.judged("mine", "texts")
        pages = [f"/runs/{ids['mine']}{p}" for p in ("", "?part=said", "/panels?from=3&to=9", "/rest", "/diagnosis.json", "/report.html")]
        run.log.write_text("".join(run.log.read_text().splitlines(keepends=True)[:20]))
        time.sleep(0.5)
        assert {dashboard.ask(page).status for page in pages} == {200}
        shutil.rmtree(home / "runs/texts")
        for page in ("/samples", "/review", "/samples?name=98/0", "/samples?finding=x"):
            assert dashboard.ask(f"/runs/{ids['texts']}{page}").status in (200, 403, 404)
        assert dashboard.order(f"/runs/{ids['texts']}/marks", {"name": "98/0", "word": "bad"}).status in (403, 404)
        assert dashboard.ask(f"/runs/{ids['texts']}").status == 200
        shutil.rmtree(home / "runs/mine")
        assert {dashboard.ask(page).status for page in pages} == {200}
        again = Growing(home / "runs/mine", "grpo-reward-bug")
        again.write()

        def another() -> bool:
            return json.loads(dashboard.ask(pages[4]).text)["run"]["last_step"] == 150

        until(another)
        assert {dashboard.ask(page).status for page in pages} == {200}
        shutil.rmtree(home / "runs")
        assert dashboard.ask("/").status == 200
        assert dashboard.ask("/alerts").status == 200


def test_a_broken_log_is_a_sentence(home: Path) -> None:
    (home / "runs/odd").mkdir(parents=True)
    (home / "runs/odd/trainer_state.json").write_bytes(b'{"log_history": [' + b"\xff\x00" * 100)
    with served("runs", "--every", "0.2", cwd=home) as dashboard:
        assert dashboard.ask("/").status == 200
        for run in dashboard.ids().values():
            assert dashboard.ask(f"/runs/{run}").status == 200
            assert dashboard.ask(f"/runs/{run}/samples").status == 404


def test_what_is_said_changes_the_light_and_is_remembered(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    finding, others = "kl-rises-while-reward-falls", {"what": "acknowledge", "reason": "we know"}
    with served("runs", cwd=home) as dashboard:
        run = dashboard.judged("grpo-drift")["grpo-drift"]
        assert dashboard.light(run) == "critical"
        path = f"/runs/{run}/findings"

        def say(**fields: str) -> int:
            return dashboard.order(path, {"finding": finding} | fields).status

        assert say(what="acknowledge") == 400
        assert say(what="acknowledge", reason="  ") == 400
        assert say(what="sing", reason="x") == 400
        assert say(reason="x") == 400
        assert say(what="mute", reason="x", hours="nan") == 400
        assert say(what="mute", reason="x", hours="-1") == 400
        assert say(what="mute", reason="x", hours="1e9") == 400
        assert say(finding="kl-spike", **others) == 404
        assert say(finding="no-such", **others) == 404
        assert dashboard.light(run) == "critical"

        done = dashboard.order(path, {"finding": finding} | others)
        assert done.status == 303
        assert done.headers["location"] == f"/runs/{run}#finding-{finding}"
        assert dashboard.light(run) == "known", "it is not fine: somebody knows why it is not"
        assert "we know" in dashboard.ask(f"/runs/{run}").text
        history = dashboard.ask("/alerts").text
        assert re.search(rf'#finding-{finding}">{finding}</a></td><td>acknowledged by [^<]+</td><td>we know</td>', history)
        assert say(what="speak-again") == 303
        assert "we know" not in dashboard.ask("/alerts").text
        assert dashboard.light(run) == "critical"
        assert "we know" not in dashboard.ask(f"/runs/{run}").text

        assert say(what="mute", reason="too loud, token=sk-proj-Ab3dEf6hIj9kLm2nAb3dEf6hIj9kLm2n", hours="2") == 303
        assert dashboard.light(run) != "critical"
        text = dashboard.ask(f"/runs/{run}").text
        assert re.search(r"<strong>muted</strong> by [^<]+ for another 2 h: too loud", text)
        assert "sk-proj" not in text
        assert "(known)" in dashboard.ask("/").text
    with served("runs", cwd=home) as dashboard:
        dashboard.judged("grpo-drift")
        assert dashboard.light(run) != "critical"
        assert "too loud" in dashboard.ask(f"/runs/{run}").text
        assert dashboard.order(path, {"finding": finding, "what": "speak-again"}).status == 303
        assert dashboard.light(run) == "critical"


def test_a_folder_that_comes_beside_it_takes_a_run_neither_its_name_nor_what_was_said(home: Path) -> None:
    """The third folder tells of the first run in another format: the two are one run then, which has to be read from above."""
    names = ("grpo-drift", "grpo-healthy")
    copied(home / "runs", *names)
    (home / "runs/grpo-drift/vario.toml").write_text('[suppress]\nkl-runaway = "of this run alone"\n')
    with served("runs", cwd=home) as dashboard:
        before = dashboard.judged(*names)
        said = {"finding": "kl-rises-while-reward-falls", "what": "acknowledge", "reason": "we know"}
        assert dashboard.order(f"/runs/{before['grpo-drift']}/findings", said).status == 303
    Growing(home / "runs/tracked", "grpo-drift").write()
    with served("runs", cwd=home) as dashboard:
        assert dashboard.judged(*names) == before
        assert dashboard.light(before["grpo-drift"]) == "known"
        suppressed = json.loads(dashboard.ask(f"/runs/{before['grpo-drift']}/diagnosis.json").text)["suppressed"]
        assert [finding["reason"] for finding in suppressed] == ["of this run alone"]
    assert [p.relative_to(home) for p in home.rglob(STATE)] == [Path("runs/grpo-drift") / STATE]


def test_rules_of_the_project_have_a_page(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    (home / "own.py").write_text(
        "from collections.abc import Iterator\nfrom vario.instruments import Reward\n"
        "from vario.rules.base import Evidence, Severity, Sign, rule\n\n\n@rule('MY001', 'my-own', Severity.WARNING)\n"
        "def my_own(reward: Reward) -> Iterator[Sign]:\n"
        '    """The reward is there.\n\n    Why it matters:\n        It is <b>ours</b>.\n    """\n    yield Evidence("it is there")\n'
    )
    (home / "vario.toml").write_text('[rules]\nload = ["own.py"]\n')
    with served("runs", cwd=home) as dashboard:
        run = dashboard.judged("grpo-drift")["grpo-drift"]
        assert 'href="/rules/my-own"' in dashboard.ask(f"/runs/{run}").text
        assert "It is &lt;b&gt;ours&lt;/b&gt;." in dashboard.ask("/rules/my-own").text
        assert re.search(r"<h2>yours</h2>.*my-own", dashboard.ask("/rules").text, re.DOTALL)


def test_what_cannot_be_kept_is_said(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    (home / "state").write_text("this is no database" * 100)
    with served("runs", "--state", "state/below/it.sqlite", cwd=home) as dashboard:
        run = dashboard.judged("grpo-drift")["grpo-drift"]
        done = dashboard.order(f"/runs/{run}/findings", {"finding": "kl-rises-while-reward-falls", "what": "acknowledge", "reason": "x"})
        assert done.status == 503
        assert dashboard.light(run) == "critical"
        assert dashboard.ask("/alerts").status == 200


def test_looking_keeps_nothing_and_takes_no_alert_away(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    trl_run(home / "runs/parser", broken_at(60))
    before = {p for p in home.rglob("*") if "errors" not in p.name}
    with served("runs", cwd=home) as dashboard:
        ids = dashboard.judged("grpo-drift", "parser")
        for page in ("/", "/alerts", "/compare", *(f"/runs/{i}{p}" for i in ids.values() for p in ("", "/panels", "/samples", "/review"))):
            dashboard.ask(page)
        assert {p for p in home.rglob("*") if "errors" not in p.name} == before
        watch = [*VARIO, "watch", "runs", "--once", "--plain"]
        done = subprocess.run(watch, cwd=home, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "opened critical kl-rises-while-reward-falls" in done.stdout
        assert any(p.name == STATE for p in home.rglob("*"))
        # and what it told stands in the history
        text = dashboard.ask("/alerts").text
        assert "kl-rises-while-reward-falls" in text
        assert f'href="/runs/{ids["grpo-drift"]}"' in text
        again = subprocess.run(watch, cwd=home, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "opened" not in again.stdout


def test_marks_of_the_review_are_heeded(home: Path) -> None:
    run = trl_run(home / "runs/mine")
    with served("runs", "--every", "0.2", cwd=home) as dashboard:
        name = dashboard.judged("mine")["mine"]
        page = dashboard.ask(f"/runs/{name}/review").text
        queue = re.findall(r'name="name" value="(\d+/\d+)"', page)
        assert len(queue) >= 8
        assert dashboard.order(f"/runs/{name}/marks", {"name": "9999/1", "word": "bad"}).status == 404
        assert dashboard.order(f"/runs/{name}/marks", {"name": queue[0], "word": "ugly"}).status == 400
        for one in queue[:8]:
            done = dashboard.order(f"/runs/{name}/marks", {"name": one, "word": "hacked", "back": "review"})
            assert done.status == 303
            assert done.headers["location"] == f"/runs/{name}/review"
        marks = [json.loads(line) for line in (run / "vario-marks.jsonl").read_text().splitlines()]
        assert [f"{m['step']}/{m['number']}" for m in marks] == queue[:8]
        assert {m["mark"] for m in marks} == {"hacked"}
        assert "a person marked" not in json.dumps(diagnose(run))

        def counted() -> bool:
            return "8 hacked" in dashboard.ask(f"/runs/{name}/review").text

        until(counted)
        assert not set(queue[:8]) & set(re.findall(r'name="name" value="(\d+/\d+)"', dashboard.ask(f"/runs/{name}/review").text))
        best = dashboard.ask(f"/runs/{name}/samples?from=70&by=reward&n=24").text
        for one in re.findall(r'name="name" value="(\d+/\d+)"', best):
            done = dashboard.order(f"/runs/{name}/marks", {"name": one, "word": "hacked"})
            assert done.headers["location"] == f"/runs/{name}/samples?name={one}"
        assert "a person marked" in json.dumps(diagnose(run))
        assert dashboard.order(f"/runs/{name}/read", {}).status == 303
        assert "Completions were read last at step 100" in dashboard.ask(f"/runs/{name}").text


def test_two_hundred_at_once(home: Path) -> None:
    grows = Growing(home / "runs/grows", "grpo-drift")
    grows.write(30)
    with served("runs", "--every", "0.2", cwd=home) as dashboard:
        run = dashboard.judged("grows")["grows"]
        told, pages, failed = [], [], []
        ready = threading.Barrier(201, timeout=2 * PATIENCE)

        def listen() -> None:
            try:
                with listening(dashboard) as line:
                    line.first_id()
                    ready.wait()
                    told.append(line.next())
            except (OSError, http.client.HTTPException, threading.BrokenBarrierError, AssertionError) as error:
                failed.append(error)

        def ask(path: str) -> None:
            try:
                ready.wait()
                pages.append(dashboard.ask(path).status)
            except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as error:
                failed.append(error)

        paths = ("/", f"/runs/{run}", f"/runs/{run}/panels?from=3&to=20", "/rules/kl-spike")
        threads = [threading.Thread(target=listen) for _ in range(100)]
        threads += [threading.Thread(target=ask, args=(paths[i % 4],)) for i in range(100)]
        for thread in threads:
            thread.start()
        ready.wait()
        grows.write(50)
        for thread in threads:
            thread.join(2 * PATIENCE)
        assert not failed, failed[:3]
        assert pages == [200] * 100
        assert len(told) == 100
        assert dashboard.ask("/").status == 200


def test_a_hundred_runs(home: Path) -> None:
    many = 100
    for i in range(many):
        Growing(home / f"runs/run-{i:03}", "grpo-drift").write(25)
    with served("runs", cwd=home) as dashboard:
        until(lambda: len(dashboard.ids()) == many)
        ids = dashboard.ids()
        assert len(set(ids.values())) == many
        until(lambda: f"{many} fine" in dashboard.ask("/").text)
        seven = "&".join(f"run={ids[f'run-{i:03}']}" for i in range(7))
        text = dashboard.ask(f"/compare?{seven}").text
        assert "1 more were chosen: 6 runs" in text
        assert len(re.findall(r'class="run-key run-\d"', text)) == 12
