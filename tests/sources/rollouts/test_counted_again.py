"""A run that grows is read again and again: what was counted of it once is not counted anew, and comes out the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import vario
from vario.run import Run
from vario.sources.rollouts import series as counting
from vario.sources.sampled import SampleOptions

STEPS = 6


def write(folder: Path, step: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 16
    frame = pl.DataFrame(
        {
            "step": [step] * rows,
            "prompt": [f"prompt {i // 4}" for i in range(rows)],
            "completion": ["word " * int(n) for n in rng.integers(1, 30, rows)],
            "right": rng.integers(0, 2, rows).astype(float),
            "advantage": rng.normal(size=rows),
        }
    )
    (folder / "completions").mkdir(exist_ok=True)
    frame.write_parquet(folder / "completions" / f"completions_{step:05d}.parquet")


def log(folder: Path, last: int) -> None:
    rows = [
        f'{{"step": {s}, "reward": {s / 10}, "rewards/right/mean": {s / 10}, "completions/mean_length": {10 + s}, "kl": 0.01}}'
        for s in range(1, last + 1)
    ]
    (folder / "log.jsonl").write_text("\n".join(rows) + "\n")


def same(one: Run, other: Run) -> bool:
    assert one.samples is not None and other.samples is not None
    return (
        one.series.keys() == other.series.keys()
        and all(np.array_equal(one.series[n].values, other.series[n].values, equal_nan=True) for n in one.series)
        and all(
            np.array_equal(one.samples.measures[m], other.samples.measures[m], equal_nan=True)
            for m in one.samples.measures
        )
    )


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of the pieces that are counted."""
    seen: list[int] = []
    count = counting.count_piece

    def counted(task: counting._Task) -> counting.PieceCounts | None:
        seen.extend(one.step or 0 for one in task.piece.files)
        return count(task)

    monkeypatch.setattr(counting, "count_piece", counted)
    return seen


def test_only_what_is_new_is_counted(tmp_path: Path, tasks: list[int]) -> None:
    memory: dict[object, object] = {}
    for step in range(1, STEPS + 1):
        write(tmp_path, step, step)
        log(tmp_path, step)
        tasks.clear()
        grown = vario.read(tmp_path, samples=SampleOptions(workers=1, counted=memory))
        assert tasks == [step]
        assert same(grown, vario.read(tmp_path))


def test_what_is_written_anew_is_counted_anew(tmp_path: Path, tasks: list[int]) -> None:
    memory: dict[object, object] = {}
    for step in range(1, STEPS + 1):
        write(tmp_path, step, step)
    log(tmp_path, STEPS)
    vario.read(tmp_path, samples=SampleOptions(workers=1, counted=memory))
    write(tmp_path, 3, 99)
    tasks.clear()
    grown = vario.read(tmp_path, samples=SampleOptions(workers=1, counted=memory))
    assert tasks == [3]
    assert same(grown, vario.read(tmp_path))
    assert len(memory) == STEPS, "what a file held before is forgotten"
