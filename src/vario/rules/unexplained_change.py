"""DX104 unexplained-change."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Changes
from vario.rules.base import Evidence, Severity, Sign, number, rule

TOGETHER = 2
"""Metrics that must have changed level at the same time: one of them alone is within what chance does to many."""
NEAR = 0.08
"""Share of the run within which changes count as one: a knot is placed to the width of a block."""


@rule("DX104", "unexplained-change", Severity.INFO, holds=2, last=True, causes=("something that no rule knows",))
def unexplained_change(changes: Changes) -> Iterator[Sign]:
    """Several metrics changed together, and nothing that vario knows explains it.

    What it shows:
        Two metrics or more went to another level at the same time and stayed there, and none stands in a finding's evidence.
    Why it matters:
        The table of rules is finite; what moved together moved for a reason.
    Evidence:
        Which metrics, when, from where to where.
    Looks like it but is not:
        A slow trend; a learning-rate schedule; a metric that a finding cites already, and what moves with that finding.
    What to change:
        Look at that step: data, a restart, the machine, a setting that was changed by hand.
    How sure:
        That they changed: high. What it means: not known.
    References:
        none: this is the rest that the other rules leave
    """
    steps = changes.steps
    if not steps:
        return
    said_at = [at for name, (at, _, _) in steps.items() if name in changes.said]
    span = max(at for at, _, _ in steps.values())
    near = max(1, int(NEAR * span))
    left = {
        name: step
        for name, step in steps.items()
        if name not in changes.said and not any(abs(step[0] - at) <= near for at in said_at)
    }
    for at, _, _ in left.values():
        group = {other: step for other, step in left.items() if abs(step[0] - at) <= near}
        if len(group) >= TOGETHER:
            for other, (when, before, after) in group.items():
                yield Evidence(
                    f"{other} went from {number(before)} to {number(after)} around step {when}", (other,), when
                )
            return
