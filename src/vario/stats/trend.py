"""Is it trending? The two-scale test.

A fine scale (least squares with an effective sample size for AR(1) noise) and a coarse scale
(least squares over eight block medians); the larger p and the wider interval win. AR(1)
correction alone fails where slow drift hides under white noise, blocks alone fail where memory
is long and points are few. Method and error rates: the project's statistics bench.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vario.run import Floats
from vario.stats.spread import block_medians, hampel, memory
from vario.stats.student import critical, two_sided_p

MIN_POINTS = 24
COARSE_BLOCKS = 8
CONFIDENCE = 0.90


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through a window, honestly tested.

    Attributes:
        slope: units per point.
        low, high: 90 % interval of the slope.
        p: two-sided p of no trend.
        change: slope times window, in units.
        change_sds: the same in standard deviations of the noise; 0 where there is no noise
            and no change, infinite where there is a change without noise.
        noise_sd: standard deviation around the line. memory: its lag-one correlation.
    """

    slope: float
    low: float
    high: float
    p: float
    change: float
    change_sds: float
    noise_sd: float
    memory: float
    points: int

    def rises(self, p: float = 0.05) -> bool:
        """Whether it moves up beyond its noise."""
        return self.p < p and self.slope > 0.0

    def falls(self, p: float = 0.05) -> bool:
        """Whether it moves down beyond its noise."""
        return self.p < p and self.slope < 0.0


def two_scale(values: Floats) -> Trend | None:
    """Two-scale trend test of equally spaced points; None below 24 of them.

    Args:
        values: shape (n,), finite.
    """
    n = values.size
    if n < MIN_POINTS:
        return None
    y = hampel(values)
    t = np.arange(n, dtype=float)
    t -= t.mean()
    sum_t2 = float(t @ t)
    slope = float(t @ y) / sum_t2
    residual = y - y.mean() - slope * t
    energy = float(residual @ residual)
    noise_sd = math.sqrt(energy / (n - 2))
    scale = max(abs(float(y.max())), abs(float(y.min())))
    if noise_sd <= 1e-12 * max(scale, 1e-300):
        moved = abs(slope) * n > 1e-9 * max(scale, 1e-300)
        slope = slope if moved else 0.0
        return Trend(
            slope,
            slope,
            slope,
            0.0 if moved else 1.0,
            slope * n,
            math.copysign(math.inf, slope) if moved else 0.0,
            0.0,
            0.0,
            n,
        )
    rho = memory(residual)
    n_eff = max(n * (1.0 - rho) / (1.0 + rho), 3.0)
    se2 = max(energy / (n_eff - 2.0), energy / (n - 2) * (1.0 + rho) / (1.0 - rho)) / sum_t2
    fine_se = math.sqrt(se2)
    fine_dof = max(n_eff - 2.0, 1.0)
    p_fine = two_sided_p(slope / fine_se, fine_dof)

    medians = block_medians(y, COARSE_BLOCKS)
    u = np.arange(COARSE_BLOCKS, dtype=float) - (COARSE_BLOCKS - 1) / 2.0
    sum_u2 = float(u @ u)
    coarse = float(u @ medians) / sum_u2
    scatter = medians - medians.mean() - coarse * u
    coarse_se = math.sqrt(float(scatter @ scatter) / (COARSE_BLOCKS - 2) / sum_u2)
    p_coarse = (
        two_sided_p(coarse / coarse_se, COARSE_BLOCKS - 2) if coarse_se > 0.0 else (1.0 if coarse == 0.0 else 0.0)
    )
    if coarse * slope < 0.0:
        p_coarse = 1.0
    half = max(
        critical(1.0 - CONFIDENCE, fine_dof) * fine_se,
        critical(1.0 - CONFIDENCE, COARSE_BLOCKS - 2) * coarse_se * COARSE_BLOCKS / n,
    )
    return Trend(
        slope, slope - half, slope + half, max(p_fine, p_coarse), slope * n, slope * n / noise_sd, noise_sd, rho, n
    )


def between_halves(values: Floats) -> float:
    """Standard errors by which the last half's mean lies above the first half's; 0 below 24 points.

    Each half has its own noise and memory.

    For noise that is uneven along the run, where a fit of one noise level to all of it sees nothing.
    """
    n = values.size
    if n < MIN_POINTS:
        return 0.0
    first, last = values[: n // 2], values[n // 2 :]
    variance = 0.0
    for half in (first, last):
        rho = memory(half)
        variance += float(half.var(ddof=1)) / half.size * (1.0 + rho) / (1.0 - rho)
    return float(last.mean() - first.mean()) / math.sqrt(variance) if variance > 0.0 else 0.0
