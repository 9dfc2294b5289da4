"""How a diagnosis shows itself where a page can be drawn: whoever can draw says so here.

What is shown lies below what draws it, and knows nothing of it; this module is known to both, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable

Draw = Callable[[object], str | None]
"""Gives a value as HTML; None for one that it cannot draw."""

_drawn_by: list[Draw] = []


def show_by(draw: Draw) -> None:
    """From now on, values are drawn by this function."""
    _drawn_by[:] = [draw]


def as_html(value: object) -> str | None:
    """The value as HTML; None where nobody draws: a notebook then shows its `repr`."""
    return _drawn_by[0](value) if _drawn_by else None
