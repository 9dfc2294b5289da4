"""Logs that are read again while they grow: what was parsed stays parsed, and only what came since is read."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import IO

from vario.sources.opening import GZIP, ZSTANDARD
from vario.sources.readers.parser import PIECE, Parser
from vario.sources.rows import Table

EDGE = 4096
"""Bytes at the beginning, and before the place that was reached, by which a log is known again."""


class Growing:
    """What one reading of a place leaves for the next one.

    A log is read on where it is the same file, no shorter, and its beginning and the end of what was read are as they
    were; else it is read anew. So what somebody edits in the middle of a log that goes on is seen only where it ends.
    """

    def __init__(self) -> None:
        self._logs: dict[Path, _Log] = {}
        self._asked: set[Path] = set()

    def table(self, reader: ModuleType, path: Path) -> Table:
        """What `reader.read(path)` gives, or raises."""
        parser = self.parser(reader, path) if hasattr(reader, "finish") else None
        made: Table = reader.read(path) if parser is None else reader.finish(parser, path)
        return made

    def parser(self, reader: ModuleType, path: Path) -> Parser | None:
        """A copy of what `reader.start` gives, fed with all that stands there; None of a packed log, which is read anew.

        Raises:
            OSError: it cannot be read.
        """
        self._asked.add(path)
        log = self._logs.pop(path, None)  # it comes back only where nothing went wrong
        with path.open("rb") as stream:
            if stream.read(4).startswith((GZIP, ZSTANDARD)):
                return None
            if log is None or log.reader is not reader or not log.stands(stream):
                log = _Log(reader, path)
            log.read_on(stream)
        if not getattr(log.parser, "stuck", False):
            self._logs[path] = log
        return deepcopy(log.parser)

    def settle(self) -> None:
        """A reading has ended: what it did not ask for is forgotten."""
        self._logs = {path: log for path, log in self._logs.items() if path in self._asked}
        self._asked = set()


class _Log:
    """One file, as far as it has been parsed."""

    def __init__(self, reader: ModuleType, path: Path) -> None:
        self.reader = reader
        self.parser: Parser = reader.start(path)
        self._at = 0
        self._head = self._tail = b""
        self._file: tuple[int, int] | None = None
        self._changed = 0

    def stands(self, stream: IO[bytes]) -> bool:
        """Whether what was parsed still stands there."""
        told = os.fstat(stream.fileno())
        if (told.st_dev, told.st_ino) != self._file or told.st_size < self._at:
            return False
        if told.st_size == self._at and told.st_mtime_ns != self._changed:
            return False  # written over in its place
        stream.seek(0)
        if stream.read(len(self._head)) != self._head:
            return False
        stream.seek(self._at - len(self._tail))
        return stream.read(len(self._tail)) == self._tail

    def read_on(self, stream: IO[bytes]) -> None:
        """Parse what came since."""
        stream.seek(self._at)
        while piece := stream.read(PIECE):
            self.parser.feed(piece)
            self._at += len(piece)
            if len(self._head) < EDGE:
                self._head += piece[: EDGE - len(self._head)]
            self._tail = (self._tail + piece[-EDGE:])[-EDGE:]
        told = os.fstat(stream.fileno())
        self._file, self._changed = (told.st_dev, told.st_ino), told.st_mtime_ns
