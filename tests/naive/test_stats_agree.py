"""Each statistic equals its obvious version on random series."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from tests.naive import slow
from vario.stats import noise_floor, peak, shape, shifts, spread, student, trend

SEEDS = range(12)


def series(seed: int, n: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(24, 300)) if n is None else n
    y = rng.normal(size=n)
    for i in range(1, n):
        y[i] += (0.0, 0.5, 0.9)[seed % 3] * y[i - 1]
    y += (0.0, 5.0, -2.0)[seed % 3] * np.linspace(0, 1, n)
    if n and seed % 4 == 0:
        y[rng.integers(0, n, size=max(1, n // 30))] += 50.0
    if seed % 5 == 0:
        y = np.round(y, 1)
    return y * 10.0 ** rng.integers(-5, 6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 7, 8, 50, None])
def test_spread(seed: int, n: int | None) -> None:
    y = series(seed, n)
    assert spread.robust_sd(y) == pytest.approx(slow.robust_sd(y.tolist()), rel=1e-9)
    np.testing.assert_allclose(spread.running_median(y), slow.running_median(y.tolist()))
    np.testing.assert_allclose(spread.hampel(y), slow.hampel(y.tolist()), rtol=1e-9, atol=1e-12 * np.abs(y).max(initial=0))
    assert spread.memory(y) == pytest.approx(slow.memory(y.tolist()), abs=1e-9)
    for most in (1, 7, 40, 500):
        values, size = spread.thin(y, most)
        expected, expected_size = slow.thin(y.tolist(), most)
        assert size == expected_size
        assert values.size <= most
        np.testing.assert_allclose(values, expected)
    for width in (1, 2, 3, 8, 11):
        np.testing.assert_allclose(peak.smoothed(y, width), slow.smoothed(y.tolist(), width), atol=1e-9 * np.abs(y).max(initial=0))


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks(seed: int) -> None:
    y = series(seed)
    for blocks in (1, 5, 8, 12, 16, 24):
        np.testing.assert_array_equal(spread.block_medians(y, blocks), slow.block_medians(y.tolist(), blocks))
        edges = spread.block_edges(y.size, blocks)
        sizes = np.diff(edges)
        assert edges[0] == 0
        assert edges[-1] == y.size
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_trend(seed: int) -> None:
    y = series(seed)
    found = trend.two_scale(y)
    assert found is not None
    clean = slow.hampel(y.tolist())
    slope, intercept = slow.line(clean)
    n = len(clean)
    residual = [v - intercept - slope * i for i, v in enumerate(clean)]
    energy = math.fsum(r * r for r in residual)
    sum_t2 = math.fsum((i - (n - 1) / 2) ** 2 for i in range(n))
    rho = slow.memory(residual)
    n_eff = max(n * (1 - rho) / (1 + rho), 3.0)
    fine_se = math.sqrt(max(energy / (n_eff - 2), energy / (n - 2) * (1 + rho) / (1 - rho)) / sum_t2)
    p_fine = slow.two_sided_p(slope / fine_se, max(n_eff - 2, 1.0))
    medians = slow.block_medians(clean, 8)
    coarse, at_zero = slow.line(medians)
    scatter = math.fsum((m - at_zero - coarse * i) ** 2 for i, m in enumerate(medians))
    coarse_se = math.sqrt(scatter / 6 / 42.0)
    p_coarse = 1.0 if coarse * slope < 0 else slow.two_sided_p(coarse / coarse_se, 6)
    assert found.slope == pytest.approx(slope, rel=1e-6)
    assert found.noise_sd == pytest.approx(math.sqrt(energy / (n - 2)), rel=1e-6)
    assert found.memory == pytest.approx(rho, abs=1e-6)
    assert found.p == pytest.approx(max(p_fine, p_coarse), abs=1e-5)
    assert found.change == pytest.approx(slope * n, rel=1e-6)
    half = max(student.critical(0.1, max(n_eff - 2, 1.0)) * fine_se, student.critical(0.1, 6) * coarse_se * 8 / n)
    assert found.high - found.slope == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize("k", [8, 12, 24])
def test_candidate_shapes_are_least_squares(k: int) -> None:
    medians = series(3, k)
    bank = shape._candidates(k)
    fits = bank.hats @ medians
    for i in range(len(bank.kinds)):
        expected = slow.simple_fit([c.tolist() for c in bank.designs[i].T], medians.tolist())
        np.testing.assert_allclose(fits[i], expected, atol=1e-7 * np.abs(medians).max(), err_msg=f"{bank.kinds[i]} {bank.knots[i]}")
    assert bank.kinds.count("constant") == bank.kinds.count("line") == 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ratio", [True, False])
def test_spikes(seed: int, ratio: bool) -> None:
    y = np.abs(series(seed))
    y[[20, y.size // 2]] *= 30.0
    assert [(s.index, s.seen) for s in shifts.find_spikes(y, ratio=ratio)] == slow.spikes(y.tolist(), ratio=ratio)


@pytest.mark.parametrize("seed", SEEDS)
def test_peak_is_the_largest_smoothed_value(seed: int) -> None:
    y = series(seed)
    for width in (1, 5, 12):
        found = peak.find_peak(y, width)
        assert found is not None
        curve = slow.smoothed(slow.hampel(y.tolist()), width)
        assert found.value == pytest.approx(max(curve), rel=1e-9)
        assert curve[found.index] == pytest.approx(max(curve), rel=1e-9)
        assert found.low <= found.index <= found.high


@pytest.mark.parametrize("seed", SEEDS)
def test_shifts_of_a_prefix_are_a_prefix_of_the_shifts(seed: int) -> None:
    y = np.concatenate((series(seed, 100), series(seed + 1, 80) + 20.0 * np.abs(series(seed)).max()))
    whole = shifts.find_shifts(y)
    for n in (40, 90, 110, 140, y.size):
        assert shifts.find_shifts(y[:n]) == tuple(s for s in whole if s.seen < n)


def test_a_plain_jump_is_placed() -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate((rng.normal(size=80), 10.0 + rng.normal(size=60)))
    (found,) = shifts.find_shifts(y)
    best = min(range(2, y.size - 2), key=lambda k: statistics.pvariance(y[:k].tolist()) * k + statistics.pvariance(y[k:].tolist()) * (y.size - k))
    assert abs(found.onset - best) <= 2
    assert found.up
    assert found.seen <= 92


# two-sided quantiles: (dof, .10, .05, .01, .001), Abramowitz & Stegun, table 26.10
TABLE = [
    (1, 6.314, 12.706, 63.657, 636.619),
    (2, 2.920, 4.303, 9.925, 31.598),
    (3, 2.353, 3.182, 5.841, 12.924),
    (5, 2.015, 2.571, 4.032, 6.869),
    (6, 1.943, 2.447, 3.707, 5.959),
    (10, 1.812, 2.228, 3.169, 4.587),
    (20, 1.725, 2.086, 2.845, 3.850),
    (30, 1.697, 2.042, 2.750, 3.646),
    (60, 1.671, 2.000, 2.660, 3.460),
    (120, 1.658, 1.980, 2.617, 3.373),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"dof-{r[0]}")
def test_student_against_the_table(row: tuple[float, ...]) -> None:
    dof, *quantiles = row
    for p, t in zip((0.10, 0.05, 0.01, 0.001), quantiles, strict=True):
        assert student.critical(p, dof) == pytest.approx(t, rel=3e-4)
        assert student.two_sided_p(t, dof) == pytest.approx(p, rel=2e-3)


@pytest.mark.parametrize("dof", [1.0, 1.7, 6.0, 42.3, 900.0])
@pytest.mark.parametrize("t", [0.0, 0.3, -1.0, 2.5, 6.0])
def test_student_against_the_integral(t: float, dof: float) -> None:
    assert student.two_sided_p(t, dof) == pytest.approx(slow.two_sided_p(t, dof), abs=1e-7)


def test_student_at_the_ends() -> None:
    assert student.two_sided_p(math.inf, 3.0) == 0.0
    assert student.two_sided_p(0.0, 3.0) == 1.0
    assert student.incomplete_beta(2.0, 3.0, 0.0) == 0.0
    assert student.incomplete_beta(2.0, 3.0, 1.0) == 1.0
    for x in (0.1, 0.5, 0.9):
        assert student.incomplete_beta(2.0, 3.0, x) == pytest.approx(x * x * (6 - 8 * x + 3 * x * x), rel=1e-9)
    assert student.two_sided_p(1.96, 1e7) == pytest.approx(math.erfc(1.96 / math.sqrt(2)), rel=1e-4)


@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("concentration", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("group", [2, 8, 64])
def test_share_of_groups_without_spread(mean: float, concentration: float, group: int) -> None:
    share = noise_floor.zero_share(mean, concentration, group)
    assert share == pytest.approx(slow.zero_share(mean, concentration, group), rel=1e-8)
    icc = noise_floor.icc_from_zero_share(mean, share, group)
    assert icc is not None
    assert icc == pytest.approx(1 / (1 + concentration), rel=1e-3)


def test_standard_error_by_simulation() -> None:
    rng = np.random.default_rng(0)
    icc, prompts, group = 0.4, 16, 8
    draws = math.sqrt(icc) * rng.normal(size=(4000, prompts, 1)) + math.sqrt(1 - icc) * rng.normal(size=(4000, prompts, group))
    assert noise_floor.standard_error(1.0, prompts, group, icc) == pytest.approx(draws.mean(axis=(1, 2)).std(), rel=0.05)
    assert noise_floor.icc_from_zero_share(0.0, 0.5, 8) is None
    assert noise_floor.icc_from_zero_share(0.5, 0.5, 1) is None
