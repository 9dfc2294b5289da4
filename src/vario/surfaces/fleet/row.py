"""A run as a row of the table, made from its document, and the order in which runs need attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vario.surfaces.fleet.judging import FAILED, OK, UNREADABLE, Document

ACTIONS = ("stop", "intervene", "cannot-tell", "continue")
SEVERITIES = ("info", "warning", "critical")
CONFIDENCES = ("low", "medium", "high")
STATUSES = (OK, FAILED, UNREADABLE)


@dataclass(frozen=True, slots=True)
class Row:
    """What the table shows of a run. Names and order of the fields are the columns of the Parquet file.

    Attributes:
        name: the path below the root. finding: the one that matters most, of those at warning or above.
        stake_hours: logged hours since the first finding began, or since the best checkpoint where the advice is not to
            go on; `stake_device_hours` the same times the devices, where their number is known.
        change_key: the first change that is prescribed, in the framework's own key; `change_now`, `change_to` as text.
        findings: all at warning or above for the default audience, the first at the top.
    """

    name: str
    path: str
    run: str | None
    status: str
    reason: str | None
    framework: str | None = None
    framework_version: str | None = None
    algorithm: str | None = None
    last_step: int | None = None
    logged_steps: int | None = None
    action: str | None = None
    confidence: str | None = None
    trajectory: str | None = None
    regime: str | None = None
    best_step: int | None = None
    best_by: str | None = None
    best_value: float | None = None
    finding: str | None = None
    severity: str | None = None
    finding_confidence: str | None = None
    since: int | None = None
    detected_at: int | None = None
    evidence: str | None = None
    change_knob: str | None = None
    change_key: str | None = None
    change_now: str | None = None
    change_to: str | None = None
    change_why: str | None = None
    change_assumed: bool | None = None
    stake_hours: float | None = None
    stake_device_hours: float | None = None
    findings: tuple[str, ...] = ()
    narrative: str | None = None
    seconds: float | None = None
    fingerprint: str | None = None


def row_of(document: Document) -> Row:
    """The row of a document."""
    fleet: Any = document["fleet"]
    told = {key: fleet.get(key) for key in ("name", "path", "run", "status", "reason", "seconds", "fingerprint")}
    if fleet["status"] != OK:
        return Row(**told)
    run: Any = document["run"]
    verdict: Any = document["verdict"]
    best = verdict["best_checkpoint"] or {}
    loud = alarms(document)
    top: Mapping[str, Any] = loud[0] if loud else {}
    change: Mapping[str, Any] = next(iter(top.get("changes", ())), {})
    hours, device_hours = _stake(verdict)
    return Row(
        **told,
        framework=run["framework"],
        framework_version=run["framework_version"],
        algorithm=run["algorithm"],
        last_step=run["last_step"],
        logged_steps=run["logged_steps"],
        action=verdict["action"],
        confidence=verdict["confidence"],
        trajectory=verdict["trajectory"],
        regime=verdict["regime"],
        best_step=best.get("step"),
        best_by=best.get("by"),
        best_value=best.get("value"),
        finding=top.get("name"),
        severity=top.get("severity"),
        finding_confidence=top.get("confidence"),
        since=top.get("since"),
        detected_at=top.get("detected_at"),
        evidence=next(iter(top.get("evidence", ())), None),
        change_knob=change.get("knob"),
        change_key=change.get("key"),
        change_now=_word(change.get("current")),
        change_to=_word(change.get("suggested")),
        change_why=change.get("why"),
        change_assumed=change.get("assumed"),
        stake_hours=hours,
        stake_device_hours=device_hours,
        findings=tuple(f["name"] for f in loud),
        narrative=verdict["narrative"],
    )


def alarms(document: Document) -> list[Mapping[str, Any]]:
    """Findings at warning or above for the default audience: what holds still first, then by weight."""
    findings: Any = document.get("findings", [])
    loud = [f for f in findings if f["severity"] != "info" and f["audience"] == "default"]
    return sorted(
        loud,
        key=lambda f: (
            f["until"] is not None,
            -SEVERITIES.index(f["severity"]),
            -CONFIDENCES.index(f["confidence"]),
        ),
    )


def _stake(verdict: Mapping[str, Any]) -> tuple[float | None, float | None]:
    cost = verdict["risk"]["cost"]
    if cost["hours_since_first_finding"] is not None:
        return cost["hours_since_first_finding"], cost["device_hours_since_first_finding"]
    if verdict["action"] == "continue":
        return None, None
    return cost["hours_since_best"], cost["device_hours_since_best"]


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def needs_attention(row: Row) -> bool:
    """Whether somebody should look at it now."""
    return row.status == OK and (row.action in ("stop", "intervene") or row.finding is not None)


def in_order(documents: Sequence[Document]) -> list[tuple[Row, Document]]:
    """Rows with their documents: what needs attention first; what could not be judged at the end."""
    return sorted(((row_of(d), d) for d in documents), key=lambda pair: _urgency(pair[0]))


def _urgency(row: Row) -> tuple[object, ...]:
    if row.status != OK:
        return (STATUSES.index(row.status), row.name, row.path, row.run or "")
    stake = row.stake_device_hours if row.stake_device_hours is not None else row.stake_hours
    return (
        0,
        ACTIONS.index(row.action or "continue"),
        -SEVERITIES.index(row.severity or "info"),
        -CONFIDENCES.index(row.confidence or "low"),
        -(stake or 0.0),
        row.name,
        row.path,
        row.run or "",
    )
