"""The templates' surroundings: every text is escaped and made harmless, whatever wrote it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vario.rules.base import number
from vario.surfaces import sentences
from vario.surfaces.charts.chart import Chart
from vario.surfaces.charts.look import css_variables
from vario.surfaces.charts.names import brief, slug
from vario.surfaces.charts.phases import Plane, Strip
from vario.surfaces.charts.plot import axis, plot
from vario.surfaces.charts.style import CURVES
from vario.surfaces.privacy import safe

EXPLAINED = {
    "primary": "is it learning, and what does it cost",
    "secondary": "how it learns",
    "tertiary": "what it is made of, and what it runs on",
}
"""What each panel is for."""
DIGITS = 6
"""Significant digits of an average that is read from a chart; values of the log are read as they stand in it."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The only way in which a page is made."""
    made = Environment(
        loader=PackageLoader("vario.surfaces.pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=harmless,
    )
    made.filters |= {"number": _number, "joined": joined, "exactly": exactly, "slug": slug, "brief": brief}
    made.globals |= {
        "plot": _plot,
        "axis": _axis,
        "svg": _svg,
        "explained": EXPLAINED,
        "action": sentences.action,
        "facts": sentences.facts,
        "heading": sentences.heading,
        "regime": sentences.regime,
        "change": sentences.change,
        "when_and_how_sure": sentences.when_and_how_sure,
    }
    return made


def harmless(value: Any) -> Any:  # noqa: ANN401
    """Text from a log without control characters or marks that turn the direction of writing; line ends stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(safe(line) for line in value.split("\n"))
    return value


def joined(values: Iterable[float]) -> str:
    """Numbers with spaces between them, for scripts."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return " ".join(map(str, values.tolist()))
    return " ".join(f"{value:.{DIGITS}g}" for value in values)


def exactly(values: Iterable[float]) -> str:
    """Numbers as they stand in the log, with spaces between them, for scripts."""
    return " ".join(repr(float(value)).removesuffix(".0") for value in values)


def _number(value: float) -> str:
    return number(float(value))


def _plot(chart: Chart) -> Markup:
    return Markup(plot(chart))


def _axis(chart: Chart) -> Markup:
    return Markup(axis(chart))


def _svg(picture: Strip | Plane) -> Markup:
    return Markup(picture.svg())


@lru_cache(maxsize=4)
def asset(name: str) -> str:
    """A style sheet or script as text."""
    return (files("vario.surfaces.pages") / "assets" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def style() -> Markup:
    """The whole style sheet of a page."""
    return Markup(css_variables() + asset("vario.css") + CURVES)


def hash_of(script: str) -> str:
    """A script as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
