"""SQLite: how a file is opened, which file it is, and how one that is broken is set aside."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sys import platform

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from vario.surfaces.state.failures import Refused
from vario.surfaces.state.places import NAME

if platform != "win32":
    import fcntl

WAIT = 4.0
"""Seconds that a lock, or a free connection, is waited for."""
CONNECTIONS = 4
"""Connections of one process at most: threads beyond them wait."""
PRAGMAS = ("PRAGMA synchronous = FULL",)
"""Each commit is on the disk before it is told: an alert that was sent is not sent again after a power cut either."""
RETRY = 0.02
"""Seconds between attempts where SQLite itself does not wait."""
MAGIC = b"SQLite format 3\0"
JOURNALS = ("-wal", "-shm", "-journal")
NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "lustre", "gpfs", "beegfs", "ceph", "ocfs2", "gfs", "glusterfs", "fuse")
"""How the types of file systems begin that several machines may see: there the write-ahead log, which needs memory shared
by all who write, breaks the file."""
ESCAPED = re.compile(r"\\([0-7]{3})")
"""How spaces and their like stand in the list of mounts."""
MOUNTS = Path("/proc/self/mountinfo")

Identity = tuple[int, int]
"""Device and inode: which file stands at a path."""


def engine(path: Path) -> Engine:
    """Connections to the file; a transaction that writes says so by the option `writes`, and locks at its start."""
    made = create_engine(
        "sqlite://",
        creator=lambda: _connected(path),
        poolclass=QueuePool,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=WAIT,
    )

    @event.listens_for(made, "begin")
    def begun(connection: Connection) -> None:
        # a transaction that reads first and writes then could not be waited for: two of them would wait for each other
        connection.exec_driver_sql(
            "BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN DEFERRED"
        )

    return made


def prepare(path: Path) -> Identity:
    """Make the file if it is not there, and choose how it is journalled while it is new. Gives its identity.

    Raises:
        OSError, sqlite3.Error: it cannot be made or opened.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    found = identity(path)
    if found is None:
        raise FileNotFoundError(path)
    if path.stat().st_size == 0 and not on_network(path):
        _write_ahead(path)
    return found


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: only `prepare` makes one."""
    made = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=WAIT, check_same_thread=False)
    made.isolation_level = None  # the driver would begin transactions late, and only some
    try:
        for pragma in PRAGMAS:
            made.execute(pragma)
    except BaseException:
        made.close()
        raise
    return made


def _write_ahead(path: Path) -> None:
    end = time.monotonic() + WAIT
    connection = _connected(path)
    try:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(RETRY)
            else:
                return
    finally:
        connection.close()


def identity(path: Path) -> Identity | None:
    """Which file stands at the path; None: none does."""
    try:
        found = os.stat(path)  # noqa: PTH116  (before every transaction)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def set_aside(path: Path, broken: Identity) -> Path | None:
    """Rename a broken file, if it still stands there; None: another process has done so.

    Raises:
        Refused: it is no file of ours. OSError: it cannot be renamed.
    """
    with _alone(path.parent):
        if identity(path) != broken:
            return None
        with path.open("rb") as stream:
            ours = path.name == NAME or stream.read(len(MAGIC)) == MAGIC
        if not ours:
            raise Refused("it is not a database, and nothing that vario wrote; name another place")
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        number, target = 0, path.with_name(f"{path.name}.corrupt-{stamp}")
        while target.exists():
            number += 1
            target = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
        for journal in JOURNALS:  # first, so that no new file ever finds an old one's
            with suppress(FileNotFoundError):
                path.with_name(path.name + journal).rename(target.with_name(target.name + journal))
        path.rename(target)
        return target


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has such locks; a lock on the folder leaves nothing behind."""
    if platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(RETRY)
            except OSError:
                break  # a file system without locks
        yield
    finally:
        os.close(handle)


def on_network(path: Path, mounts: Path = MOUNTS) -> bool:
    """Whether other machines may see the file; False where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        root = ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
        if path.is_relative_to(root) and len(root) >= best:
            best, kind = len(root), after.split()[0]
    return kind.startswith(NETWORK)
