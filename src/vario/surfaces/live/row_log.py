"""The log of a training that has none of its own: the rows that were handed over, as JSON lines."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from vario.sources.fast_json import loads

NAME = "vario-log.jsonl"
Row = tuple[int, float, dict[str, float]]


class RowLog:
    """A file of rows that is added to; what another process of the same run wrote before stays before."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def before(self) -> Iterator[Row]:
        """The rows that are there already; half-written ones are left out."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            try:
                row = loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                numbers = {
                    str(k): math.nan if v is None else float(v)
                    for k, v in row.items()
                    if k not in ("step", "_timestamp") and (v is None or isinstance(v, int | float))
                }
                at = row.get("_timestamp")
                yield int(row["step"]), float(at) if isinstance(at, int | float) else 0.0, numbers

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows at the end; a line that was cut by a crash is closed first.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as stream:
            if stream.tell() and not _ends_a_line(self.path):
                stream.write(b"\n")
            for step, at, row in rows:
                plain = {k: _as_json(v) for k, v in row.items()}
                stream.write(json.dumps({"step": step, "_timestamp": at, **plain}).encode() + b"\n")


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _as_json(value: float) -> float | str:
    """JSON knows no NaN and no infinity; as text they are read back as what they were."""
    return value if math.isfinite(value) else str(value)
