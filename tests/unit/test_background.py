"""Work beside the training: when it ran, what it is held against, and what is said of it."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario.instruments import Background, History, Look
from vario.instruments.systems import Surplus, Work
from vario.rules import find_rule
from vario.rules.engine import Incident, Judge, judge
from vario.run import Floats, Ints, Run, Series
from vario.verdict import diagnose

N = 200
STEPS = np.arange(1, N + 1, dtype=np.int64)
RULE = [find_rule("background-contention")]
BEGINNINGS = (40, 80, 130, 170)
LASTS = 5
SLOWER = 14.0
UPLOADS = np.concatenate([np.arange(b, b + LASTS) for b in BEGINNINGS])


def step_times(slow: Ints = UPLOADS) -> Floats:
    values = 30.0 + np.random.default_rng(0).normal(0.0, 1.0, N)
    values[slow - 1] += SLOWER
    return values


def seconds(at: Ints = UPLOADS, elsewhere: float = 0.0) -> Floats:
    made = np.full(N, elsewhere)
    made[at - 1] = 30.0
    return made


def run_of(values: Floats, **works: Floats) -> Run:
    series = {"systems/step-time": Series("step_time", STEPS, values)}
    for name, work in works.items():
        series[f"systems/background/{name}/time"] = Series(f"vario/event/{name}_s", STEPS, work)
    return Run("run", "trl", "grpo", MappingProxyType(series), STEPS)


def found(run: Run) -> list[Incident]:
    judged = judge(run, rules=RULE)
    assert judged is not None
    return list(judged.incidents)


def test_the_work_is_named_with_what_it_cost() -> None:
    (incident,) = found(run_of(step_times(), upload=seconds()))
    assert "while upload runs: each of the 4 times" in incident.evidence[0]
    assert (incident.since, incident.confidence) == (BEGINNINGS[0], "high")
    assert incident.metrics == ("systems/step-time", "systems/background/upload/time")
    each, share = (float(w) for w in incident.evidence[1].replace("%", "").split() if w[0].isdigit())
    assert each == pytest.approx(LASTS * SLOWER, rel=0.05)
    assert share == pytest.approx(100.0 * 4 * LASTS * SLOWER / step_times().sum(), abs=1.0)


def test_of_several_works_the_one_that_disturbs_is_named() -> None:
    (incident,) = found(run_of(step_times(), merge=seconds(UPLOADS - 12), upload=seconds(), logs=seconds(STEPS[::3])))
    assert "while upload runs" in incident.evidence[0]


def test_one_stay_is_less_sure_than_several() -> None:
    slow = np.arange(60, 100)
    (incident,) = found(run_of(step_times(slow), upload=seconds(slow)))
    assert (incident.since, incident.confidence) == (60, "medium")
    assert "the one time that it ran" in incident.evidence[0]


def test_rows_that_hardly_hold_any_of_it_are_not_the_work() -> None:
    background = Look(History(run_of(step_times(), upload=seconds(elsewhere=0.05))), N).instrument(Background)
    assert isinstance(background, Background)
    (upload,) = background.works
    assert upload.steps.tolist() == UPLOADS.tolist()


def test_work_that_never_ran_is_none() -> None:
    background = Look(History(run_of(step_times(), upload=np.zeros(N))), N).instrument(Background)
    assert isinstance(background, Background)
    assert background.works == ()


def test_a_growing_run_says_the_same_as_a_finished_one() -> None:
    whole = run_of(step_times(), upload=seconds())
    live = Judge(RULE)
    for step in range(1, N + 1):
        said = live.see(whole.until(step))
    assert said is not None
    assert said.incidents
    assert [(i.since, i.detected_at, i.evidence) for i in said.incidents] == [
        (i.since, i.detected_at, i.evidence) for i in found(whole)
    ]


def test_stretches_are_held_against_the_higher_side() -> None:
    """Time that was high before the work began and fell in its course does not rise with it."""
    values = np.where(STEPS < 100, 44.0, 30.0)
    surplus = Surplus("systems/step-time", STEPS, np.zeros(N), values)
    (spell,) = surplus.spells(Work("x", np.arange(80, 121, dtype=np.int64), ""))
    assert (spell.first, spell.rows, spell.rise, spell.beside) == (80, 41, 0.0, (12, 12))
    assert spell.extra == pytest.approx(-21 * 14.0)


def test_work_without_rows_beside_it_says_nothing() -> None:
    surplus = Surplus("systems/step-time", STEPS, np.zeros(N), np.full(N, 30.0))
    always = Work("x", STEPS, "")
    assert (surplus.spells(always), surplus.elsewhere(always, 1).size) == ([], 0)


def test_the_whole_diagnosis_names_the_work() -> None:
    diagnosis = diagnose(run_of(step_times(), upload=seconds()))
    finding = next(f for f in diagnosis.findings if f.name == "background-contention")
    assert "while upload runs" in finding.evidence[0]
