"""What a database's errors mean for people: one sentence that says what, and what to try."""

from __future__ import annotations

import sqlite3
from enum import StrEnum

from sqlalchemy import exc

from vario.errors import StateError
from vario.surfaces.privacy import masked, safe

MOST_WORDS = 300
"""Characters of a database's own message that are shown."""


class Failure(StrEnum):
    """Kinds of failure, as far as they call for different things."""

    LOCKED = "locked"
    CORRUPT = "corrupt"
    ABSENT = "not there"
    GONE = "connection lost"
    OTHER = "other"


class Refused(Exception):
    """Something of ours stands in the way; its text is a sentence about the database."""


SQLITE_KINDS = {
    "SQLITE_BUSY": Failure.LOCKED,
    "SQLITE_LOCKED": Failure.LOCKED,
    "SQLITE_CORRUPT": Failure.CORRUPT,
    "SQLITE_NOTADB": Failure.CORRUPT,
    "SQLITE_CANTOPEN": Failure.ABSENT,
}
SQLITE_SENTENCES = {
    "SQLITE_BUSY": "it is locked by another process, and was not freed within {wait:.3g} s",
    "SQLITE_LOCKED": "it is locked by another process, and was not freed within {wait:.3g} s",
    "SQLITE_FULL": "the disk is full; free some space, or name another place",
    "SQLITE_READONLY": "it cannot be written; check its owner and mode, or name another place",
    "SQLITE_CANTOPEN": "it cannot be opened or made there; check the folder and its mode, or name another place",
    "SQLITE_PERM": "it cannot be opened; check its owner and mode, or name another place",
    "SQLITE_CORRUPT": "the database is malformed",
    "SQLITE_NOTADB": "it is not a database",
}
POSTGRESQL_SENTENCES = {
    "55P03": "the server's tables are locked by somebody else; the lock was not freed in time",
    "57014": "the server did not answer in time; it may be overloaded",
    "53100": "the server's disk is full",
    "53300": "the server has no connection left; raise max_connections, or watch with fewer processes",
    "28P01": "the server refused user and password",
    "28000": "the server refused the user",
    "3D000": "the server has no such database; make it, as with createdb",
    "42501": "the user may not do this there; let it create tables in the database, or name another one",
}


def kind_of(error: BaseException) -> Failure:
    """Which kind of failure an error is."""
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return Failure.GONE
    if isinstance(error, FileNotFoundError):
        return Failure.ABSENT
    return SQLITE_KINDS.get(_sqlite_name(_cause(error)), Failure.OTHER)


def told(place: str, error: BaseException, wait: float) -> StateError:
    """The error as it is told.

    Args:
        place: as it may be shown. error: what was raised. wait: seconds that locks were waited for.
    """
    cause = _cause(error)
    if isinstance(error, Refused):
        return StateError(f"{place}: {error}")
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        return StateError(f"{place}: {reason}; check the folder and its mode, or name another place")
    if isinstance(error, exc.TimeoutError):
        return StateError(f"{place}: every connection was busy for {wait:.3g} s; the database is too slow")
    sentence = SQLITE_SENTENCES.get(_sqlite_name(cause))
    if sentence is not None:
        return StateError(f"{place}: {sentence.format(wait=wait)}")
    state = getattr(cause, "sqlstate", None)
    if state in POSTGRESQL_SENTENCES:
        return StateError(f"{place}: {POSTGRESQL_SENTENCES[state]}")
    words = safe(masked(" ".join(str(cause).split())))[:MOST_WORDS]
    if not isinstance(cause, sqlite3.Error) and isinstance(error, exc.OperationalError) and state is None:
        return StateError(f"{place}: no connection to the server ({words}); check address, user and network")
    return StateError(f"{place}: the database failed ({words})")


def _cause(error: BaseException) -> BaseException:
    """What the database's own driver raised."""
    return error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error


def _sqlite_name(cause: BaseException) -> str:
    """The primary name of an SQLite error: SQLITE_BUSY for SQLITE_BUSY_SNAPSHOT."""
    name = getattr(cause, "sqlite_errorname", None) if isinstance(cause, sqlite3.Error) else None
    return "_".join(str(name).split("_")[:2]) if name else ""
