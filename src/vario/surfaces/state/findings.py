"""What was told of a run: findings that stand, and the history of notices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from vario.surfaces.live.notices import OF_FINDINGS, Kind, Notice, Standing
from vario.surfaces.state.database import Database
from vario.surfaces.state.schema import (
    ACKNOWLEDGED,
    NOTICES,
    RUNS,
    SILENCES,
    STANDINGS,
    begin,
    ensured,
    generation,
    insert,
    latest,
    locked,
)

NEWEST = 10_000
"""Notices that are kept of a run: as many changes as nobody reads, and a few MiB."""
ENDS = {Kind.RESUMED: ("run-stalled", Kind.LOST.value)}
"""Subjects that are over with a notice of another kind."""
MOST_TEXT = 10_000
"""Characters of a notice's title, and of its text, that are kept."""


@dataclass(frozen=True, slots=True)
class Past:
    """A notice of the past.

    Attributes:
        generation: which run at this place it was about: 1 for the first, more for those that replaced it.
        kind: of the notice; others are those of `Notice`.
    """

    generation: int
    kind: str
    subject: str
    step: int | None
    severity: str
    confidence: str
    title: str
    text: str
    at: float


class Findings:
    """What was told; a part of `State`."""

    _database: Database

    def told(self, run: str) -> dict[str, Standing]:
        """Findings that stand as told and have not resolved, by name.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> dict[str, Standing]:
            t = STANDINGS.c
            found = connection.execute(
                select(t.name, t.severity, t.confidence, t.since, t.step).where(t.run_id == latest(connection, run))
            )
            return {row.name: Standing(row.name, row.severity, row.confidence, row.since, row.step) for row in found}

        return self._database.read(work)

    def remember(self, run: str, notices: Iterable[Notice]) -> None:
        """Keep what was told: findings as they stand now, and every notice in the history.

        What another watcher of the run has told already is there once. A finding that resolves stands no more, and is
        acknowledged no more. Of the history the newest `NEWEST` notices of a place are kept.

        Args:
            run: the place.
            notices: what was told.

        Raises:
            StateError: the database failed; nothing of it was kept.
        """
        new = list(notices)
        if not new:
            return

        def work(connection: Connection) -> None:
            row = locked(connection, run)
            for notice in new:
                if notice.kind in OF_FINDINGS:
                    changed = (
                        _resolve(connection, row, notice)
                        if notice.kind is Kind.RESOLVED
                        else _stand(connection, row, notice)
                    )
                else:
                    changed = not _is_told(connection, row, notice)
                    for subject in ENDS.get(notice.kind, ()):
                        _speak_of(connection, row, subject)
                if changed:
                    _add(connection, row, notice)
            _keep_newest(connection, run)

        self._database.write(work)

    def over(self, run: str, subject: str) -> None:
        """End what was said of a finding until it resolves; for a surface that tells nobody, and sees that it has.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> None:
            row = latest(connection, run)
            if row is not None:
                _speak_of(connection, row, subject)

        self._database.write(work)

    def history(self, run: str, most: int = NEWEST) -> list[Past]:
        """The newest notices of a place, oldest first; those of runs that stood there before are among them.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> list[Past]:
            n = NOTICES.c
            found = connection.execute(
                select(RUNS.c.generation, n.kind, n.subject, n.step, n.severity, n.confidence, n.title, n.text, n.at)
                .join_from(NOTICES, RUNS)
                .where(RUNS.c.run == run)
                .order_by(n.id.desc())
                .limit(most)
            )
            return [Past(*row) for row in found][::-1]

        return self._database.read(work)

    def generation(self, run: str) -> int:
        """How many runs have stood at the place, this one included: 1 for the first.

        Raises:
            StateError: the database failed.
        """
        return self._database.read(lambda connection: generation(connection, run))

    def replaced(self, run: str, was: int) -> int:
        """Another run stands at the place. What was told, sent and said of the old one counts no more; it stays in history.

        Args:
            run: the place. was: the generation of the run that was followed: where another watcher has seen the change
                before, it has raised the number already, and it is not raised again.

        Returns:
            The generation of the run that stands there now.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> int:
            ensured(connection, run)
            if generation(connection, run) == was:
                begin(connection, run, was + 1)
            return generation(connection, run)

        return self._database.write(work)


def _stand(connection: Connection, row: int, notice: Notice) -> bool:
    """Let a finding stand as it was told; whether that is news."""
    since = notice.finding.since if notice.finding is not None else None
    now = {
        "severity": notice.severity,
        "confidence": notice.confidence,
        "since": None if since is None else int(since),
        "step": int(notice.step or 0),
    }
    t = STANDINGS.c
    here = (t.run_id == row) & (t.name == notice.subject)
    before = connection.execute(select(t.severity, t.confidence, t.since, t.step).where(here)).one_or_none()
    if before is not None and before._asdict() == now:
        return False
    made = insert(connection, STANDINGS).values(run_id=row, name=notice.subject, **now)
    connection.execute(made.on_conflict_do_update(index_elements=["run_id", "name"], set_=now))
    return True


def _resolve(connection: Connection, row: int, notice: Notice) -> bool:
    """Let a finding stand no more, nor what was said of it until then; whether it stood."""
    _speak_of(connection, row, notice.subject)
    t = STANDINGS.c
    return connection.execute(delete(STANDINGS).where(t.run_id == row, t.name == notice.subject)).rowcount > 0


def _speak_of(connection: Connection, row: int, subject: str) -> None:
    """End what was to be silent until the subject was over."""
    s = SILENCES.c
    ends = (s.kind == ACKNOWLEDGED) | s.until.is_(None)
    connection.execute(delete(SILENCES).where(s.run_id == row, s.subject == subject, ends))


def _is_told(connection: Connection, row: int, notice: Notice) -> bool:
    n = NOTICES.c
    same = (n.kind == notice.kind.value) & (n.subject == notice.subject) & (n.text == notice.text[:MOST_TEXT])
    at = n.step.is_(None) if notice.step is None else n.step == int(notice.step)
    return connection.scalar(select(n.id).where(n.run_id == row, same, at).limit(1)) is not None


def _add(connection: Connection, row: int, notice: Notice) -> None:
    connection.execute(
        NOTICES.insert().values(
            run_id=row,
            kind=notice.kind.value,
            subject=notice.subject,
            step=None if notice.step is None else int(notice.step),
            severity=notice.severity,
            confidence=notice.confidence,
            title=notice.title[:MOST_TEXT],
            text=notice.text[:MOST_TEXT],
            at=notice.at,
        )
    )


def _keep_newest(connection: Connection, run: str) -> None:
    n = NOTICES.c
    of_place = n.run_id.in_(select(RUNS.c.id).where(RUNS.c.run == run))
    beyond = select(n.id).where(of_place).order_by(n.id.desc()).offset(NEWEST).limit(1).scalar_subquery()
    connection.execute(delete(NOTICES).where(of_place, n.id <= beyond))
