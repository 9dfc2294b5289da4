"""Several sources of one run: do they agree, and which one serves each metric best."""

from __future__ import annotations

from enum import Enum

import numpy as np

from vario.run import Event, Series
from vario.sources.dialects.base import hugging_face_spelling
from vario.sources.readers.metric_words import kinds_of
from vario.sources.rows import BESIDE, Table

AGREEING = 0.9
"""Share of common points that have to agree: a last row or a rounded one may differ."""
ROUNDING = 2e-3
"""Relative difference that rounding in a printed log explains (three decimals)."""
ABSOLUTE = 6e-4
"""Absolute difference that it explains: half of the third decimal, and a little."""
MIN_COMMON = 3
"""So many common points say something about agreement."""


def _named(table: Table) -> dict[str, Series]:
    return {hugging_face_spelling(k): s for k, s in table.series().items() if k not in BESIDE}


def agree(ours: Table, theirs: Table) -> bool | None:
    """Whether two tables tell of the same run; None when they have nothing in common to tell by."""
    a, b = _named(ours), _named(theirs)
    same = total = 0
    for key in a.keys() & b.keys():
        _, i, j = np.intersect1d(a[key].steps, b[key].steps, assume_unique=True, return_indices=True)
        x, y = a[key].values[i], b[key].values[j]
        ok = np.isfinite(x) & np.isfinite(y)
        total += int(ok.sum())
        same += int((np.abs(x - y)[ok] <= ABSOLUTE + ROUNDING * np.abs(x[ok])).sum())
    if total < MIN_COMMON:
        return None
    return same >= AGREEING * total


def overlap(ours: Table, theirs: Table) -> bool:
    """Whether the steps of one lie mostly within the other's, so that they can be the same run's."""
    a, b = ours.logged_steps(), theirs.logged_steps()
    if not a.size or not b.size:
        a = a if a.size else np.concatenate([s.steps for s in ours.series().values()] or [a])
        b = b if b.size else np.concatenate([s.steps for s in theirs.series().values()] or [b])
    if not a.size or not b.size:
        return False
    low, high = max(int(a.min()), int(b.min())), min(int(a.max()), int(b.max()))
    shorter = min(int(a.max()) - int(a.min()), int(b.max()) - int(b.min()))
    return high - low >= 0.5 * shorter


def continues(ours: Table, theirs: Table) -> bool:
    """Whether the other goes on where one ends, with the same metrics: a training that was resumed."""
    a, b = _named(ours), _named(theirs)
    shared = a.keys() & b.keys()
    if len(shared) < 0.5 * min(len(a), len(b)) or not shared:
        return False
    first, last = _bounds(ours), _bounds(theirs)
    return first[1] < last[0] or last[1] < first[0]


def _bounds(table: Table) -> tuple[int, int]:
    steps = table.logged_steps()
    return (int(steps[0]), int(steps[-1])) if steps.size else (0, 0)


def append(ours: Table, theirs: Table) -> None:
    """Put the rows of a part of the same run beside those that are there."""
    mine = {hugging_face_spelling(k): k for k in ours.series()}
    seam = max(_bounds(ours)[0], _bounds(theirs)[0])
    for key, series in theirs.series().items():
        ours.put(mine.get(hugging_face_spelling(key), key), series.steps, series.values)
    ours.events.append(Event("resume", seam, f"the history from step {seam} on is from another file: resumed there"))


def take_over(ours: Table, theirs: Table) -> int:
    """Add the metrics that only the other has, or has at more steps; how many were taken."""
    mine, other = _named(ours), _named(theirs)
    taken = 0
    for name, series in other.items():
        known = mine.get(name)
        if known is not None and len(known) >= len(series):
            continue
        if known is not None:
            ours.drop(known.key)
        ours.put(known.key if known is not None else series.key, series.steps, series.values)
        taken += 1
    return taken


def _with_its_remarks(ours: Table, theirs: Table) -> None:
    """What was counted and warned of while the other source was read."""
    ours.ignored += theirs.ignored
    ours.warnings += theirs.warnings


def _with_its_settings(ours: Table, theirs: Table) -> None:
    """The settings that only the other source holds."""
    for key, value in theirs.config.items():
        ours.config.setdefault(key, value)


class Told(Enum):
    """What another source turned out to tell of."""

    SAME = "the same run"
    ANOTHER = "another run"
    ELSE = "something else"


def join(whole: Table, other: Table, name: str) -> Told:
    """Take over what another source adds to a run, if it is the same run's, and say so."""
    same = agree(whole, other)
    if same is None and other.kind == whole.kind and continues(whole, other):
        append(whole, other)
        _with_its_settings(whole, other)
        _with_its_remarks(whole, other)
        whole.warnings.append(f"{name} holds a part of the same run")
        return Told.SAME
    # with nothing in common: another program's output, or numbers that are no metrics
    foreign = (other.kind == "console" and whole.kind != "console") or not kinds_of(other.series())
    if same or (same is None and overlap(whole, other) and not foreign):
        _with_its_settings(whole, other)
        if taken := take_over(whole, other):
            _with_its_remarks(whole, other)
            whole.warnings.append(
                f"taken from {name}, which alone or more often holds them: {taken} {'metric' if taken == 1 else 'metrics'}"
            )
        return Told.SAME
    return Told.ANOTHER if same is False else Told.ELSE
