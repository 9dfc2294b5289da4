"""GR104 gradient-growing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Gradient
from vario.rules.base import Evidence, Severity, Sign, lower, number, rule


@rule(
    "GR104",
    "gradient-growing",
    Severity.INFO,
    pedantic=True,
    holds=3,
    turns=(lower("learning-rate", "if spikes follow"), lower("max-grad-norm", "bounds single batches")),
)
def gradient_growing(gradient: Gradient) -> Iterator[Sign]:
    """The gradient norm keeps growing.

    What it shows:
        A significant rise to three times the start or more.
    Why it matters:
        Steps are clipped harder and harder: the direction is kept, the run is not where it was tuned.
    Evidence:
        The norm then and now.
    Looks like it but is not:
        A reward whose scale grew; a norm that returns.
    What to change:
        Nothing by itself.
    How sure:
        Medium.
    References:
        taxonomy of public threads, grad_spike
    """
    norm = gradient.norm
    if norm.points >= 60 and norm.rises() and norm.level > 3.0 * norm.start:
        yield Evidence(
            f"gradient/norm grew from {number(norm.start)} to {number(norm.level)}",
            ("gradient/norm",),
            norm.onset_of_move(),
        )
