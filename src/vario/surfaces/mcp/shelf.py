"""Runs that have been read and judged, kept as long as their files stay as they are, and no more of them than a few."""

from __future__ import annotations

import argparse
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path

from vario.errors import ConfigError
from vario.project_file import Project, find_project
from vario.run import Run
from vario.sources.sampled import SampleOptions
from vario.surfaces.cli.wishes import Wishes, sample_options
from vario.surfaces.live.stamp import Stamp, stamp
from vario.surfaces.mcp.ids import Ref
from vario.surfaces.mcp.roots import Roots
from vario.verdict import Diagnosis, diagnose

MOST_RUNS = 8
MOST_STEPS = 6
"""Moments of one run of which the diagnosis is kept."""
OF_FILES = ("baseline", "reference", "test-run")
Mark = tuple[Stamp | None, ...]


@dataclass(slots=True)
class Held:
    """A run as it was read last.

    Attributes:
        mark: the state of all that the reading rests on, taken before it; None where nothing tells.
        how: how its completions are read. elsewhere: where they lie, outside the run's own place.
        warnings: what a reader of the run should know beside its own warnings.
        looks: diagnoses by step, None for the whole run.
    """

    run: Run
    wishes: Wishes
    how: SampleOptions
    mark: Mark | None
    changed_at: float | None
    elsewhere: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    looks: OrderedDict[int | None, Diagnosis] = field(default_factory=OrderedDict)


class Shelf:
    """Reads and judges runs, one at a time, and only what has changed since.

    `lock` is held while a run is read or judged: whoever judges elsewhere takes it, too.
    """

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.lock = threading.RLock()
        self.readings = 0
        self._held: OrderedDict[Ref, Held] = OrderedDict()

    def held(self, ref: Ref) -> Held:
        """The run as its files say now.

        Raises:
            SourceError: it cannot be read. ConfigError: it may not be, or its vario.toml says what cannot be.
        """
        with self.lock:
            # a folder on the way may have become a link meanwhile
            if "://" not in ref.path and not self.roots.holds(Path(ref.path).resolve()):
                raise ConfigError(f"{ref.path}: leads out of what this server may read")
            project = find_project(ref.path)
            known = self._held.get(ref)
            if known is not None and known.mark is not None and known.mark == _mark(ref, project, known.elsewhere):
                self._held.move_to_end(ref)
                return known
            self.roots.check_links(ref.path)
            made = self._read(ref, project)
            self._held[ref] = made
            self._held.move_to_end(ref)
            while len(self._held) > MOST_RUNS:
                self._held.popitem(last=False)
            return made

    def look(self, ref: Ref, step: int | None = None) -> tuple[Held, Diagnosis]:
        """The run, and its diagnosis at a step.

        Raises:
            ConfigError: nothing was logged at or before the step.
        """
        with self.lock:
            held = self.held(ref)
            run, last = held.run, held.run.last_step
            if step is not None and last is not None and step >= last:
                step = None
            if step not in held.looks:
                part = run if step is None else run.until(step)
                if not part.logged_steps.size:
                    raise ConfigError(
                        f"{ref.path}: no row at or before step {step}; it begins at step {run.first_step}"
                    )
                held.looks[step] = diagnose(part, choice=held.wishes.choice)
                while len(held.looks) > MOST_STEPS:
                    held.looks.popitem(last=False)
            held.looks.move_to_end(step)
            return held, held.looks[step]

    def _read(self, ref: Ref, project: Project) -> Held:
        before = _mark(ref, project, ())
        options = argparse.Namespace(map=[], run=ref.run)
        wishes = Wishes.of(options, ref.path)
        self.readings += 1
        run = wishes.apply(wishes.read(ref.path, options), options)
        elsewhere = tuple(p for p in run.dumps if "://" not in p and not Path(p).is_relative_to(ref.path))
        places = set(wishes.project.samples if wishes.project.here else ())
        outside = [p for p in run.dumps if p not in places and not self._may_show(p, ref)]
        warnings = tuple(f"completions in {p} lie outside of what this server may read: not shown" for p in outside)
        if outside:
            run = replace(run, dumps=tuple(p for p in run.dumps if p not in outside))
        mark = None if before is None else before + _states(elsewhere)
        told = before[0] if before else None
        changed = told.written_at if told is not None else None
        return Held(run, wishes, sample_options(options, wishes.project), mark, changed, elsewhere, warnings)

    def _may_show(self, place: str, ref: Ref) -> bool:
        if "://" in place:
            return "://" in ref.path and place.startswith(ref.path)
        if not self.roots.holds(Path(place).resolve()):
            return False
        try:
            self.roots.check_links(place)
        except ConfigError:
            return False
        return True


def _mark(ref: Ref, project: Project, elsewhere: tuple[str, ...]) -> Mark | None:
    """The state of the run's files, of the project file, and of all that it names; None for an address."""
    if "://" in ref.path:
        return None
    named = [project.path, *(project.of_file(word) for word in OF_FILES), *project.load]
    return (stamp(Path(ref.path)), *(None if p is None else stamp(p) for p in named), *_states(elsewhere))


def _states(places: tuple[str, ...]) -> Mark:
    return tuple(stamp(Path(place)) for place in places)
