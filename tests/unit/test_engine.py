"""The engine: when it looks, how long a pattern must hold, when it has passed, what comes back, and what folds beneath what."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest

from vario.errors import NotReadable
from vario.instruments import Look
from vario.rules.base import (
    Aside,
    Broken,
    Clear,
    Doubt,
    Evidence,
    Excluded,
    Fires,
    Grave,
    Rule,
    Severity,
    Sign,
    Unknown,
    rule,
)
from vario.rules.engine import COOL_LOOKS, LEAVE_LOOKS, Incident, Judgement, judge, looks
from vario.run import Run, Series

ROWS = 300
EVERY = 10
"""Looks at 10, 20, ... 300: below 334 rows 3 % is less than 10 rows."""


@dataclass(frozen=True)
class Now:
    """Where the run stands: an instrument that every run has."""

    look: Look

    @classmethod
    def read(cls, look: Look) -> Now:
        return cls(look)

    @property
    def step(self) -> int:
        return self.look.step


@dataclass(frozen=True)
class Nothing:
    """An instrument that no run has."""

    @classmethod
    def read(cls, _: Look) -> Nothing:
        raise NotReadable("reward/mean")


def run_of(rows: int = ROWS, **series: np.ndarray) -> Run:
    steps = np.arange(1, rows + 1, dtype=np.int64)
    made = {k.replace("__", "/"): Series(k, steps[: v.size], v) for k, v in series.items()}
    return Run("run", "trl", "grpo", MappingProxyType(made), steps)


def scripted(
    at: Collection[int],
    *extra: Sign,
    name: str = "scripted",
    code: str = "ZZ101",
    severity: Severity = Severity.WARNING,
    since: int | None = None,
    metrics: tuple[str, ...] = (),
    **more: object,
) -> Rule:
    """A rule that fires at the looks in `at`; its evidence begins at `since`."""

    def function(now: Now) -> Iterator[Sign]:
        if now.step in at:
            yield Evidence(f"seen at {now.step}", metrics, since)
            yield from extra

    return rule(code, name, severity, **more)(function)  # type: ignore[arg-type]


def judged(*rules: Rule, rows: int = ROWS, replay: bool = True, suppressed: Collection[str] = ()) -> Judgement:
    made = judge(run_of(rows), rules=rules, replay=replay, suppressed=suppressed)
    assert made is not None
    return made


def only(judgement: Judgement) -> Incident:
    (incident,) = judgement.incidents
    return incident


def span(first: int, last: int) -> set[int]:
    return set(range(first, last + 1, EVERY))


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, []), (5, [5]), (10, [10]), (11, [10, 11]), (35, [10, 20, 30, 35])]
)
def test_looks_at_the_start(rows: int, expected: list[int]) -> None:
    assert looks(rows) == expected


def test_looks_grow_with_the_run_and_end_at_its_last_row() -> None:
    at = looks(20_000)
    gaps = np.diff([0, *at])
    assert at[-1] == 20_000
    assert (gaps > 0).all()
    assert all(gap <= max(10, 0.03 * end) for gap, end in zip(gaps, at, strict=True))
    assert len(at) < 200
    assert set(looks(500)[:-1]) <= set(at), "a longer run looks at the same places on the way"


def test_a_run_without_rows_is_not_judged() -> None:
    assert judge(run_of(0), rules=[scripted({10})]) is None


@pytest.mark.parametrize(("holds", "detected"), [(1, 50), (2, 60), (3, 70)])
def test_a_pattern_is_said_once_it_has_held(holds: int, detected: int) -> None:
    incident = only(judged(scripted(span(50, 300), since=41, holds=holds)))
    assert (incident.since, incident.detected_at, incident.until) == (41, detected, None)


def test_a_pattern_that_never_holds_is_not_said() -> None:
    every_other = {50, 70, 90, 110, 290}
    assert judged(scripted(every_other)).incidents == ()
    assert judged(scripted({300})).incidents == (), "the last look alone is one look"


def test_a_look_in_between_starts_the_count_again() -> None:
    assert only(judged(scripted({50, *span(70, 300)}))).detected_at == 80


def test_without_replay_it_looks_once() -> None:
    incident = only(judged(scripted({300}, since=5, holds=3), replay=False))
    assert (incident.since, incident.detected_at, incident.until) == (5, None, None)
    assert judged(scripted(span(10, 290)), replay=False).incidents == ()


def test_the_evidence_is_that_of_the_last_look_and_the_onset_too() -> None:
    def function(now: Now) -> Iterator[Sign]:
        yield Evidence(f"seen at {now.step}", (), 5 + now.step // 100)
        yield Evidence("and", (), None)

    incident = only(judged(rule("ZZ101", "moving", Severity.INFO)(function)))
    assert incident.evidence == ("seen at 300", "and")
    assert (incident.since, incident.detected_at) == (8, 20)
    once = only(judged(rule("ZZ101", "moving", Severity.INFO, lasting=True)(function)))
    assert once.since == 5, "what happened once keeps its onset"


def test_what_was_seen_at_a_step_had_begun_by_then() -> None:
    def function(now: Now) -> Iterator[Sign]:
        yield Evidence("an estimate that runs away", (), now.step // 2)

    incident = only(judged(rule("ZZ101", "moving", Severity.INFO)(function)))
    assert (incident.since, incident.detected_at) == (20, 20)
    alone = only(judged(rule("ZZ101", "moving", Severity.INFO)(function), replay=False))
    assert (alone.since, alone.detected_at) == (150, None)


def test_one_look_without_it_is_noise() -> None:
    assert LEAVE_LOOKS == 2
    incident = only(judged(scripted(span(50, 300) - {150, 200, 290})))
    assert (incident.detected_at, incident.until) == (60, None)


def test_it_has_passed_when_it_stayed_away() -> None:
    incident = only(judged(scripted(span(50, 150))))
    assert (incident.detected_at, incident.until) == (60, 160)
    assert incident.severity == Severity.INFO, "what has passed is information"


@pytest.mark.parametrize("first_back", [180, 190, 200, 210])
def test_what_comes_back_soon_is_the_same_finding(first_back: int) -> None:
    incident = only(judged(scripted(span(50, 150) | span(first_back, 300), since=45)))
    assert (incident.detected_at, incident.until) == (60, None)


def test_what_comes_back_late_is_a_new_finding() -> None:
    assert COOL_LOOKS == 3
    incident = only(judged(scripted(span(50, 150) | span(220, 300))))
    assert (incident.detected_at, incident.until) == (230, None)


def test_a_lone_flicker_does_not_bring_back_a_finding_that_passed_long_ago() -> None:
    incident = only(judged(scripted({50, 60, 260, *span(280, 300)})))
    assert (incident.detected_at, incident.until) == (290, None)


@pytest.mark.parametrize(("flicker", "back", "detected"), [(190, 210, 60), (200, 220, 230)])
def test_a_flicker_does_not_stop_the_clock(flicker: int, back: int, detected: int) -> None:
    incident = only(judged(scripted(span(50, 150) | {flicker} | span(back, 300))))
    assert (incident.detected_at, incident.until) == (detected, None)


def test_a_flicker_after_it_passed_opens_nothing() -> None:
    incident = only(judged(scripted({50, 60, 100, 140})))
    assert (incident.detected_at, incident.until) == (60, 70)


def test_what_happened_once_stays_true() -> None:
    assert only(judged(scripted({50, 60}, lasting=True))).until is None
    assert only(judged(scripted({50}, lasting=True, holds=1))).until is None


def test_a_detail_that_passed_is_not_told() -> None:
    assert judged(scripted({50, 60}, severity=Severity.INFO)).incidents == ()
    assert only(judged(scripted(span(50, 300), severity=Severity.INFO))).severity == Severity.INFO


def test_what_passed_gives_way_to_what_is_open_again() -> None:
    (incident,) = judged(scripted({50, 60, *span(250, 300)})).incidents
    assert (incident.detected_at, incident.until) == (260, None)


def test_nothing_is_detected_before_the_prefix_in_which_it_holds() -> None:
    at = scripted(span(50, 300))
    for rows, detected in ((50, None), (55, 55), (60, 60), (100, 60)):
        found = judged(at, rows=rows).incidents
        if rows == 55:
            assert found == (), "row 55 is a look of its own, and the pattern is not there"
        else:
            assert [i.detected_at for i in found] == ([] if detected is None else [detected])


def test_a_rule_that_raises_stops_no_other() -> None:
    def function(_: Now) -> Iterator[Sign]:
        yield Evidence("about to fail")
        raise ZeroDivisionError("by zero")

    broken = rule("ZZ102", "broken", Severity.WARNING)(function)
    made = judged(broken, scripted(span(50, 300)))
    assert made.broken == [(broken, Broken("ZeroDivisionError: by zero"))]
    assert only(made).rule.name == "scripted"


def test_a_missing_instrument_is_unknown_and_an_optional_one_is_none() -> None:
    def needs(_: Nothing) -> Iterator[Sign]:
        yield Evidence("never")

    def can_do_without(nothing: Nothing | None) -> Iterator[Sign]:
        yield Evidence(str(nothing))

    first, second = rule("ZZ103", "needs", Severity.INFO)(needs), rule("ZZ104", "asks", Severity.INFO)(can_do_without)
    made = judged(first, second)
    assert made.unknown == [(first, Unknown(("reward/mean",), "reward/mean not logged"))]
    assert only(made).evidence == ("None",)


def test_clear_is_neither_unknown_nor_broken() -> None:
    made = judged(scripted({}))
    assert made.outcomes == {"scripted": Clear()}
    assert (made.unknown, made.broken, made.incidents) == ([], [], ())


@pytest.mark.parametrize(
    ("rows", "doubts", "word"),
    [(300, 0, "high"), (300, 1, "medium"), (300, 2, "low"), (300, 5, "low"), (50, 0, "medium"), (50, 1, "low"), (60, 0, "high")],
)  # fmt: skip
def test_confidence_falls_with_doubts_and_with_few_rows(rows: int, doubts: int, word: str) -> None:
    incident = only(judged(scripted(span(10, 300), *(Doubt(f"doubt {i}") for i in range(doubts))), rows=rows))
    assert incident.confidence == word
    assert incident.evidence == (f"seen at {rows}", *(f"less sure: doubt {i}" for i in range(doubts)))


def test_a_run_can_make_it_graver_or_a_detail() -> None:
    grave = only(judged(scripted(span(10, 300), Grave(Severity.CRITICAL))))
    assert (grave.severity, grave.audience) == (Severity.CRITICAL, "default")
    aside = only(judged(scripted(span(10, 300), Aside("only that"), Excluded("no other"))))
    assert (aside.audience, aside.excluded) == ("pedantic", ("only that", "no other"))
    assert only(judged(scripted(span(10, 300), pedantic=True))).audience == "pedantic"


def test_a_suppressed_finding_is_kept_apart_and_explains_nothing() -> None:
    cause = scripted(span(50, 300), name="cause", code="ZZ102", since=50, explains=("scripted",))
    symptom = scripted(span(50, 300), since=50)
    folded = judged(cause, symptom)
    assert [i.rule.name for i in folded.incidents] == ["cause"]
    assert [s.rule.name for s in only(folded).symptoms] == ["scripted"]
    apart = judged(cause, symptom, suppressed={"cause"})
    assert [i.rule.name for i in apart.incidents] == ["scripted"]
    assert [i.rule.name for i in apart.suppressed] == ["cause"]


def folded(cause_since: int | None, symptom_since: int | None, *, passed: bool = False) -> list[str]:
    cause = scripted(span(200, 300), name="cause", code="ZZ102", since=cause_since, explains=("scripted",))
    at = span(100, 150) if passed else span(200, 300)
    return [i.rule.name for i in judged(cause, scripted(at, since=symptom_since)).incidents]


def test_a_symptom_does_not_begin_before_its_cause() -> None:
    assert folded(190, 190) == ["cause"]
    assert folded(190, 250) == ["cause"]
    assert folded(190, 140) == ["cause"], "both onsets are estimates: a quarter of the run"
    assert folded(190, 20) == ["cause", "scripted"]
    assert folded(None, 20) == ["cause"]
    assert folded(190, None) == ["cause"]


def test_two_that_explain_each_other_leave_the_wider_one_on_top() -> None:
    wide = scripted(span(50, 300), name="wide", code="ZZ102", since=50, explains=("narrow", "other"))
    narrow = scripted(span(50, 300), name="narrow", code="ZZ103", since=50, explains=("wide",), severity=Severity.CRITICAL)
    (top,) = judged(narrow, wide).incidents
    assert (top.rule.name, [s.rule.name for s in top.symptoms]) == ("wide", ["narrow"])


def test_a_chain_of_causes_becomes_one_list_of_symptoms() -> None:
    first = scripted(span(50, 300), name="first", code="ZZ102", since=50, explains=("second",), severity=Severity.WARNING)
    second = scripted(span(50, 300), name="second", code="ZZ103", since=60, explains=("third",), severity=Severity.CRITICAL)
    third = scripted(span(50, 300), name="third", code="ZZ104", since=70)
    (top,) = judged(third, second, first).incidents
    assert top.rule.name == "first"
    assert [s.rule.name for s in top.symptoms] == ["second", "third"]
    assert all(s.symptoms == [] for s in top.symptoms)


def test_what_has_passed_is_no_cause() -> None:
    cause = scripted(span(50, 100), name="cause", code="ZZ102", since=50, explains=("scripted",))
    names = {i.rule.name: i.until for i in judged(cause, scripted(span(50, 300), since=50)).incidents}
    assert names == {"scripted": None, "cause": 110}


def test_the_gravest_open_finding_comes_first() -> None:
    made = judged(
        scripted(span(50, 100), name="was-critical", code="ZZ102", severity=Severity.CRITICAL),
        scripted(span(50, 300), Doubt("?"), name="doubtful", code="ZZ103"),
        scripted(span(50, 300), name="sure", code="ZZ104"),
        scripted(span(50, 300), name="critical", code="ZZ105", severity=Severity.CRITICAL),
        scripted(span(50, 300), name="detail", code="ZZ106", severity=Severity.INFO),
    )
    assert [i.rule.name for i in made.incidents] == ["critical", "sure", "doubtful", "detail", "was-critical"]


def test_the_last_rules_hear_what_the_others_have_said() -> None:
    heard: dict[int, frozenset[str]] = {}

    def function(now: Now) -> Iterator[Sign]:
        heard[now.step] = frozenset(now.look.said)
        yield from ()

    listener = rule("ZZ199", "listener", Severity.INFO, last=True)(function)
    judged(listener, scripted(span(50, 150), metrics=("kl/reference",)))
    assert sorted(heard) == [40, 80, 120, 160, 200, 240, 280, 300], "each fourth look, and the last"
    assert heard[40] == frozenset(), "not said yet"
    assert heard[80] == heard[120] == heard[160] == {"kl/reference"}
    assert heard[200] == frozenset(), "passed"


def test_what_nothing_explains_names_the_nearest_patterns() -> None:
    def moved(_: Now) -> Iterator[Sign]:
        yield Evidence("it moved", ("reward/mean",))

    def wants_both(now: Now) -> Iterator[Sign]:
        if not now.look.need("reward/mean").flat() and not now.look.need("entropy/mean").flat():
            yield Evidence("both moved")

    def wants_kl(now: Now) -> Iterator[Sign]:
        now.look.need("reward/mean")
        now.look.need("kl/reference")
        yield Evidence("KL")

    def elsewhere(now: Now) -> Iterator[Sign]:
        now.look.need("entropy/mean")
        yield from ()

    rules = [
        rule("ZZ199", "unexplained", Severity.INFO, last=True)(moved),
        rule("ZZ101", "wants-both", Severity.INFO)(wants_both),
        rule("ZZ102", "wants-kl", Severity.INFO)(wants_kl),
        rule("ZZ103", "elsewhere", Severity.INFO)(elsewhere),
    ]
    rng = np.random.default_rng(0)
    run = run_of(reward__mean=np.linspace(0.0, 1.0, ROWS), entropy__mean=0.5 + 0.01 * rng.standard_normal(ROWS))
    made = judge(run, rules=rules)
    assert made is not None
    (incident,) = made.incidents
    assert incident.near == (
        "not wants-both: entropy/mean did not move",
        "wants-kl could not be asked: kl/reference not logged",
    )
    assert incident.excluded == incident.near


def test_an_evaluation_after_the_last_row_is_seen() -> None:
    steps = np.arange(1, 101, dtype=np.int64)
    late = Series("eval_reward", np.array([50, 105]), np.array([0.1, 0.2]))
    run = Run("run", "trl", "grpo", MappingProxyType({"eval/score/mean": late}), steps)
    made = judge(run, rules=[scripted({})])
    assert made is not None
    assert made.look.step == 105


def test_judging_twice_says_the_same() -> None:
    one = scripted(span(50, 150), name="one", code="ZZ102", since=50, explains=("two",))
    two = scripted(span(60, 300), name="two", code="ZZ103", since=55)
    for _ in range(2):
        assert [(i.rule.name, i.since, i.detected_at, i.until, len(i.symptoms)) for i in judged(one, two).incidents] == [
            ("two", 55, 70, None, 0),
            ("one", 50, 60, 160, 0),
        ]


def test_fires_needs_evidence() -> None:
    def doubts_only(_: Now) -> Iterator[Sign]:
        yield Doubt("of what?")

    made = judged(rule("ZZ101", "doubts", Severity.INFO)(doubts_only))
    assert made.outcomes["doubts"] == Clear()
    assert isinstance(judged(scripted({300})).outcomes["scripted"], Fires)
