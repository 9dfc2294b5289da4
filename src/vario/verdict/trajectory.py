"""The shape of the score at the end of what was read, in the contract's words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.instruments import Look, Reading, Reward
from vario.rules.base import counted
from vario.stats.shape import MIN_POINTS, PEAK_LOSS, Shape
from vario.stats.trend import between_halves

WORDS = ("rising", "slowing", "plateau", "peaked", "declining", "noise", "flat-low", "saturated", "too-short")
CEILING_SHARE = 0.97
ROUNDING = 1e-12
"""Share of the largest level below which a fitted one is the rounding of its sums: a double holds sixteen digits."""
STRONG = 40.0
"""Chi-square over a constant from which a shape is sure on few points as well."""
AT_FLOOR = 0.9
"""Share of all steps at one and the same value that makes it a floor; what is left must not be worth a word."""
AT_CEILING = 0.5
"""Share of the last half at the highest value ever seen that makes it a ceiling: noise does not repeat its maximum."""
VISITS = 3
"""Times that the highest value must have been come back to."""
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
            "too-short",
            "high" if n < MIN_POINTS // 2 else "medium",
            f"{counted(n, 'point')}; the tests need {MIN_POINTS}",
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
    at_bound = _at_bound(score)
    if at_bound is not None:
        return at_bound
    many = score.points >= 100
    if shape.moved and shape.word != "flat":
        word = FROM_SHAPE[shape.word]
        # well above the gate of the shape test, or enough points: nine of ten were right (bench/scoreboard.py)
        confidence = "high" if shape.chi2 > STRONG or many else "medium"
        if word == "peaked" and shape.top - shape.end < 2.0 * shape.noise_sd:
            confidence = "low" if confidence == "medium" else "medium"  # a small fall under much noise
        start, end, top = (_told(value, shape) for value in (shape.start, shape.end, shape.top))
        return Trajectory(word, confidence, f"{name} went from {start} to {end} (top {top})")
    t = between_halves(score.values)
    if abs(t) > HALVES_T:
        eighths = [float(part.mean()) for part in np.array_split(score.values, 8)]
        gained = max(eighths) - eighths[0] > 0.5 * (max(eighths) - eighths[-1])
        word = "rising" if t > 0.0 else "peaked" if gained else "declining"
        return Trajectory(word, "low", f"{name} is {eighths[-1]:.3g} on average now, was {max(eighths):.3g} at best")
    quiet = shape.noise_sd < LITTLE_NOISE * abs(score.level)
    word = "plateau" if quiet else "noise"
    return Trajectory(
        word, "high" if many else "medium", f"{name} never left the interval of its own noise around {score.level:.3g}"
    )


def _told(value: float, shape: Shape) -> str:
    """Three digits; what a fit leaves of zero is zero."""
    return "0" if abs(value) <= ROUNDING * max(abs(shape.top), abs(shape.bottom)) else f"{value:.3g}"


def _at_bound(score: Reading) -> Trajectory | None:
    """At the lowest or the highest value that it ever had, again and again: a floor or a ceiling that nobody declared."""
    values, level = score.values, score.level
    here = values == level
    why = f"{score.name} is {level:.3g} at most steps"
    late = here[-max(MIN_POINTS, score.points // 2) :]
    # a value that a callback repeats is one visit
    visits = int(np.count_nonzero(here[1:] & ~here[:-1]))
    if level > 0.0 and level == float(values.max()) and late.mean() > AT_CEILING and (visits >= VISITS or here.all()):
        return Trajectory("saturated", "medium", f"{why}, which it never exceeds")
    if here.mean() > AT_FLOOR and (level == float(values.min()) or bool(here[-MIN_POINTS:].all())):
        return Trajectory("flat-low" if level <= 0.0 else "plateau", "medium", why)
    return None


HALVES_T = 3.0
"""Standard errors between the means of both halves; measured on flat series of memory 0 to 0.9: at most 2.8 % beyond it."""
FELL = ("reward-collapsed", "reward-peaked-then-declined", "policy-collapse", "reward-function-broke")
"""Findings that say the score fell, whatever its shape looks like."""


def reconciled(
    said: Trajectory, score: Reading | None, open_names: frozenset[str], regime: str = "unknown"
) -> Trajectory:
    """The word that contradicts neither an open finding nor the regime of the last half.

    A few uneven values can hide a fall from the test of the shape, and a late one is seen by the last half alone.
    """
    if score is not None and said.word == "plateau" and regime.endswith("reward-down"):
        gain, lost = score.high - score.start, score.high - score.level
        if gain > 0.0 and lost > PEAK_LOSS * gain:
            return Trajectory(
                "peaked", "low", f"{said.why}; over the last half it falls, from {score.high:.3g} to {score.level:.3g}"
            )
    fell = [name for name in FELL if name in open_names]
    if score is None or not fell or said.word not in ("noise", "plateau", "rising", "slowing"):
        return said
    lost, gain = score.high - score.level, score.high - score.start
    if lost < max(PEAK_LOSS * gain, score.noise_sd):
        return said  # the finding is about another score
    gained = gain > 0.5 * lost
    word = "peaked" if gained and score.best_step() > int(score.steps[score.points // 10]) else "declining"
    return Trajectory(word, "low", f"{said.why}; but {fell[0]} is open: from {score.high:.3g} to {score.level:.3g}")


def score_of(look: Look) -> Reading | None:
    """The metric whose trajectory is judged: the raw reward, else the margin."""
    return look.find("reward/mean", least=1) or look.find("preference/margin", least=1)
