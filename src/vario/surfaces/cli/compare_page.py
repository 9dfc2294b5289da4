"""`vario compare` as text and as JSON (`compare/v1`)."""

from __future__ import annotations

import json
import textwrap

from vario.rules.base import number
from vario.surfaces.privacy import safe
from vario.verdict.compare import Comparison
from vario.verdict.serial import VERSION, plain, to_json

WIDTH = 80
SHOWN_SETTINGS = 12
SHOWN_DEPARTURES = 10
SCHEMA = "compare/v1"


def _wrap(text: str, first: str = "  - ", indent: str = "    ") -> str:
    return textwrap.fill(safe(text), WIDTH, initial_indent=first, subsequent_indent=indent)


def comparison_text(comparison: Comparison) -> str:
    """Verdicts side by side, then what differs, where they part, and equal KL."""
    lines = []
    for i, diagnosis in enumerate(comparison.diagnoses):
        run, verdict = diagnosis.run, diagnosis.verdict
        lines.append(
            _wrap(f"{run.path} ({run.framework}, steps {run.first_step} to {run.last_step})", f"{i + 1}. ", "   ")
        )
        lines.append(
            _wrap(f"{verdict.action} ({verdict.confidence}), {verdict.trajectory}, {verdict.regime}", "   ", "   ")
        )
        best = verdict.best_checkpoint
        if best is not None:
            lines.append(_wrap(f"best step {best.step} by {best.by} = {number(best.value)}", "   ", "   "))
        found = [f.name for f in diagnosis.findings if f.severity != "info" and f.audience == "default"]
        lines.append(_wrap(f"findings: {', '.join(found)}" if found else "no warning", "   ", "   "))
    lines += _settings(comparison) + _departures(comparison) + _equal_kl(comparison)
    if comparison.branch is not None:
        branch = comparison.branch
        lines += ["", "the reward of 1 does not rise; with 2 as the run on the test set"]
        lines.append(_wrap(f"{branch.rung.value}: {branch.means}", "  ", "  "))
        lines += [_wrap(f"{t.knob}: {t.why}") for t in branch.turns]
        lines += [_wrap(word) for word in branch.words]
    lines += [_wrap(note, "  ! ") for note in comparison.notes]
    return "\n".join(lines)


def _settings(comparison: Comparison) -> list[str]:
    if not comparison.settings:
        return ["", "settings: none that differ are known"]
    lines = ["", "settings that differ"]
    for key, values in list(comparison.settings.items())[:SHOWN_SETTINGS]:
        lines.append(_wrap(f"{key}: {' | '.join('-' if v is None else str(v)[:40] for v in values)}"))
    more = len(comparison.settings) - SHOWN_SETTINGS
    return lines + ([f"  - and {more} more: --json"] if more > 0 else [])


def _departures(comparison: Comparison) -> list[str]:
    lines: list[str] = []
    for axis in ("steps", "samples", "KL"):
        here = [d for d in comparison.departures if d.axis == axis]
        if axis != "steps" and not here:
            continue
        lines += ["", f"where metrics part, at equal {axis}"]
        if not here:
            lines.append("  - nowhere beyond their noise" if _shares(comparison) else "  - none is logged by both")
        for d in here[:SHOWN_DEPARTURES]:
            place = f"step {d.at:.0f}" if axis == "steps" else f"{number(d.at)} {axis}"
            lines.append(
                _wrap(
                    f"{d.metric}: 1 and {d.run + 1} from {place} on; {number(d.first)} and {number(d.other)} in the end"
                )
            )
        if len(here) > SHOWN_DEPARTURES:
            lines.append(f"  - and {len(here) - SHOWN_DEPARTURES} more: --json")
    return lines


def _shares(comparison: Comparison) -> bool:
    """Whether any run logs a metric that the first one does."""
    first, *others = (d.run.series.keys() for d in comparison.diagnoses)
    return any(first & other for other in others)


def _equal_kl(comparison: Comparison) -> list[str]:
    if not comparison.equal_kl:
        return []
    lines = ["", f"{comparison.equal_kl[0].score} at equal KL"]
    for row in comparison.equal_kl:
        shown = " | ".join("-" if v is None else number(v) for v in row.values)
        lines.append(f"  - KL {number(row.kl)}: {shown}")
    return lines


def comparison_json(comparison: Comparison) -> str:
    """One document: the diagnoses and what lies between them."""
    branch = comparison.branch
    return json.dumps(
        {
            "schema": SCHEMA,
            "vario": VERSION,
            "runs": [to_json(d) for d in comparison.diagnoses],
            "settings": plain(comparison.settings),
            "departures": [
                {
                    "metric": d.metric,
                    "runs": [0, d.run],
                    "axis": d.axis.lower(),
                    "at": d.at,
                    "levels": [d.first, d.other],
                }
                for d in comparison.departures
            ],
            "equal_kl": [{"kl": e.kl, "score": e.score, "values": e.values} for e in comparison.equal_kl],
            "ladder": None
            if branch is None
            else {
                "rung": branch.rung.value,
                "means": branch.means,
                "knobs": [t.knob for t in branch.turns],
                "next": branch.words,
            },
            "notes": comparison.notes,
        },
        ensure_ascii=False,
        allow_nan=False,
    )
