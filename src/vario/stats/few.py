"""What a handful of evaluations says: too few for the shape test, and far apart enough to have no memory.

Means of three against each other and against the scatter of single values; the fall is held against the best of
all of them, which is lucky by itself, and the bound says how lucky (bench/error_rates.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vario.run import Floats
from vario.stats.student import critical

LEAST = 6
MANY = 40
"""From so many points on the shape test has its power."""
THREE = 3
RISEN_SDS = 3.0
"""Standard errors of a difference of means of three that make a rise."""
FALLEN_SDS = 4.0
"""The same for a fall from the best of all means of three: luck alone lifts that by about one and a half."""


@dataclass(frozen=True, slots=True)
class Few:
    """A few values in order.

    Attributes:
        best: largest mean of three neighbours, at index `at`; now: mean of the last three; start: of the first three.
        noise_sd: scatter of one value around its neighbours. change_high: upper end of the 90 % interval of the
            change that a line through them makes.
    """

    start: float
    best: float
    now: float
    at: int
    noise_sd: float
    change_high: float

    @property
    def _error(self) -> float:
        return self.noise_sd * math.sqrt(2.0 / THREE)

    def rose(self) -> bool:
        """Whether it stands above its start, beyond its scatter."""
        return self.now - self.start > RISEN_SDS * self._error and self.now > self.start

    def fell(self) -> bool:
        """Whether it stands below its best, beyond its scatter and the luck of a best."""
        return self.best - self.now > FALLEN_SDS * self._error and self.best > self.now


def few_points(values: Floats) -> Few | None:
    """Read a few values, finite, shape (n,); None below six."""
    n = values.size
    if n < LEAST:
        return None
    means = np.convolve(values, np.ones(THREE) / THREE, mode="valid")
    at = int(np.argmax(means))
    around = values[1:-1] - 0.5 * (values[:-2] + values[2:])
    noise = float(np.sqrt(np.mean(np.square(around)) / 1.5))
    t = np.arange(n) - (n - 1) / 2.0
    energy = float(t @ t)
    slope = float(t @ values) / energy
    residual = values - values.mean() - slope * t
    error = math.sqrt(float(residual @ residual) / (n - 2) / energy)
    high = (slope + critical(0.1, n - 2.0) * error) * (n - 1)
    return Few(float(means[0]), float(means[at]), float(means[-1]), at + 1, noise, high)
