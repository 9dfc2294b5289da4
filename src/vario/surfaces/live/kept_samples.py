"""Completions that a training hands over, kept where `vario samples` and a later diagnosis find them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

FOLDER = "completions"
LIKE_TRL = frozenset({"prompt", "completion"})
"""With these columns they are written as TRL writes them: one Parquet file a step, each reward function a column."""
TEMPORARY_BYTES = 256 << 20
"""Completions of a run without a folder lie in a temporary one, which may be memory: the oldest steps make room."""


class KeptSamples:
    """Files of completions in a run's folder, one a step; a step that is logged again replaces its file.

    Args:
        directory: the run's folder.
        most: bytes that all of them may take; None for a folder of the user's.
    """

    def __init__(self, directory: Path, most: int | None = None) -> None:
        self.folder = directory / FOLDER
        self._most = most
        self._sizes: dict[Path, int] = {}
        if most is not None:
            found = sorted((p for p in self.folder.glob("*_*") if p.suffix != ".part"), key=lambda p: p.stat().st_mtime)
            self._sizes = {path: path.stat().st_size for path in found}

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
        path = self._as_parquet(step, table) if set(columns) >= LIKE_TRL else None
        self._make_room(path or self._as_lines(step, table, rows))

    def _as_parquet(self, step: int, table: Mapping[str, Sequence[object]]) -> Path | None:
        """The file; None without polars, or where it cannot hold these."""
        try:
            import polars as pl

            frame = pl.DataFrame({name: _of_one_kind(values) for name, values in table.items()})
            if pl.Object in frame.dtypes:
                return None
        except Exception:  # no polars, or columns of mixed kinds: lines of JSON take everything
            return None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # polars gave up on them deeper down
                raise
            return None
        return _whole(self.folder / f"completions_{step:05d}.parquet", frame.write_parquet)

    def _as_lines(self, step: int, table: Mapping[str, Sequence[object]], rows: int) -> Path:
        lines = (json.dumps({k: v[i] for k, v in table.items()}, default=str) for i in range(rows))
        text = "".join(f"{line}\n" for line in lines)
        return _whole(self.folder / f"samples_{step:05d}.jsonl", lambda part: part.write_text(text, encoding="utf-8"))

    def _make_room(self, path: Path) -> None:
        if self._most is None:
            return
        self._sizes.pop(path, None)
        self._sizes[path] = path.stat().st_size
        while sum(self._sizes.values()) > self._most and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            oldest.unlink(missing_ok=True)


def _of_one_kind(values: Sequence[object]) -> Sequence[object]:
    """A column of numbers as floats: a reward of 0 beside one of 0.5 is no mixture."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if not any(isinstance(v, float) for v in numbers) or len(numbers) + sum(v is None for v in values) < len(values):
        return values
    return [None if v is None else float(v) for v in values]  # type: ignore[arg-type]


def _whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a file under its name only when it is complete: who reads meanwhile finds the old one or the new one."""
    part = path.with_suffix(".part")
    try:
        write(part)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return path
