"""What a PromQL expression refers to: metrics with their matchers, and labels that it groups or joins by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vario.surfaces.exporters.families import FAMILIES

BY_NAME = {f.name: f for f in FAMILIES}
OF_THE_TARGET = {"job", "instance"}
"""Prometheus itself gives these to whatever it scrapes."""
FUNCTIONS = {"max", "absent", "rate", "time", "and", "or", "label_values"}
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
CLAUSE = re.compile(r"\b(by|on)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Expression:
    """The metrics of an expression, its matchers as (metric, label, operator, value), and the labels of `by` and `on`."""

    metrics: frozenset[str]
    matchers: tuple[tuple[str, str, str, str], ...]
    grouped: frozenset[str]
    by: frozenset[str] | None


def parsed(text: str) -> Expression:
    """An expression taken apart; an assertion fails on what is neither a metric of ours nor a known function."""
    matchers = []
    for name, inside in SELECTOR.findall(text):
        found = MATCHER.findall(inside)
        assert MATCHER.sub("", inside) == "", f"not understood: {{{inside}}}"
        matchers += [(name, *each) for each in found]
    clauses = [(word, frozenset(re.findall(r"\w+", inside))) for word, inside in CLAUSE.findall(text)]
    bare = re.sub(r"\[[^\]]*\]", "", CLAUSE.sub("", SELECTOR.sub(r"\1", text)))
    words = set(re.findall(r"[a-zA-Z_]\w*", bare)) - FUNCTIONS
    assert words and words <= set(BY_NAME), f"the exporter makes no {sorted(words - set(BY_NAME))}"
    by = [labels for word, labels in clauses if word == "by"]
    # the outermost one stands first
    return Expression(
        frozenset(words), tuple(matchers), frozenset().union(*(c for _, c in clauses)), by[0] if by else None
    )


def check(text: str) -> Expression:
    """The expression, once all its metrics and labels are known to be those that the exporter makes."""
    expression = parsed(text)
    for name, label, _, _ in expression.matchers:
        assert label in BY_NAME[name].labels, f"{name} has no label {label}"
    every = set().union(*(BY_NAME[name].labels for name in expression.metrics))
    assert expression.grouped <= every | OF_THE_TARGET, text
    return expression


def labels_of(expression: Expression) -> set[str]:
    """Labels that the result of an expression carries."""
    if expression.by is not None:
        return set(expression.by)
    return set.union(*(set(BY_NAME[name].labels) for name in expression.metrics)) | OF_THE_TARGET
