"""What a framework's log answers to a rule, and what is wanting where it does not.

Nothing is believed of a rule: it is asked, about a log that holds what the framework's dialect knows, and again with
what could be added to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from page_parts import PROBE_POINTS, Column, columns, instruments, needs, trainers_of

from vario.catalogue import FROM_SAMPLES, KNOBS, METRICS
from vario.errors import NotReadable
from vario.instruments import History, Look
from vario.rules import RULES, Rule
from vario.rules.base import Unknown
from vario.run import Declared, KnobSetting, Run, Series, Setting
from vario.sources.dialects.base import TRACKER

FED, SOMETIMES, CONFIGURED, DECLARED, COUNTED, FOREIGN, UNLOGGED = MARKS = ("●", "○", "◐", "◆", "◇", "-", "✗")
"""Fed by the keys; only in some versions or configurations; with the run's configuration; once something is declared;
from completions; not with this algorithm; not logged."""
ANSWERED = frozenset((FED, SOMETIMES, CONFIGURED, DECLARED))

PAIRS = frozenset({"dpo"})
GROUPS = frozenset({"grpo", "async-grpo", "rloo"})
VALUED = frozenset({"ppo"})
SAMPLED = GROUPS | VALUED
ONLY_IN: Mapping[str, frozenset[str]] = {
    r"loss/value|value/.+": VALUED,
    r"(eval/)?preference/.+": PAIRS,
    r"signal/.+|.+/within-group|.+/group-(diversity|sds)|samples/zero-.+|length/bimodality/.+": GROUPS,
    r"(reward/truncated-gap|length/reward-correlation)/.+": GROUPS,
    r"(reward|kl|ratio|clip|length|turns|importance-weight|behaviour-weight|engine|staleness|advantage)/.+": SAMPLED,
    r"loss/policy|samples/.+|text/(?!token-accuracy).+|systems/(rollout|logprob|reward|sync|wait|request)-time.*": SAMPLED,
}
"""Metrics that only some algorithms have: nothing is sampled for pairs, and only PPO trains a value function."""
TRACKED = frozenset(a.metric for a in TRACKER) | {"systems/wall-clock"}
"""What a tracker adds by itself, whatever the framework."""

Way = tuple[str, ...]
"""Metrics that would do together."""


@dataclass(frozen=True)
class Answer:
    """What one cell says. `lacking`: for each thing that is wanting, the ways to have it; of `◇` and `✗` alone."""

    mark: str
    lacking: tuple[tuple[Way, ...], ...] = ()

    @property
    def words(self) -> str:
        """The metrics that are wanting: any way of each thing would do."""
        each = [" or ".join(" with ".join(f"`{m}`" for m in way) for way in ways) for ways in self.lacking]
        return (" and " if all(len(ways) == 1 for ways in self.lacking) else "; and ").join(each)


# a log to ask a rule about

REWARDS = MappingProxyType({"correctness": 1.0, "format": 0.25})
"""Two reward functions, as most runs have them, and their weights."""
CONFIGURATION = Declared(
    updates_per_rollout=4.0,
    max_length=1024.0,
    kl_by_design=True,
    component_weights=REWARDS,
    batch_completions=64.0,
    group_size=8.0,
    reward_low=0.0,
    reward_high=1.25,
)
SETTINGS: Mapping[str, Setting] = {"reward-scaling": "none", "reward-bounds": "[0.0, 1.25]"}
"""Settings of knobs that take no number."""


@cache
def _look(metrics: frozenset[str], *, configured: bool) -> Look:
    """At the end of a run that logged these metrics; `configured`: its configuration lies beside the log."""
    steps = np.arange(1, PROBE_POINTS + 1, dtype=np.int64)
    values = np.asarray(0.4 + 0.01 * (steps % 7), dtype=np.float64)
    names = (m.replace("*", name) for m in metrics for name in (REWARDS if "*" in m else ("",)))
    run = Run("probe", "generic", "unknown", {n: Series(n, steps, values) for n in names}, steps)
    if configured:
        knobs = {k: KnobSetting(k, k, SETTINGS.get(k, 1.0), is_default=False) for k in KNOBS}
        run = replace(run, declared=CONFIGURATION, knobs=knobs)
    else:
        run = replace(run, declared=Declared(component_weights=REWARDS))
    return Look(History(run), PROBE_POINTS)


@cache
def answered(rule: Rule, metrics: frozenset[str], *, configured: bool) -> bool:
    """Whether a rule says something of a run that logged these metrics, be it that all is clear."""
    return not isinstance(rule.judge(_look(metrics, configured=configured)), Unknown)


@cache
def needs_a_word(rule: Rule) -> bool:
    """Whether everything that can be logged is not enough: the user must declare what it is held against."""
    return not answered(rule, frozenset(METRICS), configured=True)


# what is logged, and what could be


def logged(column: Column, *, settled: bool) -> frozenset[str]:
    """Metrics of a framework's keys; `settled` leaves out those that hang on version, configuration or a tracker."""
    return column.metrics(settled=settled) | (frozenset() if settled else TRACKED)


