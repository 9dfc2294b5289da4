"""A reading: what one metric says at one look, and the views it is computed from.

A `History` holds the whole run and the work that is kept between looks; a `Look` is the run as
it stood at one step; a `Reading` is one metric in one look. Everything is computed when asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from vario.catalogue import lookup
from vario.errors import NotReadable
from vario.run import Floats, Ints, Run, Series
from vario.stats.shape import Shape, shape_of
from vario.stats.shifts import Shift, Spike, find_shifts, find_spikes
from vario.stats.spread import median, memory, repetition, robust_sd, row_medians, thin
from vario.stats.trend import Trend, two_scale

WINDOW = 240
"""Points that one look is reduced to: enough for the tests' power, little enough for 100 looks."""
LEVEL_SHARE = 0.1
LEVEL_LEAST = 5
ABRUPT_POINTS = 12
"""A measurement breaks between two batches; a policy takes longer to fall than a shift takes to be seen."""
SUDDEN_SHARE = 0.7
"""Share of a shift that must lie between the three points before a place and the three after it to be sudden."""
LOUD = 20.0
"""Times the local level from which a single spike is worth a look: well beyond the spike rule's own six."""
PATIENCE = 1000
"""Rows over which a pace is judged while a run has fewer: 88 of 92 public runs were trained for no more. Of 39 recorded
runs whose reward rose, 37 were seen to rise by row 170, and the slowest by row 521."""
WHITE = 1.5
"""Repetition up to which noise counts as white: 100 points of it stay below this in 93 of 100 cases."""
BEFORE_LEAST = 60
"""Points before a fall that are enough to tell how slowly the noise wanders."""
BEYOND_NOISE = 10.0
"""Standard deviations of its noise that noise does not wander, however slowly: the worst of 1,500 healthy runs fell by 8."""
LOG_FLOOR = 1e-3
"""A positive size is judged on log(value + this share of its typical size): zeros must not explode."""


@dataclass(frozen=True, slots=True)
class StepShift:
    """A level shift in the run's own steps."""

    step: int
    seen: int
    before: float
    after: float
    size_sds: float
    points: int

    @property
    def abrupt(self) -> bool:
        """Whether it was established within a dozen points: a slope takes longer to be seen."""
        return self.points <= ABRUPT_POINTS

    @property
    def up(self) -> bool:
        """Whether the level rose."""
        return self.after > self.before


class _Kept:
    """Finite points of one metric and the detectors that never look ahead."""

    def __init__(self, name: str, series: Series) -> None:
        self.name = name
        self.key = series.key
        self.steps, self.values = series.finite()
        self.bad_steps: Ints = series.steps[~series.usable()]
        # KL is signed in principle (k1) and a positive size in practice
        self.ratio = lookup(name).scale == "ratio" or name.startswith("kl/")

    @cached_property
    def shifts(self) -> tuple[Shift, ...]:
        y = self.values
        if self.ratio and y.size and float(y.min()) >= 0.0:
            head = y[:30]
            scale = median(head[head > 0]) if bool((head > 0).any()) else 1.0
            y = np.log(y + LOG_FLOOR * scale)
        return find_shifts(y, from_zero=self.name.startswith("kl/"))

    @cached_property
    def spikes(self) -> tuple[Spike, ...]:
        return find_spikes(self.values, ratio=self.ratio)


