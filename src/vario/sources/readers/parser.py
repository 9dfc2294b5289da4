"""Reading in pieces: what a parser is, and the reading of a whole file with one.

A parser takes bytes as they come, so that a file that grows, a pipe and a file at rest are read
by the same code, and in any pieces to the same table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from vario.errors import Malformed
from vario.sources.opening import cut_short, open_log
from vario.sources.rows import Table

PIECE = 1 << 20


class Parser(Protocol):
    """Turns bytes into rows of `table`."""

    table: Table

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere."""

    def close(self) -> None:
        """There are no more bytes: settle what is open, and note what was cut off."""


def read_all(parser: Parser, path: Path | list[Path], expected: str) -> Table:
    """Feed a whole file, or the files that one log was cut into.

    Args:
        parser: a fresh parser.
        path: the file, packed or not; several in the order of writing.
        expected: what a reader would have found in a good file, for the message.

    Raises:
        Malformed: there was not a single row.
    """
    parts = path if isinstance(path, list) else [path]
    for part in parts:
        feed_all(parser, part)
    return finish_with(parser, parts[-1], expected)


def feed_all(parser: Parser, path: Path) -> None:
    """Feed a whole file, packed or not."""
    with open_log(path) as stream:
        while piece := stream.read(PIECE):
            parser.feed(piece)
        if cut_short(stream):
            parser.table.warnings.append(f"{path.name}: cut off while packed; what came before the cut was read")


def finish_with(parser: Parser, path: Path, expected: str) -> Table:
    """The table of a parser that has been fed everything.

    Raises:
        Malformed: there was not a single row.
    """
    parser.close()
    table = parser.table
    table.flush()
    if not table.rows:
        lost = f" ({table.warnings[0]})" if table.warnings else ""
        raise Malformed(f"{path}: {expected}{lost}")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    return table


class Lines:
    """Cuts bytes into lines at newlines only (U+2028 is text), and drops what is too long to be a row."""

    def __init__(self, longest: int) -> None:
        self.longest, self.dropped = longest, 0
        self._rest: list[bytes] = []
        self._size = 0
        self._skipping = False

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that end in `data`."""
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
            return []
        whole = b"".join([*self._rest, data[:end]])
        first = data.find(b"\n")
        if self._skipping:
            whole = data[first + 1 : end] if end > first else b""
            self._skipping = False
            lines = whole.split(b"\n") if end > first else []
        else:
            lines = whole.split(b"\n")
        self._rest, self._size = [], 0
        self._keep(data[end + 1 :])
        if len(whole) > self.longest and max(map(len, lines)) > self.longest:
            kept = [line for line in lines if len(line) <= self.longest]
            self.dropped += len(lines) - len(kept)
            return kept
        return lines

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._rest.append(data)
        self._size += len(data)
        if self._size > self.longest:
            self._rest, self._size, self._skipping = [], 0, True
            self.dropped += 1

    def rest(self) -> bytes:
        """What stands behind the last newline."""
        left = b"".join(self._rest)
        self._rest, self._size = [], 0
        return left
