"""Runs that lie elsewhere: object stores, trackers' servers, standard input.

Files of an object store are fetched into a folder that is removed at the end, by their names
relative to the address and only those that can be logs or settings; weights stay where they are.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from vario.errors import Malformed, NothingReadable
from vario.sources.opening import MAX_UNPACKED
from vario.sources.rows import Table

Named = list[tuple[str, Callable[[], Table]]]
MAX_FETCH = 4 << 30
"""More bytes than this are not fetched for one run; give the log's own address instead."""
MAX_FILES = 2000
PIECE = 1 << 20
WANTED = re.compile(
    r"(?i)(\.jsonl|\.ndjson|\.json|\.csv|\.tsv|\.log|\.txt|\.out|\.err|\.ipynb|\.wandb|\.db|\.sqlite3?|\.ya?ml|\.toml|\.parquet)(\.gz|\.zst)?$"
    r"|\.tfevents\.|(^|/)training_args\.bin$|(^|/)(metrics|params)/[^.]+$|(^|/)meta\.yaml$"
)
UNWANTED = re.compile(
    r"(^|/)(tokenizer|vocab|merges|added_tokens|special_tokens_map|model\.safetensors\.index)[^/]*$|(^|/)(completions|rollouts?)/"
)
_BROWSER = re.compile(r"^(https?://[^/#]+)/?#/experiments/[^/]+/runs/(\w+)")
"""The address of a run as MLflow's pages show it."""


def found_at(address: str, run: str | None) -> Named:
    """The runs at an address, and what reads each.

    Raises:
        NothingReadable: the address cannot be read, or a package that it needs is not installed.
    """
    if address == "-":
        return _standard_input(sys.stdin.buffer)
    if address.startswith("wandb://"):
        from vario.sources.wandb_server import found_in_wandb

        return found_in_wandb(address, run)
    if (page := _BROWSER.match(address)) or address.startswith(("mlflow+", "mlflow://")):
        from vario.sources.mlflow_server import found_in_mlflow

        return found_in_mlflow(f"mlflow+{page[1]}/{page[2]}" if page else address, run)
    if address.startswith("trackio://"):
        return _trackio(address.removeprefix("trackio://"), run)
    return _fetched(address, run)


def _standard_input(stream: IO[bytes]) -> Named:
    """Everything that comes through a pipe, kept in a file until it is read."""
    from vario.sources import found_below

    folder = tempfile.TemporaryDirectory(prefix="vario-")
    path = Path(folder.name) / "stdin"
    size = 0
    with path.open("wb") as kept:
        while piece := stream.read(PIECE):
            size += len(piece)
            if size > MAX_FETCH:
                raise Malformed(f"standard input: more than {MAX_FETCH >> 30} GiB; give the file itself")
            kept.write(piece)
    if not size:
        raise Malformed("standard input: empty; is the command before the pipe at fault?")
    return _kept(found_below(path, None, shown="-"), folder)


def _trackio(address: str, run: str | None) -> Named:
    """`trackio://project` or `trackio://project/run`, where trackio keeps its files on this machine."""
    import os

    from vario.sources import found_below

    project, _, name = address.partition("/")
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    folder = Path(os.environ.get("TRACKIO_DIR", home / "trackio"))
    path = folder / f"{project}.db"
    if not path.is_file():
        raise NothingReadable(
            f"trackio://{address}: no project {project!r} in {folder}; is TRACKIO_DIR set as in the training?"
        )
    return found_below(path, name or run)


def _fetched(address: str, run: str | None) -> Named:
    from vario.sources import found_below

    try:
        import fsspec
    except ImportError as error:
        raise NothingReadable(f"{address}: needs `pip install 'vario[remote]'` (fsspec)") from error
    folder = tempfile.TemporaryDirectory(prefix="vario-")
    try:
        filesystem, root = fsspec.core.url_to_fs(address)
        base = _fetch(filesystem, root, Path(folder.name), address)
    except (NothingReadable, Malformed):
        folder.cleanup()
        raise
    except ImportError as error:
        folder.cleanup()
        raise NothingReadable(f"{address}: {error}; install the package for this kind of address") from error
    except Exception as error:  # every file system raises its own errors; none of them is ours
        folder.cleanup()
        raise NothingReadable(
            f"{address}: cannot be read ({type(error).__name__}: {str(error)[:200]}); check the address and your credentials"
        ) from error
    return _kept(found_below(base, run, shown=address), folder)


def _fetch(filesystem: object, root: str, folder: Path, address: str) -> Path:
    """Copy what can be a log or a setting; the local path of what the address names."""
    info = filesystem.info(root)  # type: ignore[attr-defined]
    if info.get("type") == "file":
        target = folder / safe_name(PurePosixPath(root).name or "log")
        _copy(filesystem, root, target, int(info.get("size") or 0), address)
        return target
    listed: dict[str, dict[str, object]] = filesystem.find(root, maxdepth=6, detail=True)  # type: ignore[attr-defined]
    wanted = []
    for name, detail in sorted(listed.items()):
        relative = str(name).removeprefix(str(root).rstrip("/")).lstrip("/")
        if detail.get("type") == "file" and WANTED.search(relative) and not UNWANTED.search(relative):
            wanted.append((str(name), relative, int(detail.get("size") or 0)))  # type: ignore[call-overload]
    if not wanted:
        raise NothingReadable(f"{address}: {len(listed)} files, and none that could be a log of a training")
    if len(wanted) > MAX_FILES or sum(size for _, _, size in wanted) > MAX_FETCH:
        raise NothingReadable(
            f"{address}: {len(wanted)} files of {sum(s for _, _, s in wanted) >> 20} MiB could be logs; give the address of one run or one log"
        )
    for name, relative, size in wanted:
        parts = [safe_name(p) for p in PurePosixPath(relative).parts]
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(filesystem, name, target, size, address)
    return folder


def safe_name(name: str) -> str:
    """A file name that stays where it is put: no separators, no `..`."""
    cleaned = re.sub(r"[\\/\0:]", "_", name).strip()
    return "_" if cleaned in ("", ".", "..") else cleaned[:200]


def _copy(filesystem: object, name: str, target: Path, size: int, address: str) -> None:
    if size > MAX_FETCH:
        raise NothingReadable(f"{address}: {size >> 30} GiB are too much to fetch")
    got = 0
    with filesystem.open(name, "rb") as source, target.open("wb") as kept:  # type: ignore[attr-defined]
        while piece := source.read(PIECE):
            got += len(piece)
            if got > min(MAX_FETCH, MAX_UNPACKED):
                raise NothingReadable(f"{address}: {name} does not end; more than {MAX_FETCH >> 30} GiB came")
            kept.write(piece)


def _kept(named: Named, folder: tempfile.TemporaryDirectory[str]) -> Named:
    """The same readers, holding the fetched folder for as long as they are needed."""

    def holding(make: Callable[[], Table]) -> Callable[[], Table]:
        def made() -> Table:
            table = make()
            table.warnings = [w.replace(folder.name, "").lstrip("/") for w in table.warnings]
            return table

        made.folder = folder  # type: ignore[attr-defined]
        return made

    return [(name, holding(make)) for name, make in named]
