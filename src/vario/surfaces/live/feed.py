"""What the terminal shows, and what it can ask for: the loop that follows the runs stands behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vario.surfaces.live.notices import Notice
from vario.surfaces.live.watched import WatchedRun


class Feed(Protocol):
    """Runs that are followed. The application makes every call from one thread, never two at a time.

    Attributes:
        runs: in the order of the command line; may grow.
        every: seconds between turns.
        messages: what the user must know (no state store, an alert channel that fails), each once.
        history: what was noticed, the newest last, bounded.
    """

    runs: list[WatchedRun]
    every: float
    messages: list[str]
    history: list[Notice]

    def turn(self) -> list[Notice]:
        """One round over all runs: polls, judges, alerts. It may take a second, or longer on a slow disk."""

    def acknowledge(self, run: WatchedRun, subject: str, reason: str) -> None:
        """Somebody knows of a finding, and says why it may stand."""

    def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        """Reasons by subject, of what was acknowledged in this run and has not resolved; across restarts too."""

    def reviewed(self, run: WatchedRun) -> None:
        """Somebody has read completions of this run, now."""
