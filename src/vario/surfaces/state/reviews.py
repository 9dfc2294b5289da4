"""Who read completions when, and what people said of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vario.samples import Mark
from vario.surfaces.state.database import Database
from vario.surfaces.state.schema import MARKS, REVIEWS, ensured, insert, latest

LARGEST = 2**63 - 1
"""Of the numbers that a database holds. No completion has a larger one, whatever a file of marks says."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Somebody read completions: the run's step then, the time in seconds since 1970, and who it was."""

    step: int
    at: float
    by: str


class Reviews:
    """Reviews and marks; a part of `State`."""

    _database: Database

    def reviewed(self, run: str, step: int, at: float, by: str) -> None:
        """Somebody has read completions.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> None:
            row = ensured(connection, run)
            connection.execute(REVIEWS.insert().values(run_id=row, step=int(step), at=at, said_by=by))

        self._database.write(work)

    def last_review(self, run: str) -> Reviewed | None:
        """When completions of the run were read last; None: never.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> Reviewed | None:
            r = REVIEWS.c
            found = connection.execute(
                select(r.step, r.at, r.said_by)
                .where(r.run_id == latest(connection, run))
                .order_by(r.id.desc())
                .limit(1)
            ).one_or_none()
            return None if found is None else Reviewed(*found)

        return self._database.read(work)

    def put_marks(self, run: str, marks: Iterable[Mark]) -> None:
        """Keep what people said of completions; of one that is marked already, the new word counts.

        Raises:
            StateError: the database failed; none of them was kept.
        """
        rows = {
            (m.step, m.number): {"word": m.word, "reward": m.reward, "known_at": m.known_at}
            for m in marks
            if max(abs(m.step), abs(m.number), abs(m.known_at or 0)) <= LARGEST
        }
        if not rows:
            return

        def work(connection: Connection) -> None:
            of_run = ensured(connection, run)
            made = insert(connection, MARKS)
            made = made.on_conflict_do_update(
                index_elements=["run_id", "step", "number"],
                set_={name: made.excluded[name] for name in ("word", "reward", "known_at")},
            )
            # in one order everywhere: two watchers that put the same marks wait, and never for each other
            connection.execute(
                made, [{"run_id": of_run, "step": s, "number": n, **rows[s, n]} for s, n in sorted(rows)]
            )

        self._database.write(work)

    def marks(self, run: str) -> tuple[Mark, ...]:
        """What people said of completions, by step and number.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> tuple[Mark, ...]:
            m = MARKS.c
            found = connection.execute(
                select(m.step, m.number, m.word, m.reward, m.known_at)
                .where(m.run_id == latest(connection, run))
                .order_by(m.step, m.number)
            )
            return tuple(Mark(*row) for row in found)

        return self._database.read(work)
