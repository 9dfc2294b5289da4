"""SY103 memory-near-capacity."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Headroom
from vario.rules.base import Aside, Evidence, Excluded, Grave, Severity, Sign, lower, number, percent, rule

NEAR = 0.95
"""Share of the device: a batch with one longer answer takes a few percent more than the one before."""
ROOM = 0.1
"""A tenth of the device free at another moment of the step: memory goes from one phase to the other."""
STILL = 0.005
"""A share that has never moved by half a percent was set aside at the start."""


@rule(
    "SY103",
    "memory-near-capacity",
    Severity.INFO,
    holds=3,
    causes=("completions grew", "an engine and a trainer on one device", "too large a batch at once"),
    turns=(
        lower("engine-memory", "what the sampling engine sets aside is not there for the update", 0.8),
        lower("max-completion-length", "activations and logits grow with the longest answer", 0.75),
        lower("batch-size", "fewer samples at once"),
    ),
)
def memory_near_capacity(headroom: Headroom) -> Iterator[Sign]:
    """Device memory is nearly full, in every phase of the step.

    What it shows:
        Over 95 % of the device in use at the peak of the step. A warning only where it still rises.
    Why it matters:
        The next longer batch ends the run: out of memory comes with the longest sample, not with the mean one.
    Evidence:
        The share now and at the start; how much is left.
    Looks like it but is not:
        One phase near capacity while the other has headroom: normal where engine and trainer share a device, and
        a note. Memory that was set aside at the start and never moved (a pool): a detail.
    What to change:
        Less memory for the sampling engine; then a shorter cap on length; then fewer samples at once.
    How sure:
        High that it is full; allocators keep what they once had, so full is not yet short.
    References:
        taxonomy of public threads, oom (7): six of them unforeseen, the longest sample named as the cause
    """
    peak = headroom.peak
    if peak.level <= NEAR or headroom.elsewhere > ROOM:
        return
    yield Evidence(
        f"{percent(peak.level)} of device memory in use at the peak of the step, {percent(peak.start)} at the start",
        (peak.name,),
        peak.since_above(NEAR),
    )
    if headroom.low is not None:
        yield Excluded(f"no phase has headroom: {percent(headroom.low.level)} at the emptiest moment")
    late = peak.late
    if float(peak.values.max() - peak.values.min()) < STILL:
        yield Aside("it has not moved since the start: set aside by an engine or an allocator")
    elif peak.rises() and late is not None and late.rises(0.1):
        yield Evidence(f"it still rises: by {number(100.0 * late.change)} points over the last half")
        yield Grave(Severity.WARNING)
