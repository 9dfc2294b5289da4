"""From roots to jobs: one for each run that lies there, with the fingerprint of all that its judgement depends on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vario.errors import ConfigError, SourceError
from vario.project_file import find_project
from vario.sources import runs
from vario.sources.folder import CONFIG_NAMES
from vario.sources.marks import NAME as MARKS
from vario.surfaces.fleet.homes import Home, homes, names_of
from vario.surfaces.fleet.listing import fingerprint, state_of, walk, walk_store
from vario.verdict.serial import VERSION

TRACKERS = ("wandb://", "mlflow+", "mlflow://", "trackio://")
"""Addresses whose runs are listed by their names."""
SINGLE = ("http://", "https://")
"""Addresses that are one run, or one list of runs, and are not walked."""
DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
MAX_BESIDE = 12
"""A home with more homes below it is a shelf of runs: none of them is looked at as its part."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker gets: a path that holds a run, or several that only reading can tell apart.

    Attributes:
        path: what `vario diagnose` would be given. run: which of several there, where that is known.
        name: what it is called in the table.
        root: the root that it was found below.
        fingerprint: of its files and of all that the judgement depends on; "" where nothing tells.
        options: what the user wishes of the judgement.
        nested: runs that lie below it and have jobs of their own.
        above: the run that it lies in, and may be a part of.
        weak: its files may be no log at all.
        reason: why it cannot be read, where the listing told.
        size: bytes to read.
        cwd: where paths are relative to, and where the user's vario.toml lies.
    """

    path: str
    name: str
    root: str
    options: argparse.Namespace
    run: str | None = None
    fingerprint: str = ""
    nested: tuple[str, ...] = ()
    above: str | None = None
    weak: bool = False
    reason: str = ""
    size: int = 0
    cwd: str = field(default_factory=os.getcwd)

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells it from every other."""
        return self.path, self.run


def jobs_below(root: str, options: argparse.Namespace, without: frozenset[Path] = frozenset()) -> list[Job]:
    """The jobs of a root: a folder, a file, or an address.

    Raises:
        SourceError: nothing there can be listed.
    """
    shared = _shared(options)
    if root.startswith(TRACKERS):
        return [Job(root, f"{root}#{name}", root, options, run=name) for name in runs(root)]
    if "://" in root and not root.startswith(SINGLE):
        return _jobs_of_store(root.rstrip("/"), options, shared)
    path = Path(root)
    if not path.is_dir():
        return [Job(root, path.name if "://" not in root else root, root, options, fingerprint=_of_file(path, shared))]
    made: list[Job] = []
    found = homes(path, walk(path), on_disk=True, without=without)
    shelves = {home.path for home in found if len(home.nested) >= MAX_BESIDE}
    for home in found:
        if home.above in shelves:
            home.above = None
        made += _jobs_of_home(home, path, root, options, shared)
    return made


def _jobs_of_home(home: Home, root: Path, shown: str, options: argparse.Namespace, shared: str) -> Iterator[Job]:
    name = str(home.path.relative_to(root)) if home.path != root else (root.resolve().name or str(root))
    mark = fingerprint(names_of(home), shared, _project(str(home.path)))
    if home.logs and all(log.suffix in DATABASES for log in home.logs) and len(home.files) >= len(home.logs):
        for log in home.logs:
            short = name if home.path == root and len(home.logs) == 1 else f"{name}/{log.name}"
            try:
                for run in runs(log):
                    yield Job(str(log), f"{short}#{run}", shown, options, run=run, fingerprint=mark, size=home.size)
            except SourceError as error:
                yield Job(str(log), short, shown, options, reason=str(error), weak=True)
        return
    yield Job(
        str(home.path),
        name,
        shown,
        options,
        fingerprint=mark,
        nested=tuple(str(p) for p in home.nested),
        above=str(home.above) if home.above is not None else None,
        weak=home.weak and (bool(home.nested) or home.above is not None),
        reason=home.reason,
        size=home.size,
    )


def _jobs_of_store(address: str, options: argparse.Namespace, shared: str) -> list[Job]:
    made = []
    for home in homes(Path(), walk_store(address), on_disk=False):
        below = home.path.as_posix()
        if home.nested and home.weak:
            continue  # a text beside runs: to look into it would fetch them all
        made.append(
            Job(
                address if below == "." else f"{address}/{below}",
                address.rpartition("/")[2] if below == "." else below,
                address,
                options,
                fingerprint=fingerprint(names_of(home), shared, _project(address)),
                nested=tuple(f"{address}/{p.as_posix()}" for p in home.nested),
                reason=home.reason,
                size=home.size,
            )
        )
    if made:
        return made
    return [Job(address, address.rpartition("/")[2], address, options)]


def _of_file(path: Path, shared: str) -> str:
    beside = (state_of(path.with_name(name)) for name in sorted({*CONFIG_NAMES, MARKS}))
    return fingerprint([], state_of(path), shared, _project(str(path)), *beside)


def _shared(options: argparse.Namespace) -> str:
    """What counts for every run: the version, the options, and the files that they name."""
    words = [VERSION, *(f"{k}={v}" for k, v in sorted(vars(options).items()))]
    named = [*getattr(options, "rules", []), getattr(options, "baseline", None), getattr(options, "reference", None)]
    return fingerprint([], *words, *(state_of(Path(p)) for p in named if p))


def _project(path: str) -> str:
    """The state of the project file that counts for a path, and of the files that it names."""
    try:
        project = find_project(path)
    except (ConfigError, OSError) as error:
        return str(error)
    if project.path is None:
        return ""
    named = [project.path, *(project.of_file(word) for word in ("baseline", "reference", "test-run")), *project.load]
    return fingerprint([], *(state_of(p) for p in named if p is not None))
