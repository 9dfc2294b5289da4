"""What a finding did between two looks: opened, changed, resolved, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pydantic")

from tests.conftest import GOLDEN
from vario import Diagnosis, Finding, diagnose, read
from vario.surfaces.mcp.diagnosed import _moved
from vario.surfaces.mcp.ids import Ref

REF = Ref("/runs/one")


@pytest.fixture(scope="module")
def drift() -> Diagnosis:
    return diagnose(read(GOLDEN / "grpo-drift"))


@pytest.fixture(scope="module")
def one(drift: Diagnosis) -> Finding:
    return replace(drift.findings[0], symptoms=(), until=None, severity="warning", confidence="medium")


def moved(drift: Diagnosis, before: tuple[Finding, ...], now: tuple[Finding, ...]) -> list[tuple[str, str | None, str | None]]:
    shapes = _moved(REF, replace(drift, findings=now), replace(drift, findings=before))
    return [(shape.name, shape.moved, shape.was) for shape in shapes]


def test_nothing_has_moved(drift: Diagnosis, one: Finding) -> None:
    later = replace(one, since=(one.since or 0) + 3, evidence=("other words",))
    assert moved(drift, (one,), (one,)) == moved(drift, (one,), (later,)) == []


def test_each_way_to_move(drift: Diagnosis, one: Finding) -> None:
    passed = replace(one, until=90)
    assert moved(drift, (), (one,)) == [(one.name, "opened", None)]
    assert moved(drift, (one,), (passed,)) == [(one.name, "resolved", "warning, medium confidence")]
    assert moved(drift, (passed,), (one,)) == [(one.name, "opened", "passed by step 90")]
    assert moved(drift, (one,), ()) == [(one.name, "resolved", "warning, medium confidence; it is no longer found")]
    assert moved(drift, (passed,), ()) == []
    for worse in (replace(one, severity="critical"), replace(one, confidence="high")):
        assert moved(drift, (one,), (worse,)) == [(one.name, "changed", "warning, medium confidence")]


def test_a_finding_that_another_explains_has_not_gone(drift: Diagnosis, one: Finding) -> None:
    cause = replace(one, name="reward-function-broke", code="RU104")
    with_symptom = replace(cause, symptoms=(one,))
    told = {name: (how, was) for name, how, was in moved(drift, (one,), (with_symptom,))}
    assert told[cause.name] == ("opened", None)
    (symptom,) = (s for s in _moved(REF, replace(drift, findings=(with_symptom,)), replace(drift, findings=(one,))) if s.name == one.name)
    assert (symptom.explained_by or "").startswith(f"{REF.id}/reward-function-broke@")
    assert symptom.changes == [], "what explains it says what to change"
    assert told[one.name] == ("changed", "warning, medium confidence, by itself; now explained by reward-function-broke")
    back = {name: how for name, how, _ in moved(drift, (with_symptom,), (one,))}
    assert back == {cause.name: "resolved", one.name: "changed"}
    assert [name for name, _, _ in moved(drift, (), (with_symptom,))] == [cause.name], "its symptoms are told with it"


def test_a_pattern_that_came_twice(drift: Diagnosis, one: Finding) -> None:
    first, second = replace(one, since=10, until=20), replace(one, since=80)
    assert moved(drift, (first,), (first, second)) == [(one.name, "opened", None)]
