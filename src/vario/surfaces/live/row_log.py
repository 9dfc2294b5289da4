"""The log of a training that has none of its own: the rows that were handed over, as JSON lines."""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from vario.surfaces.live.handover import OWN

NAME = "vario-log.jsonl"
ROWS = 500
"""Rows that are written at a time."""
RETRY_SECONDS = 5.0
"""Pause after a failure: a full disk is not asked at every row."""
Row = tuple[int, float, dict[str, float]]


def bytes_there(directory: str | Path) -> int:
    """Bytes of the log that lie in a folder; 0 where there is none, or where that cannot be told."""
    try:
        return os.stat(os.path.join(directory, NAME)).st_size  # noqa: PTH116, PTH118  (a training imports this module)
    except (OSError, ValueError):
        return 0


def rows_in(path: Path, start: int = 0, end: int | None = None) -> Iterator[Row]:
    """The whole rows of a log between two places in bytes; broken lines are left out, and so is all where it cannot be read."""
    from vario.sources.fast_json import loads

    try:
        stream = path.open("rb")
    except OSError:
        return
    with stream:
        stream.seek(start)
        for line in stream:
            if end is not None and stream.tell() > end:
                return
            try:
                row = loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                at = row.get("_timestamp")
                yield int(row["step"]), float(at) if isinstance(at, int | float) else math.nan, _numbers(row)


def _numbers(row: dict[str, object]) -> dict[str, float]:
    from vario.sources.rows import number

    return {key: found for key, value in row.items() if key not in OWN and (found := number(value)) is not None}


class RowLog:
    """A file of rows that is added to; what another process of the same run wrote before stays before.

    Nothing is lost by a disk that is full for a while, by a file that somebody removes, or by a writer that is killed,
    and nothing is doubled: what is not in the file is taken again from where the rows are kept.

    Args:
        directory: the run's folder.
        rows: at most so many rows from a number on, as the recorder gives them.
        first: number of the first row there that is this training's own.
        earlier: bytes of the log that an earlier process of the run wrote.
        again: another process of this training has written here before.
    """

    def __init__(
        self,
        directory: Path,
        rows: Callable[[int, int], Iterable[Row]],
        *,
        first: int = 0,
        earlier: int = 0,
        again: bool = False,
    ) -> None:
        self.path = directory / NAME
        self.earlier = earlier
        self._rows = rows
        self._first = self._next = first
        self._size: int | None = None
        self._not_before = -math.inf
        self._there: Counter[tuple[int, float | None]] = Counter()
        if again:
            self._there.update(_mark(row) for row in rows_in(self.path, earlier))

    def bring(self, *, last: bool = False) -> str | None:
        """Write the rows that the file lacks; gives a sentence where that failed, and where the file had gone.

        Args:
            last: there will be no other time: try at once.
        """
        now = time.monotonic()
        if now < self._not_before and not last:
            return None
        trouble = None
        try:
            if self._size and _size(self.path) < self._size:
                trouble = f"{self.path} had been removed or cut short: all its rows are written again"
                self._next, self._size, self.earlier = 0, None, 0
                self._there.clear()
            while rows := list(self._rows(self._next, self._most())):
                self._append([row for row in rows if not self._is_there(row)])
                self._next += len(rows)
                if self._next == self._first:
                    self.earlier = self._size or 0
        except OSError as error:
            self._not_before = now + RETRY_SECONDS
            return f"the log of rows could not be written: {self.path} ({error.strerror or error}); it is tried again"
        return trouble

    def _most(self) -> int:
        """Rows to write next: those of an earlier process and ours in pieces of their own."""
        return min(ROWS, self._first - self._next) if self._next < self._first else ROWS

    def _is_there(self, row: Row) -> bool:
        mark = _mark(row)
        if not self._there.get(mark):
            return False
        self._there[mark] -= 1
        return True

    def _append(self, rows: Sequence[Row]) -> None:
        """Add rows at the end, all of them or none; a line that was cut by a crash is closed first.

        Raises:
            OSError: the file cannot be written.
        """
        if not rows:
            return
        data = b"".join(map(_line, rows))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            before = os.fstat(fd).st_size
            if before and os.pread(fd, 1, before - 1) != b"\n":
                data = b"\n" + data
            rest, written = memoryview(data), 0
            try:
                while rest:
                    done = os.write(fd, rest)
                    written += done
                    rest = rest[done:]
            except OSError:
                if written and os.fstat(fd).st_size == before + written:
                    os.ftruncate(fd, before)  # a full disk leaves half a line, and room to cut it off again
                raise
            self._size = before + written
        finally:
            os.close(fd)


def _mark(row: Row) -> tuple[int, float | None]:
    """What a row is known by: two of one training never come at the same moment."""
    step, at, _ = row
    return step, None if math.isnan(at) else at


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _line(row: Row) -> bytes:
    step, at, values = row
    head = {"step": step} if math.isnan(at) else {"step": step, "_timestamp": at}
    return json.dumps({**head, **{key: _as_json(v) for key, v in values.items()}}).encode() + b"\n"


def _as_json(value: float) -> float | str:
    """JSON knows no NaN and no infinity; as text they are read back as what they were."""
    return value if math.isfinite(value) else str(value)
