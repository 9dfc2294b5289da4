"""What vario did by itself, with the evidence; and its own failures, counted."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vario.surfaces.state.database import Database
from vario.surfaces.state.schema import ACTS, FAILURES, ensured, insert, latest


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done, or would have been.

    Attributes:
        action: what it was, as in `stop`.
        subject, step, severity, confidence, evidence: of the finding that called for it.
        dry: nothing was done; it is only told what would have been.
        at: seconds since 1970.
        outcome: what came of it, in words.
    """

    action: str
    subject: str
    step: int | None
    severity: str
    confidence: str
    evidence: tuple[str, ...]
    dry: bool
    at: float
    outcome: str


class Acts:
    """Acts and failures; a part of `State`."""

    _database: Database

    def act(self, run: str, act: Act) -> None:
        """Keep an act.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> None:
            connection.execute(
                ACTS.insert().values(
                    run_id=ensured(connection, run),
                    action=act.action,
                    subject=act.subject,
                    step=None if act.step is None else int(act.step),
                    severity=act.severity,
                    confidence=act.confidence,
                    evidence=json.dumps(act.evidence),
                    dry=act.dry,
                    at=act.at,
                    outcome=act.outcome,
                )
            )

        self._database.write(work)

    def acts(self, run: str) -> list[Act]:
        """What was done about the run, oldest first.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> list[Act]:
            a = ACTS.c
            found = connection.execute(
                select(a.action, a.subject, a.step, a.severity, a.confidence, a.evidence, a.dry, a.at, a.outcome)
                .where(a.run_id == latest(connection, run))
                .order_by(a.id)
            )
            return [
                Act(*row[:5], evidence=tuple(json.loads(row.evidence)), dry=row.dry, at=row.at, outcome=row.outcome)
                for row in found
            ]

        return self._database.read(work)

    def count(self, run: str, what: str, now: float) -> int:
        """Count a failure, told by a sentence; how often it has happened to this run, this time included.

        Raises:
            StateError: the database failed.
        """

        def work(connection: Connection) -> int:
            row = ensured(connection, run)
            f = FAILURES.c
            first = insert(connection, FAILURES).values(run_id=row, what=what, count=1, first_at=now, last_at=now)
            connection.execute(
                first.on_conflict_do_update(
                    index_elements=["run_id", "what"], set_={"count": f["count"] + 1, "last_at": now}
                )
            )
            here = (f.run_id == row) & (f.what == what)
            return connection.scalar(select(f["count"]).where(here)) or 1

        return self._database.write(work)
