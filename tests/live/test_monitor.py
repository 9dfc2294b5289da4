"""`vario.Monitor` and its judging process: the same run and the same diagnosis as from the log, and every way to end."""

from __future__ import annotations

import copy
import gc
import json
import logging
import math
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

import vario
from tests.conftest import GOLDEN
from tests.live.training import train, until
from vario.surfaces.cli import main
from vario.surfaces.live import monitor as monitor_module
from vario.surfaces.live.handover import OnDevice, Slot
from vario.surfaces.live.monitor import Monitor, rank_of
from vario.surfaces.live.row_log import NAME, rows_in
from vario.surfaces.state import State, place_of, run_key
from vario.verdict import Diagnosis


def shown(diagnosis: Diagnosis) -> list[object]:
    return [diagnosis.verdict, *diagnosis.findings, diagnosis.unknown, diagnosis.notes]


def history(folder: Path) -> list[tuple[str, str, str]]:
    """What was told of a run, as its state keeps it."""
    place = place_of(str(folder))
    if not Path(place.removeprefix("sqlite:///")).exists():
        return []
    state = State.open(place)
    try:
        return [(p.kind, p.subject, p.text) for p in state.history(run_key(str(folder), place))]
    finally:
        state.close()


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Monitor, Path, Diagnosis, list[str]]]:
    """A real run whose reward function breaks, logged with completions, to its end."""
    folder = tmp_path_factory.mktemp("broken")
    root = GOLDEN / "grpo-reward-bug"
    rows = json.loads((root / "trainer_state.json").read_text())["log_history"]
    config = json.loads((root / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    act = {
        "stop": {"severity": "critical", "confidence": "high"},
        "checkpoint": {"severity": "critical", "confidence": "high"},
        "raise-kl": {"severity": "critical", "confidence": "high"},
        "sentinel": {"severity": "critical", "confidence": "high", "file": str(folder / "STOP.json")},
    }
    monitor = Monitor(config, directory=folder, act=act)
    called: list[str] = []
    monitor.on("raise-kl", called.append)
    for row in rows:
        step = row["step"]
        right = float(step < 90)
        rows_of_step = [
            {"prompt": f"p{i // 4}", "completion": f"c{i} {step}", "reward": right * (i % 2)} for i in range(8)
        ]
        samples = rows_of_step if step % 2 else {k: [r[k] for r in rows_of_step] for k in rows_of_step[0]}
        monitor.log(step, row, samples if step % 10 in (3, 8) else None)
        if step % 10 == 0:
            monitor.log(step, {"eval_reward": right * 0.7})
    now = monitor.diagnosis()
    monitor.close(60.0)
    yield monitor, folder, now, called


def test_the_live_diagnosis_is_that_of_the_log(broken) -> None:
    monitor, folder, now, _ = broken
    offline = vario.diagnose(vario.read(folder))
    assert any(f.name == "reward-function-broke" and f.detected_at is not None for f in now.findings)
    assert "text/duplicate-share/within-group" in offline.run.series
    assert "eval/reward/mean" in offline.run.series or any(n.startswith("eval/") for n in offline.run.series)
    assert shown(now) == shown(offline)
    assert shown(monitor.diagnosis()) == shown(offline)


def test_what_the_judging_process_told_is_in_that_diagnosis(broken) -> None:
    _, folder, now, _ = broken
    opened = [subject for kind, subject, _ in history(folder) if kind == "opened"]
    assert "reward-function-broke" in opened
    standing = {f.name for f in now.findings if f.until is None and f.audience == "default"}
    resolved = [subject for kind, subject, _ in history(folder) if kind == "resolved"]
    assert standing <= set(opened)
    assert set(opened) - standing <= set(resolved) | {s.name for f in now.findings for s in f.symptoms}


def test_acts_reach_the_training(broken) -> None:
    monitor, folder, _, called = broken
    assert monitor.should_stop
    assert monitor.stop_reason is not None
    assert monitor.stop_reason.startswith("stop for reward-function-broke at step")
    assert len(called) == 1
    assert called[0].startswith("raise-kl for reward-function-broke")
    assert json.loads((folder / "STOP.json").read_text())["finding"] == "reward-function-broke"
    assert str(monitor.take_save()).startswith("checkpoint for")
    assert monitor.take_save() is None


def test_nothing_failed_and_what_was_found_was_told(broken) -> None:
    monitor, *_ = broken
    assert not monitor.failures
    assert sum(text.startswith("reward-function-broke since step") for text in monitor.notices) == 1


def test_completions_lie_where_they_are_found(broken, capsys) -> None:
    _, folder, _, _ = broken
    assert main(["samples", str(folder)]) == 0
    assert "completions of" in capsys.readouterr().out


def test_nothing_is_left_when_it_has_closed(broken) -> None:
    monitor, *_ = broken
    assert monitor.beside is None
    assert not [t.name for t in threading.enumerate() if t.name.startswith("vario-")]
    rows = len(monitor._recorder)
    monitor.log(10_000, {"reward": 1.0})
    monitor.event("upload", 1.0)
    monitor.close()
    assert len(monitor._recorder) == rows


def test_values_of_every_kind_a_resume_and_an_event(tmp_path: Path) -> None:
    with Monitor({"beta": np.float32(0.1)}, directory=tmp_path, write_log=True) as monitor:
        for step in [*range(1, 31), *range(21, 51)]:
            monitor.log(
                step,
                {
                    "reward": torch.tensor(step / 100),
                    "kl": np.float32(0.01),
                    "loss": math.nan if step == 5 else math.inf if step == 6 else None if step == 7 else "0.25",
                    "nested": {"a": True},
                    "text": "left out",
                    "list": [1, 2],
                },
            )
        monitor.event("upload", time.time() - 5, time.time())
        live = monitor.diagnosis()
    offline = vario.read(tmp_path)
    assert live.run.logged_steps.tolist() == offline.logged_steps.tolist() == list(range(1, 51))
    assert live.run.events == offline.events
    assert [(e.kind, e.step) for e in live.run.events] == [("resume", 21)]
    assert set(live.run.series) - set(offline.series) == {"systems/background/upload/time"}
    for name, series in offline.series.items():
        assert live.run.series[name].steps.tolist() == series.steps.tolist()
        np.testing.assert_array_equal(live.run.series[name].values, series.values)
    assert not monitor.failures


def test_a_resumed_training_goes_on_with_its_log(tmp_path: Path) -> None:
    for steps in (range(1, 41), range(31, 71)):
        with Monitor(directory=tmp_path, history=[{"step": 1, "reward": 9.0}] if steps[0] > 1 else ()) as monitor:
            for step in steps:
                monitor.log(step, {"reward": step / 100})
            live = monitor.diagnosis()
    offline = vario.read(tmp_path)
    assert live.run.logged_steps.tolist() == offline.logged_steps.tolist() == list(range(1, 71))
    assert live.run.events == offline.events
    assert [(e.kind, e.step) for e in live.run.events] == [("resume", 31)]
    assert shown(live) == shown(vario.diagnose(offline))


def test_a_resumed_training_goes_on_with_a_history() -> None:
    rows = [{"step": s, "reward": s / 100, "epoch": 0.1, "note": "x"} for s in range(1, 41)]
    monitor = Monitor(history=[{"reward": 1.0}, *rows], rank=0)
    for step in range(41, 61):
        monitor.log(step, {"reward": step / 100})
    assert monitor.diagnosis().run.logged_steps.tolist() == list(range(1, 61))
    monitor.close()
    assert not monitor.failures


def test_without_a_folder_all_is_gone_in_the_end(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monitor = Monitor()
    for step in range(1, 13):
        monitor.log(step, {"kl": 0.1}, {"prompt": ["p"] * 2, "completion": ["a", "b"], "reward": [0.0, step / 30]})
    until(lambda: list(tmp_path.glob("*/completions/*00012.parquet")))
    live = monitor.diagnosis()
    assert live.run.series["reward/mean"].values.tolist() == [s / 60 for s in range(1, 13)]
    monitor.close()
    assert shown(monitor.diagnosis()) == shown(live)
    assert [p.name[:6] for p in tmp_path.iterdir()] == ["vario-"]
    del monitor
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_monitor_that_saw_nothing_diagnoses_nothing() -> None:
    monitor = Monitor()
    assert monitor.diagnosis().verdict.action == "cannot-tell"
    monitor.close()
    assert monitor.beside is None


def test_hooks_that_are_not_there_or_fail_are_told_once() -> None:
    monitor = Monitor(rank=0)
    monitor.on("raise-kl", lambda reason: 1 / 0)  # type: ignore[arg-type, return-value]
    for _ in range(3):
        monitor._hear("act", "raise-kl", "why")
        monitor._hear("act", "lower-learning-rate", "why")
    monitor.close()
    assert sorted(monitor.failures.values()) == [3, 3]
    assert any("registered no hook" in text for text in monitor.failures)
    assert any("ZeroDivisionError" in text for text in monitor.failures)


def test_failures_are_counted_told_once_and_bounded(caplog) -> None:
    monitor = Monitor(rank=0)
    with caplog.at_level(logging.WARNING, "vario"):
        for i in range(1000):
            monitor.log("no step", {"reward": 1.0})  # type: ignore[arg-type]
            monitor._fail(f"another {i} " + "x" * 10_000)
        monitor.close()
    assert monitor.failures["a row could not be taken (ValueError: 'no step' is no step)"] == 1000
    assert len(monitor.failures) == monitor_module.FAILURES + 1
    assert sum(monitor.failures.values()) == 2000
    assert len(caplog.records) == monitor_module.FAILURES + 1
    assert max(len(r.getMessage()) for r in caplog.records) <= monitor_module.TOLD


def test_control_characters_of_a_log_do_not_reach_the_terminal(caplog) -> None:
    monitor = Monitor(rank=0)
    monitor._fail("key \x1b[2J could not be read")
    monitor.close()
    assert caplog.messages == ["key ?[2J could not be read"]


@pytest.mark.parametrize("rank", ["1", "7"])
def test_only_the_first_rank_speaks(rank: str, monkeypatch, tmp_path: Path, caplog) -> None:
    monkeypatch.setenv("RANK", rank)
    monitor = Monitor(config=5, directory=tmp_path / "new", alerts="x")  # type: ignore[arg-type]
    monitor.log(1, {"reward": 1.0})
    monitor.event("upload", 0.0)
    monitor._fail("something")
    monitor.close()
    assert not monitor._recorder.values
    assert not (tmp_path / "new").exists()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("vario-")]
    assert not caplog.records


def test_the_rank_is_the_launchers() -> None:
    assert rank_of({}) == 0
    assert rank_of({"SLURM_PROCID": "3"}) == 3
    assert rank_of({"SLURM_PROCID": "3", "RANK": "0"}) == 0
    assert rank_of({"RANK": "none", "PMI_RANK": "2"}) == 2


def test_copies_have_nothing_to_say() -> None:
    monitor = Monitor(directory="somewhere", rank=0)
    for other in (
        copy.copy(monitor),
        copy.deepcopy(monitor),
        *(pickle.loads(pickle.dumps(monitor, p)) for p in range(6)),
    ):
        other.log(1, {"reward": 1.0})
        other.close()
        assert not len(other._recorder)
        assert other._keeper is None
    monitor.close()


def test_two_monitors_of_one_process_are_two_runs(tmp_path: Path) -> None:
    monitors = [Monitor(directory=tmp_path / name) for name in ("a", "b")]
    for step in range(1, 31):
        for i, monitor in enumerate(monitors):
            monitor.log(step, {"reward": i + step / 100})
    for monitor in monitors:
        monitor.close()
        assert not monitor.failures
    for i, name in enumerate(("a", "b")):
        assert [row["reward"] for *_, row in rows_in(tmp_path / name / NAME)] == [i + s / 100 for s in range(1, 31)]


def test_threads_that_log_at_once_lose_nothing(tmp_path: Path) -> None:
    monitor = Monitor(directory=tmp_path)

    def log(number: int) -> None:
        for i in range(500):
            monitor.log(i, {f"reward_{number}": float(i)})

    threads = [threading.Thread(target=log, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monitor.close()
    assert not monitor.failures
    found: dict[str, list[float]] = {}
    for _, _, row in rows_in(tmp_path / NAME):
        for key, value in row.items():
            found.setdefault(key, []).append(value)
    assert found == {f"reward_{n}": [float(i) for i in range(500)] for n in range(8)}


# how trainings end


def test_an_exception_is_told_and_the_run_has_died(tmp_path: Path) -> None:
    done = train(
        """
        with vario.Monitor(directory="run") as monitor:
            rows(monitor, 1, 12)
            raise ValueError("a bug of the training's")
        """,
        tmp_path,
        ends=1,
    )
    assert "ValueError: a bug of the training's" in done.stderr
    assert ("died", "training-died", "it failed: ValueError") in history(tmp_path / "run")
    assert "the training died after step 12" in done.stderr


ENDS = {
    "nobody closes": ("pass", 0, None),
    "nobody catches": ("raise ValueError('no')", 1, "it failed: ValueError"),
    "exit in the block": ("with monitor: sys.exit(3)", 3, "it failed: exit code 3"),
    "a person": ("with monitor: raise KeyboardInterrupt", -signal.SIGINT, None),
    "term": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "without a word"),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "without a word"),
    "at once": ("os._exit(5)", 5, "without a word"),
}


@pytest.mark.parametrize("how", ENDS)
def test_every_end_is_told_as_what_it_is(how: str, tmp_path: Path) -> None:
    code, ends, why = ENDS[how]
    train(
        f"""
        monitor = vario.Monitor(directory="run", alerts={{"to": ["file:died.json"], "on": ["died"]}})
        rows(monitor, 1, 12)
        until(lambda: os.path.exists("run/vario-log.jsonl"))
        {code}
        """,
        tmp_path,
        ends=ends,
    )
    folder = tmp_path / "run"
    if why is None:
        until(lambda: any(kind == "ended" for kind, *_ in history(folder)))
        assert not any(kind == "died" for kind, *_ in history(folder))
        assert not (tmp_path / "died.json").exists()
    else:
        until((tmp_path / "died.json").exists)
        assert json.loads((tmp_path / "died.json").read_text())["subject"] == "training-died"
        until(lambda: any(kind == "died" and why in text for kind, _, text in history(folder)))
    until(lambda: len(list(rows_in(folder / NAME))) == 12)


def test_a_training_inside_a_loop_of_events_and_without_a_main_file(tmp_path: Path) -> None:
    done = train(
        """
        import asyncio

        async def epoch():
            monitor = vario.Monitor(directory="run")
            for step in range(1, 31):
                monitor.log(step, {"reward": step / 100})
                await asyncio.sleep(0)
            monitor.close()
            return len(monitor.failures)

        assert not hasattr(sys.modules["__main__"], "__file__")
        print(asyncio.run(epoch()))
        """,
        tmp_path,
    )
    assert done.stdout == "0\n"
    assert "Traceback" not in done.stderr
    assert len(list(rows_in(tmp_path / "run" / NAME))) == 30


def test_an_unused_monitor_costs_no_process_and_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    monitor = Monitor(directory=tmp_path)
    assert monitor.beside is None
    assert threading.active_count() == before
    monitor.close()
    assert not list(tmp_path.iterdir())


class Late(OnDevice):
    """Values of a device that gets to them when the test says so; tests have no device of their own."""

    made: ClassVar[list[Late]] = []

    def __init__(self) -> None:
        super().__init__()
        self.done = False
        self.waiting = 0
        Late.made.append(self)

    def add(self, tensor: object) -> Slot:
        self.waiting += 1
        return Slot(self.waiting - 1)

    def start(self) -> None:
        pass

    def ready(self) -> bool:
        return self.done

    def read(self) -> list[object]:
        return [0.25] * self.waiting

    def __len__(self) -> int:
        return self.waiting


class DeviceTensor:
    """A value that must not be read in this thread."""

    ndim = 0
    device = SimpleNamespace(type="cuda")

    def detach(self) -> DeviceTensor:
        return self


@pytest.fixture
def late(monkeypatch) -> list[Late]:
    monkeypatch.setattr(monitor_module, "OnDevice", Late)
    Late.made = []
    return Late.made


def test_a_value_on_a_device_is_not_waited_for_and_rows_keep_their_order(late, tmp_path: Path) -> None:
    monitor = Monitor(directory=tmp_path)
    monitor.log(1, {"reward": 0.1})
    monitor.log(2, {"reward": DeviceTensor(), "kl": 0.5})
    monitor.log(3, {"reward": 0.3})
    monitor.log(4, {"reward": DeviceTensor()})
    until(lambda: len(monitor._recorder) == 1)
    late[0].done = True
    monitor.log(5, {"reward": 0.5})
    until(lambda: len(monitor._recorder) == 3)
    late[1].done = True
    assert monitor.diagnosis().run.logged_steps.tolist() == [1, 2, 3, 4, 5]
    monitor.close()
    rows = [(step, row) for step, _, row in rows_in(tmp_path / NAME)]
    assert rows == [
        (1, {"reward": 0.1}),
        (2, {"reward": 0.25, "kl": 0.5}),
        (3, {"reward": 0.3}),
        (4, {"reward": 0.25}),
        (5, {"reward": 0.5}),
    ]
    assert not monitor.failures


def test_a_device_that_never_gets_there_costs_only_its_values(late, monkeypatch) -> None:
    monkeypatch.setattr(monitor_module, "ON_DEVICE", 8)
    monitor = Monitor(rank=0)
    for step in range(1, 101):
        monitor.log(step, {"reward": DeviceTensor(), "kl": 0.5})
    assert len(late) == 100
    until(lambda: len(monitor._recorder) >= 90)
    assert len(monitor._on_device) <= 9
    monitor.close(0.3)
    assert len(monitor._recorder) == 100
    rows = [row for *_, row in monitor._recorder.rows(0, 100)]
    assert all(row["kl"] == 0.5 and math.isnan(row["reward"]) for row in rows)
    assert any("values on a device were left out" in text for text in monitor.failures)
