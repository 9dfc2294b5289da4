"""What the pages say a rule needs is what the rule does with real logs."""

from __future__ import annotations

import page_parts as pages
import pytest
from answers import ANSWERED, answer

import vario
from tests.conftest import ROOT
from vario.errors import NotReadable
from vario.instruments import History, Kl, Look, Record, Signal, Witness
from vario.rules import RULES, find_rule
from vario.rules.base import Unknown

BESIDE = {"configuration"}
"""What is missing where no metric is."""
DECLARED = {
    "config-contradicts-log",
    "kl-over-budget",
    "length-off-baseline",
    "metric-outside-reference",
    "metric-over-budget",
}
REAL = {"grpo-healthy-kl": "grpo", "grpo-healthy": "grpo", "rloo-healthy": "rloo", "dpo-healthy": "dpo"}


def test_needs_are_the_smallest_sets() -> None:
    assert pages.needs(Kl) == (("kl/reference",), ("kl/reference/sequence",))
    assert pages.needs(Signal) == (("reward/std/within-group",), ("signal/zero-variance-share",))
    assert pages.needs(Witness) == (("reward/component/*/mean",), ("eval/score/mean",))
    assert pages.needs(Record) == ()


def test_every_instrument_of_a_rule_can_be_read_from_the_catalogue() -> None:
    for rule in RULES:
        for kind, _ in rule.instruments:
            assert pages.readable(kind, frozenset(pages.METRICS), given=True), f"{rule.name}: {kind.__name__}"
            assert pages.readable(kind, frozenset(pages.METRICS)) == (kind not in pages.GIVEN)


@pytest.mark.parametrize("name", REAL)
def test_a_real_log_feeds_no_more_than_the_page_says(name: str) -> None:
    run = vario.read(ROOT / "tests/golden" / name)
    column = next(c for c in pages.columns() if c.dialect.name == run.framework and c.algorithm == run.algorithm)
    assert column.algorithm == REAL[name]
    assert run.last_step is not None
    look = Look(History(run), run.last_step)
    for rule in RULES:
        if not isinstance(rule.judge(look), Unknown):
            assert answer(rule, column).mark in ANSWERED, rule.name
    canonical = {n if n in pages.METRICS else f"{n.rsplit('/', 2)[0]}/*/{n.rsplit('/', 1)[1]}" for n in run.series}
    assert canonical <= column.metrics(settled=False)


def test_a_missing_metric_is_named_as_the_page_names_it() -> None:
    look = pages.look_at(())
    for rule in RULES:
        for kind, _ in rule.instruments:
            found = look.instrument(kind)
            if isinstance(found, NotReadable):
                wanted = {metric for names in pages.needs(kind) for metric in names} | BESIDE
                assert set(found.missing) <= wanted, f"{rule.name}: {kind.__name__}"


def test_what_no_log_holds_is_shown_as_declared_and_not_as_blank() -> None:
    declared = {r.name for r in RULES if any(k in pages.GIVEN for k in pages.instruments(r, optional=False))}
    assert declared == DECLARED
    for column in pages.columns():
        assert all(answer(rule, column).mark in "◐◆" for rule in RULES if rule.name in declared)


def test_what_can_be_counted_from_completions_is_not_blank() -> None:
    slime = next(c for c in pages.columns() if c.dialect.name == "slime")
    for name in ("lengths-bimodal", "length-buys-reward", "outputs-lose-diversity", "tiny-spread-amplified"):
        assert answer(find_rule(name), slime).mark == "◇", name
    assert answer(find_rule("outputs-repeat"), slime).mark in ANSWERED
    assert answer(find_rule("chosen-reward-falls"), slime).mark == "-"
