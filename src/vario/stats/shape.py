"""What shape is it? Five candidate shapes over block medians, judged against the noise.

Constant, line, ramp-then-flat, two slopes, step: least squares on 12 to 24 block medians, the
best moving one by BIC, then asked whether it beats the constant once the noise is measured
around *it*, memory included. The verdict is read from the tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vario.run import Floats
from vario.stats.spread import block_edges, block_medians, hampel, median, memory

MIN_POINTS = 24
GATE = 9.0
"""Chi-square that a moving shape must gain over the constant, plus 2 per extra parameter."""
PARAMETER_COST, KNOT_COST = 4.0, 3.0
MEDIAN_VARIANCE = math.pi / 2.0
"""Variance of a median relative to a mean, for Gaussian noise."""
TAIL_T = 2.0
TAIL_BOUND = 1.64
"""Normal quantile of a one-sided 95 % bound."""
SLOWING = 0.5
"""A tail slower than this share of the earlier slope is slowing (the contract's own words)."""
FLAT_TAIL = 0.1
"""A tail that adds less than this share of the gain before it is a plateau."""
PEAK_LOSS = 0.15
"""Share of the gain that must be lost before a fall is a peak: below it the fall is read as flat."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A verdict on a whole series.

    Attributes:
        word: flat, rising, slowing, plateau, fallen-plateau, declining, bottomed, peaked, collapsed, jumped.
        knot: index of the point where the tail begins, None where there is none.
        start, end: fitted values at both ends; top, bottom: fitted extremes.
        noise_sd: noise of one point around the shape. chi2: gain over the constant.
    """

    word: str
    knot: int | None
    start: float
    end: float
    top: float
    bottom: float
    noise_sd: float
    chi2: float
    tail_slope: float

    @property
    def moved(self) -> bool:
        """Whether anything but noise was seen."""
        return self.word != "flat"

    @property
    def gain(self) -> float:
        """Fitted end minus fitted start."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _Candidates:
    kinds: tuple[str, ...]
    knots: tuple[int, ...]
    designs: tuple[NDArray[np.float64], ...]
    hats: NDArray[np.float64]
    costs: NDArray[np.float64]
    parameters: NDArray[np.float64]


@lru_cache(maxsize=8)
def _candidates(k: int) -> _Candidates:
    t = np.arange(k, dtype=float)
    one = np.ones(k)
    rows: list[tuple[str, int, NDArray[np.float64], int, int]] = [
        ("constant", 0, one[:, None], 1, 0),
        ("line", 0, np.column_stack((one, t)), 2, 0),
    ]
    for knot in range(2, k - 2):
        rows.append(("ramp", knot, np.column_stack((one, np.minimum(t, knot))), 2, 1))
        rows.append(("bend", knot, np.column_stack((one, np.minimum(t, knot), np.maximum(t - knot, 0.0))), 3, 1))
    rows += [("step", knot, np.column_stack((one, (t >= knot).astype(float))), 2, 1) for knot in range(2, k - 1)]
    hats = np.stack([x @ np.linalg.pinv(x) for _, _, x, _, _ in rows])
    return _Candidates(
        tuple(r[0] for r in rows),
        tuple(r[1] for r in rows),
        tuple(r[2] for r in rows),
        hats,
        np.array([PARAMETER_COST * r[3] + KNOT_COST * r[4] for r in rows]),
        np.array([float(r[3] + r[4]) for r in rows]),
    )


def block_count(n: int) -> int:
    """How many blocks a series of `n` points is cut into."""
    if n < 48:
        return 8 if n < 36 else 12
    return 12 if n < 128 else 16 if n < 400 else 24


def shape_of(values: Floats) -> Shape | None:
    """Shape of equally spaced finite points, shape (n,); None below 24 of them."""
    n = values.size
    if n < MIN_POINTS:
        return None
    y = hampel(values)
    k = block_count(n)
    edges = block_edges(n, k)
    medians = block_medians(y, k)
    bank = _candidates(k)
    fits = bank.hats @ medians
    sse = ((fits - medians) ** 2).sum(axis=1)
    size = float(np.abs(medians).max())
    floor = (1e-9 * max(size, 1e-12)) ** 2 * k
    if sse[0] <= floor and float(np.ptp(y)) <= 1e-9 * max(size, 1e-12):
        level = float(medians.mean())
        return Shape("flat", None, level, level, level, level, 0.0, 0.0, 0.0)
    # BIC: ln K a parameter, and half of one more for a knot, which can sit anywhere.
    knot_extra = np.array([0.5 if knot else 0.0 for knot in bank.knots])
    bic = k * np.log(np.maximum(sse, floor) / k) + (bank.parameters + knot_extra) * math.log(k)
    bic[0] = math.inf
    best = int(np.argmin(bic))
    fitted = fits[best]

    m = n / k
    at = (np.arange(n) + 0.5) / m - 0.5
    if bank.kinds[best] == "step":
        line = fitted[np.minimum((np.arange(n) / m).astype(int), k - 1)]
    else:
        line = np.interp(at, np.arange(k), fitted)
    residual = y - line
    point_sd = math.sqrt(float(residual @ residual) / max(n - bank.parameters[best], 1.0))
    rho = memory(residual)
    point_variance = point_sd**2 * (1.0 + rho) / (1.0 - rho) / max(m, 1.0) * (MEDIAN_VARIANCE if m >= 3 else 1.0)
    scatter = medians - fitted
    block_variance = float(sse[best]) / max(k - bank.parameters[best], 1.0)
    rho_block = min(memory(scatter), 0.7)
    variance = max(point_variance, block_variance * (1.0 + rho_block) / (1.0 - rho_block), floor / k, 1e-300)

    chi2 = sse / variance
    score = chi2 + bank.costs
    score[0] = math.inf
    pick = int(np.argmin(score))
    gain = float(chi2[0] - chi2[pick])
    parameters = float(bank.parameters[pick])
    fitted = fits[pick]
    level = median(y)
    if gain <= GATE + 2.0 * (parameters - 2.0):
        return Shape("flat", None, level, level, level, level, point_sd, gain, 0.0)

    kind, knot = bank.kinds[pick], bank.knots[pick]
    start, end = float(fitted[0]), float(fitted[-1])
    top, bottom = float(fitted.max()), float(fitted.min())
    knot_point: int | None = edges[knot] if kind == "step" else (edges[knot] + edges[knot + 1]) // 2 if knot else None
    tail_slope = 0.0
    if kind == "line":
        word = "rising" if end > start else "declining"
        tail_slope = (end - start) / n
    elif kind == "ramp":
        t = np.arange(k, dtype=float)
        bend = np.column_stack((np.ones(k), np.minimum(t, knot), np.maximum(t - knot, 0.0)))
        _, head, tail = (float(c) for c in np.linalg.pinv(bend) @ medians)
        se = math.sqrt(float(np.linalg.inv(bend.T @ bend)[2, 2]) * variance)
        tail_slope = tail / m
        # flat only where half the earlier slope is excluded: else it may creep on
        settled = tail + TAIL_BOUND * se < SLOWING * head
        word = "bottomed" if end <= start else "plateau" if settled else "slowing"
    elif kind == "step":
        late = knot >= 0.75 * k
        word = ("jumped" if late else "plateau") if end > start else "collapsed"
    else:
        design = bank.designs[pick]
        coefficients = np.linalg.pinv(design) @ medians
        covariance = np.linalg.inv(design.T @ design) * variance
        head, tail = float(coefficients[1]), float(coefficients[2])
        tail_t = tail / math.sqrt(float(covariance[2, 2]))
        tail_slope = tail / m
        head_span = abs(head) * knot
        tail_span = abs(tail) * (k - 1 - knot)
        if head > 0.0 and tail_t < -TAIL_T and tail_span > PEAK_LOSS * head_span:
            word = "peaked"
        elif head < 0.0 and tail_t < -TAIL_T:
            word = "declining"
        elif tail_t > TAIL_T and head > 0.0:
            # a bend inside a block leaves a small slope behind: a tail that adds next to nothing is flat
            word = "plateau" if tail_span < FLAT_TAIL * head_span else "slowing" if tail < SLOWING * head else "rising"
        elif tail_t > TAIL_T:
            # it fell (or stood), and climbs now: still below its start it has not regained anything
            word = "rising" if tail_span > PEAK_LOSS * head_span else "bottomed"
        elif head_span < math.sqrt(variance) * 2.0:
            word = "declining" if tail_t < -TAIL_T else "flat"
        else:
            word = "plateau" if head > 0.0 else "bottomed"
        if word == "peaked" and head_span < math.sqrt(variance) * 2.0:
            word = "declining"
    return Shape(word, knot_point, start, end, top, bottom, point_sd, gain, tail_slope)
