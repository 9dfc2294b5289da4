"""The table of rules by framework leaves nothing open: each cell says what answers the rule, or why nothing does."""

from __future__ import annotations

import re

import answers
import pytest
from answers import ANSWERED, COUNTED, FOREIGN, MARKS, UNLOGGED, answer, answered, exists, fed_by_none, needs_a_word
from page_parts import Column, columns, logs_of, title_of
from pages import FAMILIES
from rule_by_framework import LEGEND, by_framework_page

from tests.test_real_logs import NO_TRAINER_LOGS
from vario.catalogue import METRICS
from vario.rules import RULES, Rule, find_rule
from vario.rules.base import Broken
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Dialect

PAGE = by_framework_page(FAMILIES)
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
NONE, MISSING = "Fed by no framework", "Keys that are not logged"
NAME = re.compile(r"\[([\w-]+)\]\(rules/")
FRAMEWORKS = [d for d in DIALECTS if d.name != "generic"]


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def known(dialect: Dialect) -> frozenset[str]:
    """All that a dialect can map, whatever the trainer, the version and the configuration."""
    made = {m for log in logs_of(dialect) for m in log.run.series if m in METRICS}
    return frozenset(alias.metric for alias in dialect.aliases) | made | answers.TRACKED


@pytest.mark.parametrize("section", [s for s in SECTIONS if s not in (NONE, MISSING)])
def test_no_cell_is_blank(section: str) -> None:
    table = [row for row in rows(section) if NAME.search(row[0])]
    assert sorted(NAME.findall(" ".join(row[0] for row in table))) == sorted(r.name for r in RULES)
    for row in table:
        assert set(row[1:]) <= set(MARKS), row


def test_every_mark_is_explained() -> None:
    assert list(LEGEND) == list(MARKS)
    for mark, meaning in LEGEND.items():
        assert f"\n- {mark} {meaning}\n" in PAGE


def test_what_no_framework_feeds_is_what_no_dialect_maps() -> None:
    """Asked of the dialects themselves, one by one, and not by way of the table."""
    unfed = {
        rule
        for rule in RULES
        if not needs_a_word(rule) and not any(answered(rule, known(d), configured=True) for d in FRAMEWORKS)
    }
    assert unfed == set(fed_by_none())
    mapped = frozenset[str]().union(*map(known, FRAMEWORKS))
    for answer_ in fed_by_none().values():
        assert all(not mapped.issuperset(way) for ways in answer_.lacking for way in ways), answer_.words


def test_what_no_framework_feeds_is_listed_with_what_is_missing() -> None:
    listed = {name: row for row in rows(NONE) for name in NAME.findall(row[0])}
    assert listed.keys() == {rule.name for rule in fed_by_none()}
    for rule, found in fed_by_none().items():
        assert listed[rule.name][1] == found.words
    assert {rule.name: found.lacking[0][0][0] for rule, found in fed_by_none().items()} == NO_TRAINER_LOGS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_key_that_is_not_logged_is_named(rule: Rule) -> None:
    told = [row[1:] for row in rows(MISSING) if rule.name in NAME.findall(row[0])]
    wants = {c: a.words for c in columns() if (a := answer(rule, c)).mark == UNLOGGED}
    assert {words for words, _ in told} == set(wants.values())
    for column, words in wants.items():
        assert words
        where = next(heads for missing, heads in told if missing == words)
        assert title_of(column.dialect) in re.split(r"; | (?=[A-Z]{3,4}\b|async )", where), (column, where)


def test_an_answer_says_what_would_turn_it() -> None:
    """What is named as missing, and nothing else beside it, lets the rule speak."""
    for rule in RULES:
        for column in columns():
            found = answer(rule, column)
            assert bool(found.lacking) == (found.mark in (COUNTED, UNLOGGED))
            if found.lacking:
                more = {m for ways in found.lacking for m in ways[0]}
                assert answered(rule, answers.logged(column, settled=False).union(more), configured=True), rule.name


def test_no_algorithm_is_denied_what_a_dialect_gives_it() -> None:
    for dialect in DIALECTS:
        for alias in dialect.aliases:
            for algorithm in set(alias.algorithms) & (answers.PAIRS | answers.SAMPLED):
                assert exists(alias.metric, frozenset((algorithm,))), (dialect.name, alias.key, algorithm)


def test_no_rule_breaks_when_it_is_asked() -> None:
    for rule in RULES:
        for configured in (False, True):
            look = answers._look(frozenset(METRICS), configured=configured)
            assert not isinstance(rule.judge(look), Broken), rule.name


@pytest.mark.parametrize(
    ("rule", "framework", "algorithm", "mark"),
    [
        ("value-explains-nothing", "trl", "grpo", FOREIGN),
        ("margin-plateaued", "verl", "", FOREIGN),
        ("mode-collapse", "trl", "ppo", FOREIGN),
        ("reward-collapsed", "trl", "dpo", FOREIGN),
        ("kl-runaway", "trl", "async-grpo", UNLOGGED),
        ("outputs-garbled", "verl", "", COUNTED),
        ("signal-collapsed-solved", "verl", "", COUNTED),
        ("kl-over-budget", "verl", "", "◆"),
        ("config-contradicts-log", "verl", "", "◐"),
        ("kl-runaway", "trl", "ppo", "●"),
        ("memory-near-capacity", "trl", "dpo", "○"),
    ],
)
def test_why_a_rule_is_answered_or_not(rule: str, framework: str, algorithm: str, mark: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == framework)
    assert answer(find_rule(rule), Column(dialect, algorithm)).mark == mark
    assert (mark in ANSWERED) == (mark in "●○◐◆")
