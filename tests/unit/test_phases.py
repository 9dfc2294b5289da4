"""KL against reward phase by phase, and whether the rate of rise itself changes."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.instruments import History, Kl, Look, Reading
from vario.run import Run, Series
from vario.stats.trend import MIN_POINTS
from vario.verdict.phases import Phase, phases_of
from vario.verdict.rate import Rate, rate_of

N = 200


def look_at(series: dict[str, np.ndarray], *, every: int = 1, first: int = 1) -> Look:
    size = max(v.size for v in series.values())
    steps = first + every * np.arange(size, dtype=np.int64)
    made = {k: Series(k, steps[: v.size], v) for k, v in series.items()}
    return Look(History(Run("r", "trl", "grpo", MappingProxyType(made), steps)), int(steps[-1]))


def phases(kl: np.ndarray, reward: np.ndarray, *, every: int = 1, first: int = 1, key: str = "kl/reference") -> tuple[Phase, ...]:
    look = look_at({key: kl, "reward/mean": reward}, every=every, first=first)
    found = look.instrument(Kl)
    assert isinstance(found, Kl)
    return phases_of(found, look.find("reward/mean"))


def kl_of(rng: np.random.Generator, n: int = N, top: float = 0.2) -> np.ndarray:
    return np.linspace(0.005, top, n) * np.exp(0.05 * noise(rng, n, 0.3))


def risen_then_flat(rng: np.random.Generator, n: int = N) -> np.ndarray:
    return np.minimum(np.linspace(0.0, 1.0, n) / 0.5, 1.0) + 0.03 * noise(rng, n, 0.3)


def test_from_paying_for_a_gain_to_paying_for_nothing() -> None:
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        found = phases(kl_of(rng), risen_then_flat(rng))
        if [p.regime for p in found] == ["kl-up-reward-up", "kl-up-reward-flat"]:
            right += 1
            first, second = found
            assert (first.first, second.last) == (1, N)
            assert second.first == first.last + 1
            assert abs(second.first - 100) <= 25
            assert first.reward[1] - first.reward[0] > 0.7
            assert abs(second.reward[1] - second.reward[0]) < 0.1
            assert first.kl[0] < first.kl[1] < second.kl[1]
    assert right >= 8


def test_one_regime_is_one_phase() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        (whole,) = phases(kl_of(rng), np.linspace(0.0, 1.0, N) + 0.03 * noise(rng, N, 0.3))
        assert (whole.first, whole.last, whole.regime) == (1, N, "kl-up-reward-up")


def test_a_rise_that_turns_down() -> None:
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        reward = np.concatenate((np.linspace(0.0, 1.0, 120), np.linspace(1.0, 0.2, 80))) + 0.03 * noise(rng, N, 0.3)
        found = phases(kl_of(rng), reward)
        right += [p.regime for p in found] == ["kl-up-reward-up", "kl-up-reward-down"]
    assert right >= 8


def test_a_kl_that_never_left_zero_is_flat_whatever_it_does() -> None:
    rng = np.random.default_rng(1)
    found = phases(0.02 * kl_of(rng), risen_then_flat(rng))
    assert {p.regime.split("-reward-")[0] for p in found} == {"kl-flat"}
    in_sequences = phases(kl_of(rng, top=0.2), risen_then_flat(rng), key="kl/reference/sequence")
    assert {p.regime.split("-reward-")[0] for p in in_sequences} == {"kl-flat"}, "0.2 nats a sequence is next to nothing"


def test_steps_are_those_of_the_run() -> None:
    rng = np.random.default_rng(3)
    kl, reward = kl_of(rng), risen_then_flat(rng)
    plain, stretched = phases(kl, reward), phases(kl, reward, every=10, first=500)
    assert [p.regime for p in plain] == [p.regime for p in stretched]
    assert stretched[0].first == 500
    assert stretched[-1].last == 500 + 10 * (N - 1)
    assert [p.kl for p in plain] == [p.kl for p in stretched]
    for a, b in zip(plain[1:], stretched[1:], strict=True):
        assert abs((b.first - 500) / 10 - (a.first - 1)) <= 1


def test_phases_touch_and_neighbours_differ() -> None:
    told = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        reward = np.interp(np.arange(400), [0, 120, 280, 400], [0.0, 1.0, 1.0, 0.2]) + 0.03 * noise(rng, 400, 0.5)
        found = phases(kl_of(rng, 400), reward)
        assert (found[0].first, found[-1].last) == (1, 400)
        for a, b in pairwise(found):
            assert b.first == a.last + 1
            assert a.regime != b.regime
        assert all(p.last - p.first + 1 >= MIN_POINTS for p in found)
        told += [p.regime for p in found] == ["kl-up-reward-up", "kl-up-reward-flat", "kl-up-reward-down"]
    assert told >= 7


@pytest.mark.parametrize("seed", [149, *range(10)])
def test_phases_that_became_alike_by_being_joined_are_joined_again(seed: int) -> None:
    """Whatever the curves are; in the first of them a joined phase takes on the regime of the one before it."""
    rng, at = np.random.default_rng(seed), np.arange(N)
    knots, levels = np.sort(rng.uniform(0.0, N, 3)), rng.uniform(0.0, 1.0, 5)
    reward = np.interp(at, [0, *knots, N], levels) + 0.05 * noise(rng, N, 0.5)
    knots, levels = np.sort(rng.uniform(0.0, N, 2)), rng.uniform(0.01, 0.2, 4)
    found = phases(np.interp(at, [0, *knots, N], levels) * np.exp(0.1 * noise(rng, N, 0.5)), reward)
    assert all(a.regime != b.regime for a, b in pairwise(found))


@pytest.mark.parametrize("n", [60, 200])
def test_noise_goes_nowhere(n: int) -> None:
    quiet = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = phases(0.05 * np.exp(0.2 * noise(rng, n, 0.5)), 0.5 + 0.05 * noise(rng, n, 0.5))
        quiet += [p.regime for p in found] == ["kl-flat-reward-flat"]
    assert quiet >= 50


@pytest.mark.parametrize("points", [0, 10, 2 * MIN_POINTS - 1])
def test_too_few_points_have_no_phases(points: int) -> None:
    rng = np.random.default_rng(4)
    look = look_at({"kl/reference": kl_of(rng), "reward/mean": risen_then_flat(rng)[:points]})
    found = look.instrument(Kl)
    assert isinstance(found, Kl)
    assert phases_of(found, look.find("reward/mean")) == ()
    assert phases_of(None, look.find("reward/mean")) == ()
    assert phases_of(found, None) == ()


@pytest.mark.parametrize("gap", [0, 20])
def test_two_metrics_that_hardly_meet_have_no_phases(gap: int) -> None:
    rng = np.random.default_rng(5)
    early, late = np.arange(1, 101, dtype=np.int64), np.arange(81 + gap, 201 + gap, dtype=np.int64)
    series = {"kl/reference": Series("kl", early, kl_of(rng, 100)), "reward/mean": Series("r", late, risen_then_flat(rng, 120))}
    look = Look(History(Run("r", "trl", "grpo", MappingProxyType(series), np.union1d(early, late))), 300)
    found = look.instrument(Kl)
    assert isinstance(found, Kl)
    assert phases_of(found, look.find("reward/mean")) == ()


# the rate


def reading(values: np.ndarray, *, every: int = 1, first: int = 1) -> Reading:
    found = look_at({"reward/mean": values}, every=every, first=first).find("reward/mean")
    assert found is not None
    return found


def rate(values: np.ndarray, **more: int) -> Rate:
    made = rate_of(reading(values, **more))
    assert made is not None
    return made


def bent(before: float, now: float, n: int = 150) -> np.ndarray:
    """Slopes a point over the first two thirds and the last one, with a little noise."""
    slopes = np.where(np.arange(n) < n - n // 3, before, now)
    return np.cumsum(slopes) + 0.02 * noise(np.random.default_rng(6), n, 0.3)


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (0.01, 0.01, "steady"),
        (0.01, 0.03, "faster"),
        (0.03, 0.005, "slower"),
        (0.02, 0.0, "slower"),
        (0.0, 0.02, "faster"),
        (0.02, -0.02, "turned"),
        (-0.02, 0.02, "turned"),
        (0.0, 0.0, "steady"),
        (-0.02, -0.002, "slower"),
    ],
)
def test_what_became_of_the_rate(before: float, now: float, change: str) -> None:
    made = rate(bent(before, now))
    assert made.change == change
    assert made.since == 101
    assert made.before[0] < made.before[1] < made.before[2]
    assert made.before[1] == pytest.approx(100 * before, abs=0.1)
    assert made.now[1] == pytest.approx(100 * now, abs=0.2)
    assert made.before[0] - 0.05 <= 100 * before <= made.before[2] + 0.05


def test_a_rate_is_told_for_a_hundred_steps_however_rows_are_spaced() -> None:
    values = bent(0.02, 0.005)
    plain, stretched = rate(values), rate(values, every=10, first=500)
    assert stretched.now[1] == pytest.approx(plain.now[1] / 10)
    assert (plain.since, stretched.since) == (101, 500 + 1000)
    assert stretched.change == plain.change


def test_a_long_run_has_the_rate_of_a_short_one() -> None:
    rng = np.random.default_rng(7)
    slow, n = 0.001, 3000
    made = rate(slow * np.arange(n) + 0.1 * noise(rng, n, 0.5))
    assert made.now[1] == pytest.approx(0.1, rel=0.1)
    assert made.change == "steady"


def test_noise_has_a_steady_rate_around_zero() -> None:
    changed = 0
    for seed in range(60):
        made = rate(noise(np.random.default_rng(seed), 150, 0.5))
        changed += made.change != "steady"
        assert made.change != "turned"
    assert changed <= 6


def test_a_line_without_noise_is_steady() -> None:
    assert rate(np.linspace(0.0, 1.0, 150)).change == "steady"
    assert rate(0.1 * np.arange(150)).change == "steady"
    assert rate(np.full(150, 0.3)) == Rate(101, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), "steady")


def test_a_third_must_be_long_enough() -> None:
    assert rate_of(reading(np.linspace(0.0, 1.0, 3 * MIN_POINTS - 1))) is None
    assert rate_of(reading(np.linspace(0.0, 1.0, 3 * MIN_POINTS))) is not None
    assert rate_of(None) is None
