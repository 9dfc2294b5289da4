"""Live equals offline: a recorded run that grows under a watch, and the diagnosis of its finished log, say the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.conftest import SHARED
from tests.live.growth import BROKEN, append, findings, lines, rows, same_as_offline, told, watched
from vario.surfaces.live.notices import Notice
from vario.verdict import Examiner

SLICES = 12
LAB = sorted(p.parent for p in (SHARED / "lab" / "runs").glob("*/trainer_state.json"))


@pytest.mark.skipif(not LAB, reason="the recorded runs of the lab are not here")
@pytest.mark.parametrize("lab", LAB, ids=lambda run: run.name)
def test_a_recorded_run_that_grows(tmp_path: Path, lab: Path) -> None:
    history = json.loads((lab / "trainer_state.json").read_text())["log_history"]
    path = tmp_path / "log.jsonl"
    if (lab / "config.json").is_file():
        shutil.copy(lab / "config.json", tmp_path / "config.json")
    run = watched(path)
    made: list[Notice] = []
    for part in np.array_split(np.arange(len(history)), SLICES):
        append(path, lines(history[i] for i in part))
        made += run.look()
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    for *_, detected_at, _, _ in same_as_offline(run, path):
        assert detected_at is not None
        assert run.run is not None
        assert detected_at in run.run.logged_steps


def test_a_past_that_was_written_over_is_judged_anew(tmp_path: Path) -> None:
    """The same steps with other values, and no event that tells of it: what earlier looks found counts no more."""
    good, broken = tmp_path / "good.jsonl", tmp_path / "broken.jsonl"
    good.write_text(lines(rows(80)))
    broken.write_text(lines(BROKEN))
    examiner = Examiner()
    examiner.see(vario.read(good))
    second = vario.read(broken)
    found = findings(examiner.see(second))
    assert found == findings(vario.diagnose(second))
    assert [f[5] for f in found if f[1] == "reward-function-broke"] == [70]
