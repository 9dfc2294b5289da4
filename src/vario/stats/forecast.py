"""What would more steps bring? A mixture of saturating curves, widened by how far it missed before.

Every cell of a small bank (Hill, exponential, power; where it bends, how sharply) is a straight line in
`a + b g(t)`, so its posterior is closed form; the cells are weighed by their evidence, memory of the noise
included. The same forecast made from 50 to 80 % of the data must have hit what came after: its misses widen
the interval, and where it does not beat "no change" there, nothing is forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vario.run import Floats
from vario.stats.spread import hampel, memory

BLOCKS = 64
LEAST = 20
"""Points below which no curve is fitted."""
CUTS = (0.5, 0.6, 0.7, 0.8)
"""Shares of the data from which the present is forecast, to see how far the bank misses."""
NARROWEST, WIDEST = 0.8, 5.0
"""The posterior alone is a little too wide on simulated curves (bench/forecasts.py): hits may narrow it a little."""
MODEL_ERROR = 0.1
"""Share of the forecast change that is added to each side: what no backtest shows, since none looks as far ahead."""
DRAWS = 4000
FAN = 8
"""Places on the way to the horizon for which the level is given too."""
TENTH, NINETIETH = 10.0, 90.0
GAIN_SDS = 2.0
"""Prior spread of a curve's whole gain, in ranges of the data seen: more than twice what was seen is not expected."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A level ahead, if the present regime lasts.

    Attributes:
        now: fitted level at the last point; expected: median level at the horizon; low, high: 80 % interval.
        gain: expected change from now; gain_low, gain_high: its 80 % interval.
        chance: probability of a gain of more than `worth`.
        widened: factor by which the misses of earlier forecasts widened the interval (0.8 to 5).
        skill: 1 - (squared error of earlier forecasts / that of "no change"); at or below 0 it knows nothing.
        fan: the way there, at even distances: how far ahead (a share of what was seen), low, expected, high.
    """

    now: float
    expected: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    chance: float
    widened: float
    skill: float
    fan: tuple[tuple[float, float, float, float], ...] = ()


@lru_cache(maxsize=1)
def _bank() -> tuple[tuple[str, float, float], ...]:
    """Cells (family, m, B) with m in lengths of the data seen."""
    places = np.geomspace(0.05, 4.0, 12).tolist()
    cells = [("hill", m, b) for m in places for b in (0.7, 1.0, 1.5, 2.5, 4.0)]
    cells += [("exponential", m, 1.0) for m in places]
    cells += [("power", m, b) for m in places for b in (0.05, 0.3, 0.7, 1.5)]
    return tuple(cells)


def _grow(t: Floats) -> NDArray[np.float64]:
    """Each cell's curve at times `t` (in lengths of the data seen), shape (cells, n), 0 at 0 and 1 in the end."""
    rows = []
    for family, m, b in _bank():
        if family == "hill":
            rows.append(1.0 / (1.0 + (m / np.maximum(t, 1e-9)) ** b))
        elif family == "exponential":
            rows.append(1.0 - np.exp(-t / m))
        else:
            rows.append(1.0 - (1.0 + t / m) ** -b)
    return np.stack(rows)


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Every cell's intercept and gain with covariance, and its weight."""

    weights: Floats
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]


def _fit(t: Floats, y: Floats) -> _Posterior:
    curves = _grow(t)
    n = y.size
    spread = max(float(np.ptp(y)), 1e-12)
    centre = float(y.mean())
    design = np.stack((np.ones_like(curves), curves), axis=2)  # (cells, n, 2)
    gram = np.einsum("cni,cnj->cij", design, design)
    target = np.einsum("cni,n->ci", design, y - centre)
    plain = np.einsum("cij,cj->ci", np.linalg.pinv(gram), target)
    residuals = (y - centre) - np.einsum("cni,ci->cn", design, plain)
    sse = (residuals**2).sum(axis=1)
    best = int(np.argmin(sse))
    rho = min(memory(residuals[best]), 0.9)
    variance = max(float(sse[best]) / max(n - 4.0, 1.0), (1e-6 * spread) ** 2) * (1.0 + rho) / (1.0 - rho)
    prior = np.diag([1.0 / (10.0 * spread) ** 2, 1.0 / (GAIN_SDS * spread) ** 2])
    precision = gram / variance + prior
    covariances = np.linalg.inv(precision)
    means = np.einsum("cij,cj->ci", covariances, target / variance)
    evidence = 0.5 * np.einsum("ci,cij,cj->c", means, precision, means) - 0.5 * np.linalg.slogdet(precision)[1]
    weights = np.exp(evidence - evidence.max())
    means[:, 0] += centre
    return _Posterior(weights / weights.sum(), means, covariances)


