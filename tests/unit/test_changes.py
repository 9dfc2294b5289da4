"""What a turn of a knob means for this run: the other way round, at zero, for switches, and where there is no way to go."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import RULES
from vario.rules.base import Turn, lower, raise_, set_
from vario.run import Declared, KnobSetting, Run, Series, Setting
from vario.verdict.changes import FROM_ZERO, Change, change_of


def run_with(knob: str, current: Setting, *, inverse: bool = False, updates: float | None = None) -> Run:
    setting = KnobSetting(knob, f"the.{knob}", current, inverse=inverse)
    steps = np.arange(1, 3, dtype=np.int64)
    return Run("r", "trl", "grpo", {}, steps, declared=Declared(updates_per_rollout=updates), knobs=MappingProxyType({knob: setting}))  # fmt: skip


def suggested(turn: Turn, current: Setting, **more: object) -> Setting:
    change = change_of(turn, run_with(turn.knob, current, **more))  # type: ignore[arg-type]
    assert change is not None
    assert change.current == current
    return change.suggested


@pytest.mark.parametrize(
    ("turn", "current", "expected"),
    [
        (raise_("kl-coef", ""), 0.04, 0.08),
        (lower("learning-rate", ""), 1e-6, 5e-7),
        (lower("learning-rate", "", 1 / 3), 1e-6, 3.3e-7),
        (raise_("batch-size", ""), 64, 128),
        (raise_("group-size", "", 1.5), 8, 12),
        (lower("max-completion-length", ""), 513, 256),
        (lower("minibatches", ""), 4, 2),
        (lower("minibatches", ""), 3, 2),
    ],
)
def test_a_factor_multiplies_what_is_set(turn: Turn, current: Setting, expected: Setting) -> None:
    assert suggested(turn, current) == expected
    assert type(suggested(turn, current)) is type(expected)


@pytest.mark.parametrize(
    ("turn", "current", "expected"),
    [(lower("minibatches", ""), 256, 512), (raise_("minibatches", ""), 256, 128), (lower("minibatches", "", 0.25), 32, 128)],
)
def test_a_size_of_parts_goes_the_other_way(turn: Turn, current: int, expected: int) -> None:
    assert suggested(turn, current, inverse=True) == expected


def test_a_switch_that_counts_the_other_way_is_turned_over() -> None:
    assert suggested(set_("decoupled-loss", False, ""), False, inverse=True) is True
    assert suggested(set_("decoupled-loss", True, ""), True, inverse=True) is False
    assert change_of(set_("decoupled-loss", False, ""), run_with("decoupled-loss", True, inverse=True)) is None


def test_what_is_set_already_is_no_change() -> None:
    assert change_of(set_("dynamic-filter", True, ""), run_with("dynamic-filter", True)) is None
    assert change_of(set_("reward-scaling", "none", ""), run_with("reward-scaling", "none")) is None
    assert change_of(set_("staleness-bound", 0, ""), run_with("staleness-bound", 0)) is None
    assert suggested(set_("staleness-bound", 0, ""), 4) == 0
    assert suggested(set_("dynamic-filter", True, ""), False) is True


@pytest.mark.parametrize("current", [None, "slime.filters.no_zero_std", 1.0, 1, 0])
def test_a_switch_is_not_suggested_for_a_key_that_is_none(current: Setting) -> None:
    assert suggested(set_("dynamic-filter", True, "why"), current) is None


def test_by_hand_stays_by_hand() -> None:
    assert suggested(set_("kl-coef", None, ""), 0.04) is None
    assert suggested(set_("kl-coef", None, ""), None) is None


@pytest.mark.parametrize(("knob", "value"), sorted(FROM_ZERO.items()))
@pytest.mark.parametrize("zero", [0, 0.0])
def test_from_zero_there_is_a_smallest_step(knob: str, value: float, zero: Setting) -> None:
    assert suggested(raise_(knob, ""), zero) == value


def test_from_zero_without_a_known_step_it_is_by_hand() -> None:
    assert suggested(raise_("warmup", ""), 0) is None


@pytest.mark.parametrize("current", [0, 0.0, False])
def test_nothing_is_lowered_below_zero(current: Setting) -> None:
    assert change_of(lower("kl-coef", ""), run_with("kl-coef", current)) is None


def test_one_is_the_least_of_what_is_counted() -> None:
    assert change_of(lower("minibatches", ""), run_with("minibatches", 1)) is None
    assert change_of(lower("epochs", "", 0.1), run_with("epochs", 1)) is None
    assert suggested(lower("epochs", "", 0.1), 4) == 1


def test_one_update_has_no_fewer_minibatches_whatever_their_size() -> None:
    whole = run_with("minibatches", 256, inverse=True, updates=1.0)
    assert change_of(lower("minibatches", ""), whole) is None
    assert change_of(raise_("minibatches", ""), whole) is not None
    assert change_of(lower("minibatches", ""), run_with("minibatches", 256, inverse=True, updates=4.0)) is not None
    assert change_of(lower("epochs", ""), run_with("epochs", 2, updates=1.0)) is not None


@pytest.mark.parametrize("current", [True, "linear", None])
def test_a_factor_says_nothing_of_what_is_no_number(current: Setting) -> None:
    change = change_of(raise_("length-penalty", "why"), run_with("length-penalty", current))
    assert change == Change("length-penalty", "the.length-penalty", current, None, "why")


def test_a_knob_that_the_framework_lacks_is_told_without_a_key() -> None:
    run = run_with("kl-coef", 0.1)
    assert change_of(raise_("entropy-bonus", "why"), run) == Change("entropy-bonus", None, None, None, "why")
    assert change_of(set_("dynamic-filter", True, "why"), run) == Change("dynamic-filter", None, None, True, "why")


def test_suggestions_are_written_as_people_write_them() -> None:
    assert suggested(lower("learning-rate", "", 0.3), 1.7e-5) == 5.1e-6
    assert suggested(raise_("kl-coef", ""), 0.0123456) == 0.025


@pytest.mark.parametrize(
    ("turn", "expected"),
    [(raise_("temperature", "", 1.2), 1.2), (lower("kl-coef", ""), 0.5), (lower("max-grad-norm", ""), 0.5)],
)
def test_a_whole_number_need_not_stay_one(turn: Turn, expected: float) -> None:
    assert suggested(turn, 1) == expected


def test_a_count_moves_by_one_at_the_least() -> None:
    assert suggested(raise_("group-size", "", 1.2), 2) == 3
    assert suggested(lower("group-size", "", 0.9), 4) == 3


FACTORS = sorted({(t.knob, t.factor) for r in RULES for t in r.turns if t.factor is not None})


@pytest.mark.parametrize(("knob", "factor"), FACTORS)
@pytest.mark.parametrize("current", [2, 8, 0.04, 1e-6])
@pytest.mark.parametrize("inverse", [False, True])
def test_every_factor_of_the_rules_goes_its_way(knob: str, factor: float, current: float, inverse: bool) -> None:
    new = suggested(Turn(knob, "", factor=factor), current, inverse=inverse)
    if inverse and factor == 0.0:
        assert new is None
        return
    assert isinstance(new, int | float)
    assert new != current
    assert (new > current) == ((factor > 1.0) != inverse)


def defaulted(knob: str, current: Setting, **series: list[float]) -> Run:
    """A run whose configuration does not say what the knob is set to."""
    steps = np.arange(1, 5, dtype=np.int64)
    columns = {
        name.replace("__", "/").replace("_", "-"): Series(name, steps, np.array(values)) for name, values in series.items()
    }
    setting = KnobSetting(knob, f"the.{knob}", current, is_default=True)
    return Run("r", "trl", "grpo", MappingProxyType(columns), steps, knobs=MappingProxyType({knob: setting}))


def test_a_default_is_no_setting_of_the_run() -> None:
    change = change_of(raise_("group-size", "why"), defaulted("group-size", 8))
    assert change == Change("group-size", "the.group-size", 8, 16, "why", assumed=True)
    assert change.stands == "default 8"
    recorded = change_of(raise_("group-size", "why"), run_with("group-size", 8))
    assert recorded is not None
    assert (recorded.assumed, recorded.stands) == (False, "now 8")


def test_a_default_that_the_log_denies_is_not_known() -> None:
    kl = [0.1, 0.2, 0.3, 0.4]
    change = change_of(raise_("kl-coef", "why"), defaulted("kl-coef", 0.0, kl__reference=kl))
    assert change == Change("kl-coef", "the.kl-coef", None, None, "why"), "KL is logged where it costs something"
    assert change.stands == ""
    assert change_of(raise_("kl-coef", "why"), defaulted("kl-coef", 0.04, kl__reference=kl)) is not None
    capped = {"length__max": [64.0] * 4, "length__truncated_share": [0.0, 1.0, 1.0, 1.0]}
    longer = raise_("max-completion-length", "why")
    for series, current in (
        (capped, None),
        ({**capped, "length__max": [512.0] * 4}, 512),
        ({**capped, "length__truncated_share": [0.0] * 4}, 512),
        ({}, 512),
    ):
        made = change_of(longer, defaulted("max-completion-length", 512, **series))
        assert made is not None
        assert (made.current, made.assumed) == (current, current is not None)
