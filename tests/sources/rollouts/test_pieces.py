"""However a dump is divided, into pieces, blocks or files, it counts the same; and no step sees a later one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("zstandard")

from polars.testing import assert_frame_equal  # noqa: E402

import vario  # noqa: E402
from tests.naive.tables import Row, table  # noqa: E402
from vario.sources.rollouts import blocks as blocks_of  # noqa: E402
from vario.sources.rollouts import dumps  # noqa: E402
from vario.sources.rollouts.counting import Wishes  # noqa: E402
from vario.sources.rollouts.dumps import Dump, DumpFile  # noqa: E402
from vario.sources.rollouts.series import MOST_KEPT, PieceCounts, _Task, count_piece  # noqa: E402

WRITTEN = ("step", "group", "prompt", "completion", "reward", "advantage", "length", "truncated")


def write(path: Path, rows: Iterable[Row]) -> Dump:
    parts = [{k: v for k, v in row.items() if k in WRITTEN or k.startswith("reward.")} for row in rows]
    path.write_text("".join(json.dumps(part) + "\n" for part in parts), encoding="utf-8")
    return Dump((DumpFile(str(path), "generic-by-group", size=path.stat().st_size),))


def train(seed: int, steps: int) -> tuple[list[Row], Wishes]:
    rows, wishes = table(random.Random(seed), steps=steps, most_rows=30, resumed=False)
    return [row for row in rows if not row["evaluation"]], wishes


def counted(dump: Dump, wishes: Wishes) -> list[PieceCounts]:
    return [made for piece in dump.pieces() if (made := count_piece(_Task(piece, wishes, MOST_KEPT))) is not None]


def steps_of(parts: list[PieceCounts]) -> Any:
    whole = pl.concat([part.steps for part in parts if part.steps.height], how="diagonal")
    assert not whole.select(pl.struct("evaluation", "step").is_duplicated().any()).item(), "a step in two pieces"
    return whole.select(sorted(whole.columns)).sort("step")


@pytest.mark.parametrize("seed", range(5))
def test_a_file_cut_anywhere_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rows, wishes = train(seed, 8)
    dump = write(tmp_path / "samples.jsonl", rows)
    whole = counted(dump, wishes)
    for bytes_each in (dump.files[0].size // 2, dump.files[0].size // 3, 4_000, 700):
        monkeypatch.setattr(dumps, "PIECE_BYTES", max(bytes_each, 1))
        parts = counted(dump, wishes)
        assert sum(part.rows for part in parts) == whole[0].rows
        assert_frame_equal(steps_of(parts), steps_of(whole), check_exact=True, check_dtypes=False)


def test_no_line_is_lost_or_doubled_at_any_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of one length, so that edges fall on their ends too; broken and blank lines among them."""
    lines = []
    for number in range(40):
        row = {"step": 10 + number // 4, "prompt": f"{number:02}", "completion": "a", "reward": 1.0}
        lines.append(json.dumps(row))
        width = len(lines[0])
        lines += ["{" + "x" * (width - 1)] if number % 7 == 3 else []
        lines += [" " * width] if number % 9 == 4 else []
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines) + "\n")
    dump = Dump((DumpFile(str(path), "generic", size=path.stat().st_size),))
    for bytes_each in range(20, dump.files[0].size, 11):
        monkeypatch.setattr(dumps, "PIECE_BYTES", bytes_each)
        troubles = blocks_of.Troubles()
        found, pieces = [], []
        for number, piece in enumerate(dump.pieces()):
            for block in blocks_of.blocks(piece, troubles):
                found += block["prompt"].to_list()
                pieces += [(step, number) for step in block["step"].unique().to_list()]
        assert sorted(found) == [f"{number:02}" for number in range(40)], bytes_each
        assert len(pieces) == len({step for step, _ in pieces}), "a step in two pieces"
        assert troubles.lines == 6, bytes_each


@pytest.mark.parametrize("seed", range(5, 9))
def test_blocks_of_any_size_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rows, wishes = train(seed, 8)
    dump = write(tmp_path / "samples.jsonl", rows)
    whole = counted(dump, wishes)
    for size in (1, 2_000, 20_000):
        monkeypatch.setattr(blocks_of, "BLOCK_BYTES", size)
        parts = counted(dump, wishes)
        assert_frame_equal(steps_of(parts), steps_of(whole), check_exact=True, check_dtypes=False)


def test_large_steps_count_the_same_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough rows that they are counted by several threads."""
    rng = random.Random(3)
    rows = [
        {
            "step": step,
            "group": f"{group}",
            "prompt": f"{group}",
            "completion": "a " * rng.randrange(9),
            "reward": rng.random(),
        }
        for step in range(6)
        for group in range(600)
        for _ in range(4)
    ]
    dump = write(tmp_path / "samples.jsonl", rows)
    whole = steps_of(counted(dump, Wishes()))
    assert_frame_equal(steps_of(counted(dump, Wishes())), whole, check_exact=True)
    monkeypatch.setattr(blocks_of, "BLOCK_BYTES", 1)
    assert_frame_equal(steps_of(counted(dump, Wishes())), whole, check_exact=True, check_dtypes=False)


# --- a run cut at a step, and a folder that ends there ---


def a_run(root: Path, last: int) -> Path:
    """What verl would have written up to a step: scores in a log, completions beside it. Nothing is solved until step 6."""
    rng = random.Random(11)
    log = []
    for step in range(1, 13):
        rows = []
        for group in range(12):
            chance = 0.0 if step < 6 else (group + step) / 26
            paid = [float(rng.random() < chance) * (1.0 if step < 9 else 2.0) for _ in range(6)]
            texts = ["so " * rng.randrange(1, 40) for _ in paid]
            rows += [
                {"input": f"q{group}", "output": t, "score": p, "step": step} for t, p in zip(texts, paid, strict=True)
            ]
        if step <= last:
            folder = root / "rollouts"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            score = sum(float(str(row["score"])) for row in rows) / len(rows)
            log.append({"step": step, "critic/score/mean": score, "actor/ppo_kl": 0.01, "response_length/mean": 50.0})
    (root / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    return root


def test_a_run_cut_at_a_step_is_the_run_as_it_was_then(tmp_path: Path) -> None:
    whole = vario.read(a_run(tmp_path / "whole", 12))
    assert {"signal/solved-share", "signal/unsolved-share", "signal/tiny-spread-share"} <= whole.series.keys()
    for last in (1, 3, 5, 6, 8, 9, 11):
        then = vario.read(a_run(tmp_path / str(last), last))
        cut = whole.until(last)
        assert then.series.keys() == cut.series.keys(), last
        for name, series in then.series.items():
            assert series.steps.tolist() == cut.series[name].steps.tolist(), (last, name)
            assert series.values.tolist() == cut.series[name].values.tolist(), (last, name)
        assert then.samples is not None
        assert cut.samples is not None
        assert len(then.samples) == len(cut.samples)
