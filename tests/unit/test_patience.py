"""What a young run cannot show yet is information: slow rises, and falls of noise that wanders slowly."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from tests.unit.simulated_series import Array, noise
from vario.instruments.reading import PATIENCE, History, Look, Reading
from vario.rules import find_rule
from vario.rules.engine import Incident, judge
from vario.run import Run, Series
from vario.stats.spread import repetition


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def run_of(**logged: Array) -> Run:
    """Every metric in every row; `reward__mean` is reward/mean."""
    rows = next(iter(logged.values())).size
    steps = np.arange(1, rows + 1, dtype=np.int64)
    series = {n.replace("__", "/"): v for n, v in logged.items()}
    return Run(
        path="drawn",
        framework="trl",
        algorithm="grpo",
        series=MappingProxyType({n: Series(n, steps, v) for n, v in series.items()}),
        logged_steps=steps,
    )


def reading(values: Array) -> Reading:
    found = Look(History(run_of(reward__mean=values)), values.size).find("reward/mean")
    assert found is not None
    return found


def finding(rule: str, run: Run) -> Incident | None:
    """What this rule says of the finished run."""
    judged = judge(run, rules=[find_rule(rule)])
    assert judged is not None
    return next((i for i in judged.incidents if i.until is None), None)


@pytest.mark.parametrize(
    ("memory", "low", "high"), [(0.0, 0.9, 1.1), (0.5, 2.2, 2.6), (0.9, 4.9, 5.7)], ids=["white", "half", "slow"]
)
def test_repetition_is_that_of_the_noise(memory: float, low: float, high: float) -> None:
    assert low <= repetition(noise(rng(1), 20_000, memory)) <= high


def test_half_slow_noise_repeats_itself_though_its_lag_one_memory_is_small() -> None:
    mixed = np.sqrt(0.5) * (noise(rng(2), 20_000, 0.9) + rng(3).standard_normal(20_000))
    assert repetition(mixed) == pytest.approx(2.7, abs=0.3)


def test_a_straight_climb_is_no_repetition() -> None:
    white = rng(4).standard_normal(400)
    assert repetition(white + 0.2 * np.arange(400)) == pytest.approx(repetition(white))
    assert repetition(np.full(400, 0.3)) == 1.0


def test_a_short_flat_stretch_excludes_a_rise_so_far_but_none_to_come() -> None:
    flat = 0.4 + 0.05 * rng(5).standard_normal(600)
    assert reading(flat[:120]).stays()
    assert not reading(flat[:120]).stays(rows=PATIENCE)
    assert reading(flat).stays(rows=PATIENCE)


def test_a_slow_rise_is_never_excluded_by_its_pace() -> None:
    slow = 0.4 + 0.05 * (rng(6).standard_normal(1000) + 3.0 * np.arange(1000) / 1000)
    assert not any(reading(slow[:rows]).stays(rows=PATIENCE) for rows in range(60, 1000, 20))


def test_a_fall_is_no_evidence_against_a_rise() -> None:
    values = 0.4 + 0.05 * rng(7).standard_normal(150)
    falling = values - 0.0002 * np.arange(150)
    flat_most = reading(values - np.polyval(np.polyfit(np.arange(150), values, 1), np.arange(150))).gains_at_most()
    assert reading(falling).gains_at_most() >= 0.9 * flat_most


def test_a_reward_that_stands_is_information_first_and_a_warning_once_a_slow_rise_is_excluded() -> None:
    flat = 0.4 + 0.05 * rng(8).standard_normal(700)
    early, late = (finding("reward-never-rises", run_of(reward__mean=flat[:rows])) for rows in (160, 700))
    assert early is not None
    assert early.severity.word == "info"
    assert any("too early to exclude" in e for e in early.evidence)
    assert late is not None
    assert late.severity.word == "warning"


def test_kl_that_may_yet_leave_is_not_pinned() -> None:
    reward = 0.4 + 0.05 * rng(9).standard_normal(120)
    loud, calm = 0.002 + 0.001 * rng(10).standard_normal(120), 0.002 + 0.0002 * rng(11).standard_normal(120)
    words = []
    for kl in (loud, calm):
        said = finding("kl-pinned-near-zero", run_of(reward__mean=reward, kl__reference=np.abs(kl)))
        assert said is not None
        words.append(said.severity.word)
    assert words == ["info", "warning"]


def test_without_kl_a_policy_that_stands_is_information_while_the_reward_may_yet_rise() -> None:
    logged = {
        "reward__mean": 0.4 + 0.05 * rng(12).standard_normal(700),
        "entropy__mean": 1.0 + 0.01 * rng(13).standard_normal(700),
        "length__mean": 200.0 + rng(14).standard_normal(700),
    }
    words = []
    for rows in (140, 700):
        said = finding("policy-does-not-move", run_of(**{n: v[:rows] for n, v in logged.items()}))
        assert said is not None
        words.append(said.severity.word)
    assert words == ["info", "warning"]


def test_pairs_ranked_by_a_coin_are_information_while_the_margin_may_yet_rise() -> None:
    margin, accuracy = 0.05 * rng(15).standard_normal(700), 0.5 + 0.05 * rng(16).standard_normal(700)
    words = []
    for rows in (120, 700):
        run = run_of(preference__margin=margin[:rows], preference__accuracy=accuracy[:rows])
        said = finding("accuracy-at-chance", run)
        assert said is not None
        words.append(said.severity.word)
    assert words == ["info", "warning"]


@pytest.mark.parametrize(("after", "word"), [(0.3, "warning"), (0.75, "info")], ids=["harder", "easier, or a take-off"])
def test_other_prompts_are_a_warning_where_the_reward_fell(after: float, word: str) -> None:
    jump = np.arange(140) >= 80
    reward = np.where(jump, after, 0.5) + 0.03 * rng(18).standard_normal(140)
    length = np.where(jump, 330.0, 200.0) + 10.0 * rng(19).standard_normal(140)
    said = finding("data-shift", run_of(reward__mean=reward, length__mean=length))
    assert said is not None
    assert said.severity.word == word
