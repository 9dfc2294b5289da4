"""The widgets that the screens are made of: texts that are drawn again only when they changed, and lists of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from vario.surfaces.terminal.inline import line

CURSOR, CHOSEN = Style(reverse=True), Style(bold=True, underline=True)
OTHER_RUNS: list[BindingType] = [
    Binding("left", "screen.other_run(-1)", show=False),
    Binding("right", "screen.other_run(1)", show=False),
]


class Words(Static):
    """A text; markup is off, and an equal text costs nothing."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", markup=False, id=id, classes=classes)
        self.text = Text()

    def show(self, text: Text) -> None:
        """Show a text."""
        if text != self.text:
            taller = text.plain.count("\n") != self.text.plain.count("\n") or not self.text.plain or not text.plain
            self.text = text
            self.update(text, layout=taller)


class Rows(OptionList):
    """Rows to choose from, each with a key of its own that outlives a new order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
        *OTHER_RUNS,
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._rows: list[tuple[str, Text]] = []
        self._empty = ""

    def show(self, rows: Sequence[tuple[str, Text]], chosen: str | None, empty: str) -> None:
        """Show rows with their keys, and put the cursor on the chosen one; `empty` stands where there are none."""
        keys = [key for key, _ in rows]
        if keys != [key for key, _ in self._rows] or (not rows and empty != self._empty):
            self._empty = empty
            self.clear_options()
            self.add_options([Option(text, id=key) for key, text in rows])
            if not rows:
                self.add_option(Option(line((empty, "dim")), disabled=True))
        else:
            for index, ((_, new), (_, old)) in enumerate(zip(rows, self._rows, strict=True)):
                if new != old:
                    self.replace_option_prompt_at_index(index, new)
        self._rows = list(rows)
        place = keys.index(chosen) if chosen in keys else None
        if self.highlighted != place:
            self.highlighted = place

    def render_line(self, y: int) -> Strip:
        """A row; the chosen one is reversed in the pane in focus, which shows without colour too."""
        strip = super().render_line(y)
        if self._rows and self.highlighted == y + self.scroll_offset.y:  # each row is one line
            return strip.apply_style(CURSOR if self.has_focus else CHOSEN)
        return strip


class Scroll(VerticalScroll, can_focus=True):
    """A text that may be longer than its place."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("space", "page_down", show=False),
    ]


class Gauges(Scroll):
    """The panels; enter asks for all of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.gauges", show=False), *OTHER_RUNS]


class Detail(Scroll):
    """The chosen finding; enter asks for all of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.detail", show=False), *OTHER_RUNS]


class Pane(Vertical):
    """A part of the main screen under a title that is marked while the part is in focus."""

    def __init__(self, *parts: Widget, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._title, self._parts = Words(classes="title"), parts

    def compose(self) -> ComposeResult:
        """The title above the parts."""
        yield self._title
        yield from self._parts

    def name_it(self, title: str, width: int) -> None:
        """Set the title."""
        self._title.show(line(f" {title} ", ("─" * max(0, width - len(title) - 2), "dim")))


class Reason(Input):
    """One line that asks for a reason; escape leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_reason", show=False),
        Binding("tab,shift+tab", "screen.leave_reason", show=False),
    ]
