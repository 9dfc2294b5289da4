"""The visual language: what a colour means, and the sizes everything is set in; docs/visual-language.md tells it.

A colour is never the only sign: a finding has a letter, a light has a word. Every colour of text is readable on both
papers (WCAG 2: a contrast of 4.5 and more), in light and in dark.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """A colour by its meaning, for light and for dark surroundings."""

    meaning: str
    light: str
    dark: str


INKS = {
    "paper": Ink("behind everything", "#ffffff", "#0f1318"),
    "raised": Ink("behind what stands apart: tables, code, a panel's head", "#f3f5f8", "#1a2029"),
    "ink": Ink("text", "#1b1f24", "#e6e9ed"),
    "pale": Ink("text beside the point: units, keys, axes", "#59636e", "#9aa5b1"),
    "frame": Ink("lines that divide", "#d1d9e0", "#333c47"),
    "link": Ink("what leads elsewhere, and the focus", "#1f4e8c", "#7fb2f0"),
    "curve": Ink("the trend of a metric", "#1f4e8c", "#7fb2f0"),
    "values": Ink("every value that was logged", "#b9cce4", "#34557d"),
    "noise": Ink("the band in which the trend's noise lies", "#e6edf6", "#1b2836"),
    "forecast": Ink("what is expected and not yet seen", "#6b3fa0", "#c2a1ef"),
    "good": Ink("climbing; the best checkpoint", "#1d6b35", "#6cc68a"),
    "info": Ink("worth knowing", "#44546a", "#9db0c8"),
    "warning": Ink("costs something if nothing is done", "#96500a", "#f0a04b"),
    "critical": Ink("the run is lost, or is being lost", "#b3131b", "#ff8080"),
}
"""By name; the name is the CSS variable's too."""

TEXT_INKS = ("ink", "pale", "link", "forecast", "good", "info", "warning", "critical")
"""Colours in which words are written."""

GRAPHIC_INKS = ("curve", "forecast", "link", "pale", "good", "info", "warning", "critical")
"""Colours of what has to be seen in a picture; every value and the noise behind the trend are paler, for they only
surround it, and tables and readings say them as well."""

OF_SEVERITY = {"info": "info", "warning": "warning", "critical": "critical"}
OF_ACTION = {"continue": "good", "intervene": "warning", "stop": "critical", "cannot-tell": "info"}
"""Each action in the colour of the severity that it answers."""

OF_REGIME = {"up": "good", "flat": "pale", "down": "critical"}
"""A phase in the colour of what the reward did in it; KL is told by the word and the height of its bar."""

SIZES = {"small": "0.8125rem", "text": "1rem", "large": "1.25rem", "huge": "1.75rem"}
"""Type: four sizes, and no others."""
SPACE = "0.25rem"
"""Every distance is a multiple of this one."""


def of_verdict(action: str, severities: Collection[str]) -> str:
    """The colour of a verdict: to stop because nothing is left to gain is no alarm.

    Args:
        action: what is advised. severities: of the findings that are open.
    """
    if action == "stop" and "critical" not in severities:
        return "warning" if "warning" in severities else "info"
    return OF_ACTION.get(action, "pale")


def css_variables() -> str:
    """The colours, sizes and the unit of distance as custom properties, for light, dark and paper that is printed on."""
    light = "".join(f"--{name}:{ink.light};" for name, ink in INKS.items())
    dark = "".join(f"--{name}:{ink.dark};" for name, ink in INKS.items())
    sizes = "".join(f"--size-{name}:{size};" for name, size in SIZES.items()) + f"--space:{SPACE};"
    return (
        f":root{{color-scheme:light;{light}{sizes}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
    )
