"""Rows that were handed over are the run that their log would be read as, and are judged as that log is."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.conftest import GOLDEN, SHARED
from vario.run import Run
from vario.surfaces.live.handover import OnDevice, settled, taken
from vario.surfaces.live.recorded import Recorded, table_of
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.watched import WatchedRun
from vario.verdict import Diagnosis

LAB = SHARED / "lab" / "runs"
Rows = list[dict[str, object]]


def written(rows: Rows, folder: Path, config: dict[str, object] | None = None) -> Run:
    """The run as vario reads the same rows from a file."""
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return vario.read(folder)


def recorded(rows: Rows, folder: Path, config: dict[str, object] | None = None, each: int = 0) -> WatchedRun:
    """The run as a monitor keeps and judges it, looking after each so many rows."""
    source = Recorded("run", str(folder), config or {}, [], lambda run: run)
    watched = WatchedRun("run", source)
    for i, row in enumerate(rows, 1):
        source.add(int(str(row["step"])), 1e9 + i, settled(taken(row, OnDevice, pytest.fail)))
        if each and i % each == 0:
            watched.look()
    source.ended = True
    watched.look()
    return watched


def shown(diagnosis: Diagnosis | None) -> list[object]:
    assert diagnosis is not None
    return [diagnosis.verdict, *diagnosis.findings, diagnosis.unknown, diagnosis.notes]


@pytest.mark.parametrize(
    ("name", "each"),
    [("grpo-reward-bug", 0), ("grpo-reward-bug", 7), ("dpo-overtrain", 1), ("grpo-resumed", 3), ("grpo-healthy", 0)],
)
def test_a_real_run_is_diagnosed_as_its_log_is(name: str, each: int, tmp_path: Path) -> None:
    rows = json.loads((GOLDEN / name / "trainer_state.json").read_text())["log_history"]
    config = json.loads((GOLDEN / name / "config.json").read_text())
    offline = vario.diagnose(written(rows, tmp_path, config))
    assert shown(recorded(rows, tmp_path, config, each).diagnosis) == shown(offline)


@pytest.mark.skipif(not LAB.is_dir(), reason="the other labelled runs do not lie beside this checkout")
@pytest.mark.parametrize("name", ["nan_midrun-s0", "resume_discontinuity-s0"])
def test_a_run_of_the_laboratory_too(name: str, tmp_path: Path) -> None:
    rows = json.loads((LAB / name / "trainer_state.json").read_text())["log_history"]
    config = json.loads((LAB / name / "config.json").read_text())
    offline = vario.diagnose(written(rows, tmp_path, config))
    assert shown(recorded(rows, tmp_path, config, 3).diagnosis) == shown(offline)


def odd_rows(seed: int) -> Rows:
    """Rows as trainers write them on bad days: repeats, holes, texts, nested tables, evaluations and gauges between."""
    chance = random.Random(seed)
    rows: Rows = []
    step = 0
    for i in range(chance.randint(15, 60)):
        if chance.random() < 0.9:
            step += chance.choice([1, 1, 1, 5])
        elif chance.random() < 0.5:
            step = max(0, step - chance.randint(1, 10))
        kinds: list[dict[str, object]] = [
            {
                "reward": chance.random(),
                "kl": chance.random(),
                "loss": chance.choice([chance.random(), None, math.nan, math.inf, -math.inf, 1e200, True, "0.5", 10**400]),
            },
            {"reward": chance.random(), "epoch": i / 10},
            {"eval_reward": chance.random(), "epoch": i / 10},
            {"kl": chance.random(), "train": {"odd": chance.random(), "deep": {"x": "1e-3", "a": {"b": {"c": {"d": 1}}}}},
             "note": "hello", "list": [1, 2]},
            {"system/gpu": 3.0},
            {"train_runtime": 3.0, "train_loss": 1.0, "reward": 0.5},
            {"epoch": 3},
            {"global_step": 7, "entropy": 0.4},
        ]  # fmt: skip
        rows.append({"step": step, **chance.choice(kinds[: chance.randint(1, len(kinds))])})
    return rows


@pytest.mark.parametrize("seed", range(25))
def test_odd_rows_make_the_run_that_their_log_makes(seed: int, tmp_path: Path) -> None:
    rows = odd_rows(seed)
    offline, live = written(rows, tmp_path), recorded(rows, tmp_path).run
    assert live is not None
    assert live.logged_steps.tolist() == offline.logged_steps.tolist()
    assert live.events == offline.events
    assert live.warnings == offline.warnings
    assert live.unmapped == offline.unmapped
    assert list(live.series) == list(offline.series)
    for name, series in offline.series.items():
        assert live.series[name].key == series.key
        assert live.series[name].steps.tolist() == series.steps.tolist()
        np.testing.assert_array_equal(live.series[name].values, series.values)


def test_a_look_is_due_at_the_cadence_and_at_the_end() -> None:
    source = Recorded("run", "run", {}, [], lambda run: run)
    seen = []
    for step in range(1, 26):
        source.add(step, 1e9 + step, {"reward": step / 100})
        source.add(step, 1e9 + step, {"eval_reward": 0.5})
        polled = source.poll()
        assert polled.rows == step
        if polled.run is not None:
            seen.append(polled.run.last_step)
    source.ended = True
    last = source.poll()
    assert last.run is not None
    assert [*seen, last.run.last_step] == [10, 20, 25]
    assert last.ended


def test_seconds_of_other_work_are_those_that_fall_into_each_row() -> None:
    recorder = Recorder()
    for step, at in enumerate((math.nan, 100.0, 110.0, 120.0, 130.0)):
        recorder.add(step, at, {"reward": 1.0})
    table = table_of(recorder, "run", {}, [("upload", 105.0, 122.0), ("upload", 129.0, 200.0), ("merge", 0.0, 1.0)])
    series = table.series()
    assert series["vario/event/upload_s"].steps.tolist() == [1, 2, 3, 4]
    assert series["vario/event/upload_s"].values.tolist() == [0.0, 5.0, 10.0, 3.0]
    assert series["vario/event/merge_s"].values.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_the_clock_counts_where_the_log_holds_it() -> None:
    recorder = Recorder()
    for step, at in enumerate((math.nan, 1.7e9, 1.7e9 + 10)):
        recorder.add(step, at, {"reward": 1.0})
    assert "_timestamp" not in table_of(recorder, "run", {}).series()
    clock = table_of(recorder, "run", {}, timed=True).series()["_timestamp"]
    assert clock.steps.tolist() == [1, 2]
    assert clock.values.tolist() == [1.7e9, 1.7e9 + 10]


def test_a_run_that_no_dialect_can_read_is_a_trouble_and_no_end(monkeypatch) -> None:
    source = Recorded("run", "run", {}, [], lambda run: 1 / 0)  # type: ignore[arg-type, return-value]
    for step in range(1, 11):
        source.add(step, 1e9 + step, {"reward": 0.1})
    assert source.poll().troubles == ("could not be read (ZeroDivisionError: division by zero)",)
    monkeypatch.setattr(source, "_finish", lambda run: run)
    assert source.poll().run is not None
