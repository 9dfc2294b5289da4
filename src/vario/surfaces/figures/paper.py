"""`vario.figures`: the charts of the report as one figure of matplotlib, sized for a column, and saved as print wants it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vario.errors import ConfigError
from vario.surfaces.charts.axes import as_written, draw, quietly, told
from vario.surfaces.charts.chart import chart_of
from vario.surfaces.charts.marks import marks_of, on
from vario.surfaces.panels import named, panels
from vario.verdict import Diagnosis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN_INCHES = 3.25
"""The column of a paper in two columns; 5.5 and 6.75 are usual for a whole line."""
HEIGHT_INCHES = 1.05
"""Of one metric."""
SIZE = 7.0
"""Of letters, in points: what papers ask for at the least."""
PRINTED = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "vario"}
"""Letters stay letters: publishers refuse Type 3 fonts, and texts in an SVG can be searched."""
DATED = {".pdf": "CreationDate", ".svg": "Date"}
"""Where a format would keep the hour: the same figure is the same file."""


def panel(
    diagnosis: Diagnosis,
    metrics: str | Sequence[str] | None = None,
    *,
    width_inches: float = COLUMN_INCHES,
    height_inches: float = HEIGHT_INCHES,
    legend: bool = True,
) -> Figure:
    """Some metrics of a run below each other: values, trend, noise, findings, best step and forecast.

    Args:
        diagnosis: of the run.
        metrics: canonical names that the run has, or the trainer's keys, from top to bottom; its first panel by default.
        width_inches: of the whole figure. height_inches: of each metric.
        legend: whether the findings' letters are explained below.

    Returns:
        A figure that belongs to no window and no `pyplot`: a notebook shows it, and `save` writes it.

    Raises:
        ConfigError: a metric that the run does not have, or no matplotlib.
    """
    try:
        from vario.surfaces.figures.sheet import Sheet
    except ImportError as error:
        raise ConfigError("figures: needs `pip install 'vario[notebook]'` (matplotlib)") from error
    if not isinstance(diagnosis, Diagnosis):
        raise TypeError(f"figures: panel takes a diagnosis, not {type(diagnosis).__name__}: panel(vario.diagnose(run))")
    if not (width_inches > 0.0 and height_inches > 0.0):
        raise ConfigError(f"figures: {width_inches:g} by {height_inches:g} inches: both have to be above zero")
    if isinstance(metrics, str):
        metrics = [metrics]
    wished = list(metrics) if metrics is not None else next((found for _, found in panels(diagnosis)), [])
    if not wished:
        raise ConfigError("figures: the run has no metric to draw; `vario metrics` says what was read")
    names = []
    for asked in wished:
        name = named(diagnosis.run, asked)
        if name is None:
            known = ", ".join(sorted(diagnosis.run.series)[:12])
            raise ConfigError(f"figures: the run has no metric {asked!r}; it has {known}")
        names.append(name)
    marks = marks_of(diagnosis)
    shown = tuple(mark for mark in marks if any(mark in on(marks, name) for name in names))
    # a letter is half as wide as it is high, about: what would not fit goes to another line
    across = max(20, int(72.0 * width_inches / (0.52 * SIZE)))
    lines = (
        [
            part
            for line in told(shown)
            for part in textwrap.wrap(line, across, subsequent_indent="   ", break_on_hyphens=False)
        ]
        if legend
        else []
    )
    below = 1.35 * SIZE * len(lines) / 72.0
    figure = Sheet(figsize=(width_inches, height_inches * len(names) + below), layout="constrained", facecolor="white")
    charts = [chart_of(diagnosis, name, marks) for name in names]
    span = min(c.span[0] for c in charts), max(c.span[1] for c in charts)
    rows = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for axes, name in zip(rows, names, strict=True):
        draw(axes, chart_of(diagnosis, name, marks, span=span), SIZE)
        axes.label_outer()
    rows[-1].set_xlabel("step", labelpad=-SIZE, **as_written(SIZE, "pale"))
    if lines:
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", linespacing=1.2, **as_written(SIZE))
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as print wants it: letters as letters of a font, and no hour in it.

    Args:
        figure: from `panel`.
        path: its ending says the format: .pdf, .svg, .eps, .png and what else matplotlib knows.

    Raises:
        ConfigError: it cannot be written, or the format is not known.
    """
    from matplotlib import rc_context

    path = Path(path)
    dated = DATED.get(path.suffix.lower())
    with rc_context(PRINTED), quietly():
        try:
            figure.savefig(path, dpi=300, metadata={dated: None} if dated else None)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise ConfigError(f"{path}: cannot be written ({reason})") from error
