"""What lies below a root: folders from the top down with their files, on a disk or in an object store.

A store is listed once, with names, sizes and times; nothing is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from vario.errors import NothingReadable

TIMES = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "updated", "created")
"""What the file systems of fsspec say of a file's state, the surest first."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as far as a listing tells: when `size` or `stamp` changes, its content may have."""

    size: int
    stamp: str


@dataclass(slots=True)
class Folder:
    """A folder; who walks takes names out of `folders` that it does not want to see."""

    path: Path
    folders: list[str]
    files: dict[str, File] = field(default_factory=dict)
    denied: str = ""


def walk(root: Path) -> Iterator[Folder]:
    """Folders on a disk. Links to folders are not followed, so that no run is met twice."""
    denied: list[OSError] = []
    for where, folders, names in os.walk(root, onerror=denied.append):
        here = Path(where)
        # a folder that could not be listed is told when its parent's turn has passed
        yield from _told(denied)
        folders[:] = sorted(f for f in folders if not (here / f).is_symlink())
        found = Folder(here, folders)
        for name in sorted(names):
            try:
                told = os.stat(here / name)  # noqa: PTH116  (a hundred thousand times over)
            except OSError:
                found.files[name] = File(0, "gone")
            else:
                found.files[name] = File(told.st_size, str(told.st_mtime_ns))
        yield found
    yield from _told(denied)


def _told(denied: list[OSError]) -> Iterator[Folder]:
    while denied:
        error = denied.pop(0)
        yield Folder(Path(str(error.filename)), [], denied=error.strerror or str(error))


def walk_store(address: str) -> Iterator[Folder]:
    """Folders of an object store, below the path "."; one file by itself is a folder without a name.

    Raises:
        NothingReadable: the address cannot be listed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise NothingReadable(f"{address}: needs `pip install 'vario[remote]'` (fsspec)") from error
    try:
        filesystem, base = fsspec.core.url_to_fs(address)
        filesystem.invalidate_cache()
        listed: dict[str, Mapping[str, object]] = filesystem.find(base, detail=True)
    except ImportError as error:
        raise NothingReadable(f"{address}: {error}; install the package for this kind of address") from error
    except Exception as error:  # every file system raises its own errors; none of them is ours
        raise NothingReadable(
            f"{address}: cannot be listed ({type(error).__name__}: {str(error)[:200]}); "
            "check the address and your credentials"
        ) from error
    files = {}
    for name, detail in listed.items():
        relative = str(name).removeprefix(str(base).rstrip("/")).lstrip("/")
        if relative and detail.get("type") == "file":
            stamp = next((str(detail[key]) for key in TIMES if detail.get(key)), "")
            files[PurePosixPath(relative)] = File(int(str(detail.get("size") or 0)), stamp)
    if not files:
        raise NothingReadable(f"{address}: nothing lies there; check the address")
    return _tree(files)


def _tree(files: Mapping[PurePosixPath, File]) -> Iterator[Folder]:
    folders: dict[PurePosixPath, Folder] = {PurePosixPath("."): Folder(Path(), [])}
    for name in sorted(files):
        for above in [*reversed(name.parents[:-1]), name.parent]:
            if above not in folders:
                folders[above] = Folder(Path(above), [])
                folders[above.parent].folders.append(above.name)
        folders[name.parent].files[name.name] = files[name]

    def down(path: PurePosixPath) -> Iterator[Folder]:
        here = folders[path]
        yield here
        for name in here.folders:
            yield from down(path / name)

    return down(PurePosixPath("."))


def fingerprint(parts: Iterable[tuple[str, File]], *more: str) -> str:
    """Equal for equal names, sizes, times and words."""
    made = hashlib.sha256()
    for name, file in sorted(parts, key=lambda p: p[0]):
        made.update(f"{name}\0{file.size}\0{file.stamp}\0".encode(errors="surrogateescape"))
    for word in more:
        made.update(f"\1{word}".encode(errors="surrogateescape"))
    return made.hexdigest()[:32]


def state_of(path: Path) -> str:
    """The fingerprint of a file or of all files below a folder; what is not there has one too."""
    if path.is_dir():
        parts = [(str(f.path / name), file) for f in walk(path) for name, file in f.files.items()]
        return fingerprint(parts)
    try:
        told = path.stat()
    except OSError:
        return "none"
    return fingerprint([(str(path), File(told.st_size, str(told.st_mtime_ns)))])
