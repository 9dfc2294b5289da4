"""Whether the files of a run have changed: sizes, times and identities, without reading any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vario.sources.folder import look
from vario.sources.marks import NAME as MARKS

JOURNALS = ("", "-wal")
"""What a database writes beside itself: its main file may stay as it is for minutes."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The state of a run's files.

    Attributes:
        files: identity, size and time (ns) of each, in order.
        written_at: the latest time of change, in seconds since 1970; None where there is no file.
    """

    files: tuple[tuple[int, int, int], ...]
    written_at: float | None


def stamp(path: Path) -> Stamp | None:
    """The state of a log, or of everything in a folder that a diagnosis reads; None where nothing is."""
    try:
        found = tuple(_states(_paths(path)))
        if not found and not path.exists():
            return None
    except PermissionError:  # it may be there: whoever reads it says what is wrong
        return Stamp((), None)
    except OSError:
        return None
    return Stamp(found, max((t for _, _, t in found), default=0) / 1e9 or None)


def is_folder(path: str) -> bool:
    """Whether a folder lies there, as far as one may look."""
    return "://" not in path and os.path.isdir(path)  # noqa: PTH112  (of a path it would raise where nobody may look)


def _paths(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        yield path.parent / MARKS
        return
    found = look(path)
    yield path / MARKS
    yield from (*found.states, *found.logs, *found.configs)
    yield from (step for _, step in found.checkpoints)
    yield from found.dumps
    for store in found.stores:
        yield from _below(store)


def _below(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))
            else:
                yield Path(entry.path)


def _states(paths: Iterator[Path]) -> Iterator[tuple[int, int, int]]:
    for path in paths:
        for suffix in JOURNALS:
            try:
                told = os.stat(f"{path}{suffix}")  # noqa: PTH116  (many files, many times)
            except OSError:
                continue
            yield told.st_ino, told.st_size, told.st_mtime_ns
