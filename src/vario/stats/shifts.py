"""Did it jump? Level shifts as a live monitor sees them, and isolated spikes.

`ShiftDetector` is a damped Holt level, AR(1) innovations, and a winsorised two-sided CUSUM with
an effect gate. It is fed one point at a time and never looks ahead, so the alarms of a prefix
are a prefix of the alarms: replaying a run costs one pass.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from vario.run import Floats
from vario.stats.spread import median

ALARM = 8.0
"""CUSUM height. Measured false alarms: none in 40,000 points of white noise, one in about 10,000 at memory 0.5,
one in 2,000 to 5,000 at 0.9 (bench/error_rates.py); slow wander remains the weak spot."""
GATE_SDS = 2.5
BURN_IN = 30
SILENCE = 10
DAMP, GAIN_LEVEL, GAIN_SLOPE = 0.97, 0.05, 0.0025
WINSOR = 2.5
SLACK = 0.5
FREEZE_ABOVE, FREEZE_POINTS = 0.4, 8
BEFORE, AFTER, SKIP = 42, 5, 8
WANDER_POINTS = 200
WANDER_MARGIN, WANDER_MEMORY = 1.3, 0.6
"""How far a shift must exceed the largest move of the past over as many points, more with memory (bench/error_rates.py)."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A level shift. Indices count points; `size_sds` is in robust standard deviations."""

    onset: int
    seen: int
    before: float
    after: float
    size_sds: float

    @property
    def up(self) -> bool:
        """Whether the level rose."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Spike:
    """An isolated value far from its neighbourhood, seen once the level has come back."""

    index: int
    seen: int
    value: float
    local: float


class ShiftDetector:
    """Feed points in order with `push`; it returns a Shift when one is established.

    Args:
        from_zero: a logarithm of a size that starts near zero (KL): its early growth spans orders of
            magnitude, so a shift is compared only with past moves in its own direction.
    """

    def __init__(self, *, from_zero: bool = False) -> None:
        self._from_zero = from_zero
        self._start: list[float] = []
        self._all: list[float] = []
        self._recent: deque[float] = deque(maxlen=BEFORE + SKIP)
        self._index = -1
        self._level = self._slope = self._rho = 0.0
        self._s = self._s_r = 1.0
        self._last_residual = 0.0
        self._cusum = [0.0, 0.0]
        self._left_zero = [0, 0]
        self._frozen = 0
        self._quiet_until = -1
        self._cov = self._var = 0.0

    def _begin(self) -> None:
        y = np.asarray(self._start)
        half = BURN_IN // 2
        first, last = median(y[:half]), median(y[half:])
        slope = (last - first) / (BURN_IN - half)
        trend = first + slope * (np.arange(BURN_IN) - (half - 1) / 2.0)
        residual = y - trend
        sd = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
        sd = max(sd, float(residual.std()) * 0.5, 1e-12 * max(float(np.abs(y).max()), 1e-12))
        centred = residual - residual.mean()
        energy = float(centred @ centred)
        self._rho = min(max(float(centred[1:] @ centred[:-1]) / energy, 0.0), 0.95) if energy > 0 else 0.0
        self._s_r = sd
        self._s = sd * math.sqrt(1.0 - self._rho**2)
        self._var = sd * sd
        self._cov = self._rho * self._var
        self._level = last + slope * half / 2.0
        self._slope = 0.5 * slope
        self._last_residual = 0.0

    def push(self, value: float) -> Shift | None:
        """Take the next finite value."""
        self._index += 1
        i = self._index
        self._recent.append(value)
        self._all.append(value)
        if i < BURN_IN:
            self._start.append(value)
            if i == BURN_IN - 1:
                self._begin()
            return None
        # plain comparisons instead of min and max: this runs once a point and metric
        s_r = self._s_r
        predicted = self._level + DAMP * self._slope
        residual = value - predicted
        z = (residual - self._rho * self._last_residual) / self._s
        edge = WINSOR * s_r
        bounded = edge if residual > edge else -edge if residual < -edge else residual
        self._level = predicted + GAIN_LEVEL * bounded
        self._slope = DAMP * self._slope + GAIN_SLOPE * bounded
        up, down = self._cusum
        suspicious = up > FREEZE_ABOVE * ALARM or down > FREEZE_ABOVE * ALARM
        self._frozen = self._frozen + 1 if suspicious else 0
        if not suspicious or self._frozen > FREEZE_POINTS:
            weight = 0.01 if i >= 99 else 1.0 / (i + 1)
            keep = 1.0 - weight
            cut = 3.0 if z > 3.0 else -3.0 if z < -3.0 else z
            self._s *= math.sqrt(keep + weight * cut * cut)
            edge = 3.0 * s_r
            r_cut = edge if residual > edge else -edge if residual < -edge else residual
            last = self._last_residual
            previous = edge if last > edge else -edge if last < -edge else last
            self._var = keep * self._var + weight * r_cut * r_cut
            self._cov = keep * self._cov + weight * r_cut * previous
            self._s_r = math.sqrt(self._var)
            rho = self._cov / self._var if self._var > 0.0 else 0.0
            self._rho = 0.0 if rho < 0.0 else 0.95 if rho > 0.95 else rho
        self._last_residual = residual
        z = WINSOR if z > WINSOR else -WINSOR if z < -WINSOR else z
        if up == 0.0:
            self._left_zero[0] = i
        if down == 0.0:
            self._left_zero[1] = i
        up += z - SLACK
        down -= z + SLACK
        up = up if up > 0.0 else 0.0
        down = down if down > 0.0 else 0.0
        self._cusum[0], self._cusum[1] = up, down
        if i < self._quiet_until or (up <= ALARM and down <= ALARM):
            return None
        return self._gate(i)

    def _wander(self, onset: int, held: int, wanted: float) -> float:
        """The move (in that direction) that the run has made by itself before, over as many points, with a margin.

        Long memory and learning curves move the level without a jump; a shift must beat them.
        """
        past = np.asarray(self._all[max(0, onset - WANDER_POINTS) : onset])
        lag = held + AFTER
        if past.size < lag + 2 * AFTER:
            return math.inf
        medians = np.median(np.lib.stride_tricks.sliding_window_view(past, AFTER), axis=1)
        if medians.size <= lag:
            return math.inf
        moves = wanted * (medians[lag:] - medians[:-lag])
        largest = float((moves if self._from_zero else np.abs(moves)).max())
        return (WANDER_MARGIN + WANDER_MEMORY * self._rho) * max(0.0, largest)

    def _refine(self, onset: int, i: int) -> int:
        """The place between `onset` and now where one step explains the values best."""
        first = max(0, onset - AFTER)
        y = np.asarray(self._all[first : i + 1])
        costs = [
            float(((y[:k] - y[:k].mean()) ** 2).sum() + ((y[k:] - y[k:].mean()) ** 2).sum())
            for k in range(2, y.size - 1)
        ]
        return first + 2 + int(np.argmin(costs)) if costs else onset

    def _gate(self, i: int) -> Shift | None:
        side = 0 if self._cusum[0] >= self._cusum[1] else 1
        onset = self._left_zero[side]
        recent = np.asarray(self._recent)
        after = median(recent[-AFTER:])
        held = min(max(SKIP, i - onset + 1), recent.size - 12)
        base = recent[: recent.size - held]
        before = median(base)
        t = np.arange(base.size) - (base.size - 1) / 2.0
        drift = float(t @ (base - base.mean())) / float(t @ t)
        detrended = base - before - drift * t
        sd = 1.4826 * float(np.median(np.abs(detrended - np.median(detrended))))
        sd = max(sd, 0.5 * float(detrended.std()), 1e-12 * max(abs(before), 1e-12))
        # With the window's own drift carried on: a learning curve is no jump.
        expected = before + drift * (base.size / 2.0 + held)
        plain, carried = (after - before) / sd, (after - expected) / sd
        wanted = 1.0 if side == 0 else -1.0
        if min(wanted * plain, wanted * carried) <= GATE_SDS or abs(after - before) <= self._wander(
            onset, held, wanted
        ):
            return None
        onset = self._refine(onset, i)
        self._level, self._slope, self._last_residual = after, 0.0, 0.0
        self._cusum = [0.0, 0.0]
        self._quiet_until = i + SILENCE
        self._frozen = 0
        return Shift(onset, i, before, after, wanted * min(abs(plain), abs(carried)))


FINE_POINTS, COARSE = 4000, 4
"""After so many points the detector is fed means of four: late in a long log a jump is dated to four points."""


def find_shifts(values: Floats, *, from_zero: bool = False) -> tuple[Shift, ...]:
    """All level shifts of a finite series, in the order in which a live monitor sees them."""
    detector = ShiftDetector(from_zero=from_zero)
    late = values[FINE_POINTS:]
    whole = late.size // COARSE * COARSE
    fed = [*values[:FINE_POINTS].tolist(), *late[:whole].reshape(-1, COARSE).mean(axis=1).tolist()]
    found = (shift for value in fed if (shift := detector.push(value)) is not None)
    return tuple(replace(s, onset=_first_point(s.onset), seen=_first_point(s.seen + 1) - 1) for s in found)


def _first_point(fed: int) -> int:
    """Index of the first point of what was fed at that place."""
    return fed if fed <= FINE_POINTS else FINE_POINTS + (fed - FINE_POINTS) * COARSE


SPIKE_TIMES = 6.0
"""Times the local level that makes a value of a positive size a spike; the corpus' readers say 8."""
SPIKE_SDS = 6.0
SPIKE_WINDOW = 15
SPIKE_CONFIRM = 3


