"""The style of the pages on a card: nothing of it may reach the notebook around the card, whatever its theme."""

from __future__ import annotations

import re
from functools import lru_cache

from markupsafe import Markup

from vario.surfaces.charts.look import INKS
from vario.surfaces.pages.environment import style

CARD = ".vario-card"
PAGE = re.compile(r":root|(?<![\w.#-])(?:html|body)(?=\{)")
"""What stands for the page itself in its style sheet: here it is the card."""
LIGHT = '[data-jp-theme-light="true"] &,.vscode-light &,.vscode-high-contrast-light &'
DARK = '[data-jp-theme-light="false"] &,.vscode-dark &,.vscode-high-contrast &'
"""A notebook has a theme of its own, and counts before what the system prefers."""


@lru_cache(maxsize=1)
def card_style() -> Markup:
    """The style sheet of the pages, nested in the card's own rule."""
    light = "".join(f"--{name}:{ink.light};" for name, ink in INKS.items())
    dark = "".join(f"--{name}:{ink.dark};" for name, ink in INKS.items())
    themes = f"@media screen{{{DARK}{{color-scheme:dark;{dark}}}{LIGHT}{{color-scheme:light;{light}}}}}"
    return Markup(f"{CARD}{{{PAGE.sub('&', style())}{themes}}}")
