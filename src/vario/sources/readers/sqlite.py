"""SQLite files opened for reading only, while their owner may be writing; nothing is left beside them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from vario.errors import Malformed

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\0"
PATIENCE = 5.0
"""Seconds to wait for a writer to finish."""
WRITE_AHEAD = b"\2\2"
"""What the header says at byte 18 where changes go to a file of their own first."""
COMPANIONS = ("-wal", "-journal")
ATTEMPTS = 20
"""So often a copy is tried again because the file was written meanwhile."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write.

    Raises:
        Malformed: it is damaged, or locked for too long.
    """
    import sqlite3

    connection: sqlite3.Connection | None = None
    copied: tempfile.TemporaryDirectory[str] | None = None
    try:
        with path.open("rb") as stream:
            is_write_ahead = stream.read(20)[18:] == WRITE_AHEAD
        try:
            # a connection makes the index of a write-ahead log, and one that cannot write leaves it behind: unless
            # a writer has it open, the log is settled in a copy
            if is_write_ahead and not _beside(path, "-shm").exists():
                raise sqlite3.OperationalError("no writer has it open")
            connection = _connected(path, "mode=ro")
        except sqlite3.OperationalError:
            copied = tempfile.TemporaryDirectory(prefix="vario-")
            connection = _connected(_copy(path, Path(copied.name)), "mode=rw")
        yield connection
    except sqlite3.Error as error:
        raise Malformed(f"{path}: the database cannot be read ({error}); copy it and try the copy") from error
    finally:
        if connection is not None:
            connection.close()
        if copied is not None:
            copied.cleanup()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{mode}", uri=True, timeout=PATIENCE)
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _copy(path: Path, folder: Path) -> Path:
    """The database and what belongs to it, as they stood at one moment."""
    for _ in range(ATTEMPTS):
        before = _state(path)
        for suffix in ("", *COMPANIONS):
            target = folder / ("copy.db" + suffix)
            target.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(_beside(path, suffix), target)
        if _state(path) == before:
            break
    else:
        raise Malformed(f"{path}: is written without a pause; copy it and read the copy")
    return folder / "copy.db"


def _state(path: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for suffix in ("", *COMPANIONS):
        try:
            stat = _beside(path, suffix).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((stat.st_mtime_ns, stat.st_size))
    return found


def columns_of(path: Path, table: str) -> set[str]:
    """The names of a table's columns; empty when there is none."""
    with opened(path) as connection:
        return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
