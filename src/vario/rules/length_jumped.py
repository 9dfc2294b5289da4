"""LN103 length-jumped."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule("LN103", "length-jumped", Severity.INFO, pedantic=True, holds=1, lasting=True)
def length_jumped(length: Length) -> Iterator[Sign]:
    """Mean length changed from one step to the next.

    What it shows:
        A level shift of at least a fifth.
    Why it matters:
        Length moves slowly by learning; a jump comes from data, sampling settings or a resume.
    Evidence:
        Step, before, after.
    Looks like it but is not:
        A long batch; steady growth.
    What to change:
        Look at what changed at that step.
    How sure:
        High by the size of the jump.
    References:
        level-shift detector of the statistics bench
    """
    for shift in length.mean.shifts:
        if abs(shift.after - shift.before) > 0.2 * shift.before:
            yield Evidence(
                f"mean length went from {number(shift.before)} to {number(shift.after)} tokens at step {shift.step}",
                ("length/mean",),
                shift.step,
            )
