"""SY101 step-time-jumped."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length, Reading, StepTime
from vario.instruments.systems import PHASES
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, rule

JUMPED = 1.5
"""Half as long again: less is within what lengths and caches do."""
EXPLAINED = 0.5
"""Lengths explain a jump where they grew by at least half as much: attention makes time grow faster than length."""


@rule(
    "SY101",
    "step-time-jumped",
    Severity.INFO,
    pedantic=True,
    holds=1,
    lasting=True,
    causes=(
        "something else uses the machine",
        "the sampling engine fell back to a slow path, or pages its cache",
        "a reward service, tool or sandbox that got slow",
    ),
)
def step_time_jumped(time: StepTime, length: Length | None) -> Iterator[Sign]:
    """Steps take longer from one step to the next, and lengths do not explain it.

    What it shows:
        A level shift up of the step time by half or more, with lengths that did not grow half as much.
    Why it matters:
        Something else uses the machine, or the engine fell back to a slow path.
    Evidence:
        Step, seconds before and after, and the phase that took most of it where phases are timed.
    Looks like it but is not:
        Longer completions, in the mean or the longest; a checkpoint being written; compilation in the first steps.
    What to change:
        Look at the machine at that time, and at the phase that grew.
    How sure:
        Medium; low where lengths are not logged.
    References:
        taxonomy of public threads, slow_rollout; rlprobe 0.1.0 (step time late over early, 1.4 times)
    """
    jumps = [s for s in time.seconds.shifts if s.up and s.after > JUMPED * s.before > 0.0]
    explained = {
        s.step: why for s in jumps if (why := _lengths(length, s.step, s.seen, s.after / s.before)) is not None
    }
    unexplained = [s for s in jumps if s.step not in explained]
    if not unexplained:
        return
    for shift in unexplained:
        yield Evidence(
            f"a step took {number(shift.before)} s, and {number(shift.after)} s from step {shift.step} on",
            ("systems/step-time",),
            shift.step,
        )
        grown = time.grown(shift.step - 1, shift.seen)
        if grown is not None:
            name, before, after = grown
            yield Evidence(f"most of it is {PHASES[name]}: {number(before)} s before, {number(after)} s after", (name,))
        if length is not None:
            before, after = (length.mean.level_at(s) for s in (shift.step - 1, shift.seen))
            yield Excluded(f"lengths do not explain it: {number(before)} tokens before, {number(after)} after")
    for step, why in explained.items():
        yield Excluded(f"another jump, at step {step}, comes with longer completions: {why}")
    if length is None:
        yield Doubt("lengths are not logged: longer answers would explain it")


def _lengths(length: Length | None, step: int, seen: int, times: float) -> str | None:
    """How lengths explain a jump to `times` the time, in words; None where they do not."""
    if length is None:
        return None
    readings: tuple[tuple[str, Reading | None], ...] = (("mean", length.mean), ("longest", length.longest))
    for word, reading in readings:
        if reading is None or not reading.points:
            continue
        before, after = reading.level_at(step - 1), reading.level_at(seen)
        if before > 0.0 and after / before - 1.0 >= EXPLAINED * (times - 1.0):
            return f"{word} {number(before)} tokens before, {number(after)} after"
    return None
