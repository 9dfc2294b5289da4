"""The shape of the score at the end of what was read, in the contract's words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.instruments import Look, Reading, Reward
from vario.stats.shape import MIN_POINTS

WORDS = ("rising", "slowing", "plateau", "peaked", "declining", "noise", "flat-low", "saturated", "too-short")
CEILING_SHARE = 0.97
LITTLE_NOISE = 0.1
"""A level whose noise is below this share of it sits; above, it is noise."""
FROM_SHAPE = {
    "rising": "rising",
    "slowing": "slowing",
    "plateau": "plateau",
    "jumped": "rising",
    "peaked": "peaked",
    "declining": "declining",
    "collapsed": "declining",
    "bottomed": "declining",
}


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A word, how sure, and one sentence why."""

    word: str
    confidence: str
    why: str


def trajectory_of(score: Reading | None, reward: Reward | None) -> Trajectory:
    """Judge the raw score (or the margin, for preference runs)."""
    if score is None or score.points < MIN_POINTS:
        n = 0 if score is None else score.points
        return Trajectory(
            "too-short", "high" if n < MIN_POINTS // 2 else "medium", f"{n} points; the tests need {MIN_POINTS}"
        )
    shape = score.shape
    assert shape is not None
    name = score.name
    if score.constant:
        value = float(score.values[-1])
        word = "saturated" if value > 0.0 else "flat-low"
        return Trajectory(word, "high" if value <= 0.0 else "medium", f"{name} is {value:.3g} at every step")
    share = reward.share_of_ceiling if reward is not None else None
    if share is not None and share >= CEILING_SHARE:
        return Trajectory("saturated", "high", f"{name} is at {100 * share:.0f} % of its ceiling")
    if (
        float(np.median(score.values)) == score.level
        and (score.values == score.level).mean() > 0.8
        and (score.level == float(score.values.min()) or (score.values[-MIN_POINTS:] == score.level).all())
    ):
        word = "flat-low" if score.level <= 0.0 else "plateau"
        return Trajectory(word, "medium", f"{name} is {score.level:.3g} at most steps")
    many = score.points >= 100
    if shape.moved and shape.word != "flat":
        word = FROM_SHAPE[shape.word]
        # above the gate of the shape test by a wide margin, and enough points: then it is sure
        strong = shape.chi2 > 40.0
        confidence = "high" if strong and many else "medium" if strong or many else "low"
        if word == "peaked" and shape.top - shape.end < 2.0 * shape.noise_sd:
            confidence = "low" if confidence == "medium" else "medium"
        return Trajectory(
            word, confidence, f"{name} went from {shape.start:.3g} to {shape.end:.3g} (top {shape.top:.3g})"
        )
    quiet = shape.noise_sd < LITTLE_NOISE * abs(score.level)
    word = "plateau" if quiet else "noise"
    return Trajectory(
        word, "medium" if many else "low", f"{name} never left the interval of its own noise around {score.level:.3g}"
    )


def score_of(look: Look) -> Reading | None:
    """The metric whose trajectory is judged: the raw reward, else the margin."""
    return look.find("reward/mean", least=1) or look.find("preference/margin", least=1)
