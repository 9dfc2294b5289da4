"""Modes: whether the lengths of a step's completions, inside their groups, are of two kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.sources.rollouts.bytes import Floats

LEAST = 64
"""Completions: fewer cannot tell two modes from one (methods, 5.4)."""
UNIFORM = 5.0 / 9.0
"""The coefficient of a uniform distribution; below it one mode is taken to fit."""
ROUNDS = 60
BETTER, MINOR = 6.0, 0.1
"""Two Gaussians must be better by so much BIC, and the smaller hold so much, to be two modes (methods, 5.4)."""
LEAST_VARIANCE = 1e-3
FLAT = 1e-6
DISTINCT = 2
"""Values to a length at most: the dip test takes the steps between few whole numbers for modes (methods, 5.4)."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Bimodality of one step's lengths; None where it cannot be told."""

    coefficient: float
    separation: float
    dip_p: float | None


def modes(apart: Floats, distinct: int) -> Modes | None:
    """Coefficient, distance of two modes in their own spreads, and p of the dip test.

    Args:
        apart: log length minus the mean of its group, completions that were not cut, shape (n,). None below 64
            values, or where all are equal.
        distinct: how many different lengths there were.
    """
    n, spread = apart.size, float(apart.std())
    if n < LEAST or spread <= FLAT:
        return None
    z = (apart - apart.mean()) / spread
    skew = float((z**3).mean()) * (n * (n - 1)) ** 0.5 / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (float((z**4).mean()) - 3.0) + 6.0)
    coefficient = (skew**2 + 1.0) / (excess + 3.0 * (n - 1) ** 2 / ((n - 2) * (n - 3)))
    coefficient = float(min(max(coefficient, 0.0), 1.0))
    return Modes(
        coefficient,
        separation(apart) if coefficient > UNIFORM else 0.0,
        _dip(apart) if DISTINCT * distinct >= n else None,
    )


def separation(apart: Floats) -> float:
    """Distance of two Gaussians' means over their pooled spread; 0 where one fits as well or one of two holds little.

    Fitted by 60 rounds of expectation and maximisation from the 20th and 80th percentile.
    """
    weight, means = 0.5, np.quantile(apart, [0.2, 0.8])
    sd = np.full(2, max(float(apart.std()) / 2.0, LEAST_VARIANCE**0.5))
    parts = np.zeros((2, apart.size))
    for _ in range(ROUNDS):
        parts = np.array([weight, 1.0 - weight])[:, None] * _bell(apart, means, sd)
        share = parts / np.maximum(parts.sum(axis=0), 1e-300)
        size = share.sum(axis=1) + 1e-9
        weight, means = float(size[0] / apart.size), share @ apart / size
        sd = np.sqrt(np.maximum((share * (apart - means[:, None]) ** 2).sum(axis=1) / size, LEAST_VARIANCE))
    two = float(np.log(np.maximum(parts.sum(axis=0), 1e-300)).sum())
    whole = np.array([apart.mean()]), np.array([max(float(apart.std()), LEAST_VARIANCE**0.5)])
    one = float(np.log(np.maximum(_bell(apart, *whole)[0], 1e-300)).sum())
    if 2.0 * (two - one) - 3.0 * np.log(apart.size) < BETTER or min(weight, 1.0 - weight) < MINOR:
        return 0.0
    return float(abs(means[1] - means[0]) / np.sqrt((sd**2).mean()))


def _bell(x: Floats, means: Floats, sd: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * ((x - means[:, None]) / sd[:, None]) ** 2) / sd[:, None] / np.sqrt(2.0 * np.pi))


def _dip(apart: Floats) -> float | None:
    """P of Hartigan's dip test, where `diptest` is installed."""
    try:
        import diptest
    except ImportError:
        return None
    return float(diptest.diptest(apart)[1])
