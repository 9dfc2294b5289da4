"""Lines of styled text, and the signs and colours that all texts of the screens share."""

from __future__ import annotations

from rich.text import Text

from vario.surfaces.live.notices import Kind
from vario.surfaces.live.snapshot import Light
from vario.surfaces.terminal.columns import wrap

SIGNS = {
    Light.CRITICAL: ("!!", "bold red"),
    Light.WARNING: ("! ", "bold yellow"),
    Light.DECIDE: ("> ", "bold cyan"),
    Light.WAITING: ("..", "dim"),
    Light.FINE: ("ok", "green"),
}
"""Lights by sign and by colour: the signs stand alone where there is no colour."""
SEVERITY = {"critical": SIGNS[Light.CRITICAL], "warning": SIGNS[Light.WARNING], "info": ("i ", "cyan")}
ACKNOWLEDGED, PASSED = ("a ", "dim"), ("- ", "dim")
NEWS = {Kind.OPENED: "opened", Kind.WORSENED: "worse", Kind.SURER: "surer", Kind.RESOLVED: "passed"}
Part = tuple[str, str]


def line(*parts: Part | str) -> Text:
    """Parts beside each other, each with its style; plain text goes in, and is never read as markup."""
    return Text.assemble(*((p, "") if isinstance(p, str) else p for p in parts), no_wrap=True)


def joined(lines: list[Text]) -> Text:
    """Lines below each other."""
    return Text("\n").join(lines)


def wrapped(text: str, width: int, indent: str = "", first: str | None = None, style: str = "") -> list[Text]:
    """A text in as many lines as it takes; later ones begin with `indent`, the first with `first`."""
    return [line((part, style)) for part in wrap(text, width, indent, first)]
