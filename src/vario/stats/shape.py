"""What shape is it? Six candidate shapes over block medians, judged against the noise.

Constant, line, ramp-then-flat, two slopes, passage from one level to another, step: least squares
on 12 to 24 block medians, the best moving one by BIC, then asked whether it beats the constant once
the noise is measured around *it*, memory included. The verdict is read from the tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vario.run import Floats
from vario.stats.spread import block_edges, block_medians, hampel, median, memory
from vario.stats.trend import two_scale

MIN_POINTS = 24
GATE = 9.0
"""Chi-square that a moving shape must gain over the constant, plus 2 per extra parameter."""
PARAMETER_COST, KNOT_COST = 4.0, 3.0
MEDIAN_VARIANCE = math.pi / 2.0
"""Variance of a median relative to a mean, for Gaussian noise."""
TAIL_T = 2.0
SLOWING = 0.5
"""A tail slower than this share of the earlier slope is slowing (the contract's own words)."""
FLAT = 0.2
"""A tail slower than this share of the earlier slope is flat: what a bend inside a block leaves behind."""
TAIL = 0.4
"""Share of the run whose own trend a plateau must not contradict."""
TAIL_P = 0.02
WORTH = 0.1
"""Share of the whole gain that such a tail must add to count as climbing."""
TAIL_WEIGHT = {"plateau": 1.0, "slowing": 0.8, "rising": 1.2}
"""How the tail of a rise is read where it could be two of them: a rise goes on unless it is clearly slower (bench/error_rates.py)."""
PEAK_LOSS = 0.15
"""Share of the gain that must be lost before a fall is a peak: below it the fall is read as flat."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A verdict on a whole series.

    Attributes:
        word: flat, rising, slowing, plateau, fallen-plateau, declining, bottomed, peaked, collapsed, jumped.
        knot: index of the point where the tail begins, None where there is none.
        start, middle, end: fitted values at both ends and half-way; top, bottom: fitted extremes.
        noise_sd: noise of one point around the shape. chi2: gain over the constant.
        step: whether the best fit is one level, and another from the knot on.
    """

    word: str
    knot: int | None
    start: float
    middle: float
    end: float
    top: float
    bottom: float
    noise_sd: float
    chi2: float
    tail_slope: float
    step: bool = False

    @property
    def moved(self) -> bool:
        """Whether anything but noise was seen."""
        return self.word != "flat"

    @property
    def gain(self) -> float:
        """Fitted end minus fitted start."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _Tails:
    """Candidates with a slope before their knot and one after it.

    Attributes:
        of: which candidates, shape (n,). slopes: head and tail slope from the medians, shape (n, 2, blocks).
        covariances: theirs for unit noise, shape (n, 2, 2).
    """

    of: NDArray[np.intp]
    slopes: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @classmethod
    def made(cls, of: list[int], designs: list[NDArray[np.float64]]) -> _Tails:
        """From designs with the columns constant, head, tail."""
        return cls(
            np.array(of),
            np.stack([np.linalg.pinv(x)[1:] for x in designs]),
            np.stack([np.linalg.inv(x.T @ x)[1:, 1:] for x in designs]),
        )


@dataclass(frozen=True, slots=True)
class _Candidates:
    kinds: tuple[str, ...]
    knots: tuple[int, ...]
    designs: tuple[NDArray[np.float64], ...]
    hats: NDArray[np.float64]
    costs: NDArray[np.float64]
    free_knots: NDArray[np.float64]
    parameters: NDArray[np.float64]
    bends: _Tails
    passages: _Tails


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
    rows += [
        ("passage", last, np.column_stack((one, np.clip(t, first, last))), 2, 2)
        for first in range(1, k - 4)
        for last in range(first + 2, k - 2)
    ]
    rows += [("step", knot, np.column_stack((one, (t >= knot).astype(float))), 2, 1) for knot in range(2, k - 1)]
    hats = np.stack([x @ np.linalg.pinv(x) for _, _, x, _, _ in rows])
    bent = [i for i, r in enumerate(rows) if r[0] == "bend"]
    passing = [i for i, r in enumerate(rows) if r[0] == "passage"]
    with_tails = [np.column_stack((rows[i][2], np.maximum(t - rows[i][1], 0.0))) for i in passing]
    return _Candidates(
        tuple(r[0] for r in rows),
        tuple(r[1] for r in rows),
        tuple(r[2] for r in rows),
        hats,
        np.array([PARAMETER_COST * r[3] + KNOT_COST * r[4] for r in rows]),
        np.array([float(r[4]) for r in rows]),
        np.array([float(r[3] + r[4]) for r in rows]),
        _Tails.made(bent, [rows[i][2] for i in bent]),
        _Tails.made(passing, with_tails),
    )


def _above_zero(value: Floats, variance: Floats) -> Floats:
    """Probability that each quantity is positive, given its estimate and variance."""
    z = value / np.sqrt(variance)
    return np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in z.tolist()])


def _by_its_tail(values: Floats, gain: float) -> str:
    """What a plateau is called once its last part has been asked: smooth curves bend where no knot is."""
    tail = two_scale(values[-max(MIN_POINTS, int(TAIL * values.size)) :])
    if tail is not None and tail.rises(TAIL_P) and tail.change > WORTH * gain:
        return "slowing"
    if tail is not None and tail.falls(TAIL_P) and -tail.change > PEAK_LOSS * gain:
        return "peaked"
    return "plateau"


def _tail_of_rise(tails: _Tails, medians: Floats, chi2: Floats, variance: float) -> str:
    """Whether a rise goes on, slows or has ended, over every place where it may do so."""
    slopes = tails.slopes @ medians
    likelihood = np.exp(-0.5 * (chi2[tails.of] - chi2[tails.of].min())) * (slopes[:, 0] > 0.0)
    return _likeliest(slopes, tails.covariances * variance, likelihood) if likelihood.any() else "rising"


def _likeliest(slopes: NDArray[np.float64], covariances: NDArray[np.float64], likelihood: Floats) -> str:
    """The likeliest word for the tail of a rise.

    Args:
        slopes: head and tail slope of each fit, shape (fits, 2). covariances: theirs, shape (fits, 2, 2).
        likelihood: of each fit, shape (fits,).
    """
    weights = likelihood / likelihood.sum()

    def exceeds(share: float) -> float:
        contrast = np.array([-share, 1.0])
        spread = np.einsum("i,fij,j->f", contrast, covariances, contrast)
        return float(weights @ _above_zero(slopes @ contrast, spread))

    moves, keeps = exceeds(FLAT), exceeds(SLOWING)
    belief = {"plateau": 1.0 - moves, "slowing": moves - keeps, "rising": keeps}
    return max(belief, key=lambda word: belief[word] * TAIL_WEIGHT[word])


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
        return Shape("flat", None, level, level, level, level, level, 0.0, 0.0, 0.0)
    # BIC: ln K a parameter, and half of one more for a knot, which can sit anywhere.
    knot_extra = 0.5 * bank.free_knots
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
        return Shape("flat", None, level, level, level, level, level, point_sd, gain, 0.0)

    if bank.kinds[pick] == "line" and fitted[-1] > fitted[0]:
        goes_on = _tail_of_rise(bank.bends, medians, chi2, variance)
        if goes_on != "rising":
            # the curve that is told must be the one that the word is about
            wanted = "ramp" if goes_on == "plateau" else "bend"
            alike = [i for i, other in enumerate(bank.kinds) if other == wanted]
            pick = alike[int(np.argmin(chi2[alike]))]
            fitted = fits[pick]
    kind, knot = bank.kinds[pick], bank.knots[pick]
    start, end = float(fitted[0]), float(fitted[-1])
    top, bottom = float(fitted.max()), float(fitted.min())
    knot_point: int | None = edges[knot] if kind == "step" else (edges[knot] + edges[knot + 1]) // 2 if knot else None
    tail_slope = 0.0
    if kind == "line":
        word = _tail_of_rise(bank.bends, medians, chi2, variance) if end > start else "declining"
        tail_slope = (end - start) / n
    elif kind == "ramp":
        word = "bottomed" if end <= start else _tail_of_rise(bank.bends, medians, chi2, variance)
    elif kind == "passage":
        word = "bottomed" if end <= start else _tail_of_rise(bank.passages, medians, chi2, variance)
    elif kind == "step":
        late = knot >= 0.75 * k
        word = ("jumped" if late else "plateau") if end > start else "collapsed"
    else:
        at_knot = int(np.flatnonzero(bank.bends.of == pick)[0])
        head, tail = (float(c) for c in bank.bends.slopes[at_knot] @ medians)
        tail_t = tail / math.sqrt(float(bank.bends.covariances[at_knot][1, 1]) * variance)
        tail_slope = tail / m
        head_span = abs(head) * knot
        tail_span = abs(tail) * (k - 1 - knot)
        if head > 0.0 and tail_t < -TAIL_T and tail_span > PEAK_LOSS * head_span:
            word = "peaked"
        elif head < 0.0 and tail_t < -TAIL_T:
            word = "declining"
        elif head > 0.0:
            word = _tail_of_rise(bank.bends, medians, chi2, variance)
        elif tail_t > TAIL_T:
            # it fell (or stood), and climbs now: still below its start it has not regained anything
            word = "rising" if tail_span > PEAK_LOSS * head_span else "bottomed"
        else:
            word = "flat" if head_span < math.sqrt(variance) * 2.0 else "bottomed"
        if word in ("peaked", "plateau") and head_span < math.sqrt(variance) * 2.0:
            word = "declining" if word == "peaked" else "flat"
    if word == "plateau":
        word = _by_its_tail(values, end - start)
    middle = float(np.interp((k - 1) / 2.0, np.arange(k), fitted))
    return Shape(word, knot_point, start, middle, end, top, bottom, point_sd, gain, tail_slope, kind == "step")
