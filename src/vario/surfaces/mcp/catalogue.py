"""The runs at the roots: found as a fleet is, judged as a fleet is, and named by ids that stay."""

from __future__ import annotations

import argparse
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vario.errors import ConfigError, SeveralRuns, SourceError
from vario.sources import runs
from vario.surfaces.fleet.jobs import Job, jobs_below
from vario.surfaces.fleet.judging import UNREADABLE, Document, judged, without_diagnosis
from vario.surfaces.live.stamp import stamp
from vario.surfaces.mcp.ids import ID, Ref
from vario.surfaces.mcp.shelf import Shelf
from vario.verdict.serial import Json

OPTIONS = argparse.Namespace(
    map=[], config=None, only=[], without=[], rules=[], baseline=None, reference=None, replay=True, count=True, all_text=False
)  # fmt: skip
"""A judgement by nothing but the project file."""
PATIENCE = 20.0
"""Seconds after which no further run is judged in one call: clients give up on tools that take a minute."""
MOST_DOCUMENTS = 2_000
MOST_TOLD = 64
"""Lists that are remembered: more agents than ask one server, each with its last one."""
LONGEST = 120
"""Characters of a word that an error repeats."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a call found.

    Attributes:
        documents: as `vario fleet --json` has them, without what no row needs.
        changed_at: when the files of each path changed last, in seconds since 1970.
        pending: runs that no call has judged as they stand now.
        unchanged: how many were left out because nothing of them has changed.
        there: every run that was found, as far as files tell runs apart.
    """

    documents: tuple[Document, ...]
    changed_at: dict[str, float]
    pending: tuple[Job, ...]
    unchanged: int
    there: frozenset[Ref]


@dataclass(frozen=True, slots=True)
class Told:
    """What was there when a list was made, and the paths of what it had no room for."""

    there: frozenset[Ref]
    withheld: frozenset[str]


class Catalogue:
    """Finds runs by where they lie and by their ids."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._known: dict[str, Ref] = {}
        self._documents: OrderedDict[tuple[str, str | None, str], list[Document]] = OrderedDict()
        self._told: OrderedDict[str, Told] = OrderedDict()

    def ref(self, word: str) -> Ref:
        """The run of an id, or at a path.

        Raises:
            ConfigError: there is none, or it lies outside of the roots.
        """
        word = word.strip()
        if not word:
            raise ConfigError("which run? list_runs gives the ids")
        if word in self._known:
            return self._known[word]
        if ID.fullmatch(word):
            for ref in self._refs():
                self.named(ref)
                if ref.id == word:
                    return ref
        told = word if len(word) <= LONGEST else f"{word[:LONGEST]}..."
        nothing = f"{told}: no run has this id, and nothing lies at such a path; list_runs gives the ids"
        try:
            place = self.shelf.roots.admit(word)
            is_there = "://" in place or Path(place).exists()
        except ConfigError as error:
            raise ConfigError(f"{error}; list_runs gives the ids") from error
        except (OSError, ValueError) as error:  # a name that no file can have
            raise ConfigError(nothing) from error
        if not is_there:
            raise ConfigError(nothing)
        return self.named(Ref(place))

    def named(self, ref: Ref) -> Ref:
        """The same; from now on its id is known."""
        self._known[ref.id] = ref
        return ref

    def several(self, ref: Ref, error: SeveralRuns) -> ConfigError:
        """What to say of a place where several runs lie: the id of each."""
        here = Path(ref.path)
        below = [one for one in self._refs() if one.run is not None or Path(one.path) != here]
        found = [one for one in below if Path(one.path).is_relative_to(here)]
        ids = [self.named(one).id for one in found or [Ref(ref.path, name) for name in error.names]]
        more = f" and {len(ids) - 12} more" if len(ids) > 12 else ""
        return ConfigError(f"{ref.path}: {len(ids)} runs lie here; ask for one of {', '.join(ids[:12])}{more}")

    def tell(self, as_of: str, told: Told) -> None:
        """Remember what a list told, for who gives its moment back."""
        self._told[as_of] = told
        while len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)

    def told(self, as_of: str | None) -> Told | None:
        """What the list of that moment told; None where it is another server's, or long ago."""
        return None if as_of is None else self._told.get(as_of.strip())

    def listing(
        self, since: float | None = None, patience: float = PATIENCE, wanted: frozenset[str] = frozenset()
    ) -> Listing:
        """Every run, judged where its files have changed, those that changed last first.

        Args:
            since: only runs of which a file has changed after it, in seconds since 1970.
            patience: seconds after which what has not been judged is left for the next call; one is judged always.
            wanted: paths of runs that are listed, whether they have changed or not.
        """
        found, lost = self._jobs()
        changed = {job.path: moment for job in found if (moment := _changed(job.path)) is not None}
        asked = [
            job for job in found if since is None or job.path in wanted or changed.get(job.path, since + 1.0) > since
        ]
        asked.sort(key=lambda job: (-changed.get(job.path, 0.0), job.path, job.run or ""))
        documents, pending = list(lost), []
        end, none_yet = time.monotonic() + patience, True
        for job in asked:
            kept = self._documents.get(_key(job)) if job.fingerprint else None
            if kept is None and not none_yet and time.monotonic() > end:
                pending.append(job)
                continue
            if kept is None:
                none_yet = False
                kept = self._judged(job)
            documents += kept
        there = frozenset(Ref(job.path, job.run) for job in found)
        return Listing(tuple(documents), changed, tuple(pending), len(found) - len(asked), there)

    def _judged(self, job: Job) -> list[Document]:
        with self.shelf.lock:
            try:
                self.shelf.roots.check_links(job.path)
                made = [_slim(one) for one in judged(job)]
            except ConfigError as error:
                made = [without_diagnosis(job, UNREADABLE, str(error))]
            self._documents[_key(job)] = made
            while len(self._documents) > MOST_DOCUMENTS:
                self._documents.popitem(last=False)
        return made

    def _jobs(self) -> tuple[list[Job], list[Document]]:
        jobs: dict[tuple[str, str | None], Job] = {}
        lost: list[Document] = []
        for root in self.shelf.roots.all:
            try:
                for job in jobs_below(root, OPTIONS):
                    jobs.setdefault(job.key, job)
            except (SourceError, OSError) as error:
                lost.append(without_diagnosis(Job(root, root, root, OPTIONS), UNREADABLE, str(error)))
        return list(jobs.values()), lost

    def _refs(self) -> Iterator[Ref]:
        """Every run by where it lies, then those that only a look into a file tells apart."""
        found, _ = self._jobs()
        yield from (Ref(job.path, job.run) for job in found)
        for job in found:
            if job.run is None and not job.reason:
                try:
                    names = runs(job.path)
                except (SourceError, OSError):
                    continue
                if len(names) > 1:
                    yield from (Ref(job.path, name) for name in names)


def _key(job: Job) -> tuple[str, str | None, str]:
    return (*job.key, job.fingerprint)


def _changed(path: str) -> float | None:
    told = stamp(Path(path)) if "://" not in path else None
    return told.written_at if told is not None else None


def _slim(document: Document) -> Document:
    run = document.get("run")
    kept: dict[str, Json] = (
        {k: v for k, v in run.items() if not isinstance(v, dict | list)} if isinstance(run, dict) else {}
    )
    return {k: document[k] for k in ("schema", "fleet", "verdict", "findings") if k in document} | {"run": kept}
