"""CL101 ratio-far-from-one."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Ratio
from vario.rules.base import Evidence, Severity, Sign, lower, number, rule


@rule(
    "CL101",
    "ratio-far-from-one",
    Severity.WARNING,
    holds=2,
    turns=(
        lower("learning-rate", "smaller steps between old and new policy"),
        lower("epochs", "fewer passes over one batch"),
    ),
)
def ratio_far_from_one(ratio: Ratio) -> Iterator[Sign]:
    """The mean probability ratio has left one.

    What it shows:
        The mean ratio new/old policy is below 0.8 or above 1.25 over the last stretch.
    Why it matters:
        The surrogate holds near one only; far from it the update is not the one that was derived.
    Evidence:
        The level, and the number of updates per rollout.
    Looks like it but is not:
        One outlying batch; a ratio averaged over padding, which hides more than it shows.
    What to change:
        A smaller learning rate, then fewer updates per rollout.
    How sure:
        High; with one update per rollout any deviation is a defect.
    References:
        TRL PPO documentation: val/ratio should stay near 1
    """
    level = ratio.mean.level
    if level < 0.8 or level > 1.25:
        yield Evidence(
            f"{ratio.mean.name} is {number(level)}",
            (ratio.mean.name,),
            ratio.mean.since_above(1.25) if level > 1 else ratio.mean.since_below(0.8),
        )
