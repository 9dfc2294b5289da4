"""Alerts that were sent, that somebody is sending, and that still have to be: each once, whoever watches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select, update

from vario.surfaces.state.database import Database
from vario.surfaces.state.schema import ALERTS, ensured, insert, latest

LEASE = 120.0
"""Seconds after which an alert whose sender says nothing more may be sent by another: longer than any service takes."""
SKEW = 600.0
"""Seconds by which a claim may lie in the future: clocks of machines differ by less, and one that was set back by more
must not keep an alert from being sent."""
MOST_ERROR = 1_000
"""Characters of a sender's error that are kept."""


@dataclass(frozen=True, slots=True)
class Due:
    """An alert that has to be sent.

    Attributes:
        key: what it is deduplicated by.
        subject: what it is about.
        payload: what it takes to send it, as JSON.
        at: since when, in seconds since 1970.
    """

    key: str
    subject: str
    payload: str
    at: float


@dataclass(frozen=True, slots=True)
class Unsent:
    """An alert that was not sent yet.

    Attributes:
        key, subject, payload: as they were given when it was claimed, or came due.
        attempts: how often it was claimed. error: why the last attempt failed; empty where its sender died.
        tried_at: when it came due, or was claimed, or failed, last; in seconds since 1970.
    """

    key: str
    subject: str
    payload: str
    attempts: int
    error: str
    tried_at: float


class Alerts:
    """Who sends what; a part of `State`."""

    _database: Database

    def claim(
        self, run: str, key: str, now: float, by: str, *, subject: str, payload: str, lease: float = LEASE
    ) -> bool:
        """Whether this watcher is the one to send an alert.

        Of all that ask, one is told True. It says afterwards that the alert was `sent`, or has `failed`; where it dies
        before, another may have the alert once the lease is over. One that was sent is never claimed again.

        Args:
            run: the place.
            key: what the alert is deduplicated by.
            now: seconds since 1970.
            by: the watcher, by a name that no other has (machine, process).
            subject: what it is about, for `last_sent`.
            payload: what it takes to send it, as JSON, for whoever takes it over.
            lease: in seconds.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> bool:
            row = ensured(connection, run)
            put(connection, row, [Due(key, subject, payload, now)])
            a = ALERTS.c
            mine = update(ALERTS).where(a.run_id == row, a.key == key, _free(now))
            mine = mine.values(
                payload=payload,
                claimed_by=by,
                claimed_at=now,
                lease=lease,
                tried_at=now,
                error="",
                attempts=a.attempts + 1,
            )
            return connection.execute(mine).rowcount == 1

        return self._database.write(work)

    def sent(self, run: str, key: str, now: float) -> None:
        """It was sent, at `now`: nobody will send it again.

        Raises:
            StateError: the database failed.
        """
        self._change(run, key, ALERTS.c.sent_at.is_(None), sent_at=now, error="")

    def failed(self, run: str, key: str, now: float, by: str, error: str) -> None:
        """It could not be sent, and is free for another attempt, unless another watcher has taken it over meanwhile.

        Raises:
            StateError: the database failed.
        """
        held = ALERTS.c.sent_at.is_(None) & (ALERTS.c.claimed_by == by)
        self._change(run, key, held, claimed_by=None, tried_at=now, error=error[:MOST_ERROR])

    def unsent(self, run: str, now: float) -> list[Unsent]:
        """Alerts that are due, that failed, or whose sender died; oldest first. Each has to be claimed before it is sent.

        Those that another watcher is sending now are not among them: ask again after their lease.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> list[Unsent]:
            a = ALERTS.c
            found = connection.execute(
                select(a.key, a.subject, a.payload, a.attempts, a.error, a.tried_at)
                .where(a.run_id == latest(connection, run), _free(now))
                .order_by(a.tried_at, a.key)
            )
            return [Unsent(*row) for row in found]

        return self._database.read(work)

    def last_sent(self, run: str, subject: str) -> float | None:
        """When an alert about this subject was sent last, in seconds since 1970; None: never.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> float | None:
            a = ALERTS.c
            of_subject = (a.run_id == latest(connection, run)) & (a.subject == subject)
            found: float | None = connection.scalar(select(func.max(a.sent_at)).where(of_subject))
            return found

        return self._database.read(work)

    def _change(self, run: str, key: str, where: ColumnElement[bool], **values: object) -> None:
        def work(connection: Connection) -> None:
            here = (ALERTS.c.run_id == latest(connection, run)) & (ALERTS.c.key == key)
            connection.execute(update(ALERTS).where(here, where).values(**values))

        self._database.write(work)


def put(connection: Connection, row: int, due: Iterable[Due]) -> None:
    """Let alerts wait for a sender, unless they have been sent, or wait already."""
    for alert in due:
        made = insert(connection, ALERTS).values(
            run_id=row,
            key=alert.key,
            subject=alert.subject,
            payload=alert.payload,
            claimed_by=None,
            claimed_at=alert.at,
            lease=0.0,
            attempts=0,
            tried_at=alert.at,
            error="",
        )
        connection.execute(made.on_conflict_do_nothing())


def _free(now: float) -> ColumnElement[bool]:
    """Not sent, and nobody is sending it."""
    a = ALERTS.c
    over = (a.claimed_at + a.lease <= now) | (a.claimed_at > now + SKEW)
    return a.sent_at.is_(None) & (a.claimed_by.is_(None) | over)
