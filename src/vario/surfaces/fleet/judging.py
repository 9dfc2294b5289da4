"""The task of a worker: read a run, judge it as `vario diagnose` does, and return plain data, whatever happens."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vario.errors import ConfigError, SeveralRuns, SourceError
from vario.run import Run
from vario.sources import runs
from vario.sources.merging import agree
from vario.sources.places import find, load
from vario.surfaces.cli.wishes import runs_at
from vario.surfaces.fleet.jobs import Job
from vario.surfaces.fleet.listing import state_of
from vario.verdict import diagnose, to_json
from vario.verdict.serial import VERSION, Json
from vario.work import Lost, attempt

Document = dict[str, Json]
SCHEMA = "fleet/v1"
"""Of a line without a diagnosis."""
OK, FAILED, UNREADABLE = "ok", "failed", "unreadable"


def judged(job: Job) -> list[Document]:
    """A document for each run of a job; none where it turns out to hold no run of its own."""
    begun = time.perf_counter()
    if job.cwd != str(Path.cwd()) and Path(job.cwd).is_dir():
        os.chdir(job.cwd)  # a worker of a cluster was started elsewhere
    if job.reason:
        return [] if job.weak else [without_diagnosis(job, UNREADABLE, job.reason)]
    made: list[Document] = []
    results = _results(job)
    while True:
        found = attempt(lambda _: next(results, None), None)
        if isinstance(found, Lost):  # what has raised is at its end
            made.append(without_diagnosis(job, FAILED, found.reason, time.perf_counter() - begun))
            break
        if found is None:
            break
        made.append(found)
    _tell_apart(job, made)
    return made


def _tell_apart(job: Job, made: list[Document]) -> None:
    """Names for several runs of one path, which only `--run` tells apart."""
    names: list[str] = []
    if len(made) > 1 and job.run is None and not job.nested:
        names = runs(job.path)
    for index, document in enumerate(made):
        fleet = document["fleet"]
        assert isinstance(fleet, dict)
        fleet["of"] = len(made)
        if len(names) == len(made):
            fleet["run"], fleet["name"] = names[index], f"{job.name}#{names[index]}"


def without_diagnosis(job: Job, status: str, reason: str, seconds: float = 0.0) -> Document:
    """The line of a run that could not be judged."""
    fleet = _fleet(job, job.name, status, seconds) | {"reason": reason}
    return {"schema": SCHEMA, "vario": VERSION, "run": {"path": job.path}, "fleet": fleet}


def _fleet(job: Job, name: str, status: str, seconds: float) -> dict[str, Json]:
    return {
        "path": job.path,
        "run": job.run,
        "name": name,
        "root": job.root,
        "status": status,
        "fingerprint": job.fingerprint,
        "seconds": round(seconds, 3),
        "of": 1,
    }


def _results(job: Job) -> Iterator[Document]:
    """The documents, without the count of them."""
    options = argparse.Namespace(**vars(job.options))
    options.run, options.all = job.run, job.run is None and not job.nested
    own = False
    begun = time.perf_counter()
    for found in runs_at(options, job.path):
        if isinstance(found, SeveralRuns) and job.run is None:
            for name in found.names:
                if f"{job.path}/{name}" not in job.nested:
                    own = True
                    yield from _results(replace(job, name=f"{job.name}#{name}", run=name, nested=()))
        elif isinstance(found, ConfigError):
            own = True
            yield without_diagnosis(job, FAILED, str(found), time.perf_counter() - begun)
        elif isinstance(found, SourceError):
            own = True
            if not job.weak:
                yield without_diagnosis(job, UNREADABLE, str(found), time.perf_counter() - begun)
        elif not _is_nested(found[0], job):
            own = True
            run, choice = found
            if _is_part(job):
                continue
            diagnosis = diagnose(run, replay=options.replay, choice=choice)
            fleet = _fleet(job, job.name, OK, time.perf_counter() - begun)
            fleet["elsewhere"] = _elsewhere(job, run)
            yield to_json(diagnosis) | {"fleet": fleet}
        begun = time.perf_counter()
    if not own and not job.weak:
        yield without_diagnosis(job, UNREADABLE, _why_not(job))


def _is_nested(run: Run, job: Job) -> bool:
    """Whether it is one of those below, which is read where a folder's own log cannot be."""
    return any(run.path == path or run.path.startswith((f"{path}/", f"{path}#")) for path in job.nested)


def _why_not(job: Job) -> str:
    try:
        for place in find(Path(job.path)):
            if place.own:
                load(place)
    except SourceError as error:
        return str(error)
    return f"{job.path}: no log of its own that can be read"


def _is_part(job: Job) -> bool:
    """Whether it is another tracker's copy of the run that it lies in: that run's diagnosis has taken it in."""
    if job.above is None:
        return False
    try:
        above, own = ([t for p in find(Path(path)) if p.own for t in load(p)] for path in (job.above, job.path))
    except SourceError:
        return False
    return len(above) == len(own) == 1 and above[0].kind != own[0].kind and bool(agree(above[0], own[0]))


def _elsewhere(job: Job, run: Run) -> dict[str, Json]:
    """Completions outside the run's folder, which its settings named: the listing could not know them."""
    home = Path(job.path)
    return {
        place: state_of(Path(place))
        for place in run.dumps
        if "://" not in place and "://" not in job.path and not Path(place).is_relative_to(home)
    }
