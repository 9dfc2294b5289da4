"""CL103 clip-fraction-growing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Clipping
from vario.rules.base import Doubt, Evidence, Precedes, Severity, Sign, lower, percent, rule


@rule(
    "CL103",
    "clip-fraction-growing",
    Severity.INFO,
    holds=3,
    turns=(lower("learning-rate", "smaller steps"), lower("epochs", "fewer updates per rollout")),
    precedes=(Precedes("kl-runaway", "kl/reference"),),
)
def clip_fraction_growing(clipping: Clipping) -> Iterator[Sign]:
    """The clipped share keeps growing.

    What it shows:
        A significant rise to at least twice the early level, and above half a percent.
    Why it matters:
        Said to come before a KL explosion (folklore: not yet measured here); watch kl/reference.
    Evidence:
        The share then and now.
    Looks like it but is not:
        The first steps of a warm-up, where everything starts from zero.
    What to change:
        Nothing yet, or a smaller learning rate.
    How sure:
        Medium at most: a precursor, not a fault.
    References:
        seed texts of the project
    """
    total = clipping.total
    if (
        total.points >= 60
        and total.rises()
        and total.level > 0.005
        and total.level > 2.0 * max(total.level_at(int(total.steps[19]), 10), 1e-9)
    ):
        yield Doubt("a precursor")
        yield Evidence(f"the clipped share grew to {percent(total.level)}", (total.name,), total.onset_of_move())
