"""The list of runs for agents: what needs attention first."""

from __future__ import annotations

import datetime
import time
from typing import Any

from vario.errors import ConfigError
from vario.rules.base import counted
from vario.surfaces.fleet.judging import OK, Document
from vario.surfaces.fleet.row import Row, alarms, in_order
from vario.surfaces.mcp.catalogue import Catalogue, Listing, Told
from vario.surfaces.mcp.diagnosed import moment
from vario.surfaces.mcp.ids import Ref
from vario.surfaces.mcp.shapes import ListedRun, Open, RunList

SHOWN_FINDINGS = 3
EXPENDABLE = ("runs",)


def seconds_of(since: str | None) -> float | None:
    """A moment as an agent writes it: ISO 8601 (UTC where no zone stands there), or seconds since 1970.

    Raises:
        ConfigError: it is neither.
    """
    if since is None or not since.strip():
        return None
    try:
        return float(since)
    except ValueError:
        pass
    try:
        told = datetime.datetime.fromisoformat(since.strip())
        return (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(f"since={since}: a moment such as 2026-03-01T12:00:00Z, or seconds since 1970") from None


def list_answer(catalogue: Catalogue, since: str | None, limit: int) -> RunList:
    """Judge what has changed, and list it."""
    begun = time.time()
    before = catalogue.told(since)
    listing = catalogue.listing(seconds_of(since), wanted=before.withheld if before else frozenset())
    made = [_row(row, document, listing, catalogue) for row, document in in_order(listing.documents)]
    made += [
        ListedRun(
            id=catalogue.named(Ref(job.path, job.run)).id,
            path=job.path,
            name=job.name,
            status="pending",
            changed_at=moment(listing.changed_at.get(job.path)),
        )
        for job in listing.pending
    ]
    left = [f"{len(made) - limit} of {len(made)} runs: limit={limit}"] if len(made) > limit else []
    as_of = moment(begun) or ""
    catalogue.tell(as_of, Told(listing.there, frozenset(run.path for run in made[limit:])))
    gone = sorted(catalogue.named(ref).id for ref in (before.there if before else frozenset()) - listing.there)
    return RunList(
        as_of=as_of,
        total=len(made) + listing.unchanged,
        unchanged=listing.unchanged,
        pending=len(listing.pending),
        gone=gone,
        runs=made[:limit],
        left_out=left,
    )


def _row(row: Row, document: Document, listing: Listing, catalogue: Catalogue) -> ListedRun:
    ref = catalogue.named(Ref(row.path, row.run))
    findings: Any = document.get("findings", [])
    held = [f for f in findings if f["until"] is None and f["audience"] == "default"]
    return ListedRun(
        id=ref.id,
        path=row.path,
        name=row.name,
        status=row.status,  # type: ignore[arg-type]
        framework=row.framework,
        algorithm=row.algorithm,
        last_step=row.last_step,
        logged_steps=row.logged_steps,
        changed_at=moment(listing.changed_at.get(row.path)),
        action=row.action,
        confidence=row.confidence,
        trajectory=row.trajectory,
        open=Open(**{s: sum(f["severity"] == s for f in held) for s in ("critical", "warning", "info")}),
        findings=[
            f"{ref.id}/{f['name']}@{'none' if f['since'] is None else f['since']}"
            for f in (alarms(document) if row.status == OK else ())
            if f["until"] is None
        ][:SHOWN_FINDINGS],
        reason=row.reason,
    )


def list_text(answer: RunList) -> str:
    """The list in a few lines."""
    lines = [
        f"{counted(answer.total, 'run')}, {answer.unchanged} unchanged, {answer.pending} not judged yet; as of {answer.as_of}"
    ]
    for run in answer.runs:
        if run.action is None:
            lines.append(f"- {run.id}: {run.status}" + (f" ({run.reason})" if run.reason else ""))
            continue
        told = f"{run.open.critical} critical, {run.open.warning} warnings"
        first = f": {run.findings[0].partition('/')[2]}" if run.findings else ""
        lines.append(
            f"- {run.id} at step {run.last_step}: {run.action} ({run.confidence}), {run.trajectory}, {told}{first}"
        )
    lines += [f"gone: {one}, which was there at your last list" for one in answer.gone]
    lines += [f"left out: {told}; ask with since={answer.as_of} for the rest" for told in answer.left_out]
    return "\n".join(lines)
