"""KL against reward: what the run pays and what it gets, over the last half of what was read."""

from __future__ import annotations

import math

from vario.instruments import Kl, Reading
from vario.stats.shape import Shape
from vario.stats.trend import Trend

KL_SHARE = 0.15
"""KL must change by this share of its level over the last half to count as moving."""
REWARD_SHARE = 0.02
"""The reward must change by this share of its level."""
NOISE_SDS = 0.3
"""Both must also change by so many standard deviations of their noise."""
P = 0.05
GOES_UP, GOES_DOWN = ("rising", "slowing", "jumped"), ("declining", "collapsed", "peaked")
"""Shapes whose last half moves by itself."""


def late_direction(reading: Reading, share: float) -> str | None:
    """up, flat or down over the last half; None when it is too short."""
    late = reading.late
    if late is None:
        return None
    size = max(share * abs(reading.level), NOISE_SDS * late.noise_sd)
    return _direction(late, reading.shape, size)


def _direction(late: Trend, shape: Shape | None, size: float) -> str:
    """From the test of the last half, or, where that half alone is too short a view, from the shape of all of it."""
    if late.rises(P) and late.change >= size:
        return "up"
    if late.falls(P) and -late.change >= size:
        return "down"
    if shape is not None and shape.moved:
        change = shape.end - shape.middle
        if shape.word in GOES_UP and change >= size and late.high > 0.0:
            return "up"
        if shape.word in GOES_DOWN and -change >= size and late.low < 0.0:
            return "down"
    return "flat"


def kl_direction(kl: Kl) -> str | None:
    """Direction of KL over the last half, on its logarithm where it is positive: drift is multiplicative.

    Below the level at which a policy has hardly left its reference, nothing counts as moving.
    """
    if kl.still:
        return None if kl.reference.late is None else "flat"
    late = kl.reference.late_log
    if late is None:
        return late_direction(kl.reference, KL_SHARE)
    return _direction(late, kl.reference.log_shape, max(math.log1p(KL_SHARE), NOISE_SDS * late.noise_sd))


def regime_of(kl: Kl | None, score: Reading | None) -> str:
    """`kl-up-reward-flat` and the like; `unknown` without a KL to a reference or enough points."""
    if kl is None or score is None:
        return "unknown"
    paid = kl_direction(kl)
    got = late_direction(score, REWARD_SHARE)
    if paid is None or got is None:
        return "unknown"
    return f"kl-{paid}-reward-{got}"
