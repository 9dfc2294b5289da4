"""Many runs at once: what lies at the given paths is found and followed, and new runs that appear there are too."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vario.errors import ConfigError, SourceError
from vario.rules import RULES
from vario.rules.choice import Choice
from vario.run import Run
from vario.sources import found_below, read, runs
from vario.sources.growing import Growing
from vario.sources.places import Place, find, is_surely_one
from vario.surfaces.cli.wishes import Wishes, sample_options
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.followed import PATIENCE, SHARE, Followed, first_line
from vario.surfaces.live.notices import Notice
from vario.surfaces.live.piped import Piped
from vario.surfaces.live.stamp import Stamp, is_folder, stamp
from vario.surfaces.live.watched import Polled, Source, WatchedRun
from vario.surfaces.live.wishes import LiveWishes

SEARCH_SECONDS = 10.0
"""Pause between two searches for new runs below a folder, where it takes little: it names files, and reads only new ones."""
SEARCH_SHARE = 0.05
"""Share of the time that may go into searching."""
SHARE_OF_ALL = 0.25
"""Share of the time that may go into reading all runs together: the machine is the training's."""
MOST_RUNS = 500
"""More runs than one watcher can keep an eye on are told about, and the newest are left out."""


class Awaited:
    """A place where no run can be read yet.

    Attributes:
        why: what it lacks, for the user, if it lasts.

    Args:
        patience: seconds until that is told.
    """

    def __init__(self, name: str, clock: Callable[[], float], *, patience: float = PATIENCE) -> None:
        self.name = name
        self.why = ""
        self._clock = clock
        self._tell_from = clock() + patience

    def poll(self) -> Polled:
        """Nothing; after a while, why."""
        return Polled(None, troubles=(f"waiting: {self.why}",) if self._clock() >= self._tell_from else ())


@dataclass(frozen=True, slots=True)
class _Found:
    """A run that was found: where it is read, by which name there, and the place that is its own.

    Attributes:
        home: by which it is shown and remembered, however it has to be read: a folder that comes beside it changes that.
    """

    where: str
    which: str | None
    home: str | None = None


Layout = frozenset[tuple[str, str | None, frozenset[Path]]]
"""Each place with its name, the run in it, and its logs."""


@dataclass
class _Wished:
    """A path that the user gave.

    Attributes:
        known: the runs that were found there, by the names that `vario diagnose` would choose from.
        awaited: stands for them while there is none.
        refused: runs whose own project file says what cannot be, by name, each with what stands for it.
        search_at: when it is searched again; None: never.
        seen: its files when nothing was found, so that it is searched as soon as they change.
        layout: the logs that lay there at the last search; while they are the same, none of them is read to tell runs apart.
    """

    path: str
    known: dict[str, WatchedRun] = field(default_factory=dict)
    awaited: WatchedRun | None = None
    refused: dict[str, tuple[_Found, WatchedRun]] = field(default_factory=dict)
    search_at: float | None = 0.0
    seen: Stamp | None = None
    layout: Layout | None = None


