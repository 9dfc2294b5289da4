"""A fleet at work: what is known is kept, the rest is spread over workers, and each result is stored as it comes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from vario.surfaces.fleet.jobs import Job
from vario.surfaces.fleet.judging import FAILED, OK, Document, judged, without_diagnosis
from vario.surfaces.fleet.progress import progress
from vario.surfaces.fleet.store import Store
from vario.surfaces.privacy import safe
from vario.work import Lost, Work


@dataclass(slots=True)
class Flown:
    """What came of it.

    Attributes:
        documents: of every job that is done, in no order. known: jobs that did not have to be done again.
        done: jobs that are done, `known` among them.
        interrupted: the user wished it to end.
    """

    documents: list[Document] = field(default_factory=list)
    known: int = 0
    done: int = 0
    interrupted: bool = False


def fly(jobs: Sequence[Job], work: Work, store: Store | None, *, quiet: bool) -> Flown:
    """Have every job done that is not known already; what is interrupted keeps what it has."""
    flown = Flown()
    known = store.known(jobs) if store is not None else {}
    for documents in known.values():
        flown.documents += documents
    flown.known = flown.done = len(known)
    if store is not None:
        store.begin(flown.documents, sorted({job.root for job in jobs}))
    # the largest first: a long one that begins last keeps everybody waiting
    waiting = sorted((job for job in jobs if job.key not in known), key=lambda job: -job.size)
    if not waiting:
        return flown
    if known and not quiet:
        print(f"{len(known)} of {len(jobs)} are known from {store.place if store else ''}", file=sys.stderr)
    results = work.each(judged, waiting)
    with progress(len(jobs), quiet=quiet, done=len(known)) as told:
        try:
            for index, result in results:
                job = waiting[index]
                made = [without_diagnosis(job, FAILED, result.reason)] if isinstance(result, Lost) else result
                flown.documents += made
                flown.done += 1
                if store is not None:
                    store.add([d for d in made if _status(d) == OK])
                told(safe(job.name))
        except KeyboardInterrupt:
            flown.interrupted = True
            if hasattr(results, "close"):
                results.close()
    return flown


def _status(document: Document) -> object:
    fleet = document["fleet"]
    assert isinstance(fleet, dict)
    return fleet["status"]
