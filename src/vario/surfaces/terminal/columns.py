"""Text in columns of a terminal: inert, cut to a width, wrapped."""

from __future__ import annotations

import textwrap
import unicodedata

from vario.surfaces.privacy import safe

CUT = "…"
HEAD_SHARE = 1 / 3
"""Of what is kept of a name that is too long: the tails of paths and of metrics tell them apart."""


def clean(text: str) -> str:
    """One line that cannot drive a terminal: control characters, escapes and marks of direction are gone."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) in ("Zl", "Zp") else c for c in safe(text))


def cells(text: str) -> int:
    """Columns that the text takes: two for wide characters, none for those that stand on others."""
    return len(text) if text.isascii() else sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """The text in exactly so many columns: cut in its middle, or filled up with blanks."""
    text, width = clean(text), max(0, width)
    taken = cells(text)
    if taken > width:
        text = _cut(text, width)
        taken = cells(text)
    return text + " " * (width - taken)


def _cut(text: str, width: int) -> str:
    if width <= 1:
        return CUT[:width]
    head = _first(text, round((width - 1) * HEAD_SHARE))
    tail = _first(text[::-1], width - 1 - cells(head))[::-1]
    return f"{head}{CUT}{tail}"


def _first(text: str, width: int) -> str:
    taken = 0
    for i, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return text[:i]
    return text


def shorten(text: str, width: int) -> str:
    """The text in at most so many columns, its end cut."""
    text = clean(text)
    return text if cells(text) <= width else f"{_first(text, max(0, width - 1))}{CUT}"


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most so many columns; later ones begin with `indent`, the first with `first`."""
    return textwrap.wrap(
        clean(text),
        max(width, len(indent) + 8),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=True,
        break_on_hyphens=False,
    )
