"""Tail probabilities and quantiles of Student's t, without SciPy.

The regularised incomplete beta function by its continued fraction (Numerical Recipes 6.4);
tests compare it with tabulated quantiles.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300


def _continued_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    h = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            h *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return h


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued_fraction(a, b, x) / a
    return 1.0 - front * _continued_fraction(b, a, 1.0 - x) / b


def two_sided_p(t: float, dof: float) -> float:
    """P(|T| >= |t|) for Student's t with `dof` degrees of freedom (may be fractional)."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(dof / 2.0, 0.5, dof / (dof + t * t))


@lru_cache(maxsize=4096)
def _quantile(p_two_sided: float, dof: float) -> float:
    low, high = 0.0, 1.0
    while two_sided_p(high, dof) > p_two_sided and high < 1e6:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if two_sided_p(middle, dof) > p_two_sided:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def critical(p_two_sided: float, dof: float) -> float:
    """The |t| that is exceeded with probability `p_two_sided`; `dof` is taken to one decimal (to one below 60, to ten above)."""
    return _quantile(
        p_two_sided, round(dof, 1) if dof < 10 else float(round(dof)) if dof < 60 else float(round(dof, -1))
    )
