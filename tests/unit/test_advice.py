"""The table from pattern to action, row by row."""

from __future__ import annotations

import pytest

from vario.rules import RULES
from vario.rules.base import Evidence, Fires
from vario.rules.engine import Incident
from vario.verdict.advice import FATAL, Situation, advise


def incident(name: str) -> Incident:
    rule = next(r for r in RULES if r.name == name)
    return Incident(rule, 1, 10, None, Fires((Evidence("said"),)), 200)


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
    ],
)
def test_action(case: Situation, action: str) -> None:
    advice = advise(case)
    assert advice.action == action
    assert advice.why
    assert advice.would_change_it


def test_reward_alone_is_never_more_than_low_confidence() -> None:
    assert advise(situation("rising", witnesses=frozenset())).confidence == "low"


def test_high_confidence_to_continue_needs_a_held_out_witness() -> None:
    assert advise(situation("rising")).confidence == "medium"
    assert advise(situation("rising", witnesses=frozenset({"held-out", "kl"}))).confidence == "high"


def test_fatal_names_are_rules() -> None:
    assert set(FATAL) <= {r.name for r in RULES}
