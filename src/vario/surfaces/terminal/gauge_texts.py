"""Metrics as gauges: name, picture, the way from start to level, unit and shape."""

from __future__ import annotations

from rich.text import Text

from vario.catalogue import lookup
from vario.rules.base import number
from vario.surfaces.panels import panels, short
from vario.surfaces.spark import sparkline
from vario.surfaces.terminal.columns import fit, shorten
from vario.surfaces.terminal.inline import joined, line
from vario.verdict import Diagnosis

GAUGE_WIDE = 74
"""Columns from which on a gauge has room for its unit."""
SHAPE, VALUE, UNIT = 9, 7, 13
NAME_LEAST, NAME_MOST, SPARK_LEAST, SPARK_MOST = 14, 27, 7, 40


def gauge_rows(diagnosis: Diagnosis, width: int) -> Text:
    """The panels in their order: each metric's name, picture, way from start to level, unit and shape."""
    lines: list[Text] = []
    for title, names in panels(diagnosis):
        lines.append(line((title, "bold dim")))
        lines += [_gauge(diagnosis, name, width) for name in names]
    return joined(lines) if lines else line(("no metric of the panels is logged", "dim"))


def _gauge(diagnosis: Diagnosis, name: str, width: int) -> Text:
    r = diagnosis.readings[name]
    wide = width >= GAUGE_WIDE
    arrow = " -> " if wide else "->"
    tail = VALUE + len(arrow) + VALUE + 1 + SHAPE + (UNIT + 1 if wide else 0)
    room = width - tail - 2
    label = min(NAME_MOST, max(NAME_LEAST, room - SPARK_LEAST))
    spark = min(SPARK_MOST, max(SPARK_LEAST, room - label))
    text = line(fit(short(name), label), " ", (fit(sparkline(name, r.spark, r.spread, spark), spark), "cyan"), " ")
    text.append(f"{number(r.start):>{VALUE}}{arrow}{number(r.level):<{VALUE}} ")
    if wide:
        text.append(fit(unit_of(name), UNIT) + " ", "dim")
    text.append(shorten(r.shape, SHAPE))
    text.truncate(width)
    return text


def unit_of(name: str) -> str:
    """A metric's unit; empty for a bare number, and for a name that the catalogue does not know."""
    try:
        unit = lookup(name).unit
    except KeyError:
        return ""
    return "" if unit == "1" else unit
