"""CL105 clipping-one-sided-low."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping, Reward, Witness
from vario.rules.base import Aside, Evidence, Severity, Sign, lower, number, percent, required, rule

LEAST = 20
SOME = 0.002
"""Recipes hold 0.001 to 0.05 of all tokens: less than this on a side is next to nothing."""
TIMES = 5.0


@rule(
    "CL105",
    "clipping-one-sided-low",
    Severity.INFO,
    holds=3,
    causes=("mistakes that are corrected", "good behaviour that is forgotten", "updates that are too large"),
    turns=(
        lower("learning-rate", "smaller steps away from what is punished"),
        lower("clip-low", "holds back what is pushed away"),
        lower("epochs", "fewer updates per rollout"),
    ),
)
def clipping_one_sided_low(clipping: Clipping, reward: Reward | None, witness: Witness | None) -> Iterator[Sign]:
    """Nearly all clipping is on the low side.

    What it shows:
        The low-side share is five times the high side's, above 0.2 % of tokens, while no score rises; and whether
        one falls, which tells forgetting from correcting.
    Why it matters:
        The policy is pushed away from what it does faster than towards something better.
    Evidence:
        Both shares; the score that falls.
    Looks like it but is not:
        Correcting: the reward or the held-out score rises meanwhile. Clipping balanced within noise; next to none.
    What to change:
        A smaller learning rate; a tighter lower bound; fewer updates per rollout.
    How sure:
        Medium where a score falls; a detail otherwise.
    References:
        seed texts of the project
    """
    sides = required(clipping.low, "clip/fraction/low"), required(clipping.high, "clip/fraction/high")
    if min(side.points for side in sides) < LEAST:
        return
    low, high = (float(np.mean(side.values[-LEAST:])) for side in sides)
    if low <= SOME or low <= TIMES * high:
        return
    scores = [] if witness is None else [witness.score]
    scores += [] if reward is None else [reward.total]
    if any(score.rises() for score in scores):
        return
    yield Evidence(f"{percent(low)} of tokens clip low, {percent(high)} high", tuple(side.name for side in sides))
    fallen = next((score for score in scores if score.fell()), None)
    if fallen is None:
        yield Aside("no score falls with it")
    else:
        yield Evidence(f"{fallen.name} fell from {number(fallen.high)} to {number(fallen.level)}", (fallen.name,))
