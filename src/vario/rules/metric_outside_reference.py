"""DX105 metric-outside-reference."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import ReferenceRun
from vario.rules.base import Evidence, Severity, Sign, number, rule

WIDER = 0.25
"""Share of the reference's range by which a level may lie outside of it: one run is one sample."""
SHOWN = 6


@rule("DX105", "metric-outside-reference", Severity.INFO, causes=("this run is not like the healthy one",))
def metric_outside_reference(reference: ReferenceRun) -> Iterator[Sign]:
    """A metric stands where it never stood in the healthy run of the same recipe.

    What it shows:
        Levels outside the range that the metric had in the run declared as reference, by more than a quarter of that range.
    Why it matters:
        A healthy run of the same recipe is a better measure than any constant.
    Evidence:
        Each metric with its level and the reference's range.
    Looks like it but is not:
        A run that has gone further, or less far, than the reference did: ranges are those of its whole length.
    What to change:
        Compare both runs: `vario compare REFERENCE RUN`.
    How sure:
        Medium: one healthy run is one sample of what is healthy.
    References:
        none: the measure is the user's own
    """
    shown = 0
    for name, (low, high, reading) in reference.beside.items():
        slack = WIDER * (high - low)
        if low - slack <= reading.level <= high + slack or shown >= SHOWN:
            continue
        shown += 1
        above = reading.level > high
        since = reading.since_above(high + slack) if above else reading.since_below(low - slack)
        yield Evidence(
            f"{name} is {number(reading.level)}; in the reference run it lay between {number(low)} and {number(high)}",
            (name,),
            since,
        )
