"""Where is the best point? The argmax of a smoothed curve, with an interval of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.run import Floats
from vario.stats.spread import hampel


@dataclass(frozen=True, slots=True)
class Peak:
    """Best place of a curve: index, smoothed value, and the span that noise cannot tell from it."""

    index: int
    value: float
    low: int
    high: int
    width: int


def smoothed(values: Floats, width: int, *, triangle: bool = False) -> Floats:
    """Centred moving average; near the ends only the points that exist are averaged.

    Args:
        triangle: weigh a point by how near it is. With few points a flat average takes as much from the neighbours as
            from the point itself, and at an end gives it a value that is half its neighbour's.
    """
    if width <= 1 or values.size == 0:
        return values
    kernel = np.ones(min(width, values.size))
    if triangle:
        kernel = 1.0 + np.minimum(np.arange(kernel.size), np.arange(kernel.size)[::-1])
    counts = np.convolve(np.ones(values.size), kernel, mode="same")
    return np.asarray(np.convolve(values, kernel, mode="same") / counts)


def find_peak(values: Floats, width: int, *, triangle: bool = False) -> Peak | None:
    """Maximum of the moving average of `width` points; None for an empty series.

    The interval holds every neighbouring place whose smoothed value lies within one standard
    error of the best one.
    """
    if values.size == 0:
        return None
    y = hampel(values)
    curve = smoothed(y, width, triangle=triangle)
    best = int(np.argmax(curve))
    residual = y - curve
    se = float(residual.std()) / max(1.0, np.sqrt(min(width, values.size))) if values.size > 2 else 0.0
    near = np.flatnonzero(curve >= curve[best] - se)
    low = high = best
    reach = max(width, 1)
    for i in near[near < best][::-1]:
        if low - i > reach:
            break
        low = int(i)
    for i in near[near > best]:
        if i - high > reach:
            break
        high = int(i)
    return Peak(best, float(curve[best]), low, high, width)
