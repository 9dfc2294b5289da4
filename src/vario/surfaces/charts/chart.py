"""One metric as it is drawn: columns of values, trend, noise, what was found, and the sentence that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vario.catalogue import lookup
from vario.rules.base import counted, number
from vario.run import Floats, Ints
from vario.surfaces.charts.columns import Columns, columns
from vario.surfaces.charts.marks import Mark, on
from vario.surfaces.charts.names import brief
from vario.surfaces.charts.trend import smoothed, thinned
from vario.surfaces.panels import short
from vario.verdict import Diagnosis

WIDTH = 480
"""Columns of a chart: half the width of a usual one, in points."""
TREND_POINTS = 120
TABLE_ROWS = 24
"""Rows of the table that says what a chart shows."""
BEYOND, BEYOND_FEW = 1.0, 4.0
"""How far beyond its middle 98 % a value may lie, in widths of them, before it is told and not drawn: one spike must not
press the whole curve into a line. Where values are few, each of them counts for more."""
EXTREME, FEW, LEAST = 0.01, 200, 12
"""Share of the values at each end that are beyond the middle, one at least; few values; fewer are always all drawn."""
MOST_DIGITS = 17
"""Of a number: more tell no two apart."""
NOISE_SDS = 2.0
"""Standard deviations of one value's noise that the band reaches to each side of the trend."""
PANEL_METRICS_TOLD = ("reward/mean", "preference/margin", "kl/reference")
"""Curves on which checkpoints are drawn too, whatever ranks them."""


