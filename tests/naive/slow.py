"""Slow, obviously right twins of vario.stats: plain loops and the statistics module."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def robust_sd(y: Sequence[float]) -> float:
    if not y:
        return 0.0
    middle = statistics.median(y)
    return 1.4826 * statistics.median(abs(v - middle) for v in y)


def running_median(y: Sequence[float], width: int = 7) -> list[float]:
    half, last = width // 2, len(y) - 1
    return [statistics.median(y[min(max(j, 0), last)] for j in range(i - half, i + half + 1)) for i in range(len(y))]


def hampel(y: Sequence[float]) -> list[float]:
    if len(y) < 7:
        return list(y)
    centre = running_median(y)
    bound = 3.5 * 1.3 * 1.4826 * statistics.median(abs(v - c) for v, c in zip(y, centre, strict=True))
    if bound <= 0.0:
        return list(y)
    return [min(max(v, c - bound), c + bound) for v, c in zip(y, centre, strict=True)]


def memory(y: Sequence[float]) -> float:
    n = len(y)
    if n < 3:
        return 0.0
    mean = statistics.fmean(y)
    energy = math.fsum((v - mean) ** 2 for v in y)
    if energy <= 0.0:
        return 0.0
    r = math.fsum((y[i] - mean) * (y[i - 1] - mean) for i in range(1, n)) / energy
    return min(max(r + (2.0 + 4.0 * r) / n, 0.0), 0.97)


def block_medians(y: Sequence[float], blocks: int) -> list[float]:
    n = len(y)
    return [statistics.median(y[round(i * n / blocks) : round((i + 1) * n / blocks)]) for i in range(blocks)]


def thin(y: Sequence[float], most: int) -> tuple[list[float], int]:
    size = 1
    while len(y) / size > most:
        size += 1
    blocks, left = [], list(y)
    while len(left) >= size:
        blocks.append(statistics.fmean(left[-size:]))
        del left[-size:]
    return blocks[::-1], size


def line(y: Sequence[float]) -> tuple[float, float]:
    found = statistics.linear_regression(range(len(y)), y)
    return found.slope, found.intercept


def t_density(t: float, dof: float) -> float:
    log = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    return math.exp(log - (dof + 1) / 2 * math.log1p(t * t / dof))


def two_sided_p(t: float, dof: float) -> float:
    """One minus twice Simpson's integral of the density from 0 to |t|."""
    n, t = 2000, abs(t)
    h = t / n
    area = t_density(0, dof) + t_density(t, dof)
    for i in range(1, n):
        area += (4 if i % 2 else 2) * t_density(i * h, dof)
    return 1.0 - 2.0 * area * h / 3.0


def smoothed(y: Sequence[float], width: int) -> list[float]:
    """numpy's `same` alignment: for an even width one more point from the left."""
    width = min(width, len(y))
    if width <= 1:
        return list(y)
    right = (width - 1) // 2
    left = width - 1 - right
    return [statistics.fmean(y[max(0, i - left) : i + right + 1]) for i in range(len(y))]


def simple_fit(columns: Sequence[Sequence[float]], y: Sequence[float]) -> list[float]:
    """Least squares by the normal equations and Gaussian elimination."""
    k = len(columns)
    a = [[math.fsum(p * q for p, q in zip(columns[i], columns[j], strict=True)) for j in range(k)] for i in range(k)]
    b = [math.fsum(p * q for p, q in zip(columns[i], y, strict=True)) for i in range(k)]
    for i in range(k):
        pivot = max(range(i, k), key=lambda r: abs(a[r][i]))
        a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
        for r in range(i + 1, k):
            f = a[r][i] / a[i][i]
            a[r] = [x - f * z for x, z in zip(a[r], a[i], strict=True)]
            b[r] -= f * b[i]
    found = [0.0] * k
    for i in reversed(range(k)):
        found[i] = (b[i] - math.fsum(a[i][j] * found[j] for j in range(i + 1, k))) / a[i][i]
    return [math.fsum(c * column[t] for c, column in zip(found, columns, strict=True)) for t in range(len(y))]


def spikes(y: Sequence[float], *, ratio: bool) -> list[tuple[int, int]]:
    found = []
    for i in range(15, len(y) - 3):
        window = y[i - 15 : i]
        local, sd = statistics.median(window), max(robust_sd(window), 1e-12)
        far = abs(y[i] - local) > 6 * sd and abs(y[i]) > 1e-12
        far = far and (abs(y[i]) > 6 * abs(local) if ratio else abs(y[i] - local) > 10 * sd)
        if far and abs(statistics.median(y[i + 1 : i + 4]) - local) < 0.33 * abs(y[i] - local):
            found.append((i, i + 3))
    return found


def zero_share(mean: float, concentration: float, group: int) -> float:
    """Chance that a group is all right or all wrong, as products over draws without logarithms."""
    a, b = mean * concentration, (1.0 - mean) * concentration
    right = wrong = 1.0
    for i in range(group):
        right *= (a + i) / (a + b + i)
        wrong *= (b + i) / (a + b + i)
    return right + wrong
