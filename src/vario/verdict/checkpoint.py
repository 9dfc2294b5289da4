"""Which checkpoint is best: by a held-out score, else a weight-0 reward, else the reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.instruments import Look, Reading, Witness
from vario.stats.peak import find_peak

EVALUATIONS = 3
TRAINING_SHARE = 0.05
DISTORT = frozenset({"length-hacking", "format-hacking", "length-buys-reward"})
"""Findings that the trained reward pays for something else than what is wanted."""


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The best step, by which metric, its value (of a held-out score as logged, else smoothed), the interval of steps, and whether it is saved."""

    step: int
    by: str
    value: float
    saved: bool | None
    interval: tuple[int, int]
    nearest_saved: int | None


def best_checkpoint(
    look: Look, score: Reading | None, before: int | None = None, undistorted: int | None = None
) -> BestCheckpoint | None:
    """None where nothing can rank checkpoints.

    Args:
        look: the run as it stands.
        score: what is optimised.
        before: the onset of what no further step mends: what came from it on is not trusted, whatever a metric that
            does not see it says. Without enough points before it every step is ranked.
        undistorted: the onset of what the trained reward pays for and should not: from it on that reward ranks nothing,
            and another score still does.
    """
    witness = look.instrument(Witness)
    held_out = look.find("eval/preference/margin", least=4)
    ranked = witness.score if isinstance(witness, Witness) else held_out if held_out is not None else score
    if ranked is None or ranked.points < EVALUATIONS:
        return None
    if undistorted is not None and ranked is score:
        before = undistorted if before is None else min(before, undistorted)
    evaluated = ranked.name.startswith("eval/")
    width = EVALUATIONS if evaluated else max(5, int(ranked.points * TRAINING_SHARE))
    trusted = ranked.points if before is None else int(np.searchsorted(ranked.steps, before))
    peak = find_peak(ranked.values[:trusted] if trusted >= width else ranked.values, width, triangle=evaluated)
    if peak is None:
        return None
    # each evaluation is a measurement of its own, and people look it up in their log
    value = float(ranked.values[peak.index]) if evaluated else peak.value
    step = int(ranked.steps[peak.index])
    interval = (int(ranked.steps[peak.low]), int(ranked.steps[peak.high]))
    checkpoints = [c.step for c in look.history.run.checkpoints if c.step <= look.step]
    nearest = min(checkpoints, key=lambda s: abs(s - step)) if checkpoints else None
    # a folder without a single checkpoint does not prove that none was saved elsewhere
    saved = None if not checkpoints else any(interval[0] <= s <= interval[1] for s in checkpoints)
    return BestCheckpoint(step, ranked.name, value, saved, interval, nearest)
