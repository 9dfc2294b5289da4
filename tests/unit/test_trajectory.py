"""The word for the score: at its ceiling, at a floor that nobody declared, and in agreement with what is open."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.instruments import History, Look, Reading, Reward
from vario.run import Declared, Run, Series
from vario.stats.shape import shape_of
from vario.stats.trend import MIN_POINTS
from vario.verdict.trajectory import FELL, FROM_SHAPE, WORDS, Trajectory, reconciled, score_of, trajectory_of

N = 200
T = np.linspace(0.0, 1.0, N)


def look_at(name: str, values: np.ndarray, declared: Declared | None = None) -> Look:
    steps = np.arange(1, values.size + 1, dtype=np.int64)
    series = MappingProxyType({name: Series(name, steps, values)} if values.size else {})
    return Look(History(Run("r", "trl", "grpo", series, steps, declared=declared or Declared())), max(values.size, 1))


def judged(values: np.ndarray, *, low: float | None = None, high: float | None = None) -> Trajectory:
    look = look_at("reward/mean", values, Declared(reward_low=low, reward_high=high))
    reward = look.instrument(Reward)
    return trajectory_of(score_of(look), reward if isinstance(reward, Reward) else None)


def word(values: np.ndarray, **bounds: float) -> str:
    return judged(values, **bounds).word


def jitter(seed: int = 0, size: float = 0.03, n: int = N) -> np.ndarray:
    return size * noise(np.random.default_rng(seed), n, 0.3)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (0.2 + 0.6 * T + jitter(), "rising"),
        (0.2 + 0.6 * np.minimum(T / 0.4, 1.0) + jitter(), "plateau"),
        (0.2 + 0.6 * np.where(T < 0.5, 2.0 * T, 1.0 + 0.35 * (2.0 * T - 1.0)) + jitter(), "slowing"),
        (0.2 + 0.6 * np.where(T < 0.5, 2.0 * T, 2.0 - 2.0 * T) + jitter(), "peaked"),
        (0.8 - 0.6 * T + jitter(), "declining"),
        (np.where(T < 0.9, 0.8, 0.1) + jitter(), "declining"),
        (0.3 + jitter(size=0.1), "noise"),
        (0.3 + jitter(size=0.01), "plateau"),
        (np.zeros(N), "flat-low"),
        (np.full(N, -1.0), "flat-low"),
        (np.full(N, 0.95), "saturated"),
        (0.5 + T[: MIN_POINTS - 1], "too-short"),
        (np.array([]), "too-short"),
    ],
)
def test_each_word(values: np.ndarray, expected: str) -> None:
    made = judged(values)
    assert made.word == expected
    assert made.confidence in ("low", "medium", "high")
    assert made.why


def test_every_shape_has_a_word_of_the_contract() -> None:
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        knots = np.sort(rng.uniform(0.0, 1.0, 2))
        values = np.interp(T, [0.0, *knots, 1.0], rng.uniform(0.0, 1.0, 4)) + jitter(int(rng.integers(1000)), 0.02)
        at = rng.uniform(0.1, 0.95)
        if rng.random() < 0.3:
            values = np.where(at > T, *rng.uniform(0.0, 1.0, 2)) + jitter(int(rng.integers(1000)), 0.02)
        shape = shape_of(values)
        assert shape is not None
        seen.add(shape.word)
    assert seen - {"flat"} <= set(FROM_SHAPE)
    assert len(seen) >= 7
    assert set(FROM_SHAPE.values()) <= set(WORDS)


# at a bound that is declared, and at one that nobody declared


def test_at_a_declared_ceiling_it_is_saturated() -> None:
    top = np.minimum(0.2 + 2.0 * T, 0.985) + jitter(size=0.003)
    assert word(top) == "plateau"
    made = judged(top, low=0.0, high=1.0)
    assert (made.word, made.confidence) == ("saturated", "high")
    assert "98 % of its ceiling" in made.why or "99 % of its ceiling" in made.why
    assert word(top, low=0.0, high=2.0) == "plateau", "half way up"
    assert word(top - 0.05, low=0.0, high=1.0) == "plateau", "short of it"


def test_above_the_declared_ceiling_the_ceiling_is_wrong() -> None:
    assert word(0.2 + 2.0 * T + jitter(), low=0.0, high=1.0) == "rising"


def binary_top(share: float, seed: int = 0, top: float = 1.0) -> np.ndarray:
    """A reward that is at its highest value at that share of the steps, and elsewhere below."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(N) < share, top, top - 0.125 * rng.integers(1, 4, N))


def test_a_highest_value_that_it_comes_back_to_is_a_ceiling() -> None:
    rise = np.minimum(0.1 + 3.0 * T, 1.0)
    values = np.where(T < 0.3, rise, binary_top(0.8))
    made = judged(values)
    assert (made.word, made.confidence) == ("saturated", "medium")
    assert "never exceeds" in made.why


def test_a_highest_value_that_is_rare_is_none() -> None:
    assert word(binary_top(0.3)) != "saturated"


