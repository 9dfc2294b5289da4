"""Robust level and spread, outlier clipping, block medians and lag-one memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from vario.run import Floats

MAD_TO_SD = 1.4826
"""Median absolute deviation to standard deviation, for a Gaussian."""
HAMPEL_WIDTH = 7
HAMPEL_SDS = 3.5
HAMPEL_INFLATION = 1.3
"""Residuals from a 7-point running median are narrower than the noise by about this factor."""
MEMORY_CEILING = 0.97
STRETCH = 10
"""Points over which repetition is measured: 1 for white noise, 2.4 for a lag-one memory of .5, 5.3 for .9, and 2.7 for
noise half of which is slow, which the lag-one memory does not show."""


def median(values: Floats) -> float:
    """Median of a non-empty array. Sorting beats `np.median`'s checks on the short arrays used here."""
    n = values.size
    ordered = np.sort(values)
    return float(ordered[n // 2]) if n % 2 else 0.5 * float(ordered[n // 2 - 1] + ordered[n // 2])


def row_medians(table: Floats) -> Floats:
    """Median of each row, shape (rows,)."""
    width = table.shape[1]
    ordered = np.sort(table, axis=1)
    if width % 2:
        return np.asarray(ordered[:, width // 2])
    return np.asarray(0.5 * (ordered[:, width // 2 - 1] + ordered[:, width // 2]))


def robust_sd(values: Floats) -> float:
    """1.4826 x median absolute deviation; 0 for an empty or constant array."""
    if values.size == 0:
        return 0.0
    return MAD_TO_SD * median(np.abs(values - median(values)))


def running_median(values: Floats, width: int = HAMPEL_WIDTH) -> Floats:
    """Centred running median with the ends repeated; same shape as `values`."""
    if values.size == 0:
        return values
    half = width // 2
    padded = np.concatenate((np.repeat(values[:1], half), values, np.repeat(values[-1:], half)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    return np.partition(windows, half, axis=1)[:, half]


def hampel(values: Floats) -> Floats:
    """Points further than 3.5 robust sd from a 7-point running median, moved onto that bound.

    Where the typical residual is zero (a mostly constant series) nothing is clipped.
    """
    if values.size < HAMPEL_WIDTH:
        return values
    centre = running_median(values)
    residual = values - centre
    bound = HAMPEL_SDS * HAMPEL_INFLATION * MAD_TO_SD * median(np.abs(residual))
    if bound <= 0.0:
        return values
    return np.asarray(centre + np.clip(residual, -bound, bound))


def memory(residuals: Floats) -> float:
    """Lag-one autocorrelation, bias-corrected for a fitted line: clip(r + (2 + 4r)/n, 0, 0.97)."""
    n = residuals.size
    if n < 3:
        return 0.0
    centred = residuals - residuals.mean()
    energy = float(centred @ centred)
    if energy <= 0.0:
        return 0.0
    r = float(centred[1:] @ centred[:-1]) / energy
    return float(min(max(r + (2.0 + 4.0 * r) / n, 0.0), MEMORY_CEILING))


def repetition(values: Floats) -> float:
    """How many points it takes to say what one of white noise says: the variance of stretch means over that of points.

    Both are taken from differences over a stretch, without their mean: a straight climb does not count. 1 below three
    stretches.
    """
    if values.size < 3 * STRETCH:
        return 1.0
    sums = np.cumsum(np.concatenate(([0.0], values)))
    means = (sums[STRETCH:] - sums[:-STRETCH]) / STRETCH
    of_points = float((values[STRETCH:] - values[:-STRETCH]).var())
    return STRETCH * float((means[STRETCH:] - means[:-STRETCH]).var()) / of_points if of_points > 0.0 else 1.0


def block_edges(n: int, blocks: int) -> list[int]:
    """`blocks + 1` positions that cut `n` points into near-equal blocks."""
    return [round(i * n / blocks) for i in range(blocks + 1)]


def block_medians(values: Floats, blocks: int) -> Floats:
    """Median of each of `blocks` near-equal consecutive blocks, shape (blocks,)."""
    n = values.size
    if n % blocks == 0:
        return row_medians(values.reshape(blocks, n // blocks))
    edges = block_edges(n, blocks)
    return np.array([median(values[a:b]) for a, b in pairwise(edges)])


def thin(values: Floats, most: int) -> tuple[Floats, int]:
    """At most about `most` points: means of consecutive blocks of `size`; returns them and `size`.

    The oldest points that do not fill a block are dropped. Means, not samples: averaging keeps
    the trend and lowers the noise, and makes the cost of one look independent of the history.
    """
    size = -(-values.size // most)
    if size <= 1:
        return values, 1
    whole = (values.size // size) * size
    return np.asarray(values[values.size - whole :].reshape(-1, size).mean(axis=1)), size
