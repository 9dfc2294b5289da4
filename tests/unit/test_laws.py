"""The two laws: each finds its parameter in data made from it, and is silent where the data break it."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.instruments import History, Look
from vario.run import KnobSetting, Run, Series
from vario.stats.laws import LEAST_POINTS, entropy_ceiling, overoptimisation_peak
from vario.verdict.upside import upside_of

CEILING = 0.6
A, B = 1.0, 0.4
PEAK = float(np.exp(A / B - 1.0)) ** 2
"""KL at which d (A - B ln d) is largest, by its derivative."""


def spent(n: int) -> np.ndarray:
    """An entropy that nobody steers: from 1.4 nats towards 0.2."""
    return np.asarray(0.2 + 1.2 * np.exp(-2.0 * np.arange(n) / n))


def by_the_law(entropy: np.ndarray) -> np.ndarray:
    """R = b - a e^H with b - a = 0.6."""
    return 0.8 - 0.2 * np.exp(entropy)


def test_the_ceiling_is_found_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    runs, held, centres = 80, 0, []
    for _ in range(runs):
        entropy = spent(100)
        found = entropy_ceiling(by_the_law(entropy) + 0.01 * noise(rng, 100, 0.5), entropy)
        assert found is not None
        assert found.low < found.ceiling < found.high
        held += found.low <= CEILING <= found.high
        centres.append(found.ceiling)
    print(f"ceiling {np.median(centres):.4f}, held {held / runs:.2f}")
    assert np.median(centres) == pytest.approx(CEILING, abs=0.003)
    assert 0.65 <= held / runs <= 0.92


def test_without_noise_the_ceiling_is_exact() -> None:
    entropy = spent(100)
    found = entropy_ceiling(by_the_law(entropy), entropy)
    assert found is not None
    assert found.ceiling == pytest.approx(CEILING, abs=1e-9)
    assert found.high - found.low < 1e-9


def test_what_is_left_is_a_share_of_what_there_was() -> None:
    entropy = spent(200)
    found = entropy_ceiling(by_the_law(entropy), entropy)
    assert found is not None
    prices = np.exp(entropy) - 1.0
    assert found.left == pytest.approx(prices[-20:].mean() / prices[:20].mean())
    gone = np.linspace(1.0, 0.0, 200)
    empty = entropy_ceiling(by_the_law(gone), gone)
    assert empty is not None
    assert empty.left < 0.06


def bonus_switched_on(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    half = reward.size // 2
    entropy = entropy.copy()
    entropy[half:] = np.linspace(entropy[half], 1.2, reward.size - half)
    return reward, entropy


def held_by_clipping(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return reward, np.maximum(entropy, entropy[entropy.size // 2])


def reward_stands(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.full_like(reward, 0.4), entropy


def reward_falls(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1.0 - reward, entropy


def rises_then_falls(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cut = 2 * reward.size // 3
    reward = reward.copy()
    reward[cut:] = np.linspace(reward[cut], reward[0], reward.size - cut)
    return reward, entropy


def entropy_rises(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return reward, entropy[::-1]


def of_a_sequence(reward: np.ndarray, entropy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return reward, entropy * 500.0


@pytest.mark.parametrize(
    "broken",
    [bonus_switched_on, held_by_clipping, reward_stands, reward_falls, rises_then_falls, entropy_rises, of_a_sequence],
)
def test_it_is_silent_where_the_law_does_not_hold(
    broken: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> None:
    rng = np.random.default_rng(1)
    spoke = 0
    for _ in range(40):
        entropy = spent(150)
        reward, entropy = broken(by_the_law(entropy), entropy)
        spoke += entropy_ceiling(reward + 0.01 * noise(rng, 150, 0.5), entropy) is not None
    assert spoke <= 1


def test_it_is_silent_below_forty_points_and_on_constants() -> None:
    entropy = spent(LEAST_POINTS)
    assert entropy_ceiling(by_the_law(entropy), entropy) is not None
    assert entropy_ceiling(by_the_law(entropy)[1:], entropy[1:]) is None
    assert entropy_ceiling(by_the_law(spent(60)), np.full(60, 0.7)) is None
    assert entropy_ceiling(np.array([]), np.array([])) is None


def by_gao(kl: np.ndarray) -> np.ndarray:
    d = np.sqrt(kl)
    return np.asarray(d * (A - B * np.log(d)))


def along(reach: float, n: int = 30) -> np.ndarray:
    """KL that grows until `reach` times the distance of the peak, even in distance."""
    return np.asarray((np.linspace(0.0, reach * np.sqrt(PEAK), n + 1)[1:]) ** 2)


def test_the_peak_is_found_with_its_interval() -> None:
    rng = np.random.default_rng(2)
    runs, held, centres = 60, 0, []
    for _ in range(runs):
        found = overoptimisation_peak(along(1.2), 0.3 + by_gao(along(1.2)) + 0.15 * noise(rng, 30, 0.0))
        assert found is not None
        held += found.low <= PEAK <= found.high
        centres.append(found.kl)
    print(f"peak {np.median(centres):.2f} of {PEAK:.2f}, held {held / runs:.2f}")
    assert np.median(centres) == pytest.approx(PEAK, rel=0.05)
    assert 0.65 <= held / runs <= 0.92


def test_without_noise_the_peak_is_exact_wherever_the_score_begins() -> None:
    for start in (-5.0, 0.0, 3.0):
        found = overoptimisation_peak(along(1.0), start + by_gao(along(1.0)))
        assert found is not None
        assert found.kl == pytest.approx(PEAK, rel=1e-6)


def test_it_is_silent_far_from_the_peak() -> None:
    assert overoptimisation_peak(along(0.65), by_gao(along(0.65))) is None
    assert overoptimisation_peak(along(0.75), by_gao(along(0.75))) is not None


def test_it_is_silent_where_nothing_bends() -> None:
    rng = np.random.default_rng(3)
    spoke = 0
    for _ in range(40):
        kl = along(1.0)
        spoke += overoptimisation_peak(kl, 0.1 * kl + 0.1 * noise(rng, 30, 0.0)) is not None
        spoke += overoptimisation_peak(kl, 0.5 + 0.3 * noise(rng, 30, 0.0)) is not None
    assert spoke <= 2


def test_it_is_silent_below_eight_points_and_without_drift() -> None:
    assert overoptimisation_peak(along(1.2, 8), by_gao(along(1.2, 8))) is not None
    assert overoptimisation_peak(along(1.2, 7), by_gao(along(1.2, 7))) is None
    assert overoptimisation_peak(np.zeros(30), np.linspace(0.0, 1.0, 30)) is None
    assert overoptimisation_peak(np.full(30, 2.0), np.linspace(0.0, 1.0, 30)) is None


# what a run says of them

N = 150


def look_at(knobs: dict[str, KnobSetting] | None = None, **series: np.ndarray) -> Look:
    steps = np.arange(1, N + 1, dtype=np.int64)
    every = {k.replace("__", "/"): v for k, v in series.items()}
    made = {k: Series(k, steps[N // v.size - 1 :: N // v.size], v) for k, v in every.items()}
    run = Run("run", "trl", "grpo", MappingProxyType(made), steps, knobs=MappingProxyType(knobs or {}))
    return Look(History(run), N)


def laws(look: Look) -> tuple[str, ...]:
    return upside_of(look, look.find("reward/mean"), "slowing").laws


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        (None, 1),
        (KnobSetting("entropy-bonus", "entropy_coef", 0.001), 0),
        (KnobSetting("entropy-bonus", "entropy_coef", 0.0), 1),
        (KnobSetting("clip-high", "epsilon_high", 0.28), 0),
        (KnobSetting("clip-high", "epsilon_high", None), 1),
        (KnobSetting("kl-coef", "beta", 0.04), 0),
        (KnobSetting("kl-coef", "beta", 0.0), 1),
    ],
)
def test_the_law_of_entropy_is_told_only_where_nobody_steers_it(knob: KnobSetting | None, said: int) -> None:
    entropy = spent(N)
    rng = np.random.default_rng(4)
    knobs = {knob.knob: knob} if knob is not None else {}
    look = look_at(knobs, reward__mean=by_the_law(entropy) + 0.01 * noise(rng, N, 0.5), entropy__mean=entropy)
    told = laws(look)
    assert len(told) == said
    if said:
        assert told[0].startswith("reward against entropy: 0.6")
        assert "if entropy keeps being spent at this price" in told[0]


def test_the_law_of_entropy_needs_both_at_the_same_steps() -> None:
    entropy = spent(N)
    half = look_at(reward__mean=by_the_law(entropy), entropy__mean=entropy[1::2])
    assert laws(half) == ()


@pytest.mark.parametrize("lengths", [np.full(N, 200.0), np.linspace(100.0, 300.0, N)], ids=["steady", "tripled"])
def test_the_peak_is_told_in_nats_a_sequence_by_the_length_of_each_step(lengths: np.ndarray) -> None:
    sequence = along(1.3, N)
    score = by_gao(sequence)[4::5] + 0.02 * noise(np.random.default_rng(5), N // 5, 0.0)
    look = look_at(kl__reference=sequence / lengths, length__mean=lengths, eval__score__mean=score)
    (told,) = upside_of(look, None, "slowing").laws
    peak = float(told.split(" peaks at ")[1].split(" ")[0])
    assert peak == pytest.approx(PEAK, rel=0.1)
    assert float(told.split("stands at ")[1]) == pytest.approx(sequence[-1], rel=0.05)


def test_no_length_or_no_score_near_the_truth_no_peak() -> None:
    sequence = along(1.3, N)
    score = by_gao(sequence)
    assert upside_of(look_at(kl__reference=sequence / 200.0, eval__score__mean=score[4::5]), None, "slowing").laws == ()
    assert laws(look_at(kl__reference__sequence=sequence, reward__mean=score)) == ()
    told = upside_of(look_at(kl__reference__sequence=sequence, eval__score__mean=score[4::5]), None, "slowing").laws
    assert len(told) == 1, "a KL of the sequence needs no length"


def test_after_what_breaks_a_run_nothing_is_forecast() -> None:
    rising = look_at(reward__mean=np.linspace(0.1, 0.6, N))
    told = upside_of(rising, rising.find("reward/mean"), "rising", {"non-finite", "kl-spike"})
    assert (told.expected, told.interval80, told.fan) == (None, None, ())
    assert told.method == "cannot tell: after non-finite no curve of before goes on"
    assert "after" not in upside_of(rising, rising.find("reward/mean"), "rising", {"kl-spike"}).method
