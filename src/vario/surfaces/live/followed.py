"""A run that another process writes: files that grow, rotate and move, a tracker's store, an address."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from vario.errors import SourceError
from vario.run import Run
from vario.surfaces.live.joining import Relation, relation, with_start
from vario.surfaces.live.stamp import Stamp, stamp
from vario.surfaces.live.watched import Polled

SHARE = 0.1
"""Share of the time that may go into reading one run: a log of gigabytes is read as seldom as it takes."""
REMOTE_SECONDS = 30.0
"""Pause between readings of an address, which tells nothing before it is read."""


class Followed:
    """A path or an address, read again whenever it has changed.

    What was read is never lost: rows that vanish from the place (rotation, truncation) are kept, and a place that is
    gone is waited for. Only where another run stands at the place does the old one end.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[], Run],
        *,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.name = name or path
        self._read = read
        self._clock = clock
        self._remote = "://" in path
        self._seen: Stamp | None = None
        self._run: Run | None = None
        self._not_before = 0.0
        self._gone = False

    def now(self) -> Polled:
        """The run, if its files have changed since, however short ago it was read."""
        self._not_before = 0.0
        return self.poll()

    def poll(self) -> Polled:
        """The run, if its files have changed since."""
        began = self._clock()
        if began < self._not_before:
            return Polled(None)
        written_at = None
        if not self._remote:
            now = stamp(Path(self.path))
            if now is None:
                self._seen, known, self._gone = None, self._run is not None and not self._gone, self._run is not None
                troubles = (f"{self.path}: nothing there any more; waiting for it to come back",) if known else ()
                return Polled(None, troubles=troubles, lost=self._run is not None)
            if now == self._seen:
                return Polled(None)
            self._seen, written_at = now, now.written_at
        self._gone = False
        polled = self._again(written_at)
        took = self._clock() - began
        self._not_before = self._clock() + max(took / SHARE - took, REMOTE_SECONDS if self._remote else 0.0)
        return polled

    def _again(self, written_at: float | None) -> Polled:
        try:
            new = self._read()
        except SourceError as error:
            # before its first row a log is empty or not there: that is no trouble yet
            return Polled(None, written_at, () if self._run is None else (f"cannot be read now: {_first_line(error)}",))
        except (
            Exception
        ) as error:  # a file that changes while it is read may break any parser: the next look reads it again
            self._seen = None
            return Polled(None, written_at, (f"{self.path}: could not be read ({type(error).__name__})",))
        old, self._run = self._run, new
        if old is None:
            return Polled(new, written_at)
        if old.framework != new.framework and new.framework == "generic":
            self._run = old  # a few rows of a log that begins anew do not show whose it is
            return Polled(None, written_at)
        kind = relation(old, new)
        if kind is Relation.OTHER:
            return Polled(new, written_at, replaced=True)
        if kind is Relation.LOST_END:
            self._run = old
            return Polled(None, written_at, (f"{self.path}: became shorter; the rows that were read are kept",))
        if kind is Relation.LOST_START:
            self._run = with_start(old, new)
            return Polled(self._run, written_at, (f"{self.path}: lost its first rows (rotated or cut); they are kept",))
        return Polled(new, written_at)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