@dataclass(frozen=True, slots=True)
class Fan:
    """A forecast: steps, and level with the bounds of its 80 % interval at each, shape (n,)."""

    steps: Ints
    low: Floats
    level: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Best:
    """The best step, and between which steps it may lie as well."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn of one metric.

    Attributes:
        name: of the metric; `title` is how it stands above its chart, `key` how the trainer calls it.
        span: first and last step of the picture. whole: first and last step of the run.
        columns: the values. bad: steps at which the log holds no finite number.
        trend_steps, trend: the average over neighbours, shape (m,). noise: standard deviation of a value around it.
        low, high: of the vertical axis. beyond: how many values lie outside it, and the farthest of them.
        start, level: where it came from and where it stands; of a part of the run, its trend at both ends of the part.
        words: its direction or shape over the whole run, in a word.
        marks: the findings that rest on it. others: findings that do not, of which the onset is shown.
        checkpoints: steps of what lies on disk. best: the best of all steps, where this metric shows it.
        fan: the forecast, where this metric is the one that is forecast.
        points: finite values in the log, of the whole run.
    """

    name: str
    title: str
    key: str
    unit: str
    counted: bool
    span: tuple[int, int]
    whole: tuple[int, int]
    columns: Columns
    bad: Ints
    trend_steps: Ints
    trend: Floats
    noise: float
    low: float
    high: float
    beyond: tuple[int, float]
    start: float
    level: float
    words: str
    marks: tuple[Mark, ...]
    others: tuple[Mark, ...]
    checkpoints: tuple[int, ...]
    best: Best | None
    fan: Fan | None
    points: int

    def x(self, step: float) -> float:
        """Where a step stands, as a share of the picture's width."""
        return (step - self.span[0]) / max(1, self.span[1] - self.span[0])

    def y(self, value: float) -> float:
        """Where a value stands, as a share of the picture's height from its top; what lies beyond it stands at its edge."""
        return min(max((self.high - value) / (self.high - self.low), 0.0), 1.0)

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and the highest value of the axis, with as many digits as tell them apart."""
        return apart(self.low, self.high)

    @property
    def sentence(self) -> str:
        """What the picture shows, for those who do not see it."""
        unit = f" {self.unit}" if self.unit else ""
        told = [
            f"{brief(self.name)}{unit}, steps {self.span[0]} to {self.span[1]}: from {number(self.start)} to "
            f"{number(self.level)}, {self.words}"
        ]
        told += [f"{m.letter}: {m.finding.name} ({m.finding.severity}) {m.when}" for m in self.marks]
        if self.best is not None:
            told.append(f"best step {self.best.step}, between {self.best.low} and {self.best.high}")
        if self.fan is not None:
            told.append(
                f"expected at step {self.fan.steps[-1]}: {number(float(self.fan.level[-1]))} "
                f"[{number(float(self.fan.low[-1]))}, {number(float(self.fan.high[-1]))}]"
            )
        if self.checkpoints:
            told.append(f"{len(self.checkpoints)} checkpoints, the last at step {self.checkpoints[-1]}")
        if self.bad.size:
            told.append(f"not a finite number at {self.bad.size} steps, first at {self.bad[0]}")
        if self.beyond[0]:
            told.append(f"{self.beyond[0]} values lie beyond the picture, the farthest is {number(self.beyond[1])}")
        return ". ".join(told) + "."

    def table(self) -> list[tuple[str, str, str, str]]:
        """The chart as rows: steps, least, mean and largest value."""
        made = []
        for part in np.array_split(np.arange(len(self.columns)), min(TABLE_ROWS, len(self.columns)) or 1):
            if part.size:
                c = self.columns
                mean = float(np.average(c.mean[part], weights=c.counts[part]))
                first, last = int(c.first[part[0]]), int(c.last[part[-1]])
                steps = f"{first} to {last}" if last > first else str(first)
                made.append(
                    (steps, number(float(c.least[part].min())), number(mean), number(float(c.most[part].max())))
                )
        return made


def chart_of(
    diagnosis: Diagnosis,
    name: str,
    marks: Sequence[Mark],
    *,
    span: tuple[int, int] | None = None,
    width: int = WIDTH,
) -> Chart:
    """The chart of a metric that the run has.

    Args:
        diagnosis: of the run as it stands.
        name: of the metric.
        marks: from `marks_of`.
        span: first and last step that are looked at; all of them by default.
        width: columns at most.
    """
    run, reading = diagnosis.run, diagnosis.readings.get(name)
    series = run.series[name]
    steps, values = series.finite()
    first, last = run.first_step or 0, run.last_step or 0
    fan = _fan(diagnosis, name)
    shown = span or (first, max(last, int(fan.steps[-1]) if fan is not None else last))
    fan = fan if fan is not None and fan.steps[0] < shown[1] else None
    own = on(marks, name)
    breaks = {m.finding.since for m in own if m.finding.since is not None} | {*(reading.changes if reading else ())}
    inside = np.flatnonzero((steps >= shown[0]) & (steps <= shown[1]))
    low, high, beyond = range_of(name, values[inside], fan)
    kept = inside[thinned(inside.size, TREND_POINTS)]
    trend = smoothed(steps, values, breaks, kept)
    start, level = (reading.start, reading.level) if reading is not None else (float("nan"), float("nan"))
    words = _words(diagnosis, name)
    if trend.size and (shown[0] > first or shown[1] < last):
        start, level, words = float(trend[0]), float(trend[-1]), f"{words} over the whole run"
    metric = lookup(name)
    return Chart(
        name=name,
        title=brief(short(name)),
        key=brief(series.key),
        unit=metric.unit,
        counted=series.counted,
        span=shown,
        whole=(first, last),
        columns=columns(steps, values, shown, width),
        bad=series.steps[~series.usable()],
        trend_steps=steps[kept],
        trend=trend,
        noise=reading.spread if reading is not None else 0.0,
        low=low,
        high=high,
        beyond=beyond,
        start=start,
        level=level,
        words=words,
        marks=own,
        others=tuple(m for m in marks if m not in own),
        checkpoints=tuple(c.step for c in run.checkpoints) if name in PANEL_METRICS_TOLD else (),
        best=_best(diagnosis, name),
        fan=fan,
        points=int(values.size),
    )


def apart(low: float, high: float) -> tuple[str, str]:
    """Two numbers in words, with as many digits as tell them apart."""
    told = number(low), number(high)
    if told[0] != told[1] or low == high:
        return told
    digits = next((d for d in range(4, MOST_DIGITS) if f"{low:.{d}g}" != f"{high:.{d}g}"), MOST_DIGITS)
    return f"{low:.{min(digits + 1, MOST_DIGITS)}g}", f"{high:.{min(digits + 1, MOST_DIGITS)}g}"


def _words(diagnosis: Diagnosis, name: str) -> str:
    reading = diagnosis.readings.get(name)
    if reading is None:
        return "no finite value"
    return reading.shape if reading.shape != "too-short" else counted(reading.points, "point")


def _fan(diagnosis: Diagnosis, name: str) -> Fan | None:
    upside = diagnosis.verdict.upside
    if upside.by != name or not upside.fan:
        return None
    steps, low, level, high = zip(*upside.fan, strict=True)
    return Fan(np.array(steps, dtype=np.int64), np.array(low), np.array(level), np.array(high))


def _best(diagnosis: Diagnosis, name: str) -> Best | None:
    best = diagnosis.verdict.best_checkpoint
    if best is None or name not in (best.by, *PANEL_METRICS_TOLD):
        return None
    return Best(best.step, best.interval[0], best.interval[1])


def range_of(name: str, values: Floats, fan: Fan | None = None) -> tuple[float, float, tuple[int, float]]:
    """Lowest and highest value of a metric's axis, and how many lie beyond it with the farthest of them."""
    if not values.size:
        return 0.0, 1.0, (0, 0.0)
    low, high = float(values.min()), float(values.max())
    beyond = (0, 0.0)
    if values.size >= LEAST:
        ends = max(1, int(EXTREME * values.size))
        ordered = np.sort(values)
        a, b = float(ordered[ends]), float(ordered[-1 - ends])
        room = (BEYOND if values.size > FEW else BEYOND_FEW) * (b - a)
        if room > 0.0 and (low < a - room or high > b + room):
            far = (values < a - room) | (values > b + room)
            out, near = values[far], values[~far]
            beyond = (int(out.size), float(out[int(np.argmax(np.abs(out - 0.5 * (a + b))))]))
            low, high = float(near.min()), float(near.max())
    if fan is not None:
        low, high = min(low, float(fan.low.min())), max(high, float(fan.high.max()))
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high, beyond
    room, known = 0.5 * abs(high) or 0.5, lookup(name)  # a constant stands in the middle, within what can be
    least, most = max(low - room, known.low), min(high + room, known.high)
    return (least, most, beyond) if most > least else (low - room, high + room, beyond)
