"""KL against reward, phase by phase: when the run went from paying for a gain to paying for nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vario.instruments import Kl, Reading
from vario.instruments.reading import WINDOW
from vario.run import Floats
from vario.stats.shape import MIN_POINTS, shape_of
from vario.stats.spread import thin
from vario.stats.trend import two_scale
from vario.verdict.regime import KL_SHARE, NOISE_SDS, REWARD_SHARE, P

DEEPEST = 2
"""How often a stretch is cut in two: each cut is a knot of KL or of the reward."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of steps with one regime; levels of KL and reward at both ends, in the unit of the log."""

    first: int
    last: int
    regime: str
    kl: tuple[float, float]
    reward: tuple[float, float]


def phases_of(kl: Kl | None, score: Reading | None) -> tuple[Phase, ...]:
    """The phases in order; empty without a KL to a reference, or enough points of both over the same steps."""
    if kl is None or score is None or min(kl.reference.points, score.points) < 2 * MIN_POINTS:
        return ()
    first = max(int(kl.reference.steps[0]), int(score.steps[0]))
    last = min(int(kl.reference.steps[-1]), int(score.steps[-1]))
    if min(_within(kl.reference, first, last).size, _within(score, first, last).size) < 2 * MIN_POINTS:
        return ()
    cuts = sorted({first, last + 1, *_knots(kl.reference, first, last, DEEPEST), *_knots(score, first, last, DEEPEST)})
    found: list[Phase] = []
    begin = cuts[0]
    for end in cuts[1:]:
        short = (
            _within(kl.reference, begin, end - 1).size < MIN_POINTS or _within(score, begin, end - 1).size < MIN_POINTS
        )
        if short and end != cuts[-1]:
            continue  # too short to be judged apart: it goes with what comes next
        if short and found:
            begin = found.pop().first
        phase = _phase(kl, score, begin, end - 1)
        while found and found[-1].regime == phase.regime:
            phase = _phase(kl, score, found.pop().first, end - 1)
        found.append(phase)
        begin = end
    return tuple(found)


def _within(reading: Reading, first: int, last: int) -> Floats:
    a, b = np.searchsorted(reading.steps, (first, last + 1))
    return reading.values[a:b]


def _knots(reading: Reading, first: int, last: int, depth: int) -> Iterator[int]:
    values = _within(reading, first, last)
    if depth == 0 or values.size < 2 * MIN_POINTS:
        return
    thinned, size = thin(values, WINDOW)
    shape = shape_of(thinned)
    if shape is None or not shape.moved or shape.knot is None:
        return
    a = int(np.searchsorted(reading.steps, first))
    at = int(reading.steps[min(a + values.size - thinned.size * size + shape.knot * size, reading.points - 1)])
    if first < at < last:
        yield at
        yield from _knots(reading, first, at - 1, depth - 1)
        yield from _knots(reading, at, last, depth - 1)


def _direction(values: Floats, *, share: float, logs: bool) -> str:
    """up, flat or down over one stretch."""
    if values.size < MIN_POINTS:
        return "flat"
    level = float(np.median(values[-max(5, values.size // 10) :]))
    views = [(values, share * abs(level))]
    if logs and float(values.min()) > 0.0:
        # drift is multiplicative; a steady climb from near zero is bent on a logarithm, and straight without
        views.insert(0, (np.log(values), math.log1p(share)))
    for seen, size in views:
        thinned = thin(seen, WINDOW)[0]
        trend, shape = two_scale(thinned), shape_of(thinned)
        if trend is not None and trend.p < P and abs(trend.change) >= max(size, NOISE_SDS * trend.noise_sd):
            return "up" if trend.slope > 0.0 else "down"
        # what bends within the stretch is no line, and its bend is no noise
        if shape is not None and shape.moved and abs(shape.gain) >= max(size, shape.noise_sd):
            return "up" if shape.gain > 0.0 else "down"
    return "flat"


def _ends(values: Floats) -> tuple[float, float]:
    edge = max(3, values.size // 10)
    return float(np.median(values[:edge])), float(np.median(values[-edge:]))


def _phase(kl: Kl, score: Reading, first: int, last: int) -> Phase:
    paid, got = _within(kl.reference, first, last), _within(score, first, last)
    up = "flat" if kl.still else _direction(paid, share=KL_SHARE, logs=True)
    return Phase(
        first,
        last,
        f"kl-{up}-reward-{_direction(got, share=REWARD_SHARE, logs=False)}",
        _ends(paid),
        _ends(got),
    )
