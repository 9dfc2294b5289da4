"""The trend of a curve as it is drawn: an average over neighbours that never reaches across a break."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vario.run import Floats, Ints

SHARE = 0.04
"""Share of a curve that the trend averages over."""


def smoothed(steps: Ints, values: Floats, breaks: Iterable[int], at: Ints | None = None) -> Floats:
    """Values averaged with their neighbours; a fall must not seem to begin before it does.

    Args:
        steps: ascending, shape (n,). values: finite, shape (n,).
        breaks: steps from which on something else holds: no average reaches across them.
        at: indices of the values that are wanted, shape (m,); all of them by default.

    Returns:
        The averages, shape (m,).
    """
    if at is None:
        at = np.arange(len(values))
    if not at.size:
        return np.zeros(0)
    width = max(1, int(SHARE * len(values)))
    cuts = np.searchsorted(steps, sorted(set(breaks)))
    inner = np.unique(cuts[(cuts > 0) & (cuts < len(values))])
    bounds = np.concatenate([[0], inner, [len(values)]])
    part = np.searchsorted(inner, at, side="right")
    low = np.maximum(bounds[part], at - width // 2)
    high = np.minimum(bounds[part + 1], at + width // 2 + 1)
    # each window by itself: the difference of running sums would lose every small value behind one of 1e30
    sums = np.add.reduceat(np.append(values, 0.0), np.column_stack([low, high]).ravel())[::2]
    made: Floats = sums / (high - low)
    return made


def thinned(size: int, most: int) -> Ints:
    """Indices of at most about so many points, both ends among them."""
    stride = max(1, -(-size // most))
    return np.unique(np.append(np.arange(0, size, stride), size - 1)) if size else np.zeros(0, dtype=np.int64)
