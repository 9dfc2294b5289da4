"""The one thread that calls the feed: turn after turn, and between them what the user asks for."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from vario.errors import VarioError
from vario.surfaces.live.feed import Feed
from vario.surfaces.live.snapshot import taken
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.privacy import safe

LEAST_PAUSE = 0.05
"""Seconds between turns at the least: a feed that asks for none must not take a core for itself."""
LONGEST = 400
"""Characters of an error's text that are kept."""

Wish = Callable[[], None]


class Follower:
    """Turns a feed in a thread of its own, which ends with the process and holds nothing up.

    It is no worker of the event loop: leaving the loop waits for those, and a turn may hang on a dead disk.

    Attributes:
        latest: the runs as they stood after the last turn. turning_since: when the turn that runs now began, in
            seconds since 1970; None between turns.
    """

    def __init__(self, feed: Feed, changed: Callable[[], None]) -> None:
        """Prepare to follow.

        Args:
            feed: what is turned.
            changed: called in the thread whenever `latest` is new; must be safe there, and quick.
        """
        self._feed = feed
        self._changed = changed
        self._failures: Counter[str] = Counter()
        self._wishes: queue.SimpleQueue[tuple[str, Wish] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._follow, name="vario-watch", daemon=True)
        self._stopping = False
        self._looked_at: float | None = None
        self.turning_since: float | None = None
        self.latest = taken(feed, lambda _run: {}, {}, None)

    def start(self) -> None:
        """Begin with a turn at once."""
        self._thread.start()

    def ask(self, what: str, wish: Wish) -> None:
        """Have something done between two turns; `what` names it where it fails."""
        self._wishes.put((what, wish))

    def refresh(self) -> None:
        """Take the runs as they stand; for the feed itself, in the midst of a turn that takes long."""
        self._attempt("showing the runs", self._take)
        self._changed()

    def stop(self, patience: float = 0.0) -> bool:
        """Make no further turn; wait at most so many seconds for the one that runs. True if the thread has ended."""
        self._stopping = True
        self._wishes.put(None)
        if self._thread.is_alive() and patience > 0.0:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _follow(self) -> None:
        due = time.monotonic()
        while not self._stopping:
            try:
                wish = self._wishes.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                self.turning_since = time.time()
                self._attempt("a look at the runs", self._feed.turn)
                self.turning_since, self._looked_at = None, time.time()
                due = time.monotonic() + max(LEAST_PAUSE, self._feed.every)
            else:
                if wish is None:
                    return
                self._attempt(*wish)
            self._attempt("showing the runs", self._take)
            self.latest = replace(self.latest, failures=tuple(self._failures.items()))
            self._changed()

    def _take(self) -> None:
        self.latest = taken(self._feed, self._acknowledged, self._failures, self._looked_at)

    def _acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        """What is acknowledged; nothing where the store cannot say: the runs are shown all the same."""
        found: dict[str, str] = {}
        self._attempt("reading acknowledgements", lambda: found.update(self._feed.acknowledged(run)))
        return found

    def _attempt(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # polars' panics are no `Exception`, and there is nobody above
            told = str(error) if isinstance(error, VarioError) else f"{type(error).__name__}: {error}"
            self._failures[safe(f"{what} failed: {told}")[:LONGEST]] += 1