class Watching:
    """The runs of one `vario watch`.

    Attributes:
        runs: in the order of the paths. every: seconds between turns.
        messages: what the user must know, each once. history: what was noticed, the newest last, bounded.

    Raises:
        ConfigError: at its making, where the project file or an option says what cannot be.

    Args:
        paths: what is to be watched; each may hold several runs, or none yet.
        options: those of the command line that say how runs are read and judged.
        wishes: how they are watched.
        clock: seconds since 1970. monotonic: seconds from any start.
        speaks: False for a surface that people look at: nobody is alerted, nothing is done, nothing counts as told.
        check: is asked before a path is read; raises SourceError where it may not be.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: argparse.Namespace,
        wishes: LiveWishes,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        speaks: bool = True,
        check: Callable[[str], None] | None = None,
    ) -> None:
        self.runs: list[WatchedRun] = []
        self.every = wishes.watch.every
        rules = Wishes.of(options, paths[0]).choice.rules if paths else RULES
        self.desk = Desk(wishes, clock=clock, rules=rules, speaks=speaks)
        self.messages = self.desk.messages
        self.history = self.desk.history
        self._options = options
        self._wishes = wishes
        self._clock = clock
        self._monotonic = monotonic
        self._check = check
        self._speaks = speaks
        self._places: set[tuple[str, str | None]] = set()
        self._wished = [_Wished(path) for path in dict.fromkeys(paths)]
        # who opens a page is answered meanwhile: there the first round searches
        for wished in self._wished if speaks else ():
            self._search(wished)

    def turn(
        self, tell: Callable[[Notice], None] | None = None, seen: Callable[[WatchedRun], None] | None = None
    ) -> list[Notice]:
        """One round over all runs: polls, judges, tells, remembers, alerts, acts.

        Args:
            tell: is called with each notice before it counts as told: a crash may repeat one, and loses none.
            seen: is called with each run that was looked at: the first round over many runs takes minutes.
        """
        for wished in self._wished:
            if self._is_due(wished):
                try:
                    self._search(wished)
                except ConfigError as error:  # a project file that was changed meanwhile
                    self.desk.say(str(error))
        made: list[Notice] = []
        for watched in list(self.runs):
            try:
                notices = watched.look()
            except Exception as error:  # one run that cannot be judged must not silence the others
                notices = watched.trouble(f"could not be judged ({type(error).__name__}: {error})")
            if tell is not None:
                for notice in notices:
                    tell(notice)
            self.desk.handle(watched, notices)
            made += notices
            if seen is not None:
                seen(watched)
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

    def _is_due(self, wished: _Wished) -> bool:
        if wished.search_at is None:
            return False
        changed = wished.awaited is not None and "://" not in wished.path and stamp(Path(wished.path)) != wished.seen
        return changed or self._monotonic() >= wished.search_at

    def _search(self, wished: _Wished) -> None:
        """Follow what lies at a path; a folder is searched again, for runs that begin later."""
        path, began = wished.path, self._monotonic()
        if path == "-" or self._options.run is not None:
            wished.search_at = None
            self._follow(wished, path, _Found(path, None if path == "-" else self._options.run))
            return
        wished.seen = None if "://" in path else stamp(Path(path))
        try:
            places = [] if "://" in path else find(Path(path))
            layout = _layout(places)
            if places and layout == wished.layout and self._is_settled(wished):
                for name, (one, _) in list(wished.refused.items()):
                    self._take_on(wished, name, one)
                wished.search_at = began + max(SEARCH_SECONDS, (self._monotonic() - began) / SEARCH_SHARE)
                return
            found, why = _found_at(path, places, wished.known), ""
            # where a place is a part of another, or cannot be read yet, that may change without a new log
            wished.layout = layout if len(found) == len(places) else None
        except (SourceError, OSError) as error:
            found, why = {}, first_line(error)
        self._settle(wished, list(found))
        for name, one in found.items():
            # of a folder whose logs were told apart, what is left is one of those that are followed already
            if name not in wished.known and not (len(found) == 1 and self._is_followed(wished, one.where)):
                self._take_on(wished, name, one)
        for name in wished.refused.keys() - found.keys():
            self.runs.remove(wished.refused.pop(name)[1])
        if not found and not wished.known and wished.awaited is None:
            source = Awaited(self._unique(path), self._monotonic)
            wished.awaited = self._watch(source, Wishes.of(self._options, path).choice)
        if wished.awaited is not None and isinstance(wished.awaited.source, Awaited):
            wished.awaited.source.why = why
        took = self._monotonic() - began
        may_come = not found or is_folder(path) or any(one.which is not None for one in found.values())
        wished.search_at = self._monotonic() + max(SEARCH_SECONDS, took / SEARCH_SHARE) if may_come else None

    @staticmethod
    def _settle(wished: _Wished, names: list[str]) -> None:
        """A run that was alone at its place has a name as soon as another one begins beside it."""
        for known, watched in list(wished.known.items()):
            source = watched.source
            if known not in names and isinstance(source, Followed) and source.path == wished.path:
                if source.which is None and len(names) > 1:
                    source.settle(names)
                if source.which in names and source.which not in wished.known:
                    wished.known[source.which] = wished.known.pop(known)

    @staticmethod
    def _is_settled(wished: _Wished) -> bool:
        """Whether every run is known by the name that it is read by."""
        sources = (w.source for w in wished.known.values())
        here = (s.which for s in sources if isinstance(s, Followed) and s.path == wished.path)
        return all(which is None or which in wished.known for which in here)

    @staticmethod
    def _is_followed(wished: _Wished, where: str) -> bool:
        return any(isinstance(w.source, Followed) and w.source.path == where for w in wished.known.values())

    def _take_on(self, wished: _Wished, name: str, found: _Found) -> None:
        """Follow a run; one whose own project file says what cannot be is shown with that, and hides no other."""
        stood = wished.refused.pop(name)[1] if name in wished.refused else None
        if stood is not None:
            self.runs.remove(stood)  # its name is free for the run
        try:
            self._follow(wished, name, found)
        except ConfigError as error:
            if found.where == wished.path and found.home is None:
                raise
            self._await_no_more(wished)
            if stood is None:
                called = self._unique(found.home or found.which or found.where)
                stood = self._watch(Awaited(called, self._monotonic, patience=0.0), Choice())
            else:
                self.runs.append(stood)
            assert isinstance(stood.source, Awaited)
            stood.source.why = str(error)
            wished.refused[name] = found, stood

    def _await_no_more(self, wished: _Wished) -> None:
        if wished.awaited is not None:
            self.runs.remove(wished.awaited)
            wished.awaited = None

    def _follow(self, wished: _Wished, name: str, found: _Found) -> None:
        """Take on a run, unless another path has led to it."""
        where, which = found.where, found.which
        if (where, which) in self._places:
            return
        if len(self.runs) >= MOST_RUNS:
            self.desk.say(f"more than {MOST_RUNS} runs at {wished.path}: the newest are not followed")
            return
        wishes = Wishes.of(self._options, found.home or where)
        finish = wishes.applied(self._options)
        self._await_no_more(wished)
        read_run = partial(self._read, wishes, finish)
        source: Source = (
            Piped(sys.stdin.buffer, read_run)
            if where == "-"
            else Followed(
                where,
                read_run,
                which=which,
                name=self._unique(found.home or which or where),
                share=self._share,
                clock=self._monotonic,
            )
        )
        self._places.add((where, which))
        wished.known[name] = self._watch(source, wishes.choice)
        self.desk.admit(wished.known[name], found.home or (where if which is None else f"{where}#{which}"))

    def _watch(self, source: Source, choice: Choice) -> WatchedRun:
        watched = WatchedRun(
            source.name,
            source,
            choice,
            plan=self._wishes.watch.review,
            stalled_after=self._wishes.watch.stalled_after,
            clock=self._clock,
            monotonic=self._monotonic,
            replay=self._options.replay,
            glances=not self._speaks,
            newest=not self._speaks or getattr(self._options, "once", False),
        )
        self.runs.append(watched)
        return watched

    def _share(self) -> float:
        return min(SHARE, SHARE_OF_ALL / max(len(self.runs), 1))

    def _unique(self, name: str) -> str:
        taken = {w.name for w in self.runs}
        made, count = name, 2
        while made in taken:
            made, count = f"{name} ({count})", count + 1
        return made

    def _read(
        self, wishes: Wishes, finish: Callable[[Run], Run], path: str, name: str | None, growing: Growing | None
    ) -> Run:
        """The run as the project file and the options have it read."""
        if self._check is not None:
            self._check(path)
        samples = sample_options(self._options, wishes.project)
        return finish(
            read(
                path,
                config=self._options.config,
                run=name,
                mapping=wishes.mapping,
                samples=samples,
                growing=growing,
            )
        )


def _layout(places: Sequence[Place]) -> Layout:
    return frozenset((p.name, p.run, frozenset(log for _, log in p.logs)) for p in places)


def _found_at(path: str, below: list[Place], known: Mapping[str, WatchedRun]) -> dict[str, _Found]:
    """The runs that `vario diagnose` would choose from, and where each is read: its path, and its name there.

    A run with a folder of its own is read there, and the others are not.

    Raises:
        SourceError: nothing can be read there yet.
    """
    if "://" in path:
        names = runs(path)
        return {name: _Found(path, name if len(names) > 1 else None) for name in names}
    names = [name for name, _ in found_below(Path(path), None, places=below)]
    places = {place.name: place for place in below}
    found: dict[str, _Found] = {}
    for name in names:
        place = places.get(name)
        home = str(place.path) if place is not None and _has_a_folder(place, path) else None
        if name in known or place is None:
            found[name] = _Found(path, name, home)
        elif home is not None and not place.joined and _stands_alone(place):
            found[name] = _Found(home, None, home)
        else:
            found[name] = _Found(path, None if len(names) == 1 and place.run is None else name, home)
    return found


def _has_a_folder(place: Place, path: str) -> bool:
    """Whether a run has a folder to itself, below the path."""
    return place.run is None and place.path != Path(path) and place.path.is_dir()


def _stands_alone(place: Place) -> bool:
    """Whether the folder of a run holds all that is known of it, and nothing else."""
    if not all(config.is_relative_to(place.path) for config in place.configs):
        return False
    try:
        here = find(place.path)
        # a hundred logs that are read only to be told apart are a hundred that are read twice
        return len(here) == 1 and (is_surely_one(here[0]) or len(found_below(place.path, None, places=here)) == 1)
    except SourceError:
        return False
