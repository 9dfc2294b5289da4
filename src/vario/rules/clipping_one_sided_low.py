"""CL105 clipping-one-sided-low."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping, Reward
from vario.rules.base import Evidence, Severity, Sign, lower, percent, required, rule


@rule(
    "CL105",
    "clipping-one-sided-low",
    Severity.INFO,
    holds=3,
    pedantic=True,
    turns=(lower("learning-rate", "smaller steps away from what is punished"),),
)
def clipping_one_sided_low(clipping: Clipping, reward: Reward | None) -> Iterator[Sign]:
    """Nearly all clipping is on the low side.

    What it shows:
        The low-side share is five times the high side's, above 0.2 % of tokens.
    Why it matters:
        The policy is pushed away from what it does faster than towards something better: it forgets.
    Evidence:
        Both shares.
    Looks like it but is not:
        Correcting: the reward rises meanwhile, and clipping fades.
    What to change:
        A smaller learning rate; fewer updates per rollout.
    How sure:
        Medium.
    References:
        seed texts of the project
    """
    sides = required(clipping.low, "clip/fraction/low"), required(clipping.high, "clip/fraction/high")
    if min(side.points for side in sides) < 20:
        return
    low, high = (float(np.mean(side.values[-20:])) for side in sides)
    if low > 0.002 and low > 5.0 * high and not (reward is not None and reward.rises()):
        yield Evidence(f"{percent(low)} of tokens clip low, {percent(high)} high", tuple(side.name for side in sides))
