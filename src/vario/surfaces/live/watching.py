"""Many runs at once: what lies at the given paths is found and followed, and new runs that appear there are too."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from vario.errors import SourceError
from vario.run import Run
from vario.sources import found_below, read, runs
from vario.surfaces.cli.wishes import Wishes, sample_options
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.followed import Followed
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.piped import Piped
from vario.surfaces.live.watched import Source, WatchedRun
from vario.surfaces.live.wishes import LiveWishes

SEARCH_SECONDS = 30.0
"""Pause between two searches for new runs below a folder."""
SEARCH_SHARE = 0.05
"""Share of the time that may go into searching."""
MOST_RUNS = 500
"""More runs than one watcher can keep an eye on are told about, and the newest are left out."""


class Watching:
    """The runs of one `vario watch`.

    Attributes:
        runs: in the order of the paths. every: seconds between turns.
        messages: what the user must know, each once. history: what was noticed, the newest last, bounded.

    Args:
        paths: what is to be watched; each may hold several runs, or none yet.
        options: those of the command line that say how runs are read and judged.
        wishes: how they are watched.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: argparse.Namespace,
        wishes: LiveWishes,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs: list[WatchedRun] = []
        self.every = wishes.watch.every
        self.desk = Desk(wishes, clock=clock)
        self.messages = self.desk.messages
        self.history = self.desk.history
        self._options = options
        self._wishes = wishes
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[tuple[str, str | None], tuple[str, WatchedRun]] = {}
        self._searched: dict[str, float] = {}
        for path in paths:
            self._search(path)

    def turn(self) -> list[Notice]:
        """One round over all runs: polls, judges, remembers, alerts, acts."""
        now = self._monotonic()
        for path in [path for path, at in self._searched.items() if now >= at]:
            self._search(path)
        made: list[Notice] = []
        for watched in list(self.runs):
            try:
                notices = watched.look()
            except Exception as error:  # one run that cannot be judged must not silence the others
                notices = [_failed(watched, error, self._clock())]
            self.desk.handle(watched, notices)
            made += notices
        return made

    def acknowledge(self, run: WatchedRun, subject: str, reason: str) -> None:
        """Somebody knows of a finding, and says why it may stand."""
        self.desk.acknowledge(run, subject, reason)

    def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        """Reasons by subject of what was acknowledged."""
        return self.desk.acknowledged(run)

    def reviewed(self, run: WatchedRun) -> None:
        """Somebody has read completions of this run, now."""
        self.desk.reviewed(run)

    def close(self) -> None:
        """Tell what is left to tell."""
        self.desk.close()
        for watched in self.runs:
            if isinstance(watched.source, Piped):
                watched.source.close()

    def _search(self, path: str) -> None:
        """Follow what lies at a path; a folder is searched again, for runs that begin later."""
        began = self._monotonic()
        names = [self._options.run] if self._options.run is not None or path == "-" else self._names(path)
        if _is_folder(path):
            took = self._monotonic() - began
            self._searched[path] = self._monotonic() + max(SEARCH_SECONDS, took / SEARCH_SHARE)
        if not names:
            if not any(root == path for root, _ in self._known.values()):
                self._follow(path, path, None)  # nothing yet: it is waited for
            return
        for name in names:
            own = self._own_folder(path, name) if name is not None else None
            which = name if len(names) > 1 else self._options.run
            self._follow(path, *((path, which) if own is None else (own, None)))
        waiting = self._known.get((path, None))
        if waiting is not None and waiting[1].run is None and len(self._known) > 1:
            self.runs.remove(waiting[1])  # what was waited for has come, in folders of its own
            del self._known[path, None]

    @staticmethod
    def _names(path: str) -> list[str]:
        """The runs that `vario diagnose` would choose from; none where nothing can be read yet."""
        try:
            return runs(path) if "://" in path else [name for name, _ in found_below(Path(path), None)]
        except SourceError:
            return []

    def _follow(self, root: str, where: str, which: str | None) -> None:
        if (where, which) in self._known or len(self.runs) >= MOST_RUNS:
            return
        wishes = Wishes.of(self._options, where)
        source: Source = (
            Piped(sys.stdin.buffer, lambda kept: self._read(kept, which))
            if where == "-"
            else Followed(where, partial(self._read, where, which), name=self._unique(which or where))
        )
        watched = WatchedRun(
            source.name,
            source,
            wishes.choice,
            plan=self._wishes.watch.review,
            stalled_after=self._wishes.watch.stalled_after,
            clock=self._clock,
        )
        self._known[where, which] = (root, watched)
        self.runs.append(watched)
        self.desk.admit(watched, where if which is None else f"{where}#{which}")

    @staticmethod
    def _own_folder(path: str, name: str) -> str | None:
        """The folder of one of several runs, where it has one of its own: reading it does not read the others."""
        below = Path(path) / name
        if "://" in path or not below.is_dir():
            return None
        try:
            return str(below) if len(found_below(below, None)) == 1 else None
        except SourceError:
            return None

    def _unique(self, name: str) -> str:
        taken = {w.name for w in self.runs}
        made, count = name, 2
        while made in taken:
            made, count = f"{name} ({count})", count + 1
        return made

    def _read(self, path: str, name: str | None) -> Run:
        """The run as the project file and the options have it read."""
        options = argparse.Namespace(**{**vars(self._options), "run": name})
        wishes = Wishes.of(options, path)
        run = read(
            path,
            config=options.config,
            run=name,
            mapping=wishes.mapping,
            samples=sample_options(options, wishes.project),
        )
        return wishes.apply(run, options)


def _failed(watched: WatchedRun, error: Exception, now: float) -> Notice:
    text = f"could not be judged ({type(error).__name__}: {error}); VARIO_DEBUG=1 shows where"
    watched.troubles[text] += 1
    return Notice(Kind.TROUBLE, watched.name, "trouble", None, "info", "high", f"{watched.name}: trouble", text, now)


def _is_folder(path: str) -> bool:
    return "://" not in path and Path(path).is_dir()
