"""What would make the verdict another one, for agents: facts, experiments, and checks that wait for a metric."""

from __future__ import annotations

from vario.rules.base import counted
from vario.surfaces.mcp.diagnosed import head
from vario.surfaces.mcp.ids import Ref
from vario.surfaces.mcp.shapes import ExperimentShape, OpenCheck, WhatWouldChange
from vario.surfaces.mcp.shelf import Held
from vario.verdict import Diagnosis
from vario.verdict.serial import plain

EXPENDABLE = ("unknown", "experiments", "would_change_it")
SHOWN_CHECKS = 3


def change_answer(ref: Ref, held: Held, diagnosis: Diagnosis) -> WhatWouldChange:
    """The answer; what enables the most checks comes first, and what nobody can log, last."""
    verdict = diagnosis.verdict
    checks: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for check in diagnosis.unknown:
        sampled = bool(check.enable) and check.enable == diagnosis.run.how_to_sample
        missing = ("completions",) if sampled else check.missing
        checks.setdefault((missing, check.enable or check.reason), []).append(check.name)
    can = {check.enable for check in diagnosis.unknown if check.enable}
    ordered = sorted(checks.items(), key=lambda item: (item[0][1] not in can, -len(item[1])))
    return WhatWouldChange(
        run=head(ref, held, diagnosis.run),
        action=verdict.action,
        confidence=verdict.confidence,  # type: ignore[arg-type]
        would_change_it=list(verdict.would_change_it),
        experiments=[
            ExperimentShape(
                name=e.name,
                why=e.why,
                tells=dict(e.tells),
                settings={key: plain(value) for key, value in e.settings.items()},
                patch=e.patch,
                steps=list(e.words),
            )
            for e in verdict.experiments
        ],
        unknown=[OpenCheck(missing=list(m), enable=enable, checks=names) for (m, enable), names in ordered],
    )


def change_text(answer: WhatWouldChange) -> str:
    """The answer in a few lines."""
    lines = [f"{answer.run.id}: {answer.action} ({answer.confidence} confidence) would change with:"]
    lines += [f"- {one}" for one in answer.would_change_it] or ["- nothing that vario can name"]
    lines += [f"experiment {one.name}: {one.why}" for one in answer.experiments]
    for one in answer.unknown[:SHOWN_CHECKS]:
        lines.append(f"{counted(len(one.checks), 'check')} waiting for {', '.join(one.missing)}: {one.enable}")
    return "\n".join(lines)
