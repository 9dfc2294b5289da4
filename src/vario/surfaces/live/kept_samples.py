"""Completions that a training hands over, kept where `vario samples` and a later diagnosis find them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = "completions"
LIKE_TRL = frozenset({"prompt", "completion"})
"""With these columns they are written as TRL writes them: one Parquet file a step, each reward function a column."""


class KeptSamples:
    """Files of completions in a run's folder, one a step; a step that is logged again replaces its file."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / FOLDER

    def keep(self, step: int, columns: Mapping[str, Sequence[object]]) -> None:
        """Write the completions of a step.

        Raises:
            OSError: the folder cannot be written.
        """
        rows = min(map(len, columns.values()), default=0)
        if not rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        table: dict[str, Sequence[object]] = {
            "step": [step] * rows,
            **{k: list(v) for k, v in columns.items() if k != "step"},
        }
        if set(columns) >= LIKE_TRL and self._as_parquet(step, table):
            return
        path = self.folder / f"samples_{step:05d}.jsonl"
        lines = (json.dumps({k: v[i] for k, v in table.items()}, default=str) for i in range(rows))
        part = path.with_suffix(".part")
        part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        part.replace(path)

    def _as_parquet(self, step: int, table: Mapping[str, Sequence[object]]) -> bool:
        """Whether polars is there and could write it."""
        try:
            import polars as pl

            frame = pl.DataFrame(dict(table), strict=False)
        except Exception:  # no polars, or columns of mixed kinds: lines of JSON take everything
            return False
        path = self.folder / f"completions_{step:05d}.parquet"
        part = path.with_suffix(".part")
        frame.write_parquet(part)
        part.replace(path)
        return True
