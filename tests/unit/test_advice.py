"""The table from pattern to action, row by row."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario import diagnose
from vario.rules import RULES
from vario.rules.base import Evidence, Fires
from vario.rules.engine import Incident
from vario.run import Run, Series
from vario.verdict.advice import FATAL, Situation, advise
from vario.verdict.overturns import OVERTURNS, overturns


def incident(name: str, since: int | None = 1) -> Incident:
    rule = next(r for r in RULES if r.name == name)
    return Incident(rule, since, 10, None, Fires((Evidence("said"),)), 200)


def situation(
    trajectory: str = "rising", regime: str = "unknown", names: tuple[str, ...] = (), *, ceiling: bool = False,
    witnesses: frozenset[str] = frozenset({"kl", "entropy"}), held: bool | None = None,
) -> Situation:  # fmt: skip
    return Situation(trajectory, "high", regime, [incident(n) for n in names], ceiling, witnesses, held)


@pytest.mark.parametrize(
    ("case", "action"),
    [
        (situation("too-short"), "cannot-tell"),
        (situation("rising", "kl-up-reward-down"), "stop"),
        (situation("peaked"), "stop"),
        (situation("plateau", "kl-up-reward-flat", ("kl-rises-without-reward",)), "stop"),
        (situation("plateau", ceiling=True), "stop"),
        (situation("plateau", "kl-flat-reward-flat"), "cannot-tell"),
        (situation("noise", "kl-flat-reward-flat"), "intervene"),
        (situation("rising", "kl-flat-reward-up"), "continue"),
        (situation("slowing", "kl-up-reward-up"), "continue"),
        (situation("declining"), "intervene"),
        (situation("saturated"), "stop"),
        (situation("rising", names=("length-hacking",)), "intervene"),
        (situation("rising", names=("policy-collapse",)), "stop"),
        (situation("flat-low", names=("reward-constant",)), "intervene"),
        (situation("too-short", names=("non-finite",)), "stop"),
        (situation("slowing", names=("preference-saturated",), held=False), "stop"),
        (situation("slowing", names=("preference-saturated",), held=True), "continue"),
        (situation("rising", names=("run-stalled",)), "continue"),
        (situation("plateau", ceiling=True, names=("memory-creeping",)), "stop"),
        (situation("rising", names=("run-stalled", "length-hacking")), "intervene"),
    ],
)
def test_action(case: Situation, action: str) -> None:
    advice = advise(case)
    assert advice.action == action
    assert advice.why
    assert advice.would_change_it


def test_a_verdict_that_rests_on_a_finding_says_what_would_overturn_it() -> None:
    assert set(OVERTURNS) <= {rule.name for rule in RULES}
    assert set(OVERTURNS) >= set(FATAL)
    for name in FATAL:
        told = advise(situation(names=(name,))).would_change_it
        assert len(told) >= 2
        assert not any("{" in text for text in told)
    assert "harder prompts, or another reward function, from step 43 on" in overturns(incident("reward-collapsed", 43))
    assert "harder prompts, or another reward function, from the start on" in overturns(
        incident("reward-collapsed", None)
    )
    assert overturns(incident("length-hacking")) == ("length-hacking passing after the change",)


def test_reward_alone_is_never_more_than_low_confidence() -> None:
    assert advise(situation("rising", witnesses=frozenset())).confidence == "low"


def test_high_confidence_to_continue_needs_a_held_out_witness() -> None:
    assert advise(situation("rising")).confidence == "medium"
    assert advise(situation("rising", witnesses=frozenset({"held-out", "kl"}))).confidence == "high"


def test_a_warning_of_the_machine_changes_nothing_but_is_named() -> None:
    alone, beside = advise(situation("rising")), advise(situation("rising", names=("run-stalled",)))
    assert alone == beside
    values = 0.2 + 0.6 * np.linspace(0.0, 1.0, 120) + 0.02 * np.random.default_rng(0).standard_normal(120)
    steps = np.arange(1, 121, dtype=np.int64)
    seconds = np.where(steps > 115, 900.0, 30.0)  # the last steps crawl
    series = {"reward/mean": Series("reward", steps, values), "systems/step-time": Series("time", steps, seconds)}
    made = diagnose(Run("run", "trl", "grpo", MappingProxyType(series), steps))
    assert [f.name for f in made.findings if f.severity == "warning"] == ["run-stalled"]
    assert made.verdict.action == "continue"
    assert "Found: run-stalled." in made.verdict.narrative


def test_fatal_names_are_rules() -> None:
    assert set(FATAL) <= {r.name for r in RULES}
