"""The review queue: which completions a person should mark, drawn so that few marks say much."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from vario.run import Floats, Run
from vario.samples import Samples

LATE = 0.25
"""Last part of the sampled steps that the queue is drawn from; the first part of the same size is the baseline."""
STRATA = ("top", "bottom", "random", "changed")
SEED = 20
MEASURES = ("size", "looped", "entropy")
"""What tells how far a completion has moved from what the policy wrote at first."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A completion to be marked, why it was drawn, and what it was paid."""

    step: int
    number: int
    stratum: str
    reward: float | None


def review_queue(run: Run, most: int, marked: Collection[tuple[int, int]] = ()) -> list[Queued]:
    """Completions of the last quarter of the run, in turn from four strata; those already marked are left out.

    `top` and `bottom` by reward, `random`, and `changed`: farthest from the first quarter's in length, loops and
    entropy of characters. The same queue for the same run.
    """
    samples = run.samples
    if samples is None or not len(samples):
        return []
    steps = np.unique(samples.steps)
    width = max(1, round(LATE * steps.size))
    rows = np.flatnonzero(samples.steps >= steps[-width])
    rows = np.array([r for r in rows if (int(samples.steps[r]), int(samples.numbers[r])) not in marked], dtype=np.int64)
    if not rows.size:
        return []
    reward = samples.measures["reward"][rows]
    known = np.where(np.isfinite(reward), reward, np.nanmedian(reward) if np.isfinite(reward).any() else 0.0)
    shuffled = np.random.default_rng(SEED).permutation(rows.size)
    orders = {
        "top": shuffled[np.argsort(-known[shuffled], kind="stable")],
        "bottom": shuffled[np.argsort(known[shuffled], kind="stable")],
        "random": shuffled,
        "changed": np.argsort(-_moved(samples, rows, int(steps[width - 1])), kind="stable"),
    }
    taken: set[int] = set()
    made: list[Queued] = []
    while len(made) < min(most, rows.size):
        for stratum in STRATA:
            one = next((int(i) for i in orders[stratum] if int(i) not in taken), None)
            if one is not None and len(made) < most:
                taken.add(one)
                paid = float(reward[one])
                made.append(
                    Queued(
                        int(samples.steps[rows[one]]),
                        int(samples.numbers[rows[one]]),
                        stratum,
                        paid if np.isfinite(paid) else None,
                    )
                )
    return made


def _moved(samples: Samples, rows: np.ndarray[tuple[int], np.dtype[np.int64]], until: int) -> Floats:
    """How far each lies from the first samples, in their own spreads, summed over the measures."""
    first = samples.steps <= until
    moved = np.zeros(rows.size)
    for name in MEASURES:
        values = samples.measures[name]
        start = values[first & np.isfinite(values)]
        if start.size:
            middle = float(np.median(start))
            spread = max(1.4826 * float(np.median(np.abs(start - middle))), 0.05 * abs(middle), 1e-6)
            moved += np.nan_to_num(np.abs(values[rows] - middle) / spread)
    return moved
