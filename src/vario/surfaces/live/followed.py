"""A run that another process writes: files that grow, rotate and move, a tracker's store, an address."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Protocol

from vario.errors import ConfigError, NothingReadable, SeveralRuns, SourceError
from vario.run import Run
from vario.sources.folder import look
from vario.sources.growing import Growing
from vario.surfaces.live.joining import Relation, relation, with_start
from vario.surfaces.live.stamp import Stamp, is_folder, stamp
from vario.surfaces.live.watched import Polled

SHARE = 0.1
"""Share of the time that may go into reading one run: a log of gigabytes, or on a slow disk, is read as seldom as it takes."""
REMOTE_SECONDS = 30.0
"""Pause between readings of an address, which tells nothing before it is read."""
PATIENCE = 10.0
"""Seconds that a place may be gone, empty or not readable before anybody is told: a rotation takes as long."""
QUIET_SECONDS = 120.0
"""Without a change for so long, what was parsed is let go: it is as large as the run, and is read again where rows come."""
FEW_ROWS = 10
"""A log that begins anew does not show whose it is before it has so many rows: that is when the first look is due."""
MOST_PARTS = 5
"""Files that a rotation left behind among which rows are searched that nobody had read."""
PART = re.compile(r"[.-](?:\d[\w.:-]*|old|bak|prev)(?:\.(?:gz|zst))?")
"""What log rotation puts behind a name: a number, a date, a word."""
KEPT = "{path}: rows that were read are not there any more (rotated, cut or restored); they are kept"


class Read(Protocol):
    """Reads the run of this name at a path, or the only one there."""

    def __call__(self, path: str, name: str | None, growing: Growing | None) -> Run:
        """The run; raises SourceError where there is none."""


class Followed:
    """A path or an address, read again whenever it has changed.

    What was read is never lost: rows that vanish from the place (rotation, truncation) are kept, and a place that is
    gone is waited for. Only where another run stands at the place does the old one end.

    Attributes:
        which: the name of the run where several lie there; it is settled when a second one begins beside it.

    Args:
        path: a file, a folder, or an address.
        read: reads what lies there.
        which: as above. name: of the run, for people.
        share: the share of a processor that reading may take. clock: seconds, from any start.
    """

    def __init__(
        self,
        path: str,
        read: Read,
        *,
        which: str | None = None,
        name: str | None = None,
        share: Callable[[], float] = lambda: SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.which = which
        self.name = name or path
        self._read = read
        self._share = share
        self._clock = clock
        # a machine that is busy with other things makes a reading long, and not dear
        self._work = time.thread_time if clock is time.monotonic else clock
        self._remote = "://" in path
        self._growing = Growing()
        self._seen: Stamp | None = None
        self._run: Run | None = None
        self._written = 0
        self._not_before = 0.0
        self._failing: float | None = None
        self._read_at: float | None = None

    def now(self) -> Polled:
        """The run, if its files have changed since, however short ago it was read."""
        self._not_before = 0.0
        return self.poll()

    def poll(self) -> Polled:
        """The run, if its files have changed since."""
        began, work = self._clock(), self._work()
        if began < self._not_before:
            return Polled(None)
        now = None if self._remote else stamp(Path(self.path))
        if now is not None and now == self._seen:
            polled = Polled(None)
            if self._read_at is not None and began - self._read_at >= QUIET_SECONDS:
                self._growing, self._read_at = Growing(), None
        elif now is None and not self._remote:
            polled = self._without(f"{self.path}: nothing there", gone=True)
        else:
            self._seen, self._read_at = now, began
            polled = self._again(None if now is None else now.written_at)
            if now is not None and now.written_at is not None and time.time() - now.written_at >= QUIET_SECONDS:
                self._growing, self._read_at = Growing(), None  # a hundred runs that have ended would weigh a gigabyte
        took = max((self._clock() - began) / SHARE, (self._work() - work) / self._share())
        self._not_before = began + max(took, REMOTE_SECONDS if self._remote else 0.0)
        return polled

    def settle(self, names: Sequence[str | None]) -> bool:
        """Find out which of several runs is the one that was followed so far; whether any goes on from it."""
        for name in names if self._run is not None else ():
            try:
                new = self._read(self.path, name, None)
            except SourceError:
                continue
            if self._run is not None and relation(self._run, new) in (Relation.GOES_ON, Relation.LOST_END):
                self.which, self._seen = name, None
                return True
        return False

    def _again(self, written_at: float | None) -> Polled:
        """What stands there now."""
        changed = self._changed()
        try:
            new = self._read(self.path, self.which, self._growing)
        except SeveralRuns as error:
            return self._again(written_at) if self.settle(error.names) else self._without(first_line(error))
        except SourceError as error:
            if self.which is not None and self.settle([None]):  # the others have gone
                return self._again(written_at)
            return self._without(first_line(error), gone=self._is_empty(error))
        except ConfigError as error:
            self._seen = None
            return Polled(None, written_at, (first_line(error),))
        except (
            Exception
        ) as error:  # a file that changes while it is read may break any parser: the next look reads it again
            return self._without(f"{self.path}: {type(error).__name__}")
        self._failing = None
        polled = self._beside(new, written_at)
        self._written = changed
        return polled

    def _beside(self, new: Run, written_at: float | None) -> Polled:
        """What a new reading makes of the run."""
        old = self._run
        if old is None:
            self._run = new
            return Polled(new, written_at)
        if old.framework != new.framework and new.framework == "generic" and new.logged_steps.size < FEW_ROWS:
            return Polled(None, written_at)
        kind = relation(old, new)
        if kind is Relation.LOST_END:
            return Polled(None, written_at, (KEPT.format(path=self.path),))
        if kind is Relation.LOST_START:
            if new.logged_steps[0] > old.logged_steps[-1]:
                old = self._completed(old)
            self._run = with_start(old, new)
            return Polled(self._run, written_at, (KEPT.format(path=self.path),))
        self._run = new
        return Polled(new, written_at, replaced=kind is Relation.OTHER)

    def _without(self, why: str, *, gone: bool = False) -> Polled:
        """Nothing could be read. It is tried again, and told when it has lasted."""
        self._seen = None
        if self._failing is None:
            self._failing = self._clock()
            if gone and self._run is not None:
                moved = self._completed(self._run)  # the file may stand there under another name, with more rows
                if moved is not self._run:
                    self._run = moved
                    return Polled(moved)
            return Polled(None)
        if self._clock() - self._failing < PATIENCE:
            return Polled(None)
        if gone:
            return Polled(None, lost=self._run is not None)
        return Polled(None, troubles=(f"cannot be read: {why}",))

    def _changed(self) -> int:
        """When the file was written last (ns), as far as there is one."""
        try:
            return 0 if self._remote else Path(self.path).stat().st_mtime_ns
        except OSError:
            return 0

    def _is_empty(self, error: SourceError) -> bool:
        """Whether nothing is there to be read, and not merely nothing that may or can be read."""
        path = Path(self.path)
        if self._remote:
            return False
        if is_folder(self.path):
            return isinstance(error, NothingReadable) and error.__cause__ is None and not look(path).denied
        try:
            return path.stat().st_size == 0
        except OSError as problem:
            return not isinstance(problem, PermissionError)

    def _completed(self, old: Run) -> Run:
        """The run with rows that were written, and then moved away before anybody read them."""
        if self._remote or self.which is not None or is_folder(self.path):
            return old
        for part in self._parts():
            try:
                run = self._read(str(part), None, None)
            except SourceError:
                continue
            kind = relation(old, run)
            if kind is Relation.LOST_START:
                old = with_start(old, run)
            elif kind is Relation.GOES_ON and run.logged_steps[-1] > old.logged_steps[-1]:
                old = run
        return old

    def _parts(self) -> Iterator[Path]:
        """Files that a rotation made of this one, the newest last."""
        path = Path(self.path)
        try:
            named = [p for p in path.parent.glob(f"{escape(path.name)}*") if PART.fullmatch(p.name[len(path.name) :])]
            found = sorted((p.stat().st_mtime_ns, p) for p in named)
        except OSError:
            return
        # what was moved away before the last reading is another run's, or holds nothing new
        yield from (p for at, p in found[-MOST_PARTS:] if at >= self._written)


def first_line(error: Exception) -> str:
    """What an error says, without its details."""
    return str(error).split("\n", 1)[0]
