"""SY101 step-time-jumped."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length, StepTime
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule("SY101", "step-time-jumped", Severity.INFO, pedantic=True, holds=1, lasting=True)
def step_time_jumped(time: StepTime, length: Length | None) -> Iterator[Sign]:
    """Steps take longer from one step to the next, and lengths do not explain it.

    What it shows:
        A level shift up of the step time by half or more, without a shift in length.
    Why it matters:
        Something else uses the machine, or the engine fell back to a slow path.
    Evidence:
        Step, seconds before and after.
    Looks like it but is not:
        Longer completions; a checkpoint being written; compilation in the first steps.
    What to change:
        Look at the machine at that time.
    How sure:
        Medium.
    References:
        taxonomy of public threads, slow_rollout
    """
    for shift in time.seconds.shifts:
        if (
            shift.up
            and shift.after > 1.5 * shift.before
            and not (length is not None and any(abs(s.step - shift.step) <= 10 for s in length.mean.shifts))
        ):
            if length is not None and length.mean.level_at(shift.seen) > 1.3 * length.mean.level_at(
                max(shift.step - 1, 0)
            ):
                continue
            yield Evidence(
                f"a step took {number(shift.before)} s, and {number(shift.after)} s from step {shift.step} on",
                ("systems/step-time",),
                shift.step,
            )