class History:
    """A run with the detectors' work, shared by all looks at it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._kept: dict[str, _Kept] = {}

    def kept(self, name: str) -> _Kept | None:
        """The points of a metric; None when it was not logged."""
        if name not in self._kept:
            series = self.run.series.get(name)
            if series is None:
                return None
            self._kept[name] = _Kept(name, series)
        return self._kept[name]


class Reading:
    """One metric as it stood at one look."""

    def __init__(self, kept: _Kept, step: int) -> None:
        self._kept = kept
        self.name = kept.name
        self.key = kept.key
        end = int(np.searchsorted(kept.steps, step, side="right"))
        self.steps: Ints = kept.steps[:end]
        self.values: Floats = kept.values[:end]
        self.bad_steps: Ints = kept.bad_steps[: int(np.searchsorted(kept.bad_steps, step, side="right"))]
        self._step = step

    @property
    def points(self) -> int:
        """Finite values so far."""
        return int(self.values.size)

    def _edge(self) -> int:
        return min(max(LEVEL_LEAST, int(self.points * LEVEL_SHARE)), max(self.points, 1))

    @cached_property
    def level(self) -> float:
        """Median of the last tenth (at least five points)."""
        return median(self.values[-self._edge() :])

    @cached_property
    def start(self) -> float:
        """Median of the first five points: where it came from."""
        return median(self.values[:LEVEL_LEAST])

    @cached_property
    def low(self) -> float:
        """Smallest block level so far: robust against single values."""
        return float(self._levels.min())

    @cached_property
    def high(self) -> float:
        """Largest block level so far: robust against single values."""
        return float(self._levels.max())

    @cached_property
    def held_high(self) -> float:
        """Largest level that two neighbouring blocks both reached: uneven rewards lift a single block by luck."""
        return float(np.minimum(self._levels[1:], self._levels[:-1]).max()) if self._levels.size > 1 else self.high

    @cached_property
    def _levels(self) -> Floats:
        if self.points < 2 * LEVEL_LEAST:
            return np.array([median(self.values)]) if self.points else np.array([0.0])
        size = max(LEVEL_LEAST, self.points // 40)
        whole = self.points // size * size
        return row_medians(self.values[self.points - whole :].reshape(-1, size))

    def level_at(self, step: int, width: int = LEVEL_LEAST) -> float:
        """Median of the `width` points that end at `step`."""
        end = max(int(np.searchsorted(self.steps, step, side="right")), 1)
        return median(self.values[max(0, end - width) : end])

    @cached_property
    def constant(self) -> bool:
        """Whether every value is the same."""
        return self.points > 0 and float(np.ptp(self.values)) <= 1e-9 * max(1e-9, float(np.abs(self.values).max()))

    @cached_property
    def constant_since(self) -> int | None:
        """First step of the stretch, lasting until now, in which every value is the same; None for one point."""
        moved = np.flatnonzero(
            np.abs(self.values - self.values[-1]) > 1e-9 * max(1e-9, float(np.abs(self.values).max()))
        )
        first = int(moved[-1]) + 1 if moved.size else 0
        return int(self.steps[first]) if self.points - first > 1 else None

    @cached_property
    def shape(self) -> Shape | None:
        """Shape of all history; None below the points it needs."""
        return shape_of(thin(self.values, WINDOW)[0])

    @cached_property
    def log_shape(self) -> Shape | None:
        """Shape of the logarithm; None where it is too short or not all positive."""
        if not self.points or float(self.values.min()) <= 0.0:
            return None
        return shape_of(thin(np.log(self.values), WINDOW)[0])

    @cached_property
    def trend(self) -> Trend | None:
        """Two-scale trend of all history."""
        return two_scale(thin(self.values, WINDOW)[0])

    @cached_property
    def late(self) -> Trend | None:
        """Two-scale trend of the last half (at least 24 points)."""
        half = self.values[-max(24, self.points // 2) :]
        return two_scale(thin(half, WINDOW)[0])

    @cached_property
    def late_log(self) -> Trend | None:
        """Trend of the logarithm over the last half; None where it is too short or not all positive."""
        half = self.values[-max(24, self.points // 2) :]
        if half.size < 24 or float(half.min()) <= 0.0:
            return None
        return two_scale(thin(np.log(half), WINDOW)[0])

    @cached_property
    def noise_sd(self) -> float:
        """Standard deviation of the noise: around the shape, or of differences where there is none."""
        if self.shape is not None:
            return self.shape.noise_sd
        return robust_sd(np.diff(self.values)) / np.sqrt(2.0) if self.points > 2 else 0.0

    def knot_step(self) -> int | None:
        """Step at which the tail of the shape begins."""
        if self.shape is None or self.shape.knot is None:
            return None
        thinned, size = thin(self.values, WINDOW)
        offset = self.points - thinned.size * size if size > 1 else 0
        return int(self.steps[min(offset + self.shape.knot * size, self.points - 1)])

    @cached_property
    def shifts(self) -> tuple[StepShift, ...]:
        """Level shifts established so far, in the metric's own values."""
        made = []
        for s in self._kept.shifts:
            if s.seen >= self.points:
                break
            before = median(self.values[max(0, s.onset - 20) : s.onset]) if s.onset else float(self.values[0])
            after = median(self.values[s.seen - 4 : s.seen + 1])
            made.append(
                StepShift(
                    int(self.steps[s.onset]), int(self.steps[s.seen]), before, after, s.size_sds, s.seen - s.onset
                )
            )
        return tuple(made)

    def contrast(self, step: int, width: int = 12) -> tuple[float, float, float] | None:
        """Means of the points before and from `step` on, and their difference in standard errors, memory included."""
        i = int(np.searchsorted(self.steps, step))
        before, after = self.values[max(0, i - width) : i], self.values[i : i + width]
        if min(before.size, after.size) < width // 2:
            return None
        residual = np.concatenate((before - before.mean(), after - after.mean()))
        rho = min(memory(residual), 0.9)
        spread = float(residual.std(ddof=2)) * ((1.0 + rho) / (1.0 - rho)) ** 0.5
        error = max(spread, 1e-12) * (1.0 / before.size + 1.0 / after.size) ** 0.5
        return float(before.mean()), float(after.mean()), (float(after.mean()) - float(before.mean())) / error

    def sudden(self, shift: StepShift) -> bool:
        """Whether most of a shift happened from one point to the next: data and code change so, a policy does not."""
        i = int(np.searchsorted(self.steps, shift.step))
        near = [
            abs(median(self.values[j : j + 3]) - median(self.values[max(0, j - 3) : j]))
            for j in range(max(i - 2, 3), min(i + 3, self.points - 2))
        ]
        return bool(near) and max(near) >= SUDDEN_SHARE * abs(shift.after - shift.before)

    @property
    def known_shifts(self) -> tuple[StepShift, ...]:
        """The level shifts, if any rule asked for them; the detector is not run for the report alone."""
        return self.shifts if "shifts" in self._kept.__dict__ else ()

    @cached_property
    def spikes(self) -> tuple[tuple[int, float, float], ...]:
        """Confirmed isolated spikes: (step, value, local level)."""
        return tuple((int(self.steps[s.index]), s.value, s.local) for s in self._kept.spikes if s.seen < self.points)

    def since_below(self, bound: float) -> int | None:
        """First step of the stretch, lasting until now, in which the values stay mostly below `bound`."""
        return self._stretch(self.values < bound)

    def since_above(self, bound: float) -> int | None:
        """First step of the stretch, lasting until now, in which the values stay mostly above `bound`."""
        return self._stretch(self.values > bound)

    def _stretch(self, inside: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
        n = inside.size
        if n < 3:
            return None
        # mostly: two of any three neighbours, so that one noisy point does not restart the clock
        counts = np.convolve(inside.astype(int), np.ones(3, dtype=int), mode="same")
        counts[0] += inside[0]
        counts[-1] += inside[-1]
        out = np.flatnonzero(counts < 2)
        first = int(out[-1]) + 1 if out.size else 0
        return int(self.steps[first]) if first < n else None

    def points_since(self, step: int | None) -> int:
        """How many points lie at or after `step`."""
        return 0 if step is None else self.points - int(np.searchsorted(self.steps, step))

    def fell_beyond_noise(self, high: float) -> bool:
        """Whether a fall from `high` to the level now is none of noise: too large, or too long.

        Long enough are as many independent points below the middle as a level needs. Noise that wanders slowly repeats
        itself: ten points of it say less than three of white noise. How much it does is read from the values before the
        best ones, or before the middle was passed, or from all, whichever are first enough to tell.
        """
        if high - self.level > BEYOND_NOISE * self.noise_sd:
            return True
        lasted = self.points_since(self.since_below(0.5 * (high + self.level)))
        ends = (self.points - self.points_since(self.best_step()), self.points - lasted)
        repeated = repetition(self.values[: next((e for e in ends if e >= BEFORE_LEAST), self.points)])
        return repeated <= WHITE or lasted >= LEVEL_LEAST * repeated

    def rises(self) -> bool:
        """Whether the whole history moved up and stands materially above its start."""
        s = self.shape
        return s is not None and s.word in ("rising", "slowing", "plateau", "jumped") and s.end > s.start

    def falls(self) -> bool:
        """Whether the whole history moved down and stands below its start."""
        s = self.shape
        return s is not None and s.word in ("declining", "collapsed", "bottomed") and s.end < s.start

    def fell(self) -> bool:
        """Whether it moved down, from its start or from a peak on the way."""
        return self.falls() or (self.shape is not None and self.shape.word == "peaked")

    def best_step(self) -> int:
        """Step of the maximum of a five-point moving average."""
        return int(self.steps[int(np.argmax(np.convolve(self.values, np.ones(5) / 5.0, mode="same")))])

    def lowest_step(self) -> int:
        """Last step of the five neighbours with the lowest mean."""
        if self.points < LEVEL_LEAST:
            return int(self.steps[-1]) if self.points else self._step
        means = np.convolve(self.values, np.ones(LEVEL_LEAST) / LEVEL_LEAST, mode="valid")
        return int(self.steps[int(np.argmin(means)) + LEVEL_LEAST - 1])

    def flat(self) -> bool:
        """Whether nothing but noise was seen; False while it is too short to say."""
        return self.shape is not None and not self.shape.moved

    def stays(self, sds: float = 2.0, rows: int = 0) -> bool:
        """Whether it is flat, and a rise of so many standard deviations of its noise over all of it is excluded.

        Flat alone is the lack of evidence for a rise; this is evidence of its lack. With `rows`, the rise is one over so
        many points at the pace of those so far: a young run that rises slowly is as flat as one that never will.
        """
        trend = self.trend
        if trend is None or not self.flat():
            return False
        most = self.gains_at_most(rows) if rows else trend.high * trend.points
        return most < sds * max(trend.noise_sd, 1e-12)

    def gains_at_most(self, rows: int = PATIENCE) -> float:
        """Upper bound (95 %) of its rise over `rows` points, or over all where they are more, at the pace so far.

        A fall is no evidence against a rise: noise with memory wanders both ways, and the bound is that of a pace of
        at least zero. Infinite while there are too few points for a pace.
        """
        if self.trend is None:
            return math.inf
        half = self.trend.high - self.trend.slope
        return (max(self.trend.slope, 0.0) + half) * self.trend.points * max(rows / self.points, 1.0)

    def direction(self) -> str:
        """up, down, flat, or unknown."""
        if self.shape is None:
            return "unknown"
        return "up" if self.rises() else "down" if self.falls() else "flat" if self.flat() else "mixed"

    def onset_of_move(self) -> int:
        """First step from which the values have left the neighbourhood of the start for good."""
        if not self.points:
            return self._step
        base = self.values[: max(LEVEL_LEAST, min(20, self.points // 10))]
        centre, sd = median(base), max(robust_sd(base), 0.25 * self.noise_sd)
        side = 1.0 if self.level >= centre else -1.0
        bound = centre + side * 3.0 * sd
        found = self.since_above(bound) if side > 0 else self.since_below(bound)
        return int(self.steps[0]) if found is None else found


def worked_out(name: str, series: Series, step: int) -> Reading:
    """A reading of what no key holds, but two metrics together say; `name` tells what kind of figure it is."""
    return Reading(_Kept(name, series), step)


@dataclass(frozen=True)
class Look:
    """The run as it stood at `step`.

    `said` are the metrics that stand in a finding's evidence by then, `asked` those that were looked for.
    """

    history: History
    step: int
    said: set[str] = field(default_factory=set, compare=False)
    asked: set[str] = field(default_factory=set, compare=False)

    @cached_property
    def _instruments(self) -> dict[type, object]:
        return {}

    def instrument(self, kind: type) -> object:
        """An instrument of that type at this look, or the NotReadable that it raised; read once."""
        if kind not in self._instruments:
            try:
                self._instruments[kind] = kind.read(self)  # type: ignore[attr-defined]
            except NotReadable as error:
                self._instruments[kind] = error
        return self._instruments[kind]

    @cached_property
    def _readings(self) -> dict[str, Reading | None]:
        return {}

    def find(self, name: str, *, least: int = 1) -> Reading | None:
        """The reading of a metric; None when it has fewer than `least` finite points by now."""
        self.asked.add(name)
        if name not in self._readings:
            kept = self.history.kept(name)
            self._readings[name] = Reading(kept, self.step) if kept is not None else None
        reading = self._readings[name]
        return reading if reading is not None and reading.points >= least else None

    def need(self, *names: str, least: int = 1) -> Reading:
        """The first of these metrics that can be read.

        Raises:
            NotReadable: none of them has `least` points.
        """
        for name in names:
            reading = self.find(name, least=least)
            if reading is not None:
                return reading
        short = [n for n in names if (r := self.find(n)) is not None and r.points]
        if short:
            raise NotReadable(names[0], reason=f"{short[0]}: fewer than {least} points so far")
        raise NotReadable(names[0])

    @property
    def rows(self) -> int:
        """Logged training rows so far."""
        return int(np.searchsorted(self.history.run.logged_steps, self.step, side="right"))
