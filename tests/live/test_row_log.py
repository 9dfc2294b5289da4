"""The log of rows: nothing lost and nothing doubled, whatever happens to the file, the disk or the writer."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import vario
from vario.surfaces.live import row_log
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.row_log import NAME, RowLog, bytes_there, rows_in


def recorded(steps: range, start: float = 1.7e9) -> Recorder:
    made = Recorder()
    for step in steps:
        made.add(step, start + step, {"reward": step / 10, "kl": step / 1000})
    return made


def steps_in(folder: Path) -> list[int]:
    return [step for step, *_ in rows_in(folder / NAME)]


def test_what_is_written_is_read_back_by_itself_and_by_vario(tmp_path: Path) -> None:
    made = Recorder()
    made.add(1, 1.7e9, {"reward": 0.1 + 0.2, "kl": math.inf, "loss": math.nan})
    made.add(2, math.nan, {"reward": -1e-300, "kl": -math.inf})
    assert RowLog(tmp_path, made.rows).bring() is None
    first, second = rows_in(tmp_path / NAME)
    assert first[:2] == (1, 1.7e9)
    assert math.isnan(first[2].pop("loss"))
    assert first[2] == {"reward": 0.1 + 0.2, "kl": math.inf}
    assert second[0] == 2
    assert math.isnan(second[1])
    assert second[2] == {"reward": -1e-300, "kl": -math.inf}
    run = vario.read(tmp_path)
    assert run.series["reward/mean"].values.tolist() == [0.1 + 0.2, -1e-300]
    assert run.series["kl/reference"].values.tolist() == [math.inf, -math.inf]


def test_only_new_rows_are_added(tmp_path: Path) -> None:
    made = recorded(range(700))
    log = RowLog(tmp_path / "new" / "folder", made.rows)
    log.bring()
    for step in range(700, 1500):
        made.add(step, float(step), {"reward": 1.0})
    log.bring()
    log.bring()
    assert steps_in(tmp_path / "new" / "folder") == list(range(1500))


def test_another_process_of_the_training_goes_on_where_the_killed_one_stopped(tmp_path: Path) -> None:
    made = recorded(range(30))
    RowLog(tmp_path, made.rows).bring()
    path = tmp_path / NAME
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:20]) + whole[20][:15])  # killed in mid-write
    RowLog(tmp_path, made.rows, again=True).bring()
    assert steps_in(tmp_path) == list(range(30))
    assert path.read_bytes().count(b"\n") == 31  # the cut line is closed, and left out when it is read


def test_two_rows_of_one_step_are_two_rows(tmp_path: Path) -> None:
    made = Recorder()
    for at, row in ((1.0, {"reward": 1.0}), (2.0, {"eval_reward": 2.0}), (2.0, {"eval_other": 3.0})):
        made.add(7, at, row)
    made.add(7, math.nan, {"a": 1.0})
    RowLog(tmp_path, made.rows).bring()
    RowLog(tmp_path, made.rows, again=True).bring()
    assert steps_in(tmp_path) == [7, 7, 7, 7]


def test_rows_of_an_earlier_training_stay_before(tmp_path: Path) -> None:
    RowLog(tmp_path, recorded(range(10)).rows).bring()
    earlier = bytes_there(tmp_path)
    made = recorded(range(5, 15), start=1.8e9)
    RowLog(tmp_path, made.rows, earlier=earlier).bring()
    assert [step for step, *_ in rows_in(tmp_path / NAME, end=earlier)] == list(range(10))
    assert [step for step, *_ in rows_in(tmp_path / NAME, earlier)] == list(range(5, 15))
    RowLog(tmp_path, made.rows, earlier=earlier, again=True).bring()
    assert steps_in(tmp_path) == [*range(10), *range(5, 15)]


@pytest.mark.parametrize("harm", ["file", "folder", "shorter"])
def test_a_log_that_somebody_removes_is_written_again_with_the_rows_before(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "run"
    RowLog(folder, recorded(range(4)).rows).bring()
    earlier = bytes_there(folder)
    both = recorded(range(4))
    log = RowLog(folder, both.rows, first=4, earlier=earlier)
    for step in range(4, 8):
        both.add(step, float(step), {"reward": 1.0})
    assert log.bring() is None
    if harm == "file":
        (folder / NAME).unlink()
    elif harm == "folder":
        shutil.rmtree(folder)
    else:
        os.truncate(folder / NAME, 20)
    both.add(8, 8.0, {"reward": 1.0})
    said = log.bring()
    assert said is not None
    assert "written again" in said
    assert steps_in(folder)[-9:] == list(range(9))
    assert log.bring() is None
    assert [step for step, *_ in rows_in(folder / NAME, log.earlier)] == list(range(4, 9))


def test_a_folder_that_cannot_be_written_is_told_and_tried_again(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "run").write_text("a file in the place of the folder")
    log = RowLog(tmp_path / "run", recorded(range(5)).rows)
    said = log.bring()
    assert said is not None
    assert str(tmp_path / "run" / NAME) in said
    (tmp_path / "run").unlink()
    assert log.bring() is None
    assert not (tmp_path / "run").exists()  # not yet: it was tried a moment ago
    monkeypatch.setattr(row_log, "RETRY_SECONDS", 0.0)
    assert log.bring(last=True) is None
    assert steps_in(tmp_path / "run") == list(range(5))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, where the system allows to mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_leaves_no_half_line_and_loses_no_row(small_disk: Path, monkeypatch) -> None:
    monkeypatch.setattr(row_log, "RETRY_SECONDS", 0.0)
    made = recorded(range(200))
    log = RowLog(small_disk, made.rows)
    assert log.bring() is None
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 40_000)
    for step in range(200, 900):
        made.add(step, float(step), {"reward": 1.0})
    said = log.bring()
    assert said is not None
    assert "No space left" in said
    lines = (small_disk / NAME).read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    filler.unlink()
    assert log.bring() is None
    assert steps_in(small_disk) == list(range(900))


def test_lines_that_are_no_rows_are_left_out(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        '{"step": 1, "reward": 0.5, "note": "text", "deep": {"a": 1}}\nnonsense\n[1]\n{"reward": 1}\n'
        '{"step": "2", "reward": 1}\n{"step": 3, "kl": null, "ok": true, "_timestamp": 5}'
    )
    first, last = rows_in(tmp_path / NAME)
    assert first[0] == 1
    assert first[2] == {"reward": 0.5}
    assert math.isnan(last[2]["kl"])
    assert (last[0], last[1], last[2]["ok"]) == (3, 5.0, 1.0)
    assert list(rows_in(tmp_path / "nothing")) == []
