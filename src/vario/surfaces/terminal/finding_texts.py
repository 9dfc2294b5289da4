"""A finding in a row, and all of it."""

from __future__ import annotations

from rich.text import Text

from vario.rules.base import number
from vario.surfaces.live.snapshot import RunView
from vario.surfaces.terminal.columns import cells, fit
from vario.surfaces.terminal.inline import ACKNOWLEDGED, NEWS, PASSED, SEVERITY, joined, line, wrapped
from vario.surfaces.terminal.times import moment
from vario.verdict import Finding
from vario.verdict.changes import stands


def row(view: RunView, finding: Finding, now: float, width: int) -> Text:
    """A finding in the list: severity, name, since when, seen when, how sure, and what was told of it last."""
    known = finding.name in view.acknowledged
    sign, style = SEVERITY[finding.severity]
    if finding.until is not None or known:
        sign, style = PASSED if finding.until is not None else ACKNOWLEDGED
    parts = []
    if finding.since is not None:
        parts.append(f"since {finding.since}")
    if finding.until is not None:
        parts.append(f"passed by {finding.until}")
    elif finding.detected_at is not None:
        parts.append(f"seen {finding.detected_at}")
    if known:
        parts.append("acknowledged")
    elif finding.until is None:
        parts.append(finding.confidence)
    news = view.news.get(finding.name)
    if news is not None and not known:
        parts.append(f"{NEWS[news[0]]} {moment(news[1], now)}")
    if finding.symptoms:
        parts.append(f"explains {len(finding.symptoms)}")
    name = min(max(20, width // 2 - 4), 33)
    text = line((sign, style), " ", (fit(finding.name, name), style if style != "cyan" else ""))
    for part in parts:
        if cells(text.plain) + 2 + cells(part) > width:
            break
        text.append("  ").append(part, "dim")
    return text


def detail(view: RunView, finding: Finding, now: float, width: int) -> Text:
    """Everything that is known of a finding: evidence, what was ruled out, causes, and what to change."""
    sign, style = SEVERITY[finding.severity]
    lines = [line((f"{sign} {finding.severity}  {finding.name}", style), (f"  {finding.code}", "dim"))]
    when = [f"since step {finding.since}"] if finding.since is not None else []
    when += [f"seen at step {finding.detected_at}"] if finding.detected_at is not None else []
    when += [f"passed by step {finding.until}"] if finding.until is not None else []
    when.append(f"{finding.confidence} confidence")
    news = view.news.get(finding.name)
    if news is not None:
        when.append(f"{NEWS[news[0]]} {moment(news[1], now)}")
    lines += wrapped(", ".join(when), width)
    if finding.name in view.acknowledged:
        lines += wrapped(f"acknowledged: {view.acknowledged[finding.name]}", width, style="bold")
    lines += wrapped(finding.summary, width)
    for evidence in finding.evidence:
        lines += wrapped(evidence, width, "  ", "- ")
    for change in finding.changes if finding.severity != "info" else ():
        key = change.key or f"{change.knob} (no key of this name in {view.framework})"
        now_ = "" if change.current is None else f" ({stands(_setting(change.current), assumed=change.assumed)})"
        to = "" if change.suggested is None else f" to {_setting(change.suggested)}"
        lines += wrapped(f"change {key}{now_}{to}: {change.why}", width, "  ", style="bold")
    for text in finding.excluded:
        lines += wrapped(f"ruled out: {text}", width, "  ")
    if finding.causes and finding.severity != "info":
        lines += wrapped(f"likely causes: {'; '.join(finding.causes)}", width, "  ")
    if finding.dossier is not None:
        lines += wrapped(f"the batch: {finding.dossier.text}", width, "  ")
    if finding.read is not None:
        some = " ".join(f"{step}/{n}" for step, n in finding.read.samples)
        lines += wrapped(
            f"read {finding.read.what} ({some}): vario samples {view.path} --finding {finding.name}", width, "  "
        )
    for symptom in finding.symptoms:
        told = f": {symptom.evidence[0]}" if symptom.evidence else ""
        lines += wrapped(f"explains {symptom.name}{told}", width, "  ")
    for before in finding.precedes:
        lines += wrapped(f"often comes before {before.text}", width, "  ")
    lines += wrapped(f"more: vario rule {finding.code}", width, style="dim")
    return joined(lines)


def _setting(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
