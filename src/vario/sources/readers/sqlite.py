"""SQLite files opened for reading only, while their owner may be writing."""

from __future__ import annotations

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


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write.

    Raises:
        Malformed: it is damaged, or locked for too long.
    """
    import sqlite3

    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, timeout=PATIENCE)
        yield connection
    except sqlite3.Error as error:
        raise Malformed(f"{path}: the database cannot be read ({error}); copy it and try the copy") from error
    finally:
        if connection is not None:
            connection.close()


def columns_of(path: Path, table: str) -> set[str]:
    """The names of a table's columns; empty when there is none."""
    with opened(path) as connection:
        return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
