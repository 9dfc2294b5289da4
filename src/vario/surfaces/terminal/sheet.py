"""A text that fills the screen until it is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from vario.surfaces.terminal.columns import fit
from vario.surfaces.terminal.inline import line
from vario.surfaces.terminal.parts import Scroll, Words

SECONDS = 1.0


class Sheet(Screen[None]):
    """A text under a title, made anew for the width, and again while the runs go on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "close", show=False),
    ]

    def __init__(self, title: str, make: Callable[[int], Text]) -> None:
        """Prepare a sheet.

        Args:
            title: its first line.
            make: gives the text for a width in columns.
        """
        super().__init__()
        self._title, self._make = title, make

    def compose(self) -> ComposeResult:
        """The title, the text, and how to leave."""
        yield Words(id="head")
        with Scroll(id="sheet"):
            yield Words(id="text")
        yield Words(id="keys")

    def on_mount(self) -> None:
        """Begin to follow the runs."""
        self.query_one("#sheet").focus()
        self.set_interval(SECONDS, self.paint)

    def on_resize(self, _event: Resize) -> None:
        """Make the text anew for the width."""
        self.paint()

    def paint(self) -> None:
        """Show the text as it is now."""
        width = self.size.width
        if width:
            self.query_one("#head", Words).show(line((fit(f" {self._title}", width), "bold reverse")))
            self.query_one("#text", Words).show(self._make(width - 2))
            self.query_one("#keys", Words).show(
                line(("q", "bold"), (" close  ", "dim"), ("j k g G space", "bold"), (" move", "dim"))
            )

    def action_close(self) -> None:
        """Go back to the runs."""
        self.dismiss()
