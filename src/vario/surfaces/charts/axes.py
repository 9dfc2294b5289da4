"""A chart on axes of matplotlib: for papers, where the reader may have no colours, and for PNG.

What is drawn differs by its line or its hatching and not by its colour alone. Nothing global of matplotlib is changed
or relied on: every size and colour is said here, and a text from a log is never read as mathematics or TeX.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vario.rules.base import number
from vario.surfaces.charts.chart import NOISE_SDS, Chart
from vario.surfaces.charts.look import INKS
from vario.surfaces.charts.marks import Mark
from vario.surfaces.privacy import safe

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK = {name: ink.light for name, ink in INKS.items()}
"""Paper is light."""
TREND, THIN, HAIR = 1.4, 0.8, 0.5
"""Widths of lines, in points."""
SINCE, SEEN, UNTIL, BEST, NOW, EXPECTED = (
    "-",
    (0, (5, 2.5)),
    (0, (1, 1.5)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (1, 4)),
    (0, (3, 1.5)),
)
"""Where a finding began, was seen and ended; the best step; the end of the log; the forecast."""
MOST_TICKS = 200
"""Checkpoints, or steps without a number, that are drawn one by one."""
ROOM = 0.16
"""Share of the height that is added above the curves for the letters."""


def draw(axes: Axes, chart: Chart, size: float) -> None:
    """Draw the chart.

    Args:
        axes: empty ones; their limits, ticks and title are set.
        chart: what is drawn.
        size: of the letters, in points.
    """
    _frame(axes, chart, size)
    _stretches(axes, chart)
    _curves(axes, chart)
    _forecast(axes, chart)
    _steps(axes, chart)
    for mark in chart.marks:
        _finding(axes, chart, mark, size)


@contextmanager
def quietly() -> Iterator[None]:
    """A name in letters that the font lacks is drawn as boxes, and is no trouble of the reader's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def plain(text: str) -> str:
    """A text from a log as a figure can hold it: one line without control characters."""
    return safe(" ".join(text.split()))


def as_written(size: float, ink: str = "ink") -> dict[str, Any]:
    """How a text is set: its size and colour, and nothing in it has a meaning of its own."""
    return {"fontsize": size, "color": INK[ink], "parse_math": False, "usetex": False}


def _frame(axes: Axes, chart: Chart, size: float) -> None:
    unit = f" ({chart.unit})" if chart.unit else ""
    axes.set_title(plain(f"{chart.title}{unit}"), loc="left", pad=3, **as_written(size))
    first, last = chart.span
    axes.set_xlim(first, last if last > first else first + 1)
    axes.set_ylim(chart.low, chart.high + (ROOM if chart.marks else 0.03) * (chart.high - chart.low))
    axes.set_yticks([chart.low, chart.high], [number(chart.low), number(chart.high)], **as_written(size, "pale"))
    axes.set_xticks([first, last] if last > first else [first])
    axes.tick_params(axis="x", labelsize=size, labelcolor=INK["pale"])
    axes.tick_params(width=THIN, length=2.5, color=INK["pale"])
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=INK["pale"], linewidth=THIN)


def _stretches(axes: Axes, chart: Chart) -> None:
    """How long each finding held on this metric, and where the best step may lie as well."""
    for mark in chart.marks:
        finding = mark.finding
        if finding.since is not None:
            end = finding.until if finding.until is not None else chart.whole[1]
            axes.axvspan(
                finding.since, end, facecolor=INK[finding.severity], alpha=0.1, linewidth=0, zorder=1.2, gid="held"
            )
    if chart.best is not None:
        may_lie = axes.axvspan(
            chart.best.low,
            chart.best.high,
            facecolor="none",
            edgecolor=INK["good"],
            hatch="////",
            linewidth=0,
            alpha=0.45,
            zorder=1.3,
            gid="best",
        )
        _thin(may_lie)