def find_spikes(values: Floats, *, ratio: bool = True) -> tuple[Spike, ...]:
    """Isolated values far above the local level, each confirmed once the level came back.

    Args:
        values: finite, shape (n,).
        ratio: a positive size, where a spike is also a multiple of the local level.
    """
    n = values.size
    if n < SPIKE_WINDOW + SPIKE_CONFIRM + 1:
        return ()
    windows = np.lib.stride_tricks.sliding_window_view(values, SPIKE_WINDOW)[:-1]
    local = np.median(windows, axis=1)
    sd = 1.4826 * np.median(np.abs(windows - local[:, None]), axis=1)
    here = values[SPIKE_WINDOW:]
    far = np.abs(here - local) > SPIKE_SDS * np.maximum(sd, 1e-12)
    far &= (
        (np.abs(here) > SPIKE_TIMES * np.abs(local)) if ratio else (np.abs(here - local) > 10.0 * np.maximum(sd, 1e-12))
    )
    far &= np.abs(here) > 1e-12
    spikes = []
    for j in np.flatnonzero(far):
        i = int(j) + SPIKE_WINDOW
        back = i + SPIKE_CONFIRM
        if back >= n:
            continue
        returned = median(values[i + 1 : back + 1])
        if abs(returned - local[j]) < 0.33 * abs(float(values[i]) - local[j]):
            spikes.append(Spike(i, back, float(values[i]), float(local[j])))
    return tuple(spikes)
