"""A chart as PNG: for Markdown that is shown where SVG is not."""

from __future__ import annotations

import io

from vario.errors import ConfigError
from vario.surfaces.charts.axes import draw, quietly
from vario.surfaces.charts.chart import Chart

WIDTH, HEIGHT, DPI = 7.6, 1.6, 150
"""Inches, and pixels an inch."""
SIZE = 8.0
"""Of letters, in points."""


def png_bytes(chart: Chart) -> tuple[str, bytes]:
    """A chart as a file: its ending, and what is in it.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("charts as PNG: needs `pip install 'vario[notebook]'` (matplotlib)") from error
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained", facecolor="white")
    draw(figure.add_subplot(), chart, SIZE)
    made = io.BytesIO()
    with quietly():
        FigureCanvasAgg(figure).print_png(made, metadata={"Description": chart.sentence, "Software": None})
    return "png", made.getvalue()
