"""`vario watch` as a terminal application. Needs Textual: import it only when it is shown."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from vario.surfaces.live.feed import Feed
from vario.surfaces.live.follower import Follower
from vario.surfaces.terminal.look import CSS
from vario.surfaces.terminal.main_screen import MainScreen


class Turned(Message):
    """The runs were looked at."""


class WatchApp(App[None]):
    """Shows the runs of a feed until the user quits.

    The feed is called in one thread of its own, whatever happens there; `stop` after the end waits for it.
    """

    CSS = CSS
    TITLE = "vario watch"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, feed: Feed) -> None:
        """Prepare the application of a feed; nothing is read before it runs."""
        # the terminal's own palette: fewer bytes over ssh, at home on light and dark grounds, none under NO_COLOR
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self._follower = Follower(feed, self._changed)
        self._main = MainScreen(feed, self._follower)

    def on_mount(self) -> None:
        """Show the runs, and begin to look at them."""
        self.push_screen(self._main)
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # another platform, another thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self._follower.start()

    def on_unmount(self) -> None:
        """Look no more."""
        self._follower.stop()

    def stop(self, patience: float) -> bool:
        """Wait at most so many seconds for the turn that runs; True if none does any more."""
        return self._follower.stop(patience)

    def on_turned(self) -> None:
        """The runs were looked at."""
        self._main.turned()

    def _changed(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody looks any more
            self.post_message(Turned())
