"""SY104 memory-creeping."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Length, Memory, Reading
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, lower, number, rule
from vario.run import Floats
from vario.stats.spread import block_medians
from vario.stats.trend import Trend

SETTLED = 10
"""Rows after which caches and pools are warm; a tenth of the run where that is more."""
LEAST_ROWS = 60
CREPT = 0.05
"""Growth since then, as a share of the level. The published leak went from 36 to 39.9 GB (11 %) in 650 steps."""
QUARTERS = 4
STEADY = 0.6
"""What the second half must add, as a share of what the first did. A straight line gives 0.9 (the level now is that of
the last tenth); the highest value so far grows with the logarithm of the steps and gives 0.3."""
LENGTHENED = 0.1
"""Lengths that grew by this much explain memory that grew."""


@rule(
    "SY104",
    "memory-creeping",
    Severity.WARNING,
    holds=4,
    causes=(
        "references that are kept: logged tensors, state dicts, prompts of past batches",
        "a sampling engine whose cache or adapters are never freed",
        "fragmentation",
    ),
    turns=(lower("save-steps", "a run that will end has to leave a late checkpoint behind"),),
    explains=("memory-near-capacity",),
)
def memory_creeping(memory: Memory, length: Length | None) -> Iterator[Sign]:
    """Memory rises step by step and does not slow down: a leak.

    What it shows:
        Each quarter of the run (after the first rows) needs more than the one before, by 5 % in all, and the second
        half adds about as much as the first.
    Why it matters:
        It ends in out of memory at a step that can be foreseen.
    Evidence:
        Memory after the first rows and now, growth per 100 steps, and where the capacity is known the step at which
        it is reached, with its interval.
    Looks like it but is not:
        Caches and pools that fill at the start. The highest value so far, which rises ever more slowly (this is what
        several trainers log). Longer completions. One jump to a new level.
    What to change:
        Upgrade, or find what is kept; until then save often enough and restart before it is full.
    How sure:
        High where the capacity is known, medium elsewhere.
    References:
        taxonomy of public threads, oom: 36 to 39.9 GB over 600 to 700 steps, then out of memory (unsloth issue 2470)
    """
    peak = memory.peak
    skip = max(SETTLED, peak.points // 10)
    if peak.points - skip < LEAST_ROWS:
        return
    values = peak.values[skip:]
    quarters = block_medians(values, QUARTERS)
    settled, now = float(np.median(values[:SETTLED])), peak.level
    half = float(np.median(values[values.size // 2 - SETTLED // 2 : values.size // 2 + SETTLED // 2]))
    if not (np.diff(quarters) > 0.0).all() or now - settled < CREPT * settled or now - half < STEADY * (half - settled):
        return
    late = peak.late
    if late is None or not late.rises() or _one_jump(values):
        return
    if length is not None and any(_grew(r) for r in (length.mean, length.longest) if r is not None):
        return
    first = int(peak.steps[skip])
    rows = max(24, peak.points // 2)  # what `late` is the trend of, thinned
    per_step = late.points / max(int(peak.steps[-1]) - int(peak.steps[-rows]), 1)
    yield Evidence(
        f"memory rose from {memory.words(settled)} at step {first} to {memory.words(now)}, "
        f"{memory.words(100.0 * late.slope * per_step)} every 100 steps, without slowing down",
        (peak.name,),
        first,
    )
    if memory.is_share:
        middle = int(np.median(peak.steps[-max(5, peak.points // 10) :]))  # where the level of the last tenth stands
        yield Evidence(_arrival(late, now, middle, per_step), (peak.name,))
    else:
        yield Doubt("the capacity of the device is not logged: when it is full cannot be said")
    if length is None:
        yield Doubt("lengths are not logged: longer answers would explain it")
    else:
        yield Excluded(
            f"lengths did not grow with it: {number(length.mean.start)} tokens at the start, {number(length.mean.level)} now"
        )


def _grew(length: Reading) -> bool:
    return length.level > (1.0 + LENGTHENED) * length.start


def _one_jump(values: Floats) -> bool:
    """Whether a single row made more than half of the rise."""
    return float(np.diff(values).max(initial=0.0)) > 0.5 * float(values[-1] - values[0])


def _arrival(late: Trend, now: float, step: int, per_step: float) -> str:
    """When the device is full, at the slope of the last half and at both ends of its interval."""
    left = 1.0 - now
    expected = step + left / (late.slope * per_step)
    soon = step + left / (late.high * per_step)
    if late.low <= 0.0:
        return f"full at about step {expected:.0f}, not before step {soon:.0f}"
    return f"full at about step {expected:.0f} ({soon:.0f} to {step + left / (late.low * per_step):.0f})"
