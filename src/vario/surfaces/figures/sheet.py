"""A figure that a notebook shows, without a window and without `pyplot`."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from vario.surfaces.charts.axes import quietly

SHOWN_DPI = 150
"""Pixels an inch in a notebook."""


class Sheet(Figure):
    """A figure as matplotlib has it, which shows itself below its cell."""

    def _repr_png_(self) -> bytes:
        made = io.BytesIO()
        with quietly():
            self.savefig(made, format="png", dpi=SHOWN_DPI)
        return made.getvalue()
