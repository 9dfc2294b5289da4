"""When a metric reaches a bound: in the run's own steps, with an interval, and only where it moves there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.stats.arrival import FARTHEST, arrival


def steps(n: int, every: int = 1, first: int = 1) -> np.ndarray:
    return np.arange(n, dtype=np.int64) * every + first


def test_a_straight_line_arrives_where_it_points() -> None:
    found = arrival(steps(100), np.linspace(0.01, 1.0, 100), 2.0)
    assert found is not None
    assert abs(found.step - 200) <= 1
    assert found.earliest == found.step == found.latest


@pytest.mark.parametrize(("every", "first", "at"), [(10, 10, 2000), (1, 501, 700), (25, 0, 4975)])
def test_steps_are_those_of_the_run(every: int, first: int, at: int) -> None:
    found = arrival(steps(100, every, first), np.linspace(0.01, 1.0, 100), 2.0)
    assert found is not None
    assert abs(found.step - at) <= 1


def test_downwards_as_well() -> None:
    found = arrival(steps(100), np.linspace(2.0, 1.01, 100), 0.5)
    assert found is not None
    assert found.step == 151


def test_only_the_last_half_counts() -> None:
    slower = np.concatenate((np.linspace(0.0, 5.0, 50, endpoint=False), np.linspace(5.0, 5.5, 50, endpoint=False)))
    found = arrival(steps(100), slower, 6.0)
    assert found is not None
    assert abs(found.step - 151) <= 1


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        (np.linspace(0.0, 1.0, 100), 0.5),
        (np.linspace(0.0, 1.0, 100), -1.0),
        (np.linspace(1.0, 0.0, 100), 2.0),
        (np.full(100, 0.5), 1.0),
        (np.linspace(0.0, 1.0, 23), 2.0),
        (np.linspace(0.0, 1.0, 100), 1e6),
    ],
    ids=["beyond it", "away, below", "away, above", "constant", "too few points", "too far"],
)
def test_it_does_not_arrive(values: np.ndarray, bound: float) -> None:
    assert arrival(steps(values.size), values, bound) is None


def test_too_far_is_ten_runs_ahead() -> None:
    climb = np.linspace(0.0, 1.0, 101)
    assert arrival(steps(101), climb, 1.0 + 0.99 * FARTHEST) is not None
    assert arrival(steps(101), climb, 1.0 + 1.01 * FARTHEST) is None


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n", [48, 120])
def test_noise_arrives_nowhere(phi: float, n: int) -> None:
    rng = np.random.default_rng(1)
    runs = 200
    found = sum(arrival(steps(n), noise(rng, n, phi), 5.0) is not None for _ in range(runs))
    print(f"false arrivals, memory {phi}, {n} points: {found / runs:.3f}")
    assert found / runs <= (0.04 if phi < 0.9 else 0.08), "one side of a test at 5 %, with its excess at long memory"


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_nine_in_ten_true_arrivals_lie_in_the_interval(phi: float) -> None:
    rng = np.random.default_rng(2)
    runs, told, held = 150, 0, 0
    for _ in range(runs):
        found = arrival(steps(120), np.linspace(0.0, 1.0, 120) + 0.1 * noise(rng, 120, phi), 1.5)
        if found is None:
            continue
        told += 1
        assert found.earliest <= found.step
        assert found.latest is None or found.latest >= found.step
        held += found.earliest <= 180 <= (found.latest or 10_000)
    print(f"arrivals held, memory {phi}: {held / told:.3f} of {told}")
    assert told >= 0.9 * runs
    assert held / told >= 0.85


def test_a_slope_that_may_be_next_to_nothing_perhaps_never_arrives() -> None:
    rng = np.random.default_rng(3)
    latest, never = [], 0
    for _ in range(150):
        found = arrival(steps(80), np.linspace(0.0, 1.0, 80) + 0.25 * noise(rng, 80, 0.3), 4.0)
        if found is not None:
            never += found.latest is None
            latest.append(found.latest or 0)
    assert 5 <= never <= len(latest) - 5, "some of these slopes are barely beyond their noise"
    assert max(latest) <= 80 + FARTHEST * 79 + 1, "beyond that it is perhaps never"


def test_one_wild_point_does_not_move_it() -> None:
    values = np.linspace(0.0, 1.0, 100) + 0.01 * noise(np.random.default_rng(4), 100, 0.3)
    wild = values.copy()
    wild[80] = 50.0
    found, with_spike = arrival(steps(100), values, 2.0), arrival(steps(100), wild, 2.0)
    assert found is not None and with_spike is not None
    assert abs(found.step - with_spike.step) <= 10
