"""Two laws of the literature, each told only where it holds on the run at hand.

Reward against entropy, R = b - a e^H (Cui et al. 2025, arXiv 2505.22617), for runs whose entropy nobody steers.
Overoptimisation, R(d) = d (a - b ln d) with d = sqrt(KL per sequence) (Gao et al. 2022, arXiv 2210.10760), which
needs a score near the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vario.run import Floats
from vario.stats.spread import memory

LEAST_POINTS = 40
MOST_ENTROPY = 20.0
"""Nats that no token has: the entropy of a uniform choice among 260,000 is 12.5. Beyond it the unit is another."""
HOLDS = 0.5
"""Out-of-sample share of variance that the law must explain in the last third to be told."""
NARROW = 2.0
"""Upper over lower end of a peak's interval above which it says nothing."""
REACH = 0.7
"""Share of the peak's distance that the data must have reached."""
DRAWS = 2000
EIGHTY = 1.2816
"""Normal quantile of an 80 % interval."""


@dataclass(frozen=True, slots=True)
class EntropyCeiling:
    """Reward at entropy 0 with its 80 % interval, and the share of e^H - 1 that is left to spend."""

    ceiling: float
    low: float
    high: float
    left: float


def entropy_ceiling(reward: Floats, entropy: Floats) -> EntropyCeiling | None:
    """Fit R = b - a e^H.

    Args:
        reward, entropy: finite, shape (n,), step by step. Entropy in nats.

    Returns None below 40 points, where entropy has not fallen, or where the first two thirds do not predict the last.
    """
    n = reward.size
    if n < LEAST_POINTS or float(np.abs(entropy).max()) > MOST_ENTROPY:
        return None
    if float(entropy[: n // 4].mean()) <= float(entropy[-n // 4 :].mean()):
        return None
    x = np.exp(entropy)
    cut = 2 * n // 3
    early = _line(x[:cut], reward[:cut])
    if early is None:
        return None
    predicted = early[0] + early[1] * x[cut:]
    before = float(reward[cut // 2 : cut].mean())
    squared = float(((reward[cut:] - predicted) ** 2).sum())
    naive = float(((reward[cut:] - before) ** 2).sum())
    if naive <= 0.0 or 1.0 - squared / naive < HOLDS:
        return None
    fitted = _line(x, reward)
    if fitted is None or fitted[1] >= 0.0:
        return None
    intercept, slope = fitted
    residual = reward - intercept - slope * x
    rho = memory(residual)
    variance = float(residual.var()) * (1.0 + rho) / (1.0 - rho)
    spread = float(((x - x.mean()) ** 2).sum())
    ceiling = intercept + slope
    error = math.sqrt(variance * (1.0 / n + (1.0 - float(x.mean())) ** 2 / spread)) * EIGHTY
    start = float(x[: max(n // 10, 1)].mean()) - 1.0
    left = (float(x[-max(n // 10, 1) :].mean()) - 1.0) / start if start > 0.0 else 0.0
    return EntropyCeiling(ceiling, ceiling - error, ceiling + error, min(max(left, 0.0), 1.0))


def _line(x: Floats, y: Floats) -> tuple[float, float] | None:
    centred = x - x.mean()
    energy = float(centred @ centred)
    if energy <= (1e-9 * float(np.abs(x).max())) ** 2 * x.size:
        return None
    slope = float(centred @ y) / energy
    return float(y.mean()) - slope * float(x.mean()), slope


@dataclass(frozen=True, slots=True)
class Overoptimisation:
    """KL per sequence (nats) at which the score peaks, with its 80 % interval."""

    kl: float
    low: float
    high: float


def overoptimisation_peak(kl: Floats, score: Floats) -> Overoptimisation | None:
    """Fit R(d) - R(0) = d (a - b ln d).

    Args:
        kl: nats per sequence, from 0 on, shape (n,). score: near the truth, shape (n,).

    Returns None below 8 points, where the peak's interval is wider than a factor 2, or too far from the data.
    """
    if score.size < 8 or float(kl.max()) <= 0.0:
        return None
    d = np.sqrt(np.maximum(kl, 1e-12))
    design = np.column_stack((np.ones_like(d), d, -d * np.log(d)))
    coefficients, _, rank, _ = np.linalg.lstsq(design, score, rcond=None)
    if rank < design.shape[1]:
        return None
    residual = score - design @ coefficients
    rho = memory(residual)
    variance = float(residual @ residual) / max(score.size - 3, 1) * (1.0 + rho) / (1.0 - rho)
    covariance = np.linalg.pinv(design.T @ design) * variance
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(coefficients, covariance, DRAWS, method="eigh", check_valid="ignore")
    good = draws[:, 2] > 0.0
    if good.mean() < 0.95 or coefficients[2] <= 0.0:
        return None
    # in logarithms: where nothing bounds it the peak lies beyond every float
    peaks = 2.0 * (draws[good, 1] / draws[good, 2] - 1.0)
    best = math.exp(min(2.0 * (float(coefficients[1]) / float(coefficients[2]) - 1.0), 700.0))
    low, high = (math.exp(min(float(q), 700.0)) for q in np.percentile(peaks, [10.0, 90.0]))
    if not low > 0.0 or high / low > NARROW**2 or float(d.max()) < REACH * math.sqrt(best):
        return None
    return Overoptimisation(best, low, high)
