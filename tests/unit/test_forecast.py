"""The forecast: its interval holds what it says it holds, and it is silent where it knows no more than "no change"."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.simulated_series import noise, saturating
from vario.stats.forecast import FAN, LEAST, Forecast, forecast

FAMILIES = ("hill", "exponential", "power", "logarithmic")
CUTS = (0.3, 0.5, 0.7)
AHEAD = 0.25
RUNS = 15
"""Curves of each family and cut: 180 in all, so that a share of 80 % is known to 3 points."""


@pytest.fixture(scope="module")
def told() -> list[tuple[Forecast | None, float, float]]:
    """Forecasts of noisy curves, each with the true level at the horizon and the true gain until then."""
    rng = np.random.default_rng(1)
    made = []
    for family in FAMILIES:
        for cut in CUTS:
            for _ in range(RUNS):
                n = int(rng.integers(150, 400))
                clean = saturating(rng, family, n)
                seen = clean[: round(cut * n)]
                seen = seen + rng.choice([0.02, 0.05]) * noise(rng, seen.size, rng.choice([0.0, 0.5, 0.8]))
                at = round(seen.size * (1.0 + AHEAD)) - 1
                made.append((forecast(seen, AHEAD), float(clean[at]), float(clean[at] - clean[seen.size - 1])))
    return made


def test_four_in_five_levels_lie_in_the_interval(told: list[tuple[Forecast | None, float, float]]) -> None:
    spoken = [(f, level) for f, level, _ in told if f is not None and f.skill > 0.0]
    share = sum(f.low <= level <= f.high for f, level in spoken) / len(spoken)
    print(f"levels held: {share:.3f} of {len(spoken)}")
    assert len(spoken) >= 0.6 * len(told), "silence is no way to be right"
    assert 0.72 <= share <= 0.88


def test_four_in_five_gains_lie_in_the_interval(told: list[tuple[Forecast | None, float, float]]) -> None:
    spoken = [(f, gain) for f, _, gain in told if f is not None and f.skill > 0.0]
    share = sum(f.gain_low <= gain <= f.gain_high for f, gain in spoken) / len(spoken)
    print(f"gains held: {share:.3f} of {len(spoken)}")
    assert 0.72 <= share <= 0.88


def test_it_says_more_than_no_change_and_less_than_a_straight_line() -> None:
    rng = np.random.default_rng(2)
    curves, still, straight = [], [], []
    for _ in range(30):
        clean = saturating(rng, "exponential", 200)
        seen = clean[:100] + 0.01 * noise(rng, 100, 0.5)
        made = forecast(seen, AHEAD)
        assert made is not None
        slope, level = np.polyfit(np.arange(50), seen[-50:], 1)
        curves.append(abs(made.expected - clean[124]))
        still.append(abs(float(seen[-10:].mean()) - clean[124]))
        straight.append(abs(level + slope * 74 - clean[124]))
    print(f"median errors: {np.median(curves):.4f}, no change {np.median(still):.4f}, line {np.median(straight):.4f}")
    assert np.median(curves) < 0.5 * np.median(still)
    assert np.median(curves) < 0.5 * np.median(straight)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_on_pure_noise_it_is_silent_or_promises_nothing(phi: float) -> None:
    rng = np.random.default_rng(3)
    runs, spoke, promised = 50, 0, 0
    for _ in range(runs):
        made = forecast(0.5 + 0.05 * noise(rng, 150, phi), AHEAD)
        assert made is not None
        if made.skill > 0.0:
            spoke += 1
            promised += made.gain_low > 0.0 or made.gain_high < 0.0
            assert abs(made.gain) < 0.05, "less than the noise of one point"
    print(f"noise with memory {phi}: spoke {spoke}, promised a change {promised} of {runs}")
    assert spoke <= 0.4 * runs
    assert promised <= 0.15 * runs


def test_after_a_change_of_course_it_knows_nothing() -> None:
    rng = np.random.default_rng(4)
    rise_and_fall = 0.2 + 0.5 * np.concatenate((np.linspace(0.0, 1.0, 80), np.linspace(1.0, 0.2, 40)))
    made = forecast(rise_and_fall + 0.02 * noise(rng, 120, 0.3), AHEAD)
    assert made is not None
    assert made.widened > 2.0, "the earlier forecasts missed the fall"


def test_fewer_points_than_a_curve_needs_and_constants_give_nothing() -> None:
    climb = np.linspace(0.0, 1.0, 200)
    assert forecast(climb[: LEAST - 1], AHEAD) is None
    assert forecast(climb[:LEAST], AHEAD) is not None
    assert forecast(np.full(100, 0.3), AHEAD) is None
    assert forecast(np.array([]), AHEAD) is None


def test_it_is_the_same_every_time_and_leaves_its_input_alone() -> None:
    rng = np.random.default_rng(5)
    seen = saturating(rng, "hill", 100)[:80] + 0.02 * noise(rng, 80, 0.5)
    kept = seen.copy()
    assert forecast(seen, AHEAD) == forecast(seen, AHEAD)
    np.random.seed(7)  # the global generator must not matter
    assert forecast(seen, AHEAD) == forecast(kept, AHEAD)
    assert (seen == kept).all()


def test_farther_is_less_sure() -> None:
    rng = np.random.default_rng(6)
    seen = saturating(rng, "hill", 200)[:100] + 0.02 * noise(rng, 100, 0.5)
    near, far = forecast(seen, 0.1), forecast(seen, 1.0)
    assert near is not None and far is not None
    assert far.high - far.low > 1.3 * (near.high - near.low)
    assert far.expected > near.expected > near.now
    assert near.skill == far.skill, "the backtest does not depend on how far it looks"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_stays_within_the_bounds_of_the_metric(sign: float) -> None:
    rng = np.random.default_rng(8)
    climb = sign * (0.9 * np.linspace(0.0, 1.0, 100) + 0.03 * noise(rng, 100, 0.3))
    free = forecast(climb, 1.0)
    assert free is not None
    assert (free.high if sign > 0 else -free.low) > 1.0, "nothing known against it"
    bound = {"ceiling": 1.0} if sign > 0 else {"floor": -1.0}
    made = forecast(climb, 1.0, **bound)
    assert made is not None
    assert max(abs(made.low), abs(made.expected), abs(made.high)) <= 1.0
    most = made.gain_high if sign > 0 else -made.gain_low
    assert most <= 1.0 - sign * made.now + 1e-9


def test_a_bound_that_the_data_broke_does_not_turn_the_interval_around() -> None:
    made = forecast(np.linspace(1.0, 2.0, 60), AHEAD, ceiling=1.5)
    assert made is not None
    assert made.low <= made.expected <= made.high <= 1.5
    assert made.gain_low <= made.gain <= made.gain_high


def test_the_chance_is_that_of_a_gain_worth_having() -> None:
    rng = np.random.default_rng(9)
    seen = 0.2 + 0.6 * np.linspace(0.0, 1.0, 120) + 0.02 * noise(rng, 120, 0.3)
    any_gain, some, huge = (forecast(seen, AHEAD, worth=w) for w in (0.0, 0.1, 5.0))
    assert any_gain is not None and some is not None and huge is not None
    assert any_gain.chance > 0.95
    assert any_gain.chance >= some.chance > huge.chance == 0.0
    assert (any_gain.low, any_gain.high) == (huge.low, huge.high)


def test_units_do_not_matter() -> None:
    rng = np.random.default_rng(10)
    seen = saturating(rng, "exponential", 100)[:90] + 0.02 * noise(rng, 90, 0.3)
    made, larger = forecast(seen, AHEAD), forecast(1000.0 * seen - 7.0, AHEAD)
    assert made is not None and larger is not None
    assert larger.gain == pytest.approx(1000.0 * made.gain, rel=1e-6)
    assert larger.high == pytest.approx(1000.0 * made.high - 7.0, rel=1e-6)
    assert larger.skill == pytest.approx(made.skill, rel=1e-6)


def test_a_single_wild_point_does_not_move_it() -> None:
    rng = np.random.default_rng(11)
    seen = saturating(rng, "exponential", 100)[:90] + 0.02 * noise(rng, 90, 0.3)
    wild = seen.copy()
    wild[70] = 40.0
    made, with_spike = forecast(seen, AHEAD), forecast(wild, AHEAD)
    assert made is not None and with_spike is not None
    assert with_spike.expected == pytest.approx(made.expected, abs=0.02)


def test_many_points_cost_and_say_the_same() -> None:
    rng = np.random.default_rng(12)
    t = np.linspace(0.0, 1.0, 20_000)
    made = forecast(0.2 + 0.5 * (1.0 - np.exp(-3.0 * t)) + 0.05 * rng.standard_normal(t.size), AHEAD)
    assert made is not None
    assert made.expected == pytest.approx(0.2 + 0.5 * (1.0 - np.exp(-3.75)), abs=0.01)
    assert made.low < 0.2 + 0.5 * (1.0 - np.exp(-3.75)) < made.high


def test_the_fan_leads_from_now_to_the_horizon() -> None:
    """What is drawn on the way ends at what is said of the end, opens as it goes, and changes nothing of either."""
    rng = np.random.default_rng(3)
    at = np.arange(200) / 200
    made = forecast(1.0 - np.exp(-at / 0.4) + 0.02 * rng.standard_normal(200), 0.5, ceiling=1.0)
    assert made is not None
    distances, low, level, high = (np.array(part) for part in zip(*made.fan, strict=True))
    np.testing.assert_allclose(distances, 0.5 * np.arange(FAN + 1) / FAN)
    assert (level[0], level[-1]) == (made.now, made.expected)
    assert (low[-1], high[-1]) == (made.low, made.high)
    assert np.all((low <= level) & (level <= high))
    assert high[-1] - low[-1] > high[0] - low[0]
    assert high.max() <= 1.0
