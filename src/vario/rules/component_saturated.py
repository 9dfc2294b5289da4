"""RW110 component-saturated."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule("RW110", "component-saturated", Severity.INFO, pedantic=True, holds=3)
def component_saturated(components: Components) -> Iterator[Sign]:
    """One reward function is at its ceiling and no longer teaches.

    What it shows:
        A 0/1 component at 97 % or more for a third of the run.
    Why it matters:
        It adds a constant to every advantage: what is left to learn is in the others.
    Evidence:
        Its level, and since when.
    Looks like it but is not:
        A component that is constant by mistake (component-dead speaks of zeros).
    What to change:
        Nothing is wrong; its weight can go down, or it can become a gate.
    How sure:
        High.
    References:
        taxonomy of public threads, format_hacking (gate instead of adding)
    """
    for name in components.weighted:
        reading = components.means[name]
        if not components.binary(name) or reading.level < 0.97 or len(components.means) < 2:
            continue
        since = reading.since_above(0.93)
        if since is not None and reading.points_since(since) >= max(10, reading.points / 3):
            yield Evidence(f"{name} is at {number(reading.level)} of 1 since step {since}", (reading.name,), since)
