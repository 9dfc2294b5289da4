"""Which completions a finding points to: the order, the stretch, and that every rule has an answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import RULES
from vario.samples import Samples
from vario.verdict.reading_list import A_GROUP, BY_FAMILY, BY_NAME, HOW_MANY, NOTHING_TO_READ, ReadingList, reading_list

NAMES = ("reward", "advantage", "length", "size", "truncated", "looped", "garbled", "entropy", "copied")
GROUP = 4


def samples_of(steps: Sequence[int], a_step: int = 16, **measures: object) -> Samples:
    """Groups of four, numbered anew at each step as TRL's are; a measure that is not given is unknown."""
    n = len(steps) * a_step
    held = {name: np.full(n, np.nan) for name in NAMES} | {"size": np.full(n, 40.0)}
    held |= {name: np.broadcast_to(np.asarray(values, dtype=np.float64), n) for name, values in measures.items()}
    numbers = np.tile(np.arange(a_step), len(steps))
    return Samples(
        ("completions",),
        np.repeat(np.asarray(steps, dtype=np.int64), a_step),
        numbers.astype(np.int64),
        (numbers // GROUP).astype(np.uint64),
        MappingProxyType(held),
        n,
    )


def asked(name: str, samples: Samples, since: int | None = None, until: int | None = None) -> ReadingList:
    code = next(r.code for r in RULES if r.name == name)
    made = reading_list(code, name, since, until, samples)
    assert made is not None
    return made


def values(made: ReadingList, samples: Samples, measure: str) -> list[float]:
    at = {(int(s), int(n)): i for i, (s, n) in enumerate(zip(samples.steps, samples.numbers, strict=True))}
    return [float(samples.measures[measure][at[one]]) for one in made.samples]


def spread_out(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(n).astype(np.float64)


# every rule


def test_every_rule_has_a_list_or_a_reason_for_none() -> None:
    names = {rule.name for rule in RULES}
    assert len(names) == 111
    assert set(BY_NAME) <= names
    assert names >= NOTHING_TO_READ
    assert not NOTHING_TO_READ & set(BY_NAME)
    assert set(BY_FAMILY) <= {rule.code[:2] for rule in RULES}
    samples = samples_of([10, 20], reward=spread_out(0, 32), copied=1.0)
    for rule in RULES:
        made = reading_list(rule.code, rule.name, None, None, samples)
        family = rule.code[:2] in BY_FAMILY
        if rule.name in NOTHING_TO_READ or not (family or rule.name in BY_NAME):
            assert made is None, rule.name
        else:
            assert made is not None, rule.name
            assert 0 < len(made.samples) <= HOW_MANY


def test_what_is_left_without_a_list_is_left_on_purpose() -> None:
    """Preference pairs, systems, value functions, ratios of two policies, and what is no pattern of texts."""
    without = {rule.code[:2] for rule in RULES} - set(BY_FAMILY)
    assert without == {"PF", "SY", "VF", "OP", "DX"}


def test_nothing_sampled_is_nothing_to_read() -> None:
    assert reading_list("RU105", "reward-hacking", 3, None, samples_of([])) is None


# the order


@pytest.mark.parametrize(
    ("name", "measure", "falling", "words"),
    [
        ("reward-plateaued", "reward", True, "with the highest reward"),
        ("reward-collapsed", "reward", False, "with the lowest reward"),
        ("length-growing", "length", True, "that are longest"),
        ("length-shrinking", "length", False, "that are shortest"),
        ("outputs-repeat", "looped", True, "that loop most"),
    ],
)
def test_the_order(name: str, measure: str, falling: bool, words: str) -> None:
    samples = samples_of([10], 64, **{measure: spread_out(1, 64)})
    made = asked(name, samples)
    got = values(made, samples, measure)
    assert len(got) == HOW_MANY
    assert got == sorted(got, reverse=falling)
    assert got[0] == (63.0 if falling else 0.0)
    assert made.what == f"8 completions of step 10 {words}"


def test_advantages_pull_in_either_direction() -> None:
    samples = samples_of([10], 64, advantage=spread_out(2, 64) - 40.0)
    got = values(asked("gradient-spike", samples, 10), samples, "advantage")
    assert np.abs(got).tolist() == sorted(np.abs(got), reverse=True)
    assert got[0] == -40.0


def test_without_advantages_the_reward_pulls() -> None:
    samples = samples_of([10], 64, reward=spread_out(3, 64))
    assert values(asked("gradient-spike", samples, 10), samples, "reward")[0] == 63.0


def test_bytes_stand_in_for_tokens() -> None:
    samples = samples_of([10], 64, size=spread_out(4, 64))
    assert values(asked("length-growing", samples), samples, "size")[0] == 63.0


def test_ties_go_to_the_better_paid() -> None:
    samples = samples_of([10], 64, looped=1.0, reward=spread_out(5, 64) / 63.0)
    got = values(asked("outputs-repeat", samples), samples, "reward")
    assert got == sorted(got, reverse=True)


@pytest.mark.parametrize(
    ("name", "measure", "words"),
    [
        ("truncation-high", "truncated", "that were cut"),
        ("outputs-garbled", "garbled", "that are garbled"),
        ("outputs-duplicated", "copied", "that copy another"),
    ],
)
def test_a_kind_holds_nothing_that_is_not_of_it(name: str, measure: str, words: str) -> None:
    flags = np.zeros(64)
    flags[[5, 17, 60]] = 1.0
    samples = samples_of([10], 64, **{measure: flags, "reward": spread_out(6, 64)})
    made = asked(name, samples)
    assert {number for _, number in made.samples} == {5, 17, 60}
    assert made.what == f"3 completions of step 10 {words}"


def test_where_none_is_of_the_kind_some_are_drawn() -> None:
    samples = samples_of([10], 64, truncated=0.0, reward=spread_out(7, 64))
    made = asked("truncation-high", samples)
    assert made.what == "8 completions of step 10 drawn evenly"


def test_a_measure_that_nobody_knows_is_drawn_evenly() -> None:
    made = asked("reward-plateaued", samples_of([10, 20, 30, 40]))
    assert made.what == "8 completions of steps 30 to 40 drawn evenly"


def test_tied_groups_are_tied() -> None:
    reward = np.tile([0.0, 0.0, 0.0, 1.0], 16)
    reward[8:12] = 1.0
    reward[40:44] = [0.3, 0.3 + 1e-9, 0.3, 0.3 - 1e-9]
    samples = samples_of([10], 64, reward=reward, copied=np.arange(64) >= 40)
    made = asked("few-groups-carry-signal", samples)
    assert [number for _, number in made.samples] == [40, 41, 8, 9], "copies first, two of a group"
    assert "of groups without a difference" in made.what


# groups


def test_at_most_two_of_a_group() -> None:
    reward = np.zeros(64)
    reward[:8] = 1.0
    samples = samples_of([10], 64, reward=reward)
    made = asked("reward-plateaued", samples)
    groups = [number // GROUP for _, number in made.samples]
    assert max(map(groups.count, groups)) == A_GROUP
    assert [number for _, number in made.samples[:4]] == [0, 1, 4, 5]


def test_a_group_is_one_of_its_step() -> None:
    """Groups that are counted anew at every step are not the same prompt."""
    samples = samples_of(range(10, 90, 10), 4, reward=spread_out(8, 32))
    made = asked("reward-plateaued", samples)
    assert len(made.samples) == HOW_MANY
    assert [step for step, _ in made.samples].count(80) == A_GROUP


# the stretch


def test_the_late_half_of_the_stretch_is_read() -> None:
    samples = samples_of(range(10, 110, 10), reward=spread_out(9, 160))
    assert {s for s, _ in asked("reward-plateaued", samples).samples} <= set(range(60, 110, 10))
    made = asked("reward-plateaued", samples, 20, 60)
    assert "of steps 40 to 60" in made.what
    assert {s for s, _ in made.samples} <= {40, 50, 60}
    assert "of steps 80 to 100" in asked("reward-plateaued", samples, 55).what
    assert "of steps 20 to 30" in asked("reward-plateaued", samples, None, 30).what


def test_drawn_evenly_is_over_the_stretch() -> None:
    samples = samples_of(range(10, 1010, 10), reward=0.5)
    steps = sorted(s for s, _ in asked("entropy-collapsing", samples, 10, 400).samples)
    assert steps[0] == 210
    assert 350 <= steps[-1] <= 400
    assert max(np.diff(steps)) <= 40


@pytest.mark.parametrize(("since", "nearest"), [(30, 30), (34, 30), (36, 40), (2, 10), (700, 100)])
def test_a_spike_takes_the_nearest_step(since: int, nearest: int) -> None:
    samples = samples_of(range(10, 110, 10), advantage=spread_out(10, 160))
    for name in ("kl-spike", "gradient-spike", "entropy-spike"):
        made = asked(name, samples, since, since)
        assert {s for s, _ in made.samples} == {nearest}
        assert f"of step {nearest} " in made.what


def test_a_stretch_between_two_samples_takes_the_nearer() -> None:
    samples = samples_of([100, 200, 300], reward=spread_out(11, 48))
    assert "of step 200 " in asked("reward-plateaued", samples, 160, 190).what
    assert "of step 300 " in asked("reward-plateaued", samples, 301).what


def test_nothing_after_the_look() -> None:
    samples = samples_of(range(10, 110, 10), reward=np.linspace(0.0, 1.0, 160))
    early = asked("reward-plateaued", samples.until(40), 20)
    assert max(s for s, _ in early.samples) <= 40


def test_the_same_list_each_time() -> None:
    samples = samples_of(range(10, 110, 10), reward=np.round(spread_out(12, 160) / 40.0))
    for rule in RULES:
        assert reading_list(rule.code, rule.name, 20, None, samples) == reading_list(rule.code, rule.name, 20, None, samples)


def test_what_is_equally_good_to_read_comes_from_all_over_the_stretch() -> None:
    every = list(range(10, 410, 10))
    made = asked("kl-runaway", samples_of(every, reward=1.0))
    steps = [step for step, _ in made.samples]
    assert len(set(steps)) == HOW_MANY
    held = [step for step in every if step >= 210]
    assert min(steps) <= held[len(held) // 4]
    assert max(steps) >= held[-len(held) // 4]
    best = asked("kl-runaway", samples_of(every, reward=np.arange(len(every) * 16)))
    assert {step for step, _ in best.samples} == {400}, "what is better comes first all the same"
