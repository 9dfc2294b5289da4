"""Systems: what instruments make of times, and the two notes on power and memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

from vario.errors import NotReadable
from vario.instruments import Background, Generation, History, Look, Requests, StepTime
from vario.rules import find_rule
from vario.rules.engine import judge
from vario.run import Checkpoint, Run, Series
from vario.sources import interpret
from vario.sources.rows import Table
from vario.verdict.notes import notes_of

N = 60
STEPS = np.arange(1, N + 1, dtype=np.int64)


def run_of(series: Mapping[str, float | np.ndarray], **more: object) -> Run:
    made = {k: Series(k, STEPS, np.broadcast_to(np.asarray(v, dtype=float), N).copy()) for k, v in series.items()}
    return Run("run", "trl", "grpo", MappingProxyType(made), STEPS, **more)  # type: ignore[arg-type]


def look_at(series: Mapping[str, float | np.ndarray], **more: object) -> Look:
    return Look(History(run_of(series, **more)), N)


def notes(series: Mapping[str, float | np.ndarray]) -> set[str]:
    return {note.name for note in notes_of(look_at(series))}


def test_the_share_is_taken_where_both_are_logged() -> None:
    step = Series("s", STEPS, np.full(N, 40.0))
    part = Series("g", np.array([2, 4, 900]), np.array([30.0, 10.0, 1.0]))
    look = Look(History(Run("r", "trl", "grpo", {"systems/step-time": step, "systems/rollout-time": part}, STEPS)), N)
    generation = look.instrument(Generation)
    assert isinstance(generation, Generation)
    assert (generation.share.steps.tolist(), generation.share.values.tolist()) == ([2, 4], [0.75, 0.25])
    assert not generation.waits


def test_the_wait_counts_before_generation_beside_it() -> None:
    look = look_at({"systems/step-time": 60.0, "systems/rollout-time": 110.0, "systems/wait-time": 6.0})
    generation = look.instrument(Generation)
    assert isinstance(generation, Generation)
    assert generation.waits
    assert generation.share.level == pytest.approx(0.1)
    alone = look_at({"systems/step-time": 60.0, "systems/rollout-time": 110.0}).instrument(Generation)
    assert isinstance(alone, NotReadable)
    assert alone.missing == ("systems/wait-time",)


def test_requests_come_before_lengths() -> None:
    timed = look_at(
        {"systems/request-time/mean": 10.0, "systems/request-time/max": 40.0, "length/mean": 9.0, "length/max": 9.0}
    ).instrument(Requests)
    assert isinstance(timed, Requests)
    assert (timed.timed, timed.ratio.level, timed.idle, timed.share) == (True, 4.0, 0.75, None)


def test_the_phase_that_grew_is_named() -> None:
    late = STEPS > 30
    time = look_at(
        {"systems/step-time": 30.0 + 20.0 * late, "systems/rollout-time": 10.0 + 19.0 * late, "systems/train-time": 15.0}
    ).instrument(StepTime)
    assert isinstance(time, StepTime)
    assert time.grown(30, 60) == ("systems/rollout-time", 10.0, 29.0)
    assert StepTime(time.seconds, {"systems/train-time": time.phases["systems/train-time"]}).grown(30, 60) is None


def test_a_logged_save_is_taken_off_once() -> None:
    """In the step it explains the surplus; outside of it there is none to explain."""
    saves = np.where(STEPS % 10 == 0, 20.0, 0.1)
    for inside in (20.0, 0.0):
        step = 30.0 + np.where(STEPS % 10 == 0, inside, 0.0)
        background = look_at({"systems/step-time": step, "systems/checkpoint-time": saves}).instrument(Background)
        assert isinstance(background, Background)
        assert background.slower is not None
        assert not background.slower.spikes.any()
        assert background.occasions[0].steps.tolist() == [10, 20, 30, 40, 50, 60]


def test_checkpoints_on_disk_are_occasions_until_the_look() -> None:
    run = run_of({"systems/step-time": 30.0}, checkpoints=tuple(Checkpoint(s, "") for s in (20, 40, 60)))
    background = Look(History(run), 45).instrument(Background)
    assert isinstance(background, Background)
    assert [(o.name, o.steps.tolist(), o.timed) for o in background.occasions] == [("checkpoint", [20, 40], False)]


def said(name: str, run: Run) -> tuple[str, str, list[str], tuple[str, ...]]:
    judged = judge(run, rules=[find_rule(name)])
    assert judged is not None
    (incident,) = judged.incidents
    return incident.severity.word, incident.confidence, list(incident.evidence), incident.excluded


def test_a_leak_with_a_known_capacity_has_a_date() -> None:
    steps = np.arange(1, 301, dtype=np.int64)
    values = 0.7 + 0.0005 * steps + np.random.default_rng(0).normal(0.0, 0.002, 300)
    series = {"systems/memory-share": Series("m", steps, values), "length/mean": Series("l", steps, np.full(300, 200.0))}
    severity, confidence, evidence, _ = said("memory-creeping", Run("r", "trl", "grpo", series, steps))
    assert (severity, confidence) == ("warning", "high")
    full = next(e for e in evidence if e.startswith("full at about step"))
    expected, low, high = (int(w) for w in full.replace("(", "").replace(")", "").split() if w.isdigit())
    assert low < expected < high
    assert low < 600 < high


def test_growth_that_lengths_do_not_explain_is_a_warning() -> None:
    steps = np.arange(1, 181, dtype=np.int64)
    extra = np.clip(steps - 60.0, 0.0, 90.0) * 0.55
    noise = np.random.default_rng(0).normal(0.0, 0.5, (2, 180))
    series = {
        "systems/step-time": Series("s", steps, 40.0 + extra + noise[0]),
        "systems/rollout-time": Series("g", steps, 22.0 + extra + noise[1]),
        "length/mean": Series("l", steps, np.full(180, 340.0)),
    }
    assert said("rollout-dominates-step", Run("r", "verl", "grpo", series, steps))[0] == "warning"
    longer = series | {"length/mean": Series("l", steps, 340.0 + 12.0 * extra)}
    severity, _, _, excluded = said("rollout-dominates-step", Run("r", "verl", "grpo", longer, steps))
    assert severity == "info"
    assert any("lengths explain it" in e for e in excluded)


def test_a_stall_that_is_over_is_information() -> None:
    values = np.full(N, 30.0)
    values[29] = 4000.0
    severity, _, evidence, _ = said("run-stalled", run_of({"systems/step-time": values}))
    assert severity == "info"
    assert evidence[0].startswith("66.7 minutes passed before step 30")


@pytest.mark.parametrize(
    ("series", "noted"),
    [
        ({"systems/power/min": 240.0, "systems/power/max": 650.0, "length/mean": 200.0}, True),
        ({"systems/power/min": 560.0, "systems/power/max": 650.0, "length/mean": 200.0}, False),
        ({"systems/power/min": 240.0, "systems/power/max": 650.0}, False),
        ({"systems/power/min": 100.0, "systems/power/max": np.linspace(650.0, 200.0, N), "length/mean": 200.0}, False),
    ],
    ids=["generation draws less", "no phase draws less", "nothing is generated", "the update draws less too"],
)
def test_low_power_in_generation(series: Mapping[str, float | np.ndarray], noted: bool) -> None:
    assert ("generation-power-low-is-normal" in notes(series)) is noted


@pytest.mark.parametrize(("low", "noted"), [(0.6, True), (0.93, False)])
def test_memory_that_goes_from_one_phase_to_the_other(low: float, noted: bool) -> None:
    series = {"systems/memory-share": 0.97, "systems/memory-share/low": low}
    assert ("memory-shifts-between-phases" in notes(series)) is noted
    assert bool(judge(run_of(series), rules=[find_rule("memory-near-capacity")]).incidents) is not noted  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "first", "is_clock"),
    [("_timestamp", 1.7e9, True), ("time", 1.7e9, True), ("time", 30.0, False), ("timestamp", 1.7e12, False)],
)
def test_the_time_of_day_is_told_from_durations(key: str, first: float, is_clock: bool) -> None:
    table = Table("run", "test")
    for i in range(1, 5):
        table.add({"step": i, "reward": 0.1 * i, "kl": 0.01 * i, key: first + 30.0 * i})
    run = interpret(table)
    assert ("systems/wall-clock" in run.series) is is_clock
    assert not is_clock or key not in {*run.unmapped, *run.ignored}
