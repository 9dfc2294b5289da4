"""Every rule fires on the log of a real trainer, and stays clear on one that only looks like it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.real
from tests.real import OnRealLog
from vario.rules import RULES, Rule, find_rule
from vario.testing import verdict

CASES: list[OnRealLog] = [
    case
    for module in pkgutil.iter_modules(tests.real.__path__)
    for case in importlib.import_module(f"tests.real.{module.name}").REAL
]
NO_TRAINER_LOGS = {
    "attention-entropy-collapsing": "attention/entropy/mean",
    "lengths-bimodal": "length/bimodality/within-group",
    "outputs-duplicated": "text/duplicate-share/across-prompts",
    "outputs-garbled": "text/garbled-share",
    "outputs-lose-diversity": "text/distinct-share",
    "truncation-biases-reward": "reward/truncated-gap/within-group",
}
"""Rules whose metric no framework logs, with that metric: their logs hold what a user's own callback would add."""
BESIDE_ONLY = {
    "importance-weight-off-one",
    "kl-penalty-outweighs-reward",
    "ratio-far-from-one",
    "rollouts-too-stale",
    "value-clipping-high",
    "value-explains-nothing",
    "value-loss-diverging",
}
"""Rules that no golden run can show: none was made by PPO, or with samples of older weights."""


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule} {c.says}: {c.log}{' +' if c.faults else ''}")
def test_on_a_real_log(case: OnRealLog) -> None:
    if not case.path.exists():
        pytest.skip(f"{case.path} is not here (set VARIO_SHARED)")
    run = case.read()
    assert run.last_step is not None
    assert verdict(find_rule(case.rule), run, run.last_step) == case.says, case.why


def heard(rule: Rule, *places: str) -> set[str]:
    """What a rule is said to say on the logs of these places."""
    return {case.says for case in CASES if case.rule == rule.name and case.log.startswith(places)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_fires_and_stays_clear_on_a_real_trainer_s_log(rule: Rule) -> None:
    assert {"fires", "clear"} <= heard(rule, "golden/", "lab/", "corpus/")


def test_cases_are_about_rules_that_there_are() -> None:
    assert {case.rule for case in CASES} <= {rule.name for rule in RULES}
    assert {case.how for case in CASES} == {"recorded", "provoked", "injected"}
    for case in CASES:
        assert bool(case.faults or case.config) == (case.how == "injected"), f"{case.rule} {case.says}: {case.log}"


def test_the_golden_runs_alone_show_nearly_every_rule() -> None:
    """Labelled runs lie beside the checkout, and may not be there."""
    alone = {rule.name for rule in RULES if {"fires", "clear"} <= heard(rule, "golden/")}
    print(f"{len(alone)} of {len(RULES)} rules fire and stay clear on golden runs")
    assert {rule.name for rule in RULES} - alone == BESIDE_ONLY
