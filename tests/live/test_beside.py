"""The judging process, spoken to as a training speaks to it: what it tells, writes, does, and how it ends."""

from __future__ import annotations

import json
import logging
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import vario
from tests.conftest import GOLDEN
from vario.surfaces.live import beside, link
from vario.surfaces.live.beside import Beside
from vario.surfaces.live.row_log import NAME, rows_in
from vario.surfaces.state import State, place_of, run_key


class Talk:
    """A training's end of the talk."""

    def __init__(self, folder: Path | None, **hello: object) -> None:
        self.inward, self.outward = link.pipe()
        greeting = {
            "name": "run", "directory": None if folder is None else str(folder), "config": {}, "write_log": True, "earlier": 0,
            "cwd": str(Path.cwd()), "alerts": None, "act": None, "watch": None, "again": False, "rows": 0,
        }  # fmt: skip
        self.beside = Beside({**greeting, **hello}, self.outward)

    def rows(self, first: int, last: int, reward: float = 0.5, at: float | None = None) -> None:
        at = time.time() - 30.0 * last if at is None else at
        self.beside.take(
            ("rows", [(s, at + 30.0 * s, {"reward": reward + s % 7 / 100, "kl": 0.01}) for s in range(first, last + 1)])
        )

    def heard(self) -> list[tuple[object, ...]]:
        made = []
        while select.select([self.inward], [], [], 0)[0]:
            message = link.read(self.inward)
            assert message is not None
            made.append(message)
        return made

    def close(self) -> None:
        for fd in (self.inward, self.outward):
            link.close(fd)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    made = Talk(tmp_path)
    yield made
    made.close()


def told(messages: list[tuple[object, ...]], kind: str) -> list[str]:
    return [str(m[-1]) for m in messages if m[0] == kind]


def test_it_says_what_it_has_taken(talk: Talk) -> None:
    talk.rows(1, 5)
    talk.rows(6, 8)
    assert talk.beside.turn()
    talk.beside.turn()
    assert talk.heard() == [("taken", 3)]


def test_rows_that_are_handed_over_again_are_no_stall(tmp_path: Path) -> None:
    talk = Talk(tmp_path, again=True, rows=60)
    began = time.time() - 60 * 3600.0
    for step in range(1, 61):
        talk.beside.take(("rows", [(step, began + 3600.0 * step, {"reward": 0.5})]))
        talk.beside.turn()
    assert not [text for text in told(talk.heard(), "notice") if "no row for" in text]
    assert talk.beside.watched.rows == 60
    talk.close()


def test_a_run_that_breaks_is_told_of_once_and_remembered(tmp_path: Path) -> None:
    root = GOLDEN / "grpo-reward-bug"
    rows = json.loads((root / "trainer_state.json").read_text())["log_history"]
    config = json.loads((root / "config.json").read_text())
    talk = Talk(tmp_path, config=config, act={"stop": {"severity": "critical", "confidence": "high"}})
    began = time.time() - 30.0 * len(rows)
    for i, row in enumerate(rows):
        values = {k: float(v) for k, v in row.items() if k != "step"}
        talk.beside.take(("rows", [(row["step"], began + 30.0 * i, values)]))
        talk.beside.turn()
    talk.beside.take(("end", "closed"))
    assert not talk.beside.turn()
    talk.beside.close()
    heard = talk.heard()
    notices = [(m[1], m[2]) for m in heard if m[0] == "notice"]
    opened = [text for level, text in notices if level == logging.ERROR]
    assert len(opened) == 1
    assert opened[0].startswith("reward-function-broke since step")
    acts = [m[1] for m in heard if m[0] == "act"]
    assert acts == ["stop"]
    done = [text for level, text in notices if "handed to the training" in text]
    assert len(done) == 1
    assert not told(heard, "failure")
    assert heard[-1] == ("finished",)
    (tmp_path / "config.json").write_text(json.dumps(config))
    offline = vario.diagnose(vario.read(tmp_path))
    assert talk.beside.watched.diagnosis is not None
    assert list(talk.beside.watched.diagnosis.findings) == list(offline.findings)
    assert talk.beside.watched.diagnosis.verdict == offline.verdict
    place = place_of(str(tmp_path))
    state = State.open(place)
    history = [(p.kind, p.subject) for p in state.history(run_key(str(tmp_path), place))]
    state.close()
    assert history.count(("opened", "reward-function-broke")) == 1
    assert history[-1][0] == "ended"
    talk.close()


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (None, "without a word"),
        (("end", "failed: ValueError"), "it failed: ValueError"),
        (("closing", "failed: OutOfMemoryError"), "it failed: OutOfMemoryError"),
    ],
)
def test_a_training_that_did_not_close_has_died(talk: Talk, last: tuple[object, ...] | None, why: str) -> None:
    talk.rows(1, 12)
    if last is not None:
        talk.beside.take(last)
    talk.beside.died()
    assert not talk.beside.turn()
    talk.beside.close()
    (notice,) = [m for m in talk.heard() if m[0] == "notice"]
    assert notice[1] == logging.ERROR
    assert str(notice[2]).startswith("run: the training died after step 12\n")
    assert why in str(notice[2])


@pytest.mark.parametrize("last", [("end", "closed"), ("closing", "closed")])
def test_a_training_that_closed_has_not_died(talk: Talk, last: tuple[object, ...]) -> None:
    talk.rows(1, 12)
    talk.beside.take(last)
    talk.beside.died()
    talk.beside.turn()
    talk.beside.close()
    assert not told(talk.heard(), "notice")


