"""A run's diagnosis for agents: brief, whole, or only what has moved since a step."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Literal

from vario.errors import ConfigError
from vario.rules.base import counted, number
from vario.run import Run
from vario.surfaces import sentences
from vario.surfaces.mcp.ids import Ref, finding_id
from vario.surfaces.mcp.shapes import (
    BestStep,
    ChangeShape,
    DiagnosisAnswer,
    FindingShape,
    NoteShape,
    RunHead,
    VerdictShape,
)
from vario.surfaces.mcp.shelf import Held
from vario.verdict import Diagnosis, Finding, Verdict, to_json
from vario.verdict.changes import stands
from vario.verdict.serial import Json

EVIDENCE = 3
"""Sentences of evidence that a brief finding carries."""
Moved = Literal["opened", "changed", "resolved"]
EXPENDABLE = ("notes", "cannot_see", "warnings", "findings", "verdict.narrative")
OF_THE_WHOLE = tuple(
    f"document.{place}"
    for place in (
        "readings", "run.metrics", "unknown", "run.unmapped", "run.unsettled", "verdict.upside.fan", "run.events",
        "notes", "suppressed", "verdict.phases", "findings", "verdict.experiments", "run.warnings", "verdict",
    )
)  # fmt: skip
"""What a whole diagnosis loses first where it is too long."""


def moment(seconds: float | None) -> str | None:
    """A time of change as it is written everywhere: UTC, ISO 8601."""
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).isoformat(timespec="milliseconds")


def head(ref: Ref, held: Held, run: Run) -> RunHead:
    """Which run it is, and how far it was read."""
    return RunHead(
        id=ref.id,
        path=run.path,
        framework=run.framework,
        framework_version=run.framework_version,
        algorithm=run.algorithm,
        first_step=run.first_step,
        last_step=run.last_step,
        logged_steps=int(run.logged_steps.size),
        changed_at=moment(held.changed_at),
    )


def best(verdict: Verdict) -> BestStep | None:
    """The best step so far."""
    found = verdict.best_checkpoint
    if found is None:
        return None
    return BestStep(
        step=found.step,
        by=found.by,
        value=found.value,
        between=list(found.interval),
        saved=found.saved,
        nearest_saved=found.nearest_saved,
    )


def finding_shape(ref: Ref, finding: Finding, *, brief: bool = True) -> FindingShape:
    """A finding under its id."""
    return FindingShape(
        id=finding_id(ref, finding),
        name=finding.name,
        code=finding.code,
        severity=finding.severity,  # type: ignore[arg-type]
        confidence=finding.confidence,  # type: ignore[arg-type]
        since=finding.since,
        detected_at=finding.detected_at,
        until=finding.until,
        summary=finding.summary,
        evidence=list(finding.evidence[:EVIDENCE] if brief else finding.evidence),
        ruled_out=list(finding.excluded[:EVIDENCE] if brief else finding.excluded),
        changes=[
            ChangeShape(knob=c.knob, key=c.key, current=c.current, suggested=c.suggested, why=c.why, assumed=c.assumed)
            for c in finding.changes
        ],
        explains=[finding_id(ref, s) for s in finding.symptoms],
        samples=[] if finding.read is None else [f"{step}/{place}" for step, place in finding.read.samples],
    )


def diagnosis_answer(
    ref: Ref, held: Held, diagnosis: Diagnosis, before: Diagnosis | None, since: int | None, *, full: bool
) -> DiagnosisAnswer:
    """The answer.

    Args:
        before: the diagnosis as it stood at `since`; None where nothing was logged then, or nothing was asked.
        since: leave out findings that have not moved after it.
        full: with `diagnosis/v1` beside it.
    """
    shown = [f for f in diagnosis.findings if full or f.audience == "default"]
    hidden = len(diagnosis.findings) - len(shown)
    if since is None:
        findings = [finding_shape(ref, f, brief=not full) for f in shown]
    else:
        findings = [f for f in _moved(ref, diagnosis, before) if full or f.name not in _pedantic(diagnosis, before)]
    verdict = diagnosis.verdict
    answer = DiagnosisAnswer(
        run=head(ref, held, diagnosis.run),
        at_step=diagnosis.run.last_step,
        verdict=VerdictShape(
            action=verdict.action,  # type: ignore[arg-type]
            confidence=verdict.confidence,  # type: ignore[arg-type]
            trajectory=verdict.trajectory,
            regime=verdict.regime,
            narrative=verdict.narrative,
            why=verdict.why,
            best_checkpoint=best(verdict),
            upside=sentences.upside(verdict),
            risk=verdict.risk.text,
        ),
        findings=findings,
        notes=[NoteShape(name=n.name, text=n.text) for n in diagnosis.notes],
        cannot_see=sentences.unseen(diagnosis),
        unknown_checks=len(diagnosis.unknown),
        warnings=[*sentences.complaints(diagnosis), *held.warnings],
        left_out=[f"{hidden} findings for the pedantic audience: detail=full has them"] if hidden else [],
    )
    # what was not asked for is not there, rather than null
    if since is not None:
        answer.since = since
    if full:
        answer.document = dict(_document(ref, diagnosis))
    return answer


def _document(ref: Ref, diagnosis: Diagnosis) -> dict[str, Json]:
    document = to_json(diagnosis)
    told = document["findings"]
    assert isinstance(told, list)
    for one, finding in zip(told, diagnosis.findings, strict=True):
        assert isinstance(one, dict)
        one["id"] = finding_id(ref, finding)
    return document


def _pedantic(*looks: Diagnosis | None) -> set[str]:
    return {f.name for look in looks if look is not None for f in look.findings if f.audience != "default"}


def _numbered(findings: Sequence[Finding]) -> Iterator[tuple[tuple[str, int], Finding, Finding | None]]:
    """Findings with those folded beneath them: a name that comes again has the next number; the one above, if any."""
    counts: dict[str, int] = {}
    pairs: list[tuple[Finding, Finding | None]] = [(f, None) for f in findings]
    pairs += [(s, f) for f in findings for s in f.symptoms]
    for finding, above in sorted(pairs, key=lambda pair: (pair[0].name, pair[0].since or 0)):
        counts[finding.name] = counts.get(finding.name, 0) + 1
        yield (finding.name, counts[finding.name]), finding, above


def _moved(ref: Ref, now: Diagnosis, before: Diagnosis | None) -> list[FindingShape]:
    """What opened, changed or ended between two looks; what weighs most comes first, as in the diagnosis."""
    earlier = {key: (f, above) for key, f, above in _numbered(before.findings)} if before is not None else {}
    made: list[FindingShape] = []
    for key, finding, above in _numbered(now.findings):
        was = earlier.pop(key, None)
        if above is not None and was is None:
            continue  # told with what explains it
        moved, told = _movement(finding, above, was)
        if moved is not None:
            shape = finding_shape(ref, finding).model_copy(update={"moved": moved, "was": told})
            if above is not None:
                shape = shape.model_copy(update={"explained_by": finding_id(ref, above), "changes": []})
            made.append(shape)
    for finding, above in earlier.values():
        if above is None and finding.until is None:
            gone = {"moved": "resolved", "was": f"{_state(finding)}; it is no longer found"}
            made.append(finding_shape(ref, finding).model_copy(update=gone))
    order = {f.name: place for place, f in enumerate(now.findings)}
    return sorted(made, key=lambda f: order.get(f.name, len(order)))


def _movement(
    now: Finding, above: Finding | None, was: tuple[Finding, Finding | None] | None
) -> tuple[Moved | None, str | None]:
    if was is None:
        return "opened", None
    before, under = was
    if before.until is None and now.until is not None:
        return "resolved", _state(before)
    if before.until is not None and now.until is None:
        return "opened", f"passed by step {before.until}"
    if (before.severity, before.confidence) != (now.severity, now.confidence):
        return "changed", _state(before)
    if (above is None) != (under is None):
        told = f"explained by {under.name}" if under is not None else f"{_state(before)}, by itself"
        return "changed", told + ("" if above is None else f"; now explained by {above.name}")
    return None, None


def _state(finding: Finding) -> str:
    return f"{finding.severity}, {finding.confidence} confidence"


def diagnosis_text(answer: DiagnosisAnswer) -> str:
    """The answer in a few lines."""
    run, verdict = answer.run, answer.verdict
    lines = [
        f"{run.id} ({run.framework}, steps {run.first_step} to {run.last_step}): "
        f"{verdict.action} ({verdict.confidence} confidence). {verdict.narrative}"
    ]
    found = verdict.best_checkpoint
    if found is not None:
        lines.append(f"best: step {found.step} by {found.by} = {number(found.value)}")
    for finding in answer.findings:
        moved = f"{finding.moved} " if finding.moved else ""
        passed = f", passed by step {finding.until}" if finding.until is not None else ""
        if finding.explained_by is not None:
            lines.append(f"- {finding.id} is now explained by {finding.explained_by}: no finding of its own any more")
            continue
        lines.append(
            f"- {moved}{finding.severity} {finding.id} ({finding.confidence} confidence{passed}): "
            f"{finding.evidence[0] if finding.evidence else finding.summary}"
        )
        if finding.severity != "info" and finding.until is None:
            lines += [f"    change {_turn(change)}" for change in finding.changes[:2]]
    if not answer.findings:
        lines.append("- no finding" if answer.since is None else f"- no finding has moved after step {answer.since}")
    wanting = f"; what would open the most of them: {answer.cannot_see[0]}" if answer.cannot_see else ""
    lines.append(f"{counted(answer.unknown_checks, 'check')} could not run{wanting}")
    return "\n".join([*lines, *(f"! {warning}" for warning in answer.warnings[:3])])


def _turn(change: ChangeShape) -> str:
    now = "" if change.current is None else f" ({stands(change.current, assumed=change.assumed)})"
    to = "" if change.suggested is None else f" to {change.suggested}"
    return f"{change.key or change.knob}{now}{to}: {change.why}"


def check_since(since: int | None, step: int | None) -> None:
    """Both are steps of one run: what moved lies between them.

    Raises:
        ConfigError: they stand the wrong way round.
    """
    if since is not None and step is not None and since >= step:
        raise ConfigError(f"since={since} is not before step={step}: give an earlier step")
