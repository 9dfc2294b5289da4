"""When will it get there? The step at which a line through the last half reaches a bound, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vario.run import Floats, Ints
from vario.stats.spread import hampel
from vario.stats.trend import MIN_POINTS, two_scale

P = 0.05
FARTHEST = 10.0
"""Runs ahead, in lengths of the run so far, beyond which no arrival is told."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A step, and the earliest and latest one of the 90 % interval of the slope.

    `latest` None: perhaps never, or in no time that can be told.
    """

    step: int
    earliest: int
    latest: int | None


def arrival(steps: Ints, values: Floats, bound: float) -> Arrival | None:
    """When a metric reaches `bound` if it goes on as over its last half.

    Args:
        steps, values: finite, shape (n,). bound: in the metric's unit.

    Returns None where it does not move towards the bound beyond its noise, or stands beyond it already.
    """
    n = values.size
    half = max(MIN_POINTS, n // 2)
    if n < MIN_POINTS:
        return None
    late = values[-half:]
    trend = two_scale(late)
    if trend is None or trend.p >= P:
        return None
    # the line turns around the middle of what it is drawn through: another slope has another level now
    left, since = bound - float(hampel(late).mean()), (half - 1) / 2.0
    if (left - trend.slope * since) * math.copysign(1.0, trend.slope) <= 0.0:
        return None
    per_point = float(steps[-1] - steps[-half]) / max(half - 1, 1)
    last = int(steps[-1])

    def ahead(slope: float) -> float:
        """Steps from now."""
        same_way = slope != 0.0 and (slope > 0.0) == (left > 0.0)
        return max(left / slope - since, 0.0) * per_point if same_way else math.inf

    expected, farthest = ahead(trend.slope), FARTHEST * max(last - int(steps[0]), 1)
    if expected > farthest:
        return None
    fast, slow = sorted((ahead(trend.low), ahead(trend.high)))
    return Arrival(
        last + math.ceil(expected),
        last + math.ceil(min(fast, expected)),
        last + math.ceil(slow) if slow <= farthest else None,
    )