def test_one_long_stretch_at_the_top_is_no_ceiling() -> None:
    values = np.concatenate((0.2 + 0.5 * T[:100] + jitter(n=100), np.full(100, 0.9)))
    assert word(values) != "saturated", "a value that a callback repeats is one visit"


def test_noise_does_not_repeat_its_maximum() -> None:
    assert {word(0.5 + jitter(seed, 0.1)) for seed in range(20)} <= {"noise", "rising", "declining", "peaked"}


@pytest.mark.parametrize(("floor", "expected"), [(0.0, "flat-low"), (-1.0, "flat-low"), (0.25, "plateau")])
def test_a_floor_with_a_few_lucky_steps(floor: float, expected: str) -> None:
    values = np.full(N, floor)
    values[[20, 61, 120, 163]] += 0.125
    made = judged(values)
    assert (made.word, made.confidence) == (expected, "medium")


def test_a_floor_that_is_left_too_often_is_no_floor() -> None:
    rng = np.random.default_rng(2)
    values = np.where(rng.random(N) < 0.2, 0.125, 0.0)
    assert word(values) != "flat-low"


def test_a_run_that_died_lies_at_its_floor_for_good() -> None:
    values = np.zeros(N)
    values[:10] = 0.5
    assert word(values) == "flat-low"


# uneven noise, and what an open finding says


def test_a_fall_under_uneven_noise_is_a_fall() -> None:
    said = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        said.append(judged(np.concatenate((8.0 + rng.exponential(7.0, 30), 8.0 + 0.4 * rng.standard_normal(30)))))
    assert sum(t.word in ("declining", "peaked") for t in said) >= 16


def reading(values: np.ndarray) -> Reading:
    found = score_of(look_at("reward/mean", values))
    assert found is not None
    return found


FLAT = Trajectory("noise", "medium", "never left its noise")
RISE_AND_FALL = np.concatenate((np.linspace(0.2, 0.8, 100), np.linspace(0.8, 0.3, 100)))


@pytest.mark.parametrize("name", FELL)
@pytest.mark.parametrize("before", ["noise", "plateau", "rising", "slowing"])
def test_an_open_fall_is_believed(name: str, before: str) -> None:
    made = reconciled(Trajectory(before, "high", "said"), reading(RISE_AND_FALL + jitter()), frozenset({name}))
    assert (made.word, made.confidence) == ("peaked", "low")
    assert name in made.why
    assert made.why.startswith("said; but ")


def test_a_fall_without_a_gain_before_is_a_decline() -> None:
    fall = 0.8 - 0.6 * T + jitter()
    assert reconciled(FLAT, reading(fall), frozenset({"reward-collapsed"})).word == "declining"
    at_once = np.where(T < 0.05, 0.8, 0.2) + jitter()
    assert reconciled(FLAT, reading(at_once), frozenset({"reward-collapsed"})).word == "declining"


def test_a_finding_about_another_score_changes_nothing() -> None:
    climbing = 0.2 + 0.6 * T + jitter()
    said = Trajectory("rising", "high", "said")
    assert reconciled(said, reading(climbing), frozenset({"reward-peaked-then-declined"})) is said


@pytest.mark.parametrize("other", ["length-growing", "kl-runaway"])
def test_other_findings_change_nothing(other: str) -> None:
    assert reconciled(FLAT, reading(RISE_AND_FALL + jitter()), frozenset({other})) is FLAT
    assert reconciled(FLAT, reading(RISE_AND_FALL + jitter()), frozenset()) is FLAT


@pytest.mark.parametrize("said", ["peaked", "declining", "flat-low", "saturated", "too-short"])
def test_a_word_that_agrees_stays(said: str) -> None:
    before = Trajectory(said, "high", "said")
    assert reconciled(before, reading(RISE_AND_FALL + jitter()), frozenset({"reward-collapsed"})) is before
    assert reconciled(before, None, frozenset({"reward-collapsed"})) is before


# which score


def test_the_margin_is_judged_where_there_is_no_reward() -> None:
    look = look_at("preference/margin", 2.0 * T + jitter())
    score = score_of(look)
    assert score is not None
    assert score.name == "preference/margin"
    assert trajectory_of(score, None).word == "rising"
    assert score_of(look_at("kl/reference", T)) is None
    assert trajectory_of(None, None).word == "too-short"


def test_the_reward_comes_before_the_margin() -> None:
    steps = np.arange(1, N + 1, dtype=np.int64)
    series = {n: Series(n, steps, v) for n, v in (("preference/margin", T), ("reward/mean", 1.0 - T))}
    score = score_of(Look(History(Run("r", "trl", "grpo", MappingProxyType(series), steps)), N))
    assert score is not None
    assert score.name == "reward/mean"


def test_a_sure_word_needs_a_clear_shape_or_many_points() -> None:
    assert judged(0.2 + 0.6 * T + jitter()).confidence == "high"
    few = judged(np.linspace(0.2, 0.5, 40) + jitter(seed=3, size=0.06, n=40))
    assert (few.word, few.confidence) == ("rising", "medium")
