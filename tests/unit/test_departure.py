"""From when on two series are apart for good: where they are, and hardly ever where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.stats.departure import departure

N = 120


def climb(n: int = N) -> np.ndarray:
    return 20.0 * (1.0 - np.exp(-np.arange(n) / (0.3 * n)))


@pytest.mark.parametrize(("phi", "most"), [(0.0, 0.01), (0.5, 0.02), (0.9, 0.12)])
@pytest.mark.parametrize("n", [30, 60, 240])
def test_alike_series_hardly_ever_part(phi: float, most: float, n: int) -> None:
    rng = np.random.default_rng(1)
    runs = 200
    flat = sum(departure(noise(rng, n, phi), noise(rng, n, phi)) is not None for _ in range(runs)) / runs
    risen = sum(departure(climb(n) + noise(rng, n, phi), climb(n) + noise(rng, n, phi)) is not None for _ in range(runs)) / runs
    print(f"false departures, memory {phi}, {n} points: flat {flat:.3f}, risen {risen:.3f}")
    # ten blocks of three points know little of a memory of ten
    allowed = most if n > 30 or phi < 0.9 else 0.2
    assert flat <= allowed
    assert risen <= allowed


@pytest.mark.parametrize("phi", [0.0, 0.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_is_found_where_it_is(phi: float, sign: float) -> None:
    rng = np.random.default_rng(2)
    runs, placed = 60, 0
    for _ in range(runs):
        other = climb() + noise(rng, N, phi) + np.where(np.arange(N) >= 60, sign * 4.0, 0.0)
        at = departure(climb() + noise(rng, N, phi), other)
        placed += at is not None and abs(at - 60) <= 5
    print(f"steps of 4 sd found in place, memory {phi}: {placed / runs:.3f}")
    assert placed / runs >= 0.9


def test_series_that_drift_apart_part_after_they_begin_to() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        other = noise(rng, N, 0.3) + np.maximum(np.arange(N) - 60, 0) / 60 * 8.0
        found.append(departure(noise(rng, N, 0.3), other))
    told = [at for at in found if at is not None]
    assert len(told) >= 38
    assert 60 <= np.median(told) <= 85
    assert min(told) >= 50


def test_series_apart_from_the_start_part_there() -> None:
    rng = np.random.default_rng(4)
    assert departure(noise(rng, N, 0.3), 5.0 + noise(rng, N, 0.3)) == 0


def test_series_that_come_back_do_not_part_for_good() -> None:
    rng = np.random.default_rng(5)
    away = np.where((np.arange(N) >= 30) & (np.arange(N) < 60), 5.0, 0.0)
    came_back = sum(departure(noise(rng, N, 0.3), noise(rng, N, 0.3) + away) is not None for _ in range(40))
    assert came_back <= 4


def test_series_that_cross_part_only_after_they_crossed() -> None:
    rng = np.random.default_rng(6)
    swing = np.where(np.arange(N) < 60, 5.0, -5.0)
    for _ in range(20):
        at = departure(noise(rng, N, 0.3), noise(rng, N, 0.3) + swing)
        assert at is not None
        assert 55 <= at <= 65


def test_single_wild_points_are_no_departure() -> None:
    rng = np.random.default_rng(7)
    a, b = noise(rng, N, 0.3), noise(rng, N, 0.3)
    b[[20, 50, 90]] = 100.0
    assert departure(a, b) is None


def test_without_noise_the_first_point_that_differs_counts() -> None:
    a = climb()
    assert departure(a, a) is None
    assert departure(a, a.copy() + 1e-12) is None, "rounding"
    assert departure(a, a + 1.0) == 0
    assert departure(np.full(N, 0.3), np.full(N, 0.4)) == 0
    assert departure(np.zeros(N), np.full(N, 0.4)) == 0
    assert departure(np.full(N, 0.3), np.full(N, 0.3)) is None


def test_too_few_points_say_nothing_and_the_longer_one_is_cut() -> None:
    rng = np.random.default_rng(8)
    a, b = noise(rng, 200, 0.0), 6.0 + noise(rng, 200, 0.0)
    assert departure(a[:23], b[:23]) is None
    assert departure(a[:24], b[:24]) == 0
    assert departure(a, b[:60]) == departure(a[:60], b[:60]) == 0


def test_units_and_sides_do_not_matter() -> None:
    rng = np.random.default_rng(9)
    a = noise(rng, N, 0.3)
    b = noise(rng, N, 0.3) + np.where(np.arange(N) >= 70, 5.0, 0.0)
    assert departure(a, b) == departure(b, a) == departure(1e-6 * a, 1e-6 * b) == departure(1e6 * a + 3.0, 1e6 * b + 3.0)
