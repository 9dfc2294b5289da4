"""The diagnosis as text: 80 columns, no colour needed, verdict first."""

from __future__ import annotations

import textwrap

from vario.rules.base import number
from vario.surfaces.excerpts import Excerpts
from vario.surfaces.panels import panels, short
from vario.surfaces.privacy import safe
from vario.surfaces.spark import sparkline
from vario.verdict import Diagnosis, Finding
from vario.verdict.upside import Upside

WIDTH = 80
SHOWN_UNKNOWN = 6
SHOWN_EXCERPTS = 2
NO_WARNING = "No warning: of the checks that could run, none found a fault."
NO_FINDING = "No finding at warning or above: the advice rests on the trajectory and the regime."


def _wrap(text: str, indent: str = "  ", first: str | None = None) -> str:
    return textwrap.fill(
        safe(text),
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=True,
    )


def _head(diagnosis: Diagnosis) -> list[str]:
    run, verdict = diagnosis.run, diagnosis.verdict
    version = f" {run.framework_version}" if run.framework_version else ""
    lines = [
        _wrap(
            f"{run.path}: {run.framework}{version}, {run.algorithm}, steps {run.first_step} to {run.last_step} ({run.logged_steps.size} logged)",
            "  ",
            "",
        ),
        "",
        _wrap(
            f"{verdict.action.upper().replace('-', ' ')} ({verdict.confidence} confidence). {verdict.narrative}",
            "  ",
            "",
        ),
        "",
        f"  trajectory {verdict.trajectory}   regime {verdict.regime}",
    ]
    best = verdict.best_checkpoint
    if best is not None:
        saved = {
            True: "saved",
            False: f"not saved; nearest is {best.nearest_saved}",
            None: "no checkpoint lies beside the log",
        }[best.saved]
        lines.append(
            _wrap(
                f"best step {best.step} (between {best.interval[0]} and {best.interval[1]}) by {best.by} = {number(best.value)}; {saved}"
            )
        )
    if len(verdict.phases) > 1:
        told = (
            f"{p.regime.replace('kl-', 'KL ').replace('-reward-', ', reward ')} to step {p.last}"
            for p in verdict.phases
        )
        lines.append(_wrap(f"phases: {'; '.join(told)}"))
    if verdict.rate is not None:
        (low, rate, high), before = verdict.rate.now, verdict.rate.before[1]
        lines.append(
            _wrap(
                f"rate: {number(rate)} [{number(low)}, {number(high)}] in 100 steps since step {verdict.rate.since}, "
                f"{number(before)} before: {verdict.rate.change}"
            )
        )
    lines.append(_wrap(f"upside: {_upside(verdict.upside)}"))
    lines += [_wrap(law, "    ", "    ") for law in verdict.upside.laws]
    lines.append(_wrap(f"risk: {verdict.risk.text}"))
    lines.append(_wrap(f"would change it: {'; '.join(verdict.would_change_it)}"))
    return lines


def _upside(upside: Upside) -> str:
    if upside.expected is None or upside.interval80 is None:
        return upside.method
    low, high = upside.interval80
    return f"{number(upside.expected)} [{number(low)}, {number(high)}] (80 % interval): {upside.method}"


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


def _since(finding: Finding) -> str:
    parts = []
    if finding.since is not None:
        parts.append(f"since step {finding.since}")
    if finding.detected_at is not None:
        parts.append(f"seen at {finding.detected_at}")
    if finding.until is not None:
        parts.append(f"passed by {finding.until}")
    return ", ".join(parts)


def _finding(finding: Finding, framework: str, words: Excerpts) -> list[str]:
    title = f"{finding.severity}[{finding.code}] {finding.name}"
    tail = (
        f"{_since(finding)}; {finding.confidence} confidence" if _since(finding) else f"{finding.confidence} confidence"
    )
    lines = ["", title if len(title) + len(tail) + 2 > WIDTH else f"{title}{tail:>{WIDTH - len(title)}}"]
    if len(title) + len(tail) + 2 > WIDTH:
        lines.append(f"  {tail}")
    lines.append(_wrap(finding.summary))
    lines += [_wrap(e, "    ", "  - ") for e in finding.evidence]
    lines += [_wrap(e, "    ", "  ruled out: ") for e in finding.excluded]
    if finding.severity != "info":
        if finding.causes:
            lines.append(_wrap(f"likely causes: {'; '.join(finding.causes)}", "    ", "  "))
        for change in finding.changes:
            key = change.key or f"{change.knob} (no key of this name in {framework})"
            now = "" if change.current is None else f" (now {change.current})"
            to = "" if change.suggested is None else f" to {change.suggested}"
            lines.append(_wrap(f"change: {key}{now}{to}: {change.why}", "    ", "  "))
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
    lines += _blind(diagnosis)
    lines += [_wrap(f"rule {n} failed and was left out: {e}", "    ", "  ! ") for n, e in diagnosis.broken]
    lines += [_wrap(w, "    ", "  ! ") for w in (*run.warnings, *diagnosis.warnings)]
    if run.ignored_lines:
        lines.append(f"  ! {run.ignored_lines} lines or rows could not be read and were left out")
    return "\n".join(lines)


def _blind(diagnosis: Diagnosis) -> list[str]:
    lines: list[str] = []
    by_missing: dict[tuple[str, ...], list[str]] = {}
    ways: dict[tuple[str, ...], str] = {}
    for check in diagnosis.unknown:
        # what completions would show has one way to be had, whatever it is called
        sampled = bool(check.enable) and check.enable == diagnosis.run.how_to_sample
        missing = ("completions",) if sampled else check.missing
        by_missing.setdefault(missing, []).append(check.name)
        ways[missing] = check.enable
    relevant = {m: names for m, names in by_missing.items() if ways[m]}
    reasons: dict[str, list[str]] = {}
    for key, why in diagnosis.run.unsettled.items():
        reasons.setdefault(why, []).append(key)
    if relevant or reasons:
        lines += ["", "what could not be seen"]
    for missing, names in sorted(relevant.items(), key=lambda i: -len(i[1]))[:SHOWN_UNKNOWN]:
        lines.append(
            _wrap(
                f"{', '.join(missing)} ({'1 check:' if len(names) == 1 else f'{len(names)} checks, such as'} {names[0]}): {ways[missing]}",
                "    ",
                "  - ",
            )
        )
    for why, keys in list(reasons.items())[:SHOWN_UNKNOWN]:
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        lines.append(_wrap(f"{', '.join(keys[:3])}{more}: not read: {why}", "    ", "  - "))
    if len(reasons) > SHOWN_UNKNOWN:
        lines.append(f"  - and {len(reasons) - SHOWN_UNKNOWN} more: vario metrics")
    return lines
