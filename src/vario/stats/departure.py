"""From when on are two series apart for good? Blocks of their difference against its own noise, memory included."""

from __future__ import annotations

import math

import numpy as np

from vario.run import Floats
from vario.stats.shape import MIN_POINTS, shape_of
from vario.stats.spread import hampel, memory

BLOCKS = 40
LEAST_BLOCK = 5
SDS = 3.0
HOLDS = 3
"""Blocks in a row that must be apart, on one side (bench/error_rates.py: false departures of alike series)."""


def departure(a: Floats, b: Floats) -> int | None:
    """Index from which `b` stays apart from `a`; None where it never does.

    Args:
        a, b: finite, equally spaced, shape (n,), at the same places.
    """
    n = min(a.size, b.size)
    if n < MIN_POINTS:
        return None
    difference = hampel(b[:n] - a[:n])
    shape = shape_of(difference)
    if shape is None:
        return None
    noise = shape.noise_sd
    if noise <= 1e-12 * max(float(np.abs(a[:n]).max()), 1e-300):
        apart = np.abs(difference) > 1e-9 * max(float(np.abs(a[:n]).max()), 1e-300)
        found = np.flatnonzero(apart)
        return int(found[0]) if found.size >= n // BLOCKS + 1 else None
    size = max(LEAST_BLOCK, n // BLOCKS)
    count = n // size
    means = difference[: count * size].reshape(count, size).mean(axis=1)
    rho = memory(np.diff(difference)) if shape.moved else memory(difference)
    error = noise * math.sqrt((1.0 + rho) / (1.0 - rho) / size)
    side = np.where(np.abs(means) > SDS * error, np.sign(means), 0.0)
    run = 0
    for i in range(count):
        run = run + 1 if side[i] != 0.0 and (i == 0 or side[i] == side[i - 1]) else int(side[i] != 0.0)
        if run >= HOLDS and _mostly(side[i:], side[i]):
            return (i - HOLDS + 1) * size
    return None


def _mostly(rest: Floats, side: float) -> bool:
    """Whether the difference stays on that side: half of the blocks that follow, and none far on the other."""
    return float((rest == side).mean()) >= 0.5 and not bool((rest == -side).any())
