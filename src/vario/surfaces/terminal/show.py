"""From the command to the terminal application: whether it can be shown, and what it needs."""

from __future__ import annotations

import os
import sys

from vario.errors import VarioError
from vario.surfaces.live.feed import Feed

PATIENCE = 1.0
"""Seconds that a turn may still take after the user has quit."""


def show(feed: Feed) -> int:
    """Show the runs of a feed in this terminal until the user quits.

    Returns:
        0, or 1 where the application itself failed.

    Raises:
        VarioError: Textual is not installed, or this is no terminal that keys come from.
    """
    if not (sys.__stdin__ is not None and sys.__stdin__.isatty() and sys.__stderr__ is not None):
        raise VarioError("vario watch: standard input is no terminal, so no keys can come: try --plain")
    if not sys.__stderr__.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        raise VarioError("vario watch: this terminal cannot show an application: try --plain, or set TERM")
    try:
        from vario.surfaces.terminal.app import WatchApp
    except ImportError as error:
        raise VarioError(
            f'vario watch: the terminal application needs Textual ({error}): pip install "vario[terminal]", or try --plain'
        ) from error
    app = WatchApp(feed)
    app.run(mouse=False)  # the terminal's own selection and copying go on working
    app.stop(PATIENCE)
    return app.return_code or 0
