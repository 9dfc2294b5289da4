"""A chart as an SVG file of its own: for Markdown, where no page gives it a size, letters and colours."""

from __future__ import annotations

from vario.rules.base import number
from vario.surfaces.charts.chart import Chart
from vario.surfaces.charts.look import INKS
from vario.surfaces.charts.plot import axis, escape, plot
from vario.surfaces.charts.style import CURVES

WIDTH, HEIGHT = 760, 150
LEFT, RIGHT, TOP, BOTTOM = 64, 76, 26, 22
"""Pixels around the picture, for the words."""


def svg_file(chart: Chart) -> str:
    """The whole file; it follows the reader's light or dark surroundings."""
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    inner = _placed(plot(chart), LEFT, TOP, wide, tall) + _placed(axis(chart), LEFT, HEIGHT - BOTTOM, wide, BOTTOM)
    unit = f" ({chart.unit})" if chart.unit else ""
    low, high = chart.ends
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        f"<title>{escape(chart.sentence)}</title><style>{style()}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text class="name" x="{LEFT}" y="16">{escape(chart.title)}{escape(unit)}</text>'
        f'<text class="axis" x="{LEFT - 6}" y="{TOP + 9}" text-anchor="end">{high}</text>'
        f'<text class="axis" x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end">{low}</text>'
        f'<text class="name" x="{WIDTH - RIGHT + 8}" y="{TOP + tall / 2 + 4:.0f}">{number(chart.level)}</text>'
        f"{inner}</svg>"
    )


def _placed(drawn: str, x: int, y: int, wide: int, tall: int) -> str:
    return drawn.replace("<svg ", f'<svg x="{x}" y="{y}" width="{wide}" height="{tall}" ', 1)


def style() -> str:
    """The colours of the classes, as the pages have them."""
    light = "".join(f"--{name}:{ink.light};" for name, ink in INKS.items())
    dark = "".join(f"--{name}:{ink.dark};" for name, ink in INKS.items())
    return (
        f"svg{{{light}font:13px system-ui,sans-serif}}"
        f"@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
        ".paper{fill:var(--paper)}text{fill:var(--pale)}.name{fill:var(--ink)}" + CURVES
    )