def _draw(posterior: _Posterior, at: Floats, ceiling: float | None, floor: float | None) -> NDArray[np.float64]:
    """Levels at times `at`, shape (draws, times), within the bounds; curves that would end beyond them are left out."""
    rng = np.random.default_rng(0)
    cells = rng.choice(posterior.weights.size, DRAWS, p=posterior.weights)
    root = np.linalg.cholesky(posterior.covariances + 1e-300 * np.eye(2))
    pairs = posterior.means[cells] + np.einsum("dij,dj->di", root[cells], rng.standard_normal((DRAWS, 2)))
    levels = pairs[:, :1] + pairs[:, 1:] * _grow(at)[cells]
    end = pairs.sum(axis=1)
    kept = np.ones(DRAWS, dtype=bool)
    if ceiling is not None:
        kept &= end <= ceiling + 1e-9
    if floor is not None:
        kept &= end >= floor - 1e-9
    if kept.sum() < DRAWS // 50:
        kept[:] = True
    return np.asarray(np.clip(levels[kept], *_bounds(floor, ceiling)))


def _bounds(floor: float | None, ceiling: float | None) -> tuple[float, float]:
    return -math.inf if floor is None else floor, math.inf if ceiling is None else ceiling


def _blocks(values: Floats) -> tuple[Floats, Floats]:
    """Times (shares of the data seen) and means of at most 64 blocks."""
    n = values.size
    size = -(-n // BLOCKS)
    whole = n // size * size
    means = values[n - whole :].reshape(-1, size).mean(axis=1)
    first = n - whole + (size + 1) / 2.0
    return (first + size * np.arange(means.size)) / n, np.asarray(means)


def forecast(
    values: Floats,
    ahead: float,
    *,
    worth: float = 0.0,
    ceiling: float | None = None,
    floor: float | None = None,
) -> Forecast | None:
    """Forecast the level of equally spaced points `ahead` of their own length from now.

    Args:
        values: finite, shape (n,).
        ahead: how far, as a share of what was seen: 0.25 for a quarter more steps.
        worth: smallest gain that counts.
        ceiling, floor: bounds of the metric.

    Returns None for fewer than 20 points, or values that do not move at all.
    """
    if values.size < LEAST or float(np.ptp(values)) <= 0.0:
        return None
    t, y = _blocks(hampel(values))
    distances = ahead * np.arange(FAN + 1) / FAN
    levels = _draw(_fit(t, y), 1.0 + distances, ceiling, floor)
    now, later = levels[:, 0], levels[:, -1]
    change = later - now
    widened, skill = _backtest(t, y, ceiling, floor)
    gain = float(np.median(change))
    extra = MODEL_ERROR * abs(gain)
    low, expected, high = _interval(later, widened, extra)
    gain_low, _, gain_high = _interval(change, widened, extra)
    level, (least, most) = float(np.median(now)), _bounds(floor, ceiling)
    low, high = max(low, least), min(high, most)
    fan = tuple(
        (float(distance), max(a, least), b, min(c, most))
        for distance, (a, b, c) in (
            (distances[i], _interval(levels[:, i], widened, extra * float(distances[i]) / ahead))
            for i in range(FAN + 1)
        )
    )
    gain_low, gain_high = max(gain_low, min(least - level, gain)), min(gain_high, max(most - level, gain))
    chance = float((gain + (change - gain) * widened > worth).mean())
    return Forecast(level, expected, low, high, gain, gain_low, gain_high, chance, widened, skill, fan)


def _interval(draws: Floats, widened: float, extra: float) -> tuple[float, float, float]:
    """Tenth, median and ninetieth percentile, the outer ones moved away from the median."""
    low, middle, high = (float(q) for q in np.percentile(draws, [TENTH, 50.0, NINETIETH]))
    return middle - widened * (middle - low) - extra, middle, middle + widened * (high - middle) + extra


def _backtest(t: Floats, y: Floats, ceiling: float | None, floor: float | None) -> tuple[float, float]:
    """How far forecasts from earlier cuts missed the present, and whether they beat "no change"."""
    misses, squared, still, middling = [], 0.0, 0.0, 0.0
    tail = y[-max(2, y.size // 10) :]
    at = float(t[-tail.size :].mean())
    present, error = float(tail.mean()), float(np.diff(y).std()) / math.sqrt(2.0 * tail.size)
    for cut in CUTS:
        count = round(cut * y.size)
        if count < 8:
            continue
        seen = float(t[count - 1])
        levels = _draw(_fit(t[:count] / seen, y[:count]), np.array([1.0, at / seen]), ceiling, floor)
        predicted, spread = float(np.median(levels[:, 1])), float(levels[:, 1].std())
        before = float(y[max(0, count - tail.size) : count].mean())
        misses.append((present - predicted) / max(math.hypot(spread, error), 1e-12))
        squared += (present - predicted) ** 2
        still += (present - before) ** 2
        middling += (present - float(y[:count].mean())) ** 2
    if not misses:
        return WIDEST, 0.0
    widened = min(max(math.sqrt(float(np.mean(np.square(misses)))), NARROWEST), WIDEST)
    # "no change" from the level of late, or from the mean of everything: on pure noise the latter is the better guess
    naive = min(still, middling)
    return widened, 1.0 - squared / naive if naive > 1e-9 * squared else 0.0
