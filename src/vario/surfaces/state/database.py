"""One database, SQLite or PostgreSQL: whole transactions, each bounded in time, and one kind of error."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from vario.surfaces.privacy import safe
from vario.surfaces.state import postgresql, schema, sqlite
from vario.surfaces.state.failures import Failure, Refused, kind_of, told
from vario.surfaces.state.places import SQLITE, address_of, shown_place

T = TypeVar("T")
LONGEST = 30.0
"""Seconds that no call exceeds: a free connection, a new one, a lock and an answer are each waited for and no longer.
A disk that hangs, or a name server, is beyond our reach."""
OPENINGS = 4
"""Attempts at a file that others replace or set aside while it is being opened."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """Connections, and the file that they lead to."""

    engine: Engine
    file: sqlite.Identity | None


class Database:
    """A database that is opened when it is first used, and again when its file has been replaced or removed.

    Attributes:
        warnings: what happened to it, a sentence each: a broken file that was set aside, one that vanished.
    """

    def __init__(self, place: str) -> None:
        """`place` is as `place_of` gives it, or as a user names it.

        Raises:
            StateError: it names no database.
        """
        place = address_of(place)
        self.shown = shown_place(place)
        self.warnings: list[str] = []
        self._place = place
        self._path = Path(place.removeprefix(SQLITE)) if place.startswith(SQLITE) else None
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._closed = False
        _alive.add(self)

    @property
    def stands(self) -> bool:
        """Whether there is something to read: a file that is there, or a server."""
        return self._path is None or self._path.exists()

    def read(self, work: Callable[[Connection], T]) -> T:
        """The result of a transaction that writes nothing.

        Raises:
            StateError: it failed.
        """
        return self._do(work, writes=False)

    def write(self, work: Callable[[Connection], T]) -> T:
        """The result of a transaction, once it is kept; `work` may be called again after a failure.

        Raises:
            StateError: it failed, and left nothing behind; or the connection was lost while it was being kept, and
                nobody knows.
        """
        return self._do(work, writes=True)

    def open(self) -> None:
        """Open it now, so that what is wrong with it is told now.

        Raises:
            StateError: it cannot be opened.
        """
        self.read(lambda _: None)

    def close(self) -> None:
        """Give the connections back. It cannot be used afterwards."""
        with self._lock:
            opened, self._opened, self._closed = self._opened, None, True
        if opened is not None:
            opened.engine.dispose()

    def forked(self) -> None:
        """Forget, in a child, the connections of its parent: to use them, or to close them, would break the parent's."""
        self._lock = Lock()
        if self._opened is not None:
            _inherited.append(self._opened.engine)
            self._opened = None

    def _do(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        try:
            opened = self._current()
            try:
                return self._once(opened, work, writes=writes)
            except _LostBefore:
                return self._once(opened, work, writes=writes)
            except SQLAlchemyError as error:
                if kind_of(error) is not Failure.CORRUPT:
                    raise
                self._begin_anew(opened)
                return self._once(self._current(), work, writes=writes)
        except _LostBefore as error:
            raise told(self.shown, error.cause, postgresql.WAIT) from error
        except (SQLAlchemyError, sqlite3.Error, OSError, Refused) as error:
            raise told(self.shown, error, sqlite.WAIT) from error

    def _once(self, opened: _Opened, work: Callable[[Connection], T], *, writes: bool) -> T:
        """The whole transaction; leaving it in any other way takes it back."""
        began = time.monotonic()
        keeping = False
        try:
            with opened.engine.connect() as connection:
                connection.execution_options(writes=writes)
                with nullcontext() if self._path is not None else postgresql.bounded(connection):
                    transaction = connection.begin()
                    made = work(connection)
                    keeping = True
                    transaction.commit()
                    return made
        except SQLAlchemyError as error:
            quick = time.monotonic() - began < postgresql.WAIT
            if kind_of(error) is Failure.GONE and quick and not keeping:
                raise _LostBefore(error) from error
            raise

    def _current(self) -> _Opened:
        opened = self._opened
        if opened is not None and self._stands(opened):
            return opened
        with self._alone():
            if self._closed:
                raise Refused("it was closed")
            if self._opened is not None and not self._stands(self._opened):
                self._opened.engine.dispose()
                self._opened = None
                self.warnings.append(f"{self.shown}: it was removed or replaced; what stands there now is used")
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time opens it."""
        lock = self._lock
        if not lock.acquire(timeout=sqlite.WAIT):
            raise Refused("it is still being opened; it is slow, or locked")
        try:
            yield
        finally:
            lock.release()

    def _stands(self, opened: _Opened) -> bool:
        """Whether the connections lead to what stands at the place: a file that was removed takes writes and keeps none."""
        return self._path is None or sqlite.identity(self._path) == opened.file

    def _open(self) -> _Opened:
        if self._path is None:
            return self._made(_Opened(postgresql.engine(self._place), None))
        for last in (*[False] * OPENINGS, True):
            file = None
            try:
                file = sqlite.prepare(self._path)
                return self._made(_Opened(sqlite.engine(self._path), file))
            except (SQLAlchemyError, sqlite3.Error, OSError) as error:
                if kind_of(error) is Failure.CORRUPT and file is not None and not last:
                    self._set_aside(file)
                elif kind_of(error) is Failure.ABSENT and self._path.parent.is_dir() and not last:
                    time.sleep(sqlite.RETRY)  # another is setting it aside
                else:
                    raise
        raise Refused("it is set aside again and again; something else writes to it")

    def _made(self, opened: _Opened) -> _Opened:
        """With its tables."""
        try:
            self._once(opened, schema.make, writes=True)
        except BaseException:
            opened.engine.dispose()
            raise
        return opened

    def _begin_anew(self, broken: _Opened) -> None:
        with self._alone():
            if self._opened is broken:
                broken.engine.dispose()
                self._opened = None
                if broken.file is not None:
                    self._set_aside(broken.file)

    def _set_aside(self, broken: sqlite.Identity) -> None:
        target = None if self._path is None else sqlite.set_aside(self._path, broken)
        if target is not None:
            self.warnings.append(
                f"{self.shown}: it was broken (no database, or malformed): it was set aside as {safe(target.name)} and a "
                "new one begun; what was told before may be told again"
            )


class _LostBefore(Exception):
    """The connection was lost before anything was kept: the transaction may be tried again."""

    def __init__(self, cause: SQLAlchemyError) -> None:
        self.cause = cause
        super().__init__(str(cause))


_alive: WeakSet[Database] = WeakSet()
_inherited: list[Engine] = []
"""Connections of a parent process, kept from being closed."""


def _after_fork() -> None:
    for database in list(_alive):
        database.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
