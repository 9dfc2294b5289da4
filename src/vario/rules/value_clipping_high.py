"""VF103 value-clipping-high."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Value
from vario.rules.base import Evidence, Severity, Sign, percent, raise_, required, rule


@rule(
    "VF103", "value-clipping-high", Severity.INFO, holds=3, turns=(raise_("value-clip", "room for the critic to move"),)
)
def value_clipping_high(value: Value) -> Iterator[Sign]:
    """Value predictions are clipped most of the time.

    What it shows:
        A clipped share above 0.3.
    Why it matters:
        The clip range is in reward units: with unscaled rewards it freezes the critic.
    Evidence:
        The share.
    Looks like it but is not:
        The first steps of a new critic.
    What to change:
        A wider clip range, or scaled rewards.
    How sure:
        Medium.
    References:
        taxonomy of public threads, value_failure
    """
    clipped = required(value.clipped, "value/clip-fraction")
    if clipped.points >= 20 and clipped.level > 0.3:
        yield Evidence(
            f"{percent(clipped.level)} of value predictions are clipped",
            ("value/clip-fraction",),
            clipped.since_above(0.3),
        )
