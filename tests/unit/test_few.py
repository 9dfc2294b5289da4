"""A handful of evaluations: what it may say, and how often it says it of nothing."""

from __future__ import annotations

import numpy as np
import pytest

from vario.stats.few import LEAST, few_points


def test_too_few_say_nothing() -> None:
    assert few_points(np.linspace(0.0, 1.0, LEAST - 1)) is None
    assert few_points(np.linspace(0.0, 1.0, LEAST)) is not None


def test_levels_are_means_of_three() -> None:
    few = few_points(np.array([0.0, 0.0, 0.3, 0.9, 0.9, 0.9, 0.6, 0.3, 0.3, 0.3]))
    assert few is not None
    assert (few.start, few.best, few.now, few.at) == (pytest.approx(0.1), pytest.approx(0.9), pytest.approx(0.3), 4)


def test_a_rise_and_a_fall_are_told_apart() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(20)
    up = few_points(np.linspace(0.3, 0.6, 20) + noise)
    down = few_points(np.concatenate((np.linspace(0.3, 0.44, 10), np.linspace(0.44, 0.14, 10))) + noise)
    assert up is not None and down is not None
    assert (up.rose(), up.fell()) == (True, False)
    assert (down.rose(), down.fell()) == (False, True)
    assert 8 <= down.at <= 12
    assert up.change_high > 0.3 > down.change_high


def test_noise_is_its_own_scatter() -> None:
    scatter = [few_points(np.random.default_rng(i).standard_normal(39)) for i in range(200)]
    assert np.mean([f.noise_sd for f in scatter if f is not None]) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("n", [6, 8, 12, 20, 39])
def test_flat_evaluations_seldom_move(n: int) -> None:
    rng = np.random.default_rng(n)
    many = [f for _ in range(600) if (f := few_points(rng.standard_normal(n))) is not None]
    assert sum(f.rose() for f in many) / len(many) <= 0.06
    assert sum(f.fell() for f in many) / len(many) <= 0.04


def test_a_constant_neither_rises_nor_falls() -> None:
    few = few_points(np.full(10, 0.5))
    assert few is not None
    assert not few.rose()
    assert not few.fell()
    assert few.change_high == pytest.approx(0.0, abs=1e-12)
