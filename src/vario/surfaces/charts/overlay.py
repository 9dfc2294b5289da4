"""Curves of several runs over one another, at equal steps, samples or KL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from vario.catalogue import lookup
from vario.rules.base import number
from vario.run import Floats, Run
from vario.surfaces.charts.plot import ACROSS, DOWN
from vario.surfaces.charts.trend import smoothed, thinned
from vario.surfaces.panels import short
from vario.verdict.compare import Departure, placed, places

POINTS = 300
ROWS = 12
"""Rows of the table that says what the picture shows."""


@dataclass(frozen=True, slots=True)
class Line:
    """One run: where it stood (steps, samples or KL) and the trend of its values there, shape (n,)."""

    run: int
    at: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Overlay:
    """One metric of several runs.

    Attributes:
        metric, title: its name, and as it stands above the picture. axis: what is equal. unit: of the axis.
        lines: of the runs that have it. parted: where a run leaves the first one's, by run.
        low, high: of the values. first, last: of the axis.
    """

    metric: str
    title: str
    axis: str
    lines: tuple[Line, ...]
    parted: tuple[tuple[int, float], ...]
    low: float
    high: float
    first: float
    last: float

    @property
    def sentence(self) -> str:
        """What the picture shows, for those who do not see it."""
        ends = "; ".join(f"run {line.run + 1} ends at {number(float(line.values[-1]))}" for line in self.lines)
        apart = "; ".join(f"run {run + 1} parts from run 1 at {number(at)}" for run, at in self.parted)
        return f"{self.metric} at equal {self.axis}: {ends}." + (f" {apart}." if apart else "")

    def rows(self) -> list[tuple[str, list[str]]]:
        """The picture as a table: a place of the axis, and each run's value there."""
        grid = np.linspace(self.first, self.last, ROWS)
        made = []
        for at in grid.tolist():
            cells = []
            for line in self.lines:
                inside = line.at[0] <= at <= line.at[-1]
                cells.append(number(float(np.interp(at, line.at, line.values))) if inside else "")
            made.append((number(at), cells))
        return made

    def svg(self) -> str:
        """As an `<svg>` element that stretches to any size; each run has a colour and a way of dashing of its own."""
        parts = "".join(
            f'<line class="run-{run + 1} parts" x1="{self._x(at) / 10:.2f}%" x2="{self._x(at) / 10:.2f}%" y1="0" y2="100%"/>'
            for run, at in self.parted
        )
        return (
            f'<svg class="plot overlay" role="img" aria-label="{escape(self.sentence)}" focusable="false">{parts}'
            f'<svg viewBox="0 0 {ACROSS:.0f} {DOWN:.0f}" preserveAspectRatio="none" width="100%" height="100%">'
            f"{''.join(self._paths())}</svg></svg>"
        )

    def _paths(self) -> Iterator[str]:
        for line in self.lines:
            ys = (self.high - line.values) / (self.high - self.low) * DOWN
            path = "L".join(f"{self._x(x):.1f} {y:.1f}" for x, y in zip(line.at.tolist(), ys.tolist(), strict=True))
            yield f'<path class="of-run run-{line.run + 1}" d="M{path}"/>'

    def _x(self, at: float) -> float:
        return (at - self.first) / (self.last - self.first) * ACROSS


def overlay_of(runs: Sequence[Run], metric: str, axis: str, departures: Sequence[Departure]) -> Overlay | None:
    """One metric of several runs; None where fewer than two have it at such places.

    Args:
        runs: the first is the one that the others are held against.
        metric: its name. axis: one of `verdict.compare.AXES`.
        departures: from the comparison.
    """
    lines = []
    for i, run in enumerate(runs):
        where, series = places(run, axis), run.series.get(metric)
        if where is None or series is None or not len(where):
            continue
        at, values = placed(series, where)
        if at.size < 2 or at[-1] <= at[0]:
            continue
        trend = smoothed(np.arange(at.size), values, ())
        kept = thinned(at.size, POINTS)
        lines.append(Line(i, at[kept], trend[kept]))
    if len(lines) < 2:
        return None
    every = np.concatenate([line.values for line in lines])
    low, high = float(every.min()), float(every.max())
    if high - low <= 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    parted = tuple((d.run, d.at) for d in departures if d.metric == metric and d.axis == axis)
    return Overlay(
        metric,
        f"{short(metric)} ({lookup(metric).unit})" if lookup(metric).unit else short(metric),
        axis,
        tuple(lines),
        parted,
        low,
        high,
        min(float(line.at[0]) for line in lines),
        max(float(line.at[-1]) for line in lines),
    )