def _curves(axes: Axes, chart: Chart) -> None:
    c, steps = chart.columns, chart.trend_steps
    if steps.size > 1:
        room = NOISE_SDS * chart.noise
        axes.fill_between(
            steps, chart.trend - room, chart.trend + room, color=INK["noise"], linewidth=0, zorder=1, gid="noise"
        )
    if len(c) > 1 and c.single:
        axes.plot(c.first, c.mean, color=INK["values"], linewidth=HAIR, zorder=2, gid="values")
    elif len(c) > 1:
        # a column reaches to the end of the one before it, so that a jump between two columns is drawn
        before = np.concatenate([c.mean[:1], c.mean[:-1]])
        least, most = np.minimum(c.least, before), np.maximum(c.most, before)
        axes.fill_between(c.first, least, most, color=INK["values"], linewidth=HAIR, zorder=2, gid="values")
    elif len(c):
        axes.plot(c.first, c.mean, "o", color=INK["curve"], markersize=3, zorder=2, gid="values")
    if steps.size > 1:
        axes.plot(steps, chart.trend, color=INK["curve"], linewidth=TREND, zorder=4, gid="trend")


def _forecast(axes: Axes, chart: Chart) -> None:
    if chart.fan is None:
        return
    fan = chart.fan
    between = axes.fill_between(
        fan.steps,
        fan.low,
        fan.high,
        facecolor="none",
        edgecolor=INK["forecast"],
        hatch="....",
        alpha=0.4,
        linewidth=0,
        zorder=1.5,
        gid="fan",
    )
    _thin(between)
    axes.plot(
        fan.steps, fan.level, color=INK["forecast"], linewidth=TREND, linestyle=EXPECTED, zorder=4, gid="expected"
    )
    axes.axvline(chart.whole[1], color=INK["pale"], linewidth=THIN, linestyle=NOW, zorder=3, gid="now")


def _thin(hatched: Artist) -> None:
    """Hatching in hairlines, where matplotlib lets one figure say so (3.10)."""
    if hasattr(hatched, "set_hatch_linewidth"):
        hatched.set_hatch_linewidth(HAIR)


def _steps(axes: Axes, chart: Chart) -> None:
    """Single steps: checkpoints, the best one, and where the log holds no number."""
    edge = axes.get_xaxis_transform()
    for gid, steps, ink, width in (
        ("checkpoint", list(chart.checkpoints), "good", THIN),
        ("bad", chart.bad.tolist(), "critical", TREND),
    ):
        inside = [step for step in steps if chart.span[0] <= step <= chart.span[1]][:MOST_TICKS]
        if inside:
            axes.vlines(inside, 0.0, 0.06, INK[ink], linewidth=width, transform=edge, zorder=3, gid=gid)
    if chart.best is not None:
        axes.axvline(chart.best.step, color=INK["good"], linewidth=THIN, linestyle=BEST, zorder=3, gid="best-step")


def _finding(axes: Axes, chart: Chart, mark: Mark, size: float) -> None:
    finding = mark.finding
    ink = INK[finding.severity]
    for gid, step, style in (
        ("since", finding.since, SINCE),
        ("seen", finding.detected_at, SEEN),
        ("until", finding.until, UNTIL),
    ):
        if step is not None and chart.span[0] <= step <= chart.span[1]:
            axes.axvline(step, color=ink, linewidth=THIN, linestyle=style, zorder=3, gid=f"{gid}-{mark.letter}")
    if finding.since is not None and chart.span[0] <= finding.since <= chart.span[1]:
        # letters of findings that began together stand below each other
        row = sum(m.finding.since == finding.since for m in chart.marks[: chart.marks.index(mark)])
        axes.annotate(
            mark.letter,
            (finding.since, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, -(0.6 + 1.5 * row) * size),
            textcoords="offset points",
            ha="center",
            va="center",
            zorder=5,
            annotation_clip=False,
            bbox={"boxstyle": "circle,pad=0.22", "facecolor": ink, "edgecolor": INK["paper"], "linewidth": HAIR},
            **as_written(0.85 * size, "paper") | {"fontweight": "bold"},
        )


def told(marks: Iterable[Mark]) -> Iterator[str]:
    """What the letters stand for, a line each."""
    for mark in marks:
        yield plain(f"{mark.letter}: {mark.finding.name}, {mark.when}")
