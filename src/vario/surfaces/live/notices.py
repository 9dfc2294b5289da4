"""What changed from one look to the next: findings that open, worsen and resolve, each by its cause and once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from vario.verdict import Diagnosis, Finding

SEVERITIES = ("info", "warning", "critical")
CONFIDENCES = ("low", "medium", "high")
DIGITS = 6


class Kind(StrEnum):
    """What a notice tells."""

    OPENED = "opened"
    WORSENED = "worsened"
    SURER = "surer"
    RESOLVED = "resolved"
    STALLED = "stalled"
    RESUMED = "resumed"
    ENDED = "ended"
    DIED = "died"
    LOST = "lost"
    REPLACED = "replaced"
    REVIEW = "review-due"
    TROUBLE = "trouble"


OF_FINDINGS = (Kind.OPENED, Kind.WORSENED, Kind.SURER, Kind.RESOLVED)


@dataclass(frozen=True, slots=True)
class Standing:
    """A finding as it stood when it was told last; what is remembered of it across restarts.

    `since` is the estimated first step of the change at the time, `step` the look at which this was told.
    """

    name: str
    severity: str
    confidence: str
    since: int | None
    step: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something changed, and somebody may want to know.

    Attributes:
        kind: what happened.
        run: the run's name as the watcher shows it.
        subject: the finding's name, or a word for what else happened (`run-stalled`, `review-due`, …): with `run` it
            is what alerts are deduplicated by.
        step: the step of the look, None before the first row.
        severity, confidence: as in a finding.
        title: one line. text: some lines more, with evidence and what to change.
        at: seconds since 1970.
        finding: the finding as it stands; None for other kinds, and for one that has gone without a trace.
    """

    kind: Kind
    run: str
    subject: str
    step: int | None
    severity: str
    confidence: str
    title: str
    text: str
    at: float
    finding: Finding | None = None


def standing(finding: Finding, step: int) -> Standing:
    """A finding as it stands now."""
    return Standing(finding.name, finding.severity, finding.confidence, finding.since, step)


def open_in(diagnosis: Diagnosis) -> dict[str, Finding]:
    """Top-level findings of the default audience that hold at the last look, by name."""
    return {f.name: f for f in diagnosis.findings if f.until is None and f.audience == "default"}


def changes(run: str, told: Mapping[str, Standing], diagnosis: Diagnosis, at: float) -> Iterator[Notice]:
    """What a diagnosis tells beyond what has been told.

    A finding that is now beneath a cause has not resolved: the cause speaks for it. One that was told worsens when
    its severity rises, and is surer when its confidence does: whoever asks for a confidence is told when it is reached.

    Args:
        run: the run's name.
        told: what stands as told and not resolved, by name.
        diagnosis: the run as it stands.
        at: the time, in seconds since 1970.
    """
    step = diagnosis.run.last_step
    now = open_in(diagnosis)
    beneath = {s.name: f for f in now.values() for s in _symptoms(f.symptoms)}
    for name, finding in now.items():
        before = told.get(name)
        if before is None:
            yield _notice(Kind.OPENED, run, finding, step, at)
        elif SEVERITIES.index(finding.severity) > SEVERITIES.index(before.severity):
            yield _notice(Kind.WORSENED, run, finding, step, at)
        elif CONFIDENCES.index(finding.confidence) > CONFIDENCES.index(before.confidence):
            yield _notice(Kind.SURER, run, finding, step, at)
    passed = {f.name: f for f in diagnosis.findings if f.until is not None}
    for name, before in told.items():
        if name in now or name in beneath:
            continue
        ended = passed.get(name)
        last = "" if ended is None or ended.until is None else f" at step {ended.until}"
        yield Notice(
            Kind.RESOLVED,
            run,
            name,
            step,
            "info",
            before.confidence,
            f"{name} has passed{last}",
            f"It was told at step {before.step} as {before.severity}.",
            at,
            ended,
        )


def _symptoms(findings: Iterable[Finding]) -> Iterator[Finding]:
    for finding in findings:
        yield finding
        yield from _symptoms(finding.symptoms)


def _notice(kind: Kind, run: str, finding: Finding, step: int | None, at: float) -> Notice:
    since = f" since step {finding.since}" if finding.since is not None else ""
    lines = list(finding.evidence[:3])
    if finding.symptoms:
        lines.append(f"It explains {', '.join(s.name for s in finding.symptoms[:6])}.")
    for change in finding.changes[:2]:
        if change.key is not None:
            of = " the default" if change.assumed else ""
            now = "" if change.current is None else f" from{of} {_plain(change.current)}"
            to = "" if change.suggested is None else f" to {_plain(change.suggested)}"
            lines.append(f"Change {change.key}{now}{to}: {change.why}.")
    return Notice(
        kind,
        run,
        finding.name,
        step,
        finding.severity,
        finding.confidence,
        f"{finding.name}{since} ({finding.severity}, {finding.confidence} confidence)",
        "\n".join(lines),
        at,
        finding,
    )


def _plain(value: object) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
