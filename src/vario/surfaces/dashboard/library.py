"""The runs that the dashboard shows: followed in a thread of their own, and found by the names that stand in addresses."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from vario.run import Run
from vario.sources.sampled import SampleOptions
from vario.surfaces.dashboard.bounds import Bounds
from vario.surfaces.live.follower import Follower
from vario.surfaces.live.notices import Notice
from vario.surfaces.live.snapshot import RunView, Snapshot
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.live.watching import Watching
from vario.verdict import Diagnosis

SHOWN_EVERY = 0.5
"""Seconds between two snapshots during a turn: the first one over a hundred runs takes minutes."""
REFRESH_SECONDS = 1.0
"""Longest time for which who has said something waits to see it."""
ID_LENGTH = 8
"""Hexadecimal digits of a run's id: a collision among 500 runs is one in 30,000, and gets a longer id."""
NAMED = re.compile(r"[^a-z0-9]+")


class Library:
    """Follows the runs of a `Watching`, and says which have changed.

    Attributes:
        watching: what is followed. bounds: what may be read. samples: how a run's completions are to be read.
    """

    def __init__(
        self,
        watching: Watching,
        bounds: Bounds,
        samples: Callable[[Run], SampleOptions],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.watching = watching
        self.bounds = bounds
        self.samples = samples
        self.every = watching.every
        self.runs = watching.runs
        self.messages = watching.messages
        self.history = watching.history
        self._clock = clock
        self._shown_at = 0.0
        self._lock = threading.Lock()
        self._ids: dict[WatchedRun, str] = {}
        self._versions: dict[str, int] = {}
        self._signatures: dict[str, object] = {}
        # a page of a dashboard before this one has a lower number, and is told of everything
        self._version = int(time.time() * 1000.0)
        self._follower = Follower(self, self._note)

    def start(self) -> None:
        """Begin to follow."""
        self._follower.start()

    def close(self, patience: float = 5.0) -> None:
        """Follow no more; a turn that hangs is left behind."""
        if self._follower.stop(patience):
            self.watching.close()

    def turn(self) -> list[Notice]:
        """One round over the runs, with snapshots on the way."""
        return self.watching.turn(seen=self._seen)

    def acknowledge(self, run: WatchedRun, subject: str, reason: str) -> None:
        """Somebody knows of a finding."""
        self.watching.acknowledge(run, subject, reason)

    def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        """Reasons by subject, of what somebody knows of and of what is muted: neither asks for attention."""
        said = self.watching.desk.silences(run)
        return {subject: next(iter(silences.values())).reason for subject, silences in said.items()}

    def reviewed(self, run: WatchedRun) -> None:
        """Somebody has read completions."""
        self.watching.reviewed(run)

    @property
    def latest(self) -> Snapshot:
        """The runs as they stood when they were looked at last, what needs attention first."""
        return self._follower.latest

    @property
    def version(self) -> int:
        """Grows with every change of any run."""
        return self._version

    def since(self, version: int) -> dict[str, int]:
        """The runs that have changed after that version, with the version of each."""
        with self._lock:
            return {name: at for name, at in self._versions.items() if at > version}

    def refresh(self) -> None:
        """Take what somebody has said into account, at once; where a turn takes long, after it."""
        done = threading.Event()
        self._follower.ask("showing what was said", lambda: None)
        self._follower.ask("showing what was said", done.set)  # after each wish the runs are taken anew
        done.wait(REFRESH_SECONDS)

    def id_of(self, watched: WatchedRun) -> str:
        """A run's name in addresses: the same tomorrow, for the same place."""
        with self._lock:
            if watched not in self._ids:
                key = hashlib.sha256(watched.name.encode("utf-8", "surrogateescape")).hexdigest()
                # a place that waited for its run gives its id to it
                here = set(self.runs)
                self._ids = {run: name for run, name in self._ids.items() if run in here}
                taken = set(self._ids.values())
                size = ID_LENGTH
                while (made := f"{_slug(watched.name)}-{key[:size]}") in taken:
                    size += 1
                self._ids[watched] = made
            return self._ids[watched]

    def find(self, name: str) -> RunView | None:
        """The run of that id as it stood last; None where there is none."""
        return next((view for view in self.latest.runs if self.id_of(view.watched) == name), None)

    def _seen(self, watched: WatchedRun) -> None:  # noqa: ARG002
        now = self._clock()
        if now - self._shown_at >= SHOWN_EVERY:
            self._shown_at = now
            self._follower.refresh()

    def _note(self) -> None:
        """See which runs have changed since the last snapshot, and which are there no more."""
        latest = self._follower.latest
        seen = {self.id_of(view.watched): _signature(view) for view in latest.runs}
        # what the list says beside the runs: no run has this name
        seen[""] = (latest.looked_at is not None, len(latest.messages), len(latest.failures))
        with self._lock:
            gone = self._signatures.keys() - seen.keys()
            for name in (*gone, *(n for n, signature in seen.items() if self._signatures.get(n) != signature)):
                self._version += 1
                self._versions[name] = self._version
            self._signatures = seen


def shown(view: RunView) -> Diagnosis | None:
    """The diagnosis of the last look, with the rows that came since on its curves."""
    diagnosis, run = view.diagnosis, view.watched.run
    if diagnosis is None or run is None or not _goes_on(diagnosis.run, run):
        return diagnosis
    return replace(diagnosis, run=run)


def _goes_on(judged: Run, now: Run) -> bool:
    """Whether every metric that was judged is there still: a run may be replaced between two looks."""
    return judged.series.keys() <= now.series.keys()


def _signature(view: RunView) -> object:
    return (
        id(view.diagnosis),
        view.status,
        view.rows,
        tuple(view.acknowledged),
        view.review.due_since,
        view.review.step,
        len(view.troubles),
    )


def _slug(name: str) -> str:
    """The end of a path, as an address may hold it."""
    return NAMED.sub("-", name.lower().rstrip("/").rpartition("/")[2]).strip("-")[:40] or "run"
