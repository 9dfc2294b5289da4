"""What people said of findings: that they know, or that they want to hear no more of them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from vario.surfaces.state.database import Database
from vario.surfaces.state.schema import ACKNOWLEDGED, MUTED, RUNS, SILENCES, ensured, insert, latest


@dataclass(frozen=True, slots=True)
class Silence:
    """Somebody knows of a finding, or has muted it.

    Attributes:
        subject: the finding's name, or the subject of other notices.
        by: who said so. reason: why. at: when, in seconds since 1970.
        until: when it ends, in seconds since 1970; None: when the finding resolves.
    """

    subject: str
    by: str
    reason: str
    at: float
    until: float | None


class Silences:
    """Acknowledgements and mutes; a part of `State`."""

    _database: Database

    def acknowledge(self, run: str, subject: str, by: str, reason: str, now: float, until: float | None = None) -> None:
        """Somebody knows of it. It ends when the finding resolves, at the latest at `until`.

        Raises:
            StateError: the database failed.
        """
        self._say(ACKNOWLEDGED, run, Silence(subject, by, reason, now, until))

    def mute(self, run: str, subject: str, by: str, reason: str, now: float, until: float | None = None) -> None:
        """Nobody wants to hear of it. It ends at `until`, whatever happens; without that, when the finding resolves.

        Raises:
            StateError: the database failed.
        """
        self._say(MUTED, run, Silence(subject, by, reason, now, until))

    def speak_again(self, run: str, subject: str) -> None:
        """Take back what was said of it, muting and acknowledgement alike.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> None:
            of_place = SILENCES.c.run_id.in_(select(RUNS.c.id).where(RUNS.c.run == run))
            connection.execute(delete(SILENCES).where(of_place, SILENCES.c.subject == subject))

        self._database.write(work)

    def acknowledged(self, run: str, now: float) -> dict[str, Silence]:
        """What somebody knows of, by subject.

        Raises:
            StateError: the database failed.
        """
        return self._said(ACKNOWLEDGED, run, now)

    def muted(self, run: str, now: float) -> dict[str, Silence]:
        """What is muted, by subject. A mute until a time outlives the run that it was said of, if another replaces it.

        Raises:
            StateError: the database failed.
        """
        return self._said(MUTED, run, now)

    def _say(self, kind: str, run: str, silence: Silence) -> None:
        def work(connection: Connection) -> None:
            row = ensured(connection, run)
            said = {
                "said_by": silence.by,
                "reason": silence.reason,
                "at": silence.at,
                "until": silence.until,
            }
            made = insert(connection, SILENCES).values(run_id=row, kind=kind, subject=silence.subject, **said)
            connection.execute(made.on_conflict_do_update(index_elements=["run_id", "kind", "subject"], set_=said))

        self._database.write(work)

    def _said(self, kind: str, run: str, now: float) -> dict[str, Silence]:
        def work(connection: Connection) -> dict[str, Silence]:
            s = SILENCES.c
            current = s.run_id == latest(connection, run)
            counts = current | s.until.is_not(None) if kind == MUTED else current
            found = connection.execute(
                select(s.subject, s.said_by, s.reason, s.at, s.until)
                .join_from(SILENCES, RUNS)
                .where(RUNS.c.run == run, s.kind == kind, counts, s.until.is_(None) | (s.until > now))
                .order_by(s.run_id)
            )
            return {row.subject: Silence(*row) for row in found}

        return self._database.read(work)
