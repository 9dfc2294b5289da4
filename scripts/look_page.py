"""The page of the visual language: colours, severities, type and distances, from the source that the pages are drawn with."""

from __future__ import annotations

import re

from page_parts import MADE, table

from vario.surfaces.charts.look import (
    GRAPHIC_INKS,
    INKS,
    OF_ACTION,
    OF_REGIME,
    OF_SEVERITY,
    SIZES,
    SPACE,
    TEXT_INKS,
)
from vario.surfaces.charts.phases import SIGNS

OPENING = """
The report, the dashboard, the card in a notebook, the pictures of an alert and the figures for a paper are drawn in one
language. What a colour, a line or a letter means on one of them it means on all.

## Rules

- **A colour is never the only sign.** A finding has a letter and its severity as a word; its beginning is a full line,
  its detection a broken one, its end a dotted one. The best step has a star, the forecast a broken line, a phase an
  arrow. Whoever prints in grey or sees no red misses nothing.
- **What is said comes before what is drawn.** The verdict stands first. Each chart has its sentence as alternative text
  and its values as a table; keys read the same numbers as the pointer.
- **A colour has one meaning.** Green is a climbing score or the best step, never decoration. A new meaning gets a new
  name in the source, or none.
- **A picture agrees with its sentence.** The axis spans what was logged. Values so far out that they would press the
  curve flat are clipped, counted and told below the picture; a constant stands in the middle.
- **Nothing is seen before it is.** The trend is an average that never reaches across a break, so a fall does not seem
  to begin before it does. A forecast is drawn only where the verdict has one, to the right of the last step.
- **Words can be read by everybody.** Text has a contrast of 4.5 or more on both papers, what has to be seen in a picture
  3 or more (WCAG 2.2, 1.4.3 and 1.4.11), in light and in dark. Tests measure it.
- **Light and dark follow the reader; paper is always light.**
"""


def look_page() -> str:
    """The rules in prose, and the tables of what they hold for."""
    lines = [MADE, "", "# Visual language", *OPENING.rstrip().splitlines(), "", "## Colours", ""]
    rows = ((f"`{name}`", ink.meaning, f"`{ink.light}`", f"`{ink.dark}`", _use(name)) for name, ink in INKS.items())
    lines += table(("name", "means", "light", "dark", "used for"), rows)
    lines += ["", "On pages the name is that of a custom property: `var(--curve)`.", "", "## Severities, advice, regimes", ""]
    lines += table(
        ("what", "colour", "and beside it"),
        (
            *((f"severity {word}", f"`{ink}`", "a letter and the word") for word, ink in OF_SEVERITY.items()),
            *((f"advice {word}", f"`{ink}`", "the word, in capitals") for word, ink in OF_ACTION.items()),
            *((f"reward {word} in a phase", f"`{ink}`", f"{SIGNS[word]} and a row of a table") for word, ink in OF_REGIME.items()),
        ),
    )
    lines += ["", "KL in a phase is the height of its bar.", "", "## Lines", ""]
    lines += table(
        ("drawn", "means"),
        (
            ("bold curve in a pale band", "the trend of a metric, and two standard deviations of the noise around it"),
            ("thin pale curve", "every value that was logged; a stretch from least to largest where they are too many"),
            ("full line with a letter", "where a finding began that rests on this metric; shaded as long as it held"),
            ("broken line", "where it was detected"),
            ("dotted line", "where it had passed"),
            ("hairline", "where a finding began that rests on other metrics"),
            ("line with a star", "the best step, shaded between the steps where it may lie as well"),
            ("ticks at the bottom", "thin: a checkpoint on disk; thick: a step without a finite number"),
            ("broken curve in a shade", "the forecast and its 80 % interval, to the right of the last step"),
        ),
    )
    lines += ["", "## Type and distances", ""]
    lines += table(("size", "is"), ((f"`{name}`", _points(size)) for name, size in SIZES.items()))
    lines += [
        "",
        f"Every padding, margin and gap is a multiple of {_points(SPACE)}. Letters are those of the reader's system: a page",
        "loads no font.",
    ]
    return "\n".join(lines) + "\n"


def _use(name: str) -> str:
    if name in TEXT_INKS:
        return "words and pictures" if name in GRAPHIC_INKS else "words"
    return "pictures" if name in GRAPHIC_INKS else "behind them"


def _points(size: str) -> str:
    rem = float(re.sub(r"rem$", "", size))
    return f"{size} ({16 * rem:g} pixels at the usual size)"
