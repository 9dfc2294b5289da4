"""Completions that a training hands over lie where the other commands find them, and count."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import vario
from vario.surfaces.cli import main
from vario.surfaces.live.kept_samples import FOLDER, KeptSamples
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.row_log import RowLog


def columns(step: int) -> dict[str, list[object]]:
    return {
        "prompt": ["one plus one?"] * 2 + ["two plus two?"] * 2,
        "completion": [f"it is {step + i}" for i in range(4)],
        "reward": [0.0, 1.0, 1.0, 1.0],
    }


def test_prompts_and_completions_are_written_as_trl_writes_them_and_count(tmp_path: Path, capsys) -> None:
    rows, kept = Recorder(), KeptSamples(tmp_path)
    for step in range(1, 31):
        kept.keep(step, {**columns(step), "step": ["another"] * 4})
        rows.add(step, 1.7e9 + 30 * step, {"loss": 0.1, "kl": 0.01})
    RowLog(tmp_path, rows.rows).bring()
    frame = pl.read_parquet(tmp_path / FOLDER / "completions_00007.parquet")
    assert frame.columns == ["step", "prompt", "completion", "reward"]
    assert frame["step"].to_list() == [7] * 4
    run = vario.read(tmp_path)
    assert run.series["reward/mean"].values.tolist() == [0.75] * 30
    assert "signal/zero-variance-share" in run.series
    assert main(["samples", str(tmp_path)]) == 0
    assert "120 completions of 30 steps" in capsys.readouterr().out


def test_a_step_that_is_logged_again_replaces_its_file(tmp_path: Path) -> None:
    kept = KeptSamples(tmp_path)
    kept.keep(3, columns(3))
    kept.keep(3, {**columns(3), "reward": [0.5] * 4})
    assert [p.name for p in (tmp_path / FOLDER).iterdir()] == ["completions_00003.parquet"]
    assert pl.read_parquet(tmp_path / FOLDER / "completions_00003.parquet")["reward"].to_list() == [0.5] * 4


def test_a_table_of_other_columns_is_written_as_lines(tmp_path: Path) -> None:
    KeptSamples(tmp_path).keep(12, {"question": ["a", "b"], "text": ["x", "y"], "score": [0, 0.2]})
    made = pl.read_ndjson(tmp_path / FOLDER / "samples_00012.jsonl")
    assert made.to_dict(as_series=False) == {
        "step": [12, 12],
        "question": ["a", "b"],
        "text": ["x", "y"],
        "score": [0, 0.2],
    }


def test_whole_numbers_beside_others_are_numbers(tmp_path: Path) -> None:
    KeptSamples(tmp_path).keep(1, {**columns(1), "reward": [0, 0.5, None, 1]})
    made = pl.read_parquet(tmp_path / FOLDER / "completions_00001.parquet")
    assert made["reward"].to_list() == [0.0, 0.5, None, 1.0]


def test_a_column_of_mixed_kinds_loses_nothing(tmp_path: Path) -> None:
    mixed: list[object] = [["x"], {"role": "y"}]
    KeptSamples(tmp_path).keep(1, {"prompt": ["a", "b"], "completion": mixed})
    (path,) = (tmp_path / FOLDER).iterdir()
    assert path.name == "samples_00001.jsonl"
    assert [json.loads(line)["completion"] for line in path.read_text().splitlines()] == mixed


def test_messages_are_kept_as_messages(tmp_path: Path) -> None:
    chat: list[object] = [[{"role": "user", "content": "hello"}]] * 2
    KeptSamples(tmp_path).keep(1, {"prompt": chat, "completion": ["a", "b"]})
    made = pl.read_parquet(tmp_path / FOLDER / "completions_00001.parquet")
    assert made["prompt"].to_list() == chat


def test_nothing_makes_no_file(tmp_path: Path) -> None:
    KeptSamples(tmp_path).keep(1, {})
    KeptSamples(tmp_path).keep(1, {"prompt": [], "completion": []})
    assert not (tmp_path / FOLDER).exists()


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    kept = KeptSamples(tmp_path)
    (tmp_path / FOLDER / "completions_00001.parquet").mkdir(parents=True)
    with pytest.raises(OSError):
        kept.keep(1, columns(1))
    assert [p.name for p in (tmp_path / FOLDER).iterdir()] == ["completions_00001.parquet"]


def test_in_a_temporary_folder_the_oldest_steps_make_room(tmp_path: Path) -> None:
    probe = KeptSamples(tmp_path / "probe")
    probe.keep(1, columns(1))
    size = (tmp_path / "probe" / FOLDER / "completions_00001.parquet").stat().st_size
    kept = KeptSamples(tmp_path, most=3 * size + size // 2)
    for step in range(1, 8):
        kept.keep(step, columns(step))
    assert sorted(p.name for p in (tmp_path / FOLDER).iterdir()) == [f"completions_0000{s}.parquet" for s in (5, 6, 7)]
    again = KeptSamples(tmp_path, most=3 * size + size // 2)  # the process that is started next knows them
    again.keep(8, columns(8))
    assert sorted(p.name for p in (tmp_path / FOLDER).iterdir()) == [f"completions_0000{s}.parquet" for s in (6, 7, 8)]
