"""Runs beside each other for agents: `compare/v1`, with a few lines a run instead of whole diagnoses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vario.rules.base import number
from vario.surfaces.cli.compare_page import comparison_json
from vario.surfaces.mcp.diagnosed import best, head
from vario.surfaces.mcp.ids import Ref, finding_id
from vario.surfaces.mcp.shapes import CompareAnswer, ComparedRun
from vario.surfaces.mcp.shelf import Held
from vario.verdict import Diagnosis
from vario.verdict.compare import compare

MOST_RUNS = 6
SHOWN_DEPARTURES = 5
EXPENDABLE = ("settings", "departures", "notes", "runs")


def compare_answer(looks: Sequence[tuple[Ref, Held, Diagnosis]]) -> CompareAnswer:
    """The first run against each of the others."""
    made: dict[str, Any] = json.loads(comparison_json(compare([diagnosis for _, _, diagnosis in looks])))
    runs = [
        ComparedRun(
            run=head(ref, held, diagnosis.run),
            action=diagnosis.verdict.action,
            confidence=diagnosis.verdict.confidence,  # type: ignore[arg-type]
            trajectory=diagnosis.verdict.trajectory,
            regime=diagnosis.verdict.regime,
            best_checkpoint=best(diagnosis.verdict),
            findings=[
                finding_id(ref, f) for f in diagnosis.findings if f.severity != "info" and f.audience == "default"
            ],
        )
        for ref, held, diagnosis in looks
    ]
    return CompareAnswer(
        runs=runs,
        settings=made["settings"],
        departures=made["departures"],
        equal_kl=made["equal_kl"],
        ladder=made["ladder"],
        notes=[*made["notes"], *(warning for _, held, _ in looks for warning in held.warnings)],
    )


def compare_text(answer: CompareAnswer) -> str:
    """The comparison in a few lines."""
    lines = [
        f"{place}. {one.run.id}: {one.action} ({one.confidence}), {one.trajectory}, {one.regime}"
        for place, one in enumerate(answer.runs)
    ]
    some = ", ".join(list(answer.settings)[:8])
    lines.append(f"{len(answer.settings)} settings differ" + (f": {some}" if some else ""))
    for one in answer.departures[:SHOWN_DEPARTURES]:
        place = f"step {one['at']:.0f}" if one["axis"] == "steps" else f"{number(one['at'])} {one['axis']}"
        lines += [f"- {one['metric']}: {one['runs'][0]} and {one['runs'][1]} part at {place}"]
    if len(answer.departures) > SHOWN_DEPARTURES:
        lines.append(f"- and {len(answer.departures) - SHOWN_DEPARTURES} more")
    if answer.ladder is not None:
        lines.append(f"ladder: {answer.ladder['rung']}: {answer.ladder['means']}")
    return "\n".join(lines)