def algorithms_of(column: Column) -> frozenset[str]:
    """The algorithms that a column stands for; every one where it is not known."""
    mine = frozenset((column.algorithm,) if column.algorithm else trainers_of(column.dialect))
    return PAIRS | SAMPLED if "unknown" in mine else mine


def exists(metric: str, algorithms: frozenset[str]) -> bool:
    """Whether one of these algorithms has such a quantity."""
    return all(algorithms & only for pattern, only in ONLY_IN.items() if re.fullmatch(pattern, metric))


def _wanting(rule: Rule, metrics: frozenset[str]) -> tuple[tuple[Way, ...], ...]:
    """Each thing that a rule still wants beside these metrics, with the ways to have it."""
    found: list[tuple[Way, ...]] = []
    while not answered(rule, metrics, configured=True):
        look = _look(metrics, configured=True)
        blind = [k for k in instruments(rule, optional=False) if isinstance(look.instrument(k), NotReadable)]
        outcome = rule.judge(look)
        assert isinstance(outcome, Unknown)
        more = [_ways(k, metrics) for k in blind] or [tuple((m,) for m in outcome.missing)]
        found += [ways for ways in more if ways not in found]
        before, metrics = metrics, metrics.union(*(ways[0] for ways in more))
        assert metrics > before, f"{rule.name} does not say what it wants: {outcome}"
    needed = {m for ways in found if len(ways) == 1 for m in ways[0]}
    return tuple(ways for ways in found if len(ways) == 1 or not any(needed.issuperset(way) for way in ways))


def _ways(kind: type, metrics: frozenset[str]) -> tuple[Way, ...]:
    """What could be added for an instrument, the shortest way first; a weight of 0 cannot be."""
    ways = (tuple(m for m in names if m not in metrics) for names in needs(kind))
    enough = [w for w in ways if not isinstance(_look(metrics.union(w), configured=True).instrument(kind), NotReadable)]
    return tuple(sorted((w for w in enough if not any(set(o) < set(w) for o in enough)), key=len))


@cache
def answer(rule: Rule, column: Column) -> Answer:
    """What a framework's log says to a rule."""
    for mark, settled, configured in ((FED, True, False), (SOMETIMES, False, False), (CONFIGURED, False, True)):
        if answered(rule, logged(column, settled=settled), configured=configured):
            return Answer(mark)
    if needs_a_word(rule):
        return Answer(DECLARED)
    algorithms = algorithms_of(column)
    lacking = tuple(
        tuple(way for way in ways if all(exists(m, algorithms) for m in way))
        for ways in _wanting(rule, logged(column, settled=False))
    )
    if not all(lacking):
        return Answer(FOREIGN)
    counted = tuple(tuple(way for way in ways if FROM_SAMPLES.issuperset(way)) for ways in lacking)
    return Answer(COUNTED, counted) if all(counted) else Answer(UNLOGGED, lacking)


def fed_by_none() -> dict[Rule, Answer]:
    """The rules that no framework's log can answer, whatever is configured or declared; own loops apart."""
    frameworks = [c for c in columns() if c.dialect.name != "generic"]
    found = {r: [answer(r, c) for c in frameworks] for r in RULES}
    return {
        r: min((a for a in answers if a.lacking), key=lambda a: len(a.lacking))
        for r, answers in found.items()
        if not any(a.mark in ANSWERED for a in answers)
    }
