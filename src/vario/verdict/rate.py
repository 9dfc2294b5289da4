"""Is the rate of rise itself changing? The score's slope over its last third and before, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments import Reading
from vario.instruments.reading import WINDOW
from vario.stats.spread import thin
from vario.stats.trend import MIN_POINTS, two_scale

PER = 100
"""Steps that a rate is told for."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Change of the score in 100 steps, (low, estimate, high) of the 90 % interval, before `since` and from it on.

    `change` is faster, slower, steady (the intervals overlap), or turned (the sign changed).
    """

    since: int
    before: tuple[float, float, float]
    now: tuple[float, float, float]
    change: str


def rate_of(score: Reading | None) -> Rate | None:
    """None below 72 points: a third must be long enough for a test of its own."""
    if score is None or score.points < 3 * MIN_POINTS:
        return None
    third = score.points // 3
    halves = []
    for values, steps in ((score.values[:-third], score.steps[:-third]), (score.values[-third:], score.steps[-third:])):
        thinned, size = thin(values, WINDOW)
        trend = two_scale(thinned)
        if trend is None:
            return None
        per_point = (int(steps[-1]) - int(steps[0])) / max(values.size - 1, 1) * size
        scale = PER / per_point if per_point > 0 else 0.0
        halves.append((trend.low * scale, trend.slope * scale, trend.high * scale))
    before, now = halves
    if now[0] <= before[2] and now[2] >= before[0]:
        change = "steady"
    elif before[1] * now[1] < 0.0 and (now[0] > 0.0 or now[2] < 0.0) and (before[0] > 0.0 or before[2] < 0.0):
        change = "turned"
    else:
        change = "faster" if abs(now[1]) > abs(before[1]) else "slower"
    return Rate(int(score.steps[-third]), before, now, change)
