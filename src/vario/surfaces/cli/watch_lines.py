"""`vario watch --json`: what changed and how each run stands, a JSON document a line (watch/v1)."""

from __future__ import annotations

import json
from typing import Any

from vario.surfaces.live.notices import Notice, open_in
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.privacy import masked
from vario.verdict.serial import finding_json, plain

SCHEMA = "watch/v1"


def notice_json(notice: Notice, at: float | None, **more: object) -> str:
    """A notice on one line.

    Args:
        at: seconds since 1970; None where a log does not tell. more: fields beside the usual ones.
    """
    return _line(
        {
            "schema": SCHEMA,
            "is": "notice",
            "run": notice.run,
            "kind": notice.kind.value,
            "subject": notice.subject,
            "severity": notice.severity,
            "confidence": notice.confidence,
            "step": notice.step,
            "title": masked(notice.title),
            "text": masked(notice.text),
            "at": at,
            "finding": None if notice.finding is None else finding_json(notice.finding),
            **more,
        }
    )


def run_json(watched: WatchedRun) -> str:
    """How a run stands, on one line."""
    diagnosis, run = watched.diagnosis, watched.run
    verdict = None if diagnosis is None else diagnosis.verdict
    return _line(
        {
            "schema": SCHEMA,
            "is": "run",
            "run": watched.name,
            "status": watched.status.value,
            "action": None if verdict is None else verdict.action,
            "confidence": None if verdict is None else verdict.confidence,
            "trajectory": None if verdict is None else verdict.trajectory,
            "regime": None if verdict is None else verdict.regime,
            "step": None if run is None else run.last_step,
            "rows": watched.rows,
            "seconds_per_row": watched.seconds_per_row,
            "last_row_at": watched.last_row_at,
            "open": [] if diagnosis is None else [
                {"name": f.name, "severity": f.severity, "confidence": f.confidence, "since": f.since}
                for f in open_in(diagnosis).values()
            ],
        }
    )  # fmt: skip


def rehearsed_json(run: str, alerts: int, acts: int) -> str:
    """What a rehearsal came to, on one line."""
    return _line({"schema": SCHEMA, "is": "rehearsal", "run": run, "alerts": alerts, "acts": acts})


def _line(document: dict[str, Any]) -> str:
    return json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