@pytest.mark.parametrize(
    "wrong",
    [
        {"alerts": {"to": 5}},
        {"alerts": {"too": ["file:x"]}},
        {"alerts": {"to": ["env:VARIO_THERE_IS_NO_SUCH_NAME"]}},
        {"act": {"stop": {"severity": "critical"}}},
        {"act": {"explode": {}}},
        {"watch": {"every": "often"}},
    ],
    ids=str,
)
def test_a_wish_that_cannot_be_is_told_and_the_run_is_judged(tmp_path: Path, wrong: dict[str, object]) -> None:
    talk = Talk(tmp_path, **wrong)
    (said,) = told(talk.heard(), "failure")
    assert next(iter(wrong)) in said
    assert said.endswith("nobody is alerted and nothing is acted upon until that is mended")
    talk.rows(1, 30)
    talk.beside.turn()
    assert talk.beside.watched.diagnosis is not None
    assert len(list(rows_in(tmp_path / NAME))) == 30
    talk.close()


def test_a_broken_project_file_is_told_and_the_run_is_judged(tmp_path: Path) -> None:
    (tmp_path / "vario.toml").write_text("[rules\n")
    talk = Talk(tmp_path)
    (said,) = told(talk.heard(), "failure")
    assert "vario.toml" in said
    talk.rows(1, 30)
    talk.beside.turn()
    assert talk.beside.watched.diagnosis is not None
    talk.close()


def test_a_run_that_cannot_be_judged_is_told_and_the_next_look_is_taken(talk: Talk, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(talk.beside.watched, "look", lambda: 1 / 0)
        talk.rows(1, 10)
        assert talk.beside.turn()
    assert "could not be judged (ZeroDivisionError" in told(talk.heard(), "failure")[0]
    talk.rows(11, 20)
    talk.beside.turn()
    assert talk.beside.watched.diagnosis is not None


def test_a_resumed_training_goes_on_with_the_rows_before(tmp_path: Path) -> None:
    first = Talk(tmp_path)
    first.rows(1, 40, at=time.time() - 9000.0)
    first.beside.turn()
    first.close()
    earlier = (tmp_path / NAME).stat().st_size
    second = Talk(tmp_path, earlier=earlier)
    second.rows(31, 60)
    second.beside.take(("end", "closed"))
    second.beside.turn()
    run = second.beside.watched.run
    assert run is not None
    assert run.logged_steps.tolist() == list(range(1, 61))
    assert [(e.kind, e.step) for e in run.events] == [("resume", 31)]
    assert [step for step, *_ in rows_in(tmp_path / NAME)] == [*range(1, 41), *range(31, 61)]
    second.close()


def test_a_log_that_is_removed_is_told_and_written_again(talk: Talk, tmp_path: Path) -> None:
    talk.rows(1, 10)
    talk.beside.turn()
    (tmp_path / NAME).unlink()
    talk.rows(11, 12)
    talk.beside.turn()
    assert any("removed" in text for text in told(talk.heard(), "failure"))
    assert [step for step, *_ in rows_in(tmp_path / NAME)] == list(range(1, 13))


def test_without_a_folder_completions_lie_in_a_temporary_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for reason, kept in (("closed", True), (None, False)):
        talk = Talk(None)
        (place,) = told(talk.heard(), "place")
        for step in range(1, 21):
            talk.rows(step, step)
            talk.beside.take(("samples", step, {"prompt": ["p"] * 2, "completion": ["a", "b"], "reward": [0.0, 1.0]}))
        if reason is not None:
            talk.beside.take(("end", reason))
        else:
            talk.beside.died()
        talk.beside.turn()
        talk.beside.close()
        run = talk.beside.watched.run
        assert run is not None
        assert run.samples is not None
        assert Path(place).exists() is kept  # it goes with the training's own process, where there still is one
        talk.close()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process itself, greeted, with the writing end of the pipe to it."""
    inward, outward = link.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "vario.surfaces.live.beside"], stdin=inward, stdout=subprocess.PIPE
    )
    link.close(inward)
    hello = {
        "name": "run", "directory": str(tmp_path), "config": {}, "write_log": True, "earlier": 0, "cwd": str(tmp_path),
        "alerts": None, "act": None, "watch": None, "again": False, "rows": 10,
    }  # fmt: skip
    link.write(outward, "hello", hello)
    link.write(outward, "rows", [(s, time.time(), {"reward": 0.5}) for s in range(1, 11)])
    yield process, outward
    link.close(outward)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_the_process_outlives_what_ends_a_job_and_says_that_the_training_died(
    serving: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    process, outward = serving
    assert process.stdout is not None
    answers = process.stdout.fileno()
    assert link.read(answers) == ("taken", 2)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
    link.write(outward, "rows", [(11, time.time(), {"reward": 0.5})])
    assert link.read(answers) == ("taken", 3)
    link.close(outward)
    assert "the training died after step 11" in str(link.read(answers))
    assert process.wait(20) == 0
    assert len(list(rows_in(tmp_path / NAME))) == 11


def test_a_parent_that_is_gone_is_noticed_though_its_pipe_is_held() -> None:
    inward, outward = link.pipe()
    inbox = beside._Inbox(inward)
    inbox._parent = -1  # it was another one when this began
    began = time.monotonic()
    assert list(inbox.round()) == [None]
    assert time.monotonic() - began >= beside.PAUSE / 2
    link.close(outward)
    assert inbox.first() is None
    link.close(inward)
