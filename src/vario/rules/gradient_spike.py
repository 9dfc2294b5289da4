"""GR102 gradient-spike."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import LOUD, Gradient
from vario.rules.base import Aside, Evidence, Severity, Sign, lower, number, rule


@rule(
    "GR102",
    "gradient-spike",
    Severity.INFO,
    holds=1,
    lasting=True,
    turns=(lower("max-grad-norm", "bounds what one batch can do"),),
)
def gradient_spike(gradient: Gradient) -> Iterator[Sign]:
    """The gradient norm jumped for a step or two and came back.

    What it shows:
        Values at least six times the local level that return within three points.
    Why it matters:
        Isolated and clipped it is harmless; a series of rising ones comes before a collapse.
    Evidence:
        Steps, values, local level, and the norm at which gradients are clipped.
    Looks like it but is not:
        Norms that hover around zero because most groups are tied: then every live group is a spike.
    What to change:
        Nothing for one; for a series a smaller bound, or look for the batch.
    How sure:
        High that it happened.
    References:
        taxonomy of public threads, grad_spike (10 threads)
    """
    spikes = [s for s in gradient.norm.spikes if s[2] > 1e-6]
    if not spikes:
        return
    step, value, local = max(spikes, key=lambda s: s[1])
    yield Evidence(
        f"gradient/norm spiked {len(spikes)} times, highest at step {step}: {number(value)} where {number(local)} is usual",
        ("gradient/norm",),
        spikes[0][0],
    )
    if value < LOUD * local:
        yield Aside("isolated, and it came back")
    if gradient.clip_at is not None:
        yield Evidence(f"logged before clipping at {number(gradient.clip_at)}", ("gradient/norm",))
