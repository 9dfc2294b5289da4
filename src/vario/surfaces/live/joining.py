"""Two readings of the same place: the same run further on, a log that lost its beginning or its end, or another run."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from types import MappingProxyType

import numpy as np

from vario.run import Run, Series

COMPARED = 8
"""Series that are compared; one that is noisy tells two runs apart by itself."""
ALIKE = 0.5
"""Share of common values that are equal in one and the same run: a resume repeats some steps with other values."""


class Relation(Enum):
    """What a new reading is to the one before."""

    GOES_ON = "goes on"
    LOST_START = "lost its start"
    LOST_END = "lost its end"
    OTHER = "another run"


def relation(old: Run, new: Run) -> Relation:
    """What the new reading is to the old one, by what stands at the steps that both have."""
    if not old.logged_steps.size:
        return Relation.GOES_ON
    if not new.logged_steps.size:
        return Relation.LOST_END
    alike = _alike(old, new)
    first, last = int(old.logged_steps[0]), int(old.logged_steps[-1])
    if alike is None:
        # no step in common: what begins behind the end of the old one carries it on
        return Relation.LOST_START if int(new.logged_steps[0]) > last else Relation.OTHER
    if alike < ALIKE:
        return Relation.OTHER
    if int(new.logged_steps[0]) > first:
        return Relation.LOST_START
    if alike == 1.0 and int(new.logged_steps[-1]) < last:
        return Relation.LOST_END
    return Relation.GOES_ON


def _alike(old: Run, new: Run) -> float | None:
    """Share of equal values at common steps; None where there is no common step."""
    same = count = 0
    names = [n for n in old.series if n in new.series and not old.series[n].counted]
    for name in names[:COMPARED]:
        before, after = old.series[name], new.series[name]
        _, i, j = np.intersect1d(before.steps, after.steps, assume_unique=True, return_indices=True)
        a, b = before.values[i], after.values[j]
        same += int(np.sum((a == b) | (np.isnan(a) & np.isnan(b))))
        count += int(i.size)
    return same / count if count else None


def with_start(old: Run, new: Run) -> Run:
    """The new reading with what the old one holds before it."""
    first = int(new.logged_steps[0])
    head = old.until(first - 1)
    series = dict(new.series)
    for name, before in head.series.items():
        after = series.get(name)
        series[name] = before if after is None else _joined(before, after, first)
    return replace(
        new,
        series=MappingProxyType(dict(sorted(series.items()))),
        logged_steps=np.concatenate([head.logged_steps, new.logged_steps]),
        checkpoints=tuple(sorted({*head.checkpoints, *new.checkpoints}, key=lambda c: c.step)),
        events=(*head.events, *(e for e in new.events if e.step >= first)),
    )


def _joined(before: Series, after: Series, first: int) -> Series:
    behind = after.steps >= first
    return Series(
        after.key,
        np.concatenate([before.steps, after.steps[behind]]),
        np.concatenate([before.values, after.values[behind]]),
        after.counted,
    )
