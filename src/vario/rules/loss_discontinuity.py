"""GR106 loss-discontinuity."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Loss
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule("GR106", "loss-discontinuity", Severity.INFO, holds=1, lasting=True, pedantic=True)
def loss_discontinuity(loss: Loss) -> Iterator[Sign]:
    """The loss jumped to another level.

    What it shows:
        A level shift of the loss.
    Why it matters:
        The value of a policy loss means nothing; a jump says that something else changed.
    Evidence:
        Step, before, after.
    Looks like it but is not:
        Oscillation around zero, trends of any sign: no news in an RL run.
    What to change:
        Look at what changed at that step.
    How sure:
        Medium.
    References:
        huggingface/trl issue 2703
    """
    for shift in loss.total.shifts:
        yield Evidence(
            f"{loss.total.name} went from {number(shift.before)} to {number(shift.after)} at step {shift.step}",
            (loss.total.name,),
            shift.step,
        )
