"""Series of which the truth is known, for the tests of what is told of them."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def noise(rng: np.random.Generator, n: int, phi: float) -> Array:
    """AR(1) noise of standard deviation 1."""
    e = rng.standard_normal(n) * np.sqrt(1.0 - phi * phi)
    e[0] = rng.standard_normal()
    for i in range(1, n):
        e[i] += phi * e[i - 1]
    return e


def saturating(rng: np.random.Generator, family: str, n: int) -> Array:
    """A noiseless curve of 2 n points that starts at 0.2 and gains about 0.5."""
    t = np.arange(1, 2 * n + 1) / n
    m, gain = rng.uniform(0.1, 0.8), rng.uniform(0.3, 0.6)
    if family == "hill":
        g = 1.0 / (1.0 + (m / t) ** rng.uniform(1.0, 3.0))
    elif family == "exponential":
        g = 1.0 - np.exp(-t / m)
    elif family == "power":
        g = 1.0 - (1.0 + t / (0.3 * m)) ** -rng.uniform(0.4, 1.2)
    else:
        g = 0.25 * np.log1p(t / (0.1 * m))
    return np.asarray(0.2 + gain * g)
