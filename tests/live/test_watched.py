"""A run under watch: looks come at the cadence, changes are told once, pauses are measured by the run's own pace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.live.growing import Growing, breaking, made
from vario.rules.engine import looks
from vario.run import Run
from vario.surfaces.live.notices import Kind, Notice, Standing, changes
from vario.surfaces.live.watched import PAUSED_SECONDS, STALLED_SECONDS, Polled, ReviewPlan, Status, WatchedRun
from vario.verdict import diagnose


def everything(watched: WatchedRun) -> list[Notice]:
    made: list[Notice] = []
    while watched.status is not Status.ENDED:
        made += watched.look()
    return made


@pytest.mark.parametrize("rows", [1, 7, 10, 64, 1000])
def test_however_rows_come_the_end_is_what_an_offline_diagnosis_says(rows: int) -> None:
    run = breaking()
    watched = WatchedRun("run", Growing(run, rows))
    everything(watched)
    assert watched.diagnosis is not None
    assert watched.diagnosis.findings == diagnose(run).findings
    assert watched.diagnosis.verdict == diagnose(run).verdict


def test_looks_come_at_the_cadence_and_at_the_end() -> None:
    watched = WatchedRun("run", Growing(breaking(), 1))
    everything(watched)
    assert watched.looks == len(looks(200))


def test_a_finding_is_told_once_with_its_evidence_and_what_to_change() -> None:
    notices = [n for n in everything(WatchedRun("run", Growing(breaking()))) if n.kind is Kind.OPENED]
    names = [n.subject for n in notices]
    assert len(names) == len(set(names))
    (grave,) = [n for n in notices if n.severity == "critical"]
    offline = next(f for f in diagnose(breaking()).findings if f.name == grave.subject)
    assert grave.step == offline.detected_at
    assert offline.evidence[0] in grave.text


def test_what_was_told_before_a_restart_is_not_told_again() -> None:
    run = breaking()
    first = WatchedRun("run", Growing(run))
    everything(first)
    again = WatchedRun("run", Growing(run, 1000), told=dict(first.told))
    assert not [n for n in everything(again) if n.kind in (Kind.OPENED, Kind.WORSENED)]


def test_a_symptom_that_went_beneath_its_cause_has_not_resolved() -> None:
    diagnosis = diagnose(breaking())
    cause = next(f for f in diagnosis.findings if f.symptoms)
    symptom = cause.symptoms[0]
    told = {symptom.name: Standing(symptom.name, "warning", "high", 90, 100)}
    assert symptom.name not in {n.subject for n in changes("run", told, diagnosis, 0.0)}


def test_what_no_longer_holds_resolves_by_name() -> None:
    diagnosis = diagnose(made({"reward/mean": np.linspace(0.1, 0.5, 40)}))
    (notice,) = changes("run", {"kl-spike": Standing("kl-spike", "warning", "high", 3, 5)}, diagnosis, 7.0)
    assert (notice.kind, notice.subject, notice.at) == (Kind.RESOLVED, "kl-spike", 7.0)


@pytest.mark.parametrize(
    ("severity", "confidence", "kind"),
    [("info", "high", Kind.WORSENED), ("critical", "low", Kind.SURER), ("critical", "high", None)],
)
def test_a_finding_worsens_by_severity_and_is_surer_by_confidence(
    severity: str, confidence: str, kind: Kind | None
) -> None:
    diagnosis = diagnose(breaking())
    grave = next(f for f in diagnosis.findings if f.severity == "critical")
    told = {grave.name: Standing(grave.name, severity, confidence, grave.since, 90)}
    found = [n.kind for n in changes("run", told, diagnosis, 0.0) if n.subject == grave.name]
    assert found == ([] if kind is None else [kind])


@dataclass
class Clocked:
    """Rows at given seconds; nothing in between."""

    run: Run
    at: dict[float, int]
    now: float = 0.0
    name: str = "run"
    seen: int = field(default=0)

    def poll(self) -> Polled:
        rows = max((n for t, n in self.at.items() if t <= self.now), default=0)
        if rows == self.seen:
            return Polled(None)
        self.seen = rows
        return Polled(self.run.until(rows), written_at=max(t for t in self.at if t <= self.now))

    def clock(self) -> float:
        return self.now


def paced(pause: float, rows: int = 30) -> Clocked:
    return Clocked(breaking(), {i * pause: i for i in range(1, rows + 1)})


def go(watched: WatchedRun, source: Clocked, *, until: float, every: float) -> list[Notice]:
    found = []
    while source.now < until:
        source.now += every
        found += watched.look()
    return found


def test_a_quick_run_that_falls_silent_is_stalled_after_ten_minutes_and_told_once() -> None:
    source = paced(2.0)
    watched = WatchedRun("run", source, clock=source.clock)
    go(watched, source, until=60.0, every=2.0)
    assert watched.status is Status.LIVE
    assert watched.seconds_per_row == pytest.approx(2.0)
    told = go(watched, source, until=60.0 + 5 * STALLED_SECONDS, every=30.0)
    assert [n.kind for n in told] == [Kind.STALLED]
    assert told[0].at - 60.0 == pytest.approx(STALLED_SECONDS, abs=30.0)


def test_a_slow_run_is_given_its_own_time() -> None:
    source = paced(300.0)
    watched = WatchedRun("run", source, clock=source.clock)
    go(watched, source, until=9000.0, every=60.0)
    assert not go(watched, source, until=9000.0 + 2900.0, every=60.0)
    assert [n.kind for n in go(watched, source, until=9000.0 + 3300.0, every=60.0)] == [Kind.STALLED]


def test_a_pause_as_long_as_one_before_is_no_stall() -> None:
    source = paced(2.0, rows=20)
    source.at[2000.0] = 21  # an evaluation of half an hour
    watched = WatchedRun("run", source, clock=source.clock)
    go(watched, source, until=2001.0, every=1.0)
    watched.status = Status.LIVE
    assert not go(watched, source, until=2000.0 + 2 * 1900.0, every=30.0)


def test_rows_that_come_again_are_told() -> None:
    source = paced(2.0)
    watched = WatchedRun("run", source, clock=source.clock)
    go(watched, source, until=1000.0, every=10.0)
    assert watched.status is Status.STALLED
    source.at[1010.0] = 31
    assert [n.kind for n in go(watched, source, until=1010.0, every=10.0)] == [Kind.RESUMED]
    assert watched.status is Status.LIVE


def test_trouble_is_told_once_and_counted() -> None:
    class Broken:
        name = "run"

        def poll(self) -> Polled:
            return Polled(None, troubles=("the disk is full",))

    watched = WatchedRun("run", Broken())
    told = [n for _ in range(5) for n in watched.look()]
    assert [n.text for n in told] == ["the disk is full"]
    assert watched.troubles["the disk is full"] == 5


def test_another_run_at_the_place_starts_anew() -> None:
    class Replaced(Growing):
        def poll(self) -> Polled:
            polled = super().poll()
            return replace(polled, replaced=True) if self.count == 150 else polled

    watched = WatchedRun("run", Replaced(breaking(at=60)))
    told = everything(watched)
    at = next(i for i, n in enumerate(told) if n.kind is Kind.REPLACED)
    names = [n.subject for n in told[:at] if n.kind is Kind.OPENED]
    again = [n.subject for n in told[at:] if n.kind is Kind.OPENED]
    assert set(names) & set(again)


def test_completions_are_due_by_steps_and_at_a_warning_until_somebody_reads_them() -> None:
    path = Path(__file__).parents[2].parent / "shared/lab/runs/reward_parser_bug_midrun-s0"
    if not path.is_dir():
        pytest.skip("the labelled runs are not here")
    run = vario.read(path)
    watched = WatchedRun("run", Growing(run), plan=ReviewPlan(every=50))
    told = []
    read_at = None
    while watched.status is not Status.ENDED:
        told += [n for n in watched.look() if n.kind is Kind.REVIEW]
        if told and read_at is None and watched.diagnosis is not None:
            read_at = watched.diagnosis.run.last_step
            assert len(watched.review.queue) == 8
            assert "completion" in told[0].text
            watched.reviewed(read_at or 0, 0.0)
    assert told[0].step == 60, "fifty steps after the first, at the next look"
    assert told[1].step == 110, "the warning comes first"
    assert len(told) == 2, "nobody has read since"


def test_a_run_that_was_silent_before_anybody_watched_is_no_news() -> None:
    source = paced(2.0)
    source.now = 60.0 + 2 * STALLED_SECONDS
    watched = WatchedRun("run", source, clock=source.clock)
    found = go(watched, source, until=source.now + 900.0, every=60.0)
    assert Kind.STALLED not in [n.kind for n in found]
    assert watched.status is Status.STALLED


@pytest.mark.parametrize(("most", "status"), [(200, Status.ENDED), (201, Status.LIVE), (-1, Status.LIVE)])
def test_a_run_that_has_made_its_steps_has_ended(most: int, status: Status) -> None:
    class All:
        name = "run"

        def poll(self) -> Polled:
            return Polled(replace(breaking(), config={"max_steps": most}))

    watched = WatchedRun("run", All())
    watched.look()
    assert watched.status is status


def test_a_long_run_is_glanced_at_first_and_judged_from_its_start_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vario.surfaces.live.watched.GLANCE_ROWS", 100)
    run = breaking()
    watched = WatchedRun("run", Growing(run, 1000), glances=True)
    assert watched.look() == []
    assert watched.at_a_glance
    assert watched.status is Status.LIVE, "it has ended, but nobody has been told of what was found"
    assert watched.diagnosis is not None
    assert watched.diagnosis.findings == diagnose(run.until(watched.diagnosis.run.last_step), replay=False).findings
    notices = everything(watched)
    assert not watched.at_a_glance
    assert watched.diagnosis.findings == diagnose(run).findings
    told = everything(WatchedRun("run", Growing(run, 1000)))
    assert [(n.kind, n.subject, n.step) for n in notices] == [(n.kind, n.subject, n.step) for n in told]


def test_a_short_run_and_one_that_people_are_told_of_are_not_glanced_at() -> None:
    for watched in (WatchedRun("run", Growing(breaking(), 1000), glances=True), WatchedRun("run", Growing(breaking(), 1000))):
        watched.look()
        assert not watched.at_a_glance
        assert watched.looks > 0


def test_without_replay_every_look_is_at_the_run_as_it_stands() -> None:
    run = breaking()
    watched = WatchedRun("run", Growing(run, 40), replay=False, glances=True)
    everything(watched)
    assert watched.diagnosis is not None
    assert watched.diagnosis.findings == diagnose(run, replay=False).findings
    assert all(f.detected_at is None for f in watched.diagnosis.findings)


# rows between two looks of the cadence


class Still:
    """A source that gives some rows of a run, and then no more."""

    name = "run"

    def __init__(self, run: Run, written_at: float | None = None) -> None:
        self.run = run
        self.written_at = written_at
        self.now = 1.7e9
        self.given = False

    def clock(self) -> float:
        return self.now

    def poll(self) -> Polled:
        first, self.given = not self.given, True
        return Polled(self.run, self.written_at) if first else Polled(None)


def ends_in_nan(rows: int = 127) -> Run:
    """A run whose gradient is not finite in its very last row: what it died of."""
    gradient = 1.0 + 0.1 * np.random.default_rng(0).random(rows)
    gradient[-1] = np.nan
    return made({"reward/mean": np.linspace(0.2, 0.6, rows), "gradient/norm": gradient})


def last_judged(watched: WatchedRun) -> int | None:
    return None if watched.diagnosis is None else watched.diagnosis.run.last_step


def test_a_run_that_breaks_off_is_judged_at_the_row_that_broke() -> None:
    watched = WatchedRun("run", Growing(ends_in_nan(), 1))
    notices = [n for _ in range(127) for n in watched.look()]
    assert [(n.subject, n.step) for n in notices if n.kind is Kind.OPENED and n.severity == "critical"] == [
        ("non-finite", 127)
    ]
    source = Still(ends_in_nan())
    still = WatchedRun("run", source, clock=source.clock)
    assert [n.subject for n in still.look() if n.severity == "critical"] == []  # the cadence: step 120
    source.given = False
    assert [n.subject for n in still.look() if n.severity == "critical"] == ["non-finite"]
    source.given = False
    assert not still.look(), "it is told once"


def test_what_a_log_never_measured_asks_for_no_look() -> None:
    never = made({"reward/mean": np.linspace(0.2, 0.6, 200), "gradient/norm": np.full(200, np.nan)})
    watched = WatchedRun("run", Growing(never, 1))
    for _ in range(60):
        watched.look()
    assert watched.looks <= len(looks(60)) + 1


def test_rows_behind_the_last_look_are_judged_when_the_run_stalls() -> None:
    run = breaking().until(97)
    source = Still(run)
    watched = WatchedRun("run", source, clock=source.clock)
    watched.look()
    assert last_judged(watched) == 90
    source.now += 2 * STALLED_SECONDS
    assert [n.kind for n in watched.look() if n.kind is Kind.STALLED]
    assert last_judged(watched) == 97
    assert watched.diagnosis is not None
    assert watched.diagnosis.verdict == diagnose(run).verdict


def test_a_log_that_was_silent_long_ago_is_judged_to_its_end() -> None:
    source = Still(breaking().until(97), written_at=1.7e9 - 2 * STALLED_SECONDS)
    watched = WatchedRun("run", source, clock=source.clock)
    watched.look()
    assert (watched.status, last_judged(watched)) == (Status.STALLED, 97)


def test_who_looks_at_a_run_sees_its_newest_row_when_it_pauses() -> None:
    run = breaking()
    source = Growing(run, 1)
    source_now = [1.7e9]
    watched = WatchedRun("run", source, clock=lambda: source_now[0], newest=True)
    for _ in range(97):
        source_now[0] += 2.0
        watched.look()
    assert last_judged(watched) == 90
    watched.source = Still(run.until(97))
    watched.source.given = True
    source_now[0] += PAUSED_SECONDS + 2.0
    assert not [n for n in watched.look() if n.kind is Kind.STALLED]
    assert (watched.status, last_judged(watched)) == (Status.LIVE, 97)
    before = watched.looks
    source_now[0] += 60.0
    watched.look()
    assert watched.looks == before, "nothing new, no other look"


def test_looks_at_the_newest_row_leave_no_trace_in_those_of_the_cadence() -> None:
    run = breaking()
    at_cadence, newest = WatchedRun("run", Growing(run, 1)), WatchedRun("run", Growing(run, 7), newest=True)
    everything(at_cadence)
    everything(newest)
    assert at_cadence.diagnosis is not None
    assert newest.diagnosis is not None
    assert newest.diagnosis.findings == at_cadence.diagnosis.findings
    assert newest.diagnosis.verdict == at_cadence.diagnosis.verdict
