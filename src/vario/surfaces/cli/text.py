"""The diagnosis as text: 80 columns, no colour needed, verdict first."""

from __future__ import annotations

import textwrap

from vario.rules.base import number
from vario.surfaces.excerpts import Excerpts
from vario.surfaces.panels import panels, short
from vario.surfaces.privacy import safe
from vario.surfaces.sentences import (
    NO_FINDING,
    NO_WARNING,
    change,
    complaints,
    facts,
    heading,
    headline,
    unseen,
    when_and_how_sure,
)
from vario.surfaces.spark import sparkline
from vario.verdict import Diagnosis, Finding

WIDTH = 80
SHOWN_EXCERPTS = 2


def _wrap(text: str, indent: str = "  ", first: str | None = None) -> str:
    return textwrap.fill(
        safe(text),
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=True,
    )


def _head(diagnosis: Diagnosis) -> list[str]:
    verdict = diagnosis.verdict
    lines = [
        _wrap(f"{diagnosis.run.path}: {heading(diagnosis)}", "  ", ""),
        "",
        _wrap(headline(verdict), "  ", ""),
        "",
        f"  trajectory {verdict.trajectory}   regime {verdict.regime}",
    ]
    for name, text in facts(verdict):
        lines.append(_wrap(f"{name} {text}" if name == "best" else f"{name}: {text}"))
        if name == "upside":
            lines += [_wrap(law, "    ", "    ") for law in verdict.upside.laws]
    return lines


def _experiments(diagnosis: Diagnosis) -> list[str]:
    made = diagnosis.verdict.experiments
    if not made:
        return []
    lines = ["", "what would decide it"]
    for experiment in made:
        lines.append(_wrap(f"{experiment.name}: {experiment.why}", "    ", "  - "))
        lines += [_wrap(f"{outcome}: {means}", "      ", "    ") for outcome, means in experiment.tells.items()]
        lines += [_wrap(word, "      ", "    * ") for word in experiment.words]
        lines += [f"      {safe(line)}" for line in experiment.patch.splitlines()]
    return lines


def _readings(diagnosis: Diagnosis) -> list[str]:
    lines: list[str] = []
    for title, names in panels(diagnosis):
        rows = []
        for name in names:
            r = diagnosis.readings[name]
            picture = sparkline(name, r.spark, r.spread, width=20)
            rows.append(
                f"  {safe(short(name))[:24]:24} {picture:20} {number(r.start):>8} -> {number(r.level):<8} {r.shape}"[
                    :WIDTH
                ].rstrip()
            )
        if rows:
            lines += ["", title, *rows]
    return lines


def _finding(finding: Finding, framework: str, words: Excerpts) -> list[str]:
    title = f"{finding.severity}[{finding.code}] {finding.name}"
    tail = when_and_how_sure(finding)
    lines = ["", title if len(title) + len(tail) + 2 > WIDTH else f"{title}{tail:>{WIDTH - len(title)}}"]
    if len(title) + len(tail) + 2 > WIDTH:
        lines.append(f"  {tail}")
    lines.append(_wrap(finding.summary))
    lines += [_wrap(e, "    ", "  - ") for e in finding.evidence]
    lines += [_wrap(e, "    ", "  ruled out: ") for e in finding.excluded]
    if finding.severity != "info":
        if finding.causes:
            lines.append(_wrap(f"likely causes: {'; '.join(finding.causes)}", "    ", "  "))
        lines += [_wrap(f"change: {change(turn, framework)}", "    ", "  ") for turn in finding.changes]
    if finding.dossier is not None:
        lines.append(_wrap(f"the batch: {finding.dossier.text}", "    ", "  "))
    if finding.read is not None:
        some = " ".join(f"{step}/{number}" for step, number in finding.read.samples)
        lines.append(
            _wrap(f"read {finding.read.what} ({some}): vario samples RUN --finding {finding.name}", "    ", "  ")
        )
        for step, number_ in finding.read.samples[:SHOWN_EXCERPTS]:
            if (step, number_) in words:
                lines.append(_wrap(f"{step}/{number_}: {words[step, number_]}", "        ", "    "))
    lines += [_wrap(f"often comes before {p.text}", "    ", "  ") for p in finding.precedes]
    if finding.symptoms:
        lines.append(_wrap(f"explains: {', '.join(s.name for s in finding.symptoms)}", "    ", "  "))
        own = (s for s in finding.symptoms if s.name.endswith("-over-budget"))
        lines += [_wrap(evidence, "    ", "  - ") for symptom in own for evidence in symptom.evidence]
    if finding.severity != "info":
        lines.append(f"  more: vario rule {finding.code}")
    return lines


def diagnosis_text(diagnosis: Diagnosis, *, pedantic: bool = False, words: Excerpts | None = None) -> str:
    """The whole diagnosis for a terminal, a log file, or a mail; `words` are excerpts of completions."""
    run = diagnosis.run
    lines = _head(diagnosis) + _readings(diagnosis)
    shown = [f for f in diagnosis.findings if pedantic or f.audience == "default"]
    serious = [f for f in shown if f.severity != "info"]
    minor = [f for f in shown if f.severity == "info"]
    if not serious:
        said = diagnosis.verdict.action in ("stop", "intervene")
        lines += ["", *textwrap.wrap(NO_FINDING if said else NO_WARNING, WIDTH)]
    for finding in serious:
        lines += _finding(finding, run.framework, words or {})
    if minor:
        lines += ["", "also seen"]
        lines += [
            _wrap(
                f"{f.name}: {f.evidence[0]}" + (f" (passed by step {f.until})" if f.until is not None else ""),
                "    ",
                "  - ",
            )
            for f in minor
        ]
    if diagnosis.notes:
        lines += ["", "looks wrong but is fine"]
        lines += [_wrap(f"{n.name}: {n.text}", "    ", "  - ") for n in diagnosis.notes]
    lines += _experiments(diagnosis)
    if diagnosis.suppressed:
        lines += ["", "suppressed"]
        lines += [_wrap(f"{f.name}: {why}", "    ", "  - ") for f, why in diagnosis.suppressed]
    hidden = unseen(diagnosis)
    if hidden:
        lines += ["", "what could not be seen", *(_wrap(line, "    ", "  - ") for line in hidden)]
    lines += [_wrap(line, "    ", "  ! ") for line in complaints(diagnosis)]
    return "\n".join(lines)
