"""Two readings of the same place: the same run further on, a log that lost its beginning or its end, or another run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vario.run import Event, Floats, Ints, Run, Series

Bools = NDArray[np.bool_]

COMPARED = 3
"""Series that are compared: those that vary most. What never moves is the same in every run of a recipe."""
FIRST_POINTS = 8
"""Points at the start that tell whose run it is: a training that was resumed has the same ones, however much it repeats."""
ALIKE = 0.5
"""Share of common values that are equal in one and the same run: a resume repeats some steps with other values."""
FRESH_ROWS = 2
"""A log that begins so few rows behind the start of the old one, with other values, is another run's, and no resume."""
ROUNDING, ABSOLUTE = 2e-3, 6e-4
"""Differences that rounding explains: of one run the console may say three decimals, and a checkpoint's state all."""


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
    first, last = int(old.logged_steps[0]), int(old.logged_steps[-1])
    begins, ends = int(new.logged_steps[0]), int(new.logged_steps[-1])
    if begins > last:
        return Relation.LOST_START  # what begins behind the end of the old one carries it on
    alike, at_first = _alike(old, new)
    if max(alike, at_first) < ALIKE:
        # in the middle, a training goes on from a checkpoint in a new log; at the start, it is another one
        resumed = int(np.searchsorted(old.logged_steps, begins)) > FRESH_ROWS
        return Relation.LOST_START if resumed else Relation.OTHER
    if begins > first:
        return Relation.LOST_START
    return Relation.LOST_END if alike == 1.0 and ends < last else Relation.GOES_ON


def rewritten(old: Run, new: Run) -> int:
    """At how many steps, up to the old one's last, a reading says something else than the one before."""
    last = old.last_step
    if last is None:
        return 0
    changed: set[int] = set()
    was = {s.key: s for s in old.series.values()}
    for after in new.series.values():
        before, after = was.get(after.key), after.until(last)
        if before is None:
            changed.update(after.steps.tolist())
        elif not (
            _same(before.steps, after.steps) and _same(before.values.view(np.int64), after.values.view(np.int64))
        ):
            changed.update(_differing(before, after))
    return len(changed)


def _same(a: Ints, b: Ints) -> bool:
    return a.size == b.size and bool((a == b).all())


def _differing(before: Series, after: Series) -> Iterator[int]:
    _, i, j = _common(before, after)
    a, b = before.values[i], after.values[j]
    yield from before.steps[i][(a != b) & ~(np.isnan(a) & np.isnan(b))].tolist()
    yield from np.setxor1d(before.steps, after.steps, assume_unique=True).tolist()


def _common(before: Series, after: Series) -> tuple[Ints, Ints, Ints]:
    """The steps that both have, and where they stand in each."""
    size = min(len(before), len(after))
    if _same(before.steps[:size], after.steps[:size]):  # nearly always, and much faster
        every = np.arange(size)
        return before.steps[:size], every, every
    steps, i, j = np.intersect1d(before.steps, after.steps, assume_unique=True, return_indices=True)
    return steps, i, j


def _alike(old: Run, new: Run) -> tuple[float, float]:
    """Share of equal values at common steps, of all and of the first ones; 0 where there is nothing in common.

    Series are the same where the trainer's keys are: what they mean may become clear only as more of them come.
    """
    theirs = {s.key: s for s in new.series.values() if not s.counted}
    pairs = [(s, theirs[s.key]) for s in old.series.values() if not s.counted and s.key in theirs]
    telling = {id(before): _telling(before) for before, _ in pairs}
    loud = sorted((p for p in pairs if telling[id(p[0])] > 1.0), key=lambda p: -telling[id(p[0])])
    same = count = same_first = count_first = 0
    for before, after in loud[:COMPARED] or pairs:
        _, i, j = _common(before, after)
        equal = _equal(before.values[i], after.values[j])
        same, count = same + int(equal.sum()), count + equal.size
        same_first, count_first = same_first + int(equal[:FIRST_POINTS].sum()), count_first + equal[:FIRST_POINTS].size
    return (same / count, same_first / count_first) if count else (0.0, 0.0)


def _equal(a: Floats, b: Floats) -> Bools:
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ABSOLUTE + ROUNDING * np.abs(a)
    equal: Bools = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return equal


def _telling(series: Series) -> float:
    """How far the values lie apart, in differences that rounding explains; 0 for a count or a schedule, which only climbs or falls."""
    values = series.finite()[1]
    moves = np.diff(values)
    if not ((moves > 0).any() and (moves < 0).any()):
        return 0.0
    return float(np.ptp(values)) / (ABSOLUTE + ROUNDING * float(np.abs(values).max()))


def with_start(old: Run, new: Run) -> Run:
    """The new reading with what the old one holds before it.

    A log that lost its start may have lost the settings that stood there: the old reading's count where it has more.
    """
    first, last = int(new.logged_steps[0]), int(old.logged_steps[-1])
    head = old.until(first - 1)
    series = {s.key: (name, s) for name, s in new.series.items()}
    joined = dict(new.series)
    for name, before in head.series.items():
        known = series.get(before.key)
        joined[name if known is None else known[0]] = before if known is None else _joined(before, known[1], first)
    events = [*head.events, *(e for e in new.events if e.step >= first)]
    if first <= last and not any(e.step == first for e in events) and _alike(old, new)[0] < 1.0:
        events.append(Event("resume", first, f"the step goes back from {last} to {first}: resumed, or restarted"))
    return replace(
        new if len(new.config) >= len(old.config) else old,
        series=MappingProxyType(dict(sorted(joined.items()))),
        logged_steps=np.concatenate([head.logged_steps, new.logged_steps]),
        checkpoints=tuple(sorted({*head.checkpoints, *new.checkpoints}, key=lambda c: c.step)),
        events=tuple(sorted(events, key=lambda e: e.step)),
        samples=new.samples,
        marks=new.marks,
    )


def _joined(before: Series, after: Series, first: int) -> Series:
    behind = after.steps >= first
    return Series(
        after.key,
        np.concatenate([before.steps, after.steps[behind]]),
        np.concatenate([before.values, after.values[behind]]),
        after.counted,
    )
