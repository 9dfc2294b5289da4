"""Runs that lie elsewhere: object stores, trackers' servers, standard input.

Files of an object store are fetched into a folder that is removed at the end, by their names
relative to the address and only those that can be logs or settings; weights stay where they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from glob import escape
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote, urlsplit

from vario.errors import Malformed, NothingReadable
from vario.sources.folder import DUMP_FILE, ROLLOUT_FOLDERS
from vario.sources.mlflow_server import BROWSER, found_in_mlflow
from vario.sources.opening import MAX_UNPACKED
from vario.sources.readers import mlflow_database
from vario.sources.rows import Table

Named = list[tuple[str, Callable[[], Table]]]
MAX_FETCH = 4 << 30
"""More bytes than this are not fetched for one run; give the log's own address instead."""
MAX_FILES = 2000
MAX_DEPTH, MAX_LINKS = 6, 4
"""Folders are listed so many levels down, and pages of links, where each folder is a request, not as many."""
MAX_NAME = 200
"""Bytes of a name that every file system takes."""
PIECE = 1 << 20
WANTED = re.compile(
    r"(?i)(\.jsonl|\.ndjson|\.json|\.csv|\.tsv|\.log|\.txt|\.out|\.err|\.ipynb|\.wandb|\.ya?ml|\.toml|\.parquet)(\.gz|\.zst)?$"
    r"|\.(db|sqlite3?)(-wal)?$|\.tfevents\.|(^|/)training_args\.bin$|(^|/)meta\.yaml$"
    r"|(^|(^|/)[0-9a-f]{32}/)(metrics|params)/."  # a run of MLflow's file store: a file for each key, dots and all
)
UNWANTED = re.compile(
    r"(^|/)(tokenizer|vocab|merges|added_tokens|special_tokens_map|model\.safetensors\.index)[^/]*$|(^|/)(completions|rollouts?)/"
)
_WANDB_PAGE = re.compile(r"^https?://(?:[\w-]+\.)?wandb\.ai/([^/?#]+)/([^/?#]+)(?:/runs/([^/?#]+))?")
"""The address of a run or of a project as W&B's pages show it."""


def found_at(address: str, run: str | None, *, every: bool = False) -> Named:
    """The runs at an address, and what reads each.

    Raises:
        NothingReadable: the address cannot be read, or a package that it needs is not installed.
    """
    if address == "-":
        return _standard_input(sys.stdin.buffer, run, every=every)
    if page := _WANDB_PAGE.match(address):
        address = "wandb://" + "/".join(part for part in page.groups() if part)
    if address.startswith("wandb://"):
        from vario.sources.wandb_server import found_in_wandb

        return found_in_wandb(address, run)
    if address.startswith(("mlflow+sqlite:", "mlflow+file:")):
        return _mlflow_store(address, run, every=every)
    if BROWSER.match(address) or address.startswith(("mlflow+", "mlflow://")):
        return found_in_mlflow(address, run)
    if address.startswith("trackio://"):
        return _trackio(address.removeprefix("trackio://"), run, every=every)
    return _fetched(address, run, every=every)


class _Folder:
    """A folder that is removed when no reader needs it any more, and at the end at the latest."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="vario-")).resolve()
        self.remove = weakref.finalize(self, shutil.rmtree, str(self.path), ignore_errors=True)


def _standard_input(stream: IO[bytes], run: str | None, *, every: bool) -> Named:
    """Everything that comes through a pipe, kept in a file until it is read."""
    folder = _Folder()
    path = folder.path / "stdin"
    size = 0
    with path.open("wb") as kept:
        while piece := stream.read(PIECE):
            size += len(piece)
            if size > MAX_FETCH:
                raise Malformed(f"standard input: more than {MAX_FETCH >> 30} GiB; give the file itself")
            kept.write(piece)
    if not size:
        raise Malformed("standard input: empty; is the command before the pipe at fault?")
    return _named(folder, path, "-", run, every=every)


def _trackio(address: str, run: str | None, *, every: bool) -> Named:
    """`trackio://project` or `trackio://project/run`, where trackio keeps its files on this machine."""
    from vario.sources import found_below

    project, _, name = address.partition("/")
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    folder = Path(os.environ.get("TRACKIO_DIR", home / "trackio"))
    # trackio leaves blanks and the like out of the file's name
    path = folder / f"{''.join(c for c in project if c.isalnum() or c in '-_')}.db"
    if not path.is_file():
        raise NothingReadable(
            f"trackio://{address}: no project {project!r} in {folder}; is TRACKIO_DIR set as in the training?"
        )
    return found_below(path, name or run, every=every)


def _mlflow_store(address: str, run: str | None, *, every: bool) -> Named:
    """`mlflow+sqlite:///FILE/RUN_ID` or `mlflow+file:///FOLDER/RUN_ID`, as MLflow writes its own store; without an id, all runs there."""
    from vario.sources import found_below

    store = urlsplit(address.removeprefix("mlflow+"))
    # sqlite:///relative and sqlite:////absolute, as SQLAlchemy has them
    path = Path(unquote(store.path[1:] if store.scheme == "sqlite" else store.path))
    if path.exists():
        return found_below(path, run, every=every)
    if not path.parent.exists():
        raise NothingReadable(f"{address}: there is no {path.parent}")
    if store.scheme == "sqlite":
        return [(path.name, lambda: mlflow_database.read(path.parent, path.name))]
    own = next(path.parent.glob(f"*/{escape(path.name)}"), None)
    if own is None:
        raise NothingReadable(f"{address}: no experiment in {path.parent} has a run {path.name}")
    return found_below(own, run, every=every)


def _fetched(address: str, run: str | None, *, every: bool) -> Named:
    from vario.sources import found_below

    try:
        import fsspec
        from fsspec.implementations.local import LocalFileSystem
    except ImportError as error:
        raise NothingReadable(f"{address}: needs `pip install 'vario[remote]'` (fsspec)") from error
    folder = _Folder()
    try:
        filesystem, root = fsspec.core.url_to_fs(address)
        if isinstance(filesystem, LocalFileSystem):
            return found_below(Path(root), run, every=every)
        filesystem.invalidate_cache()  # a log that grows is asked for again
        base, dumps = _fetch(filesystem, root, folder.path, address)
    except (NothingReadable, Malformed):
        raise
    except ImportError as error:
        raise NothingReadable(f"{address}: {error}; install the package for this kind of address") from error
    except Exception as error:  # every file system raises its own errors; none of them is ours
        raise NothingReadable(
            f"{address}: cannot be read ({type(error).__name__}: {str(error)[:200]}); check the address and your credentials"
        ) from error
    if dumps and not any(folder.path.rglob("*")):  # completions, and no log of the run that wrote them
        return [(address, lambda: Table(address, "samples", dumps=list(dumps.values())))]
    return _named(folder, base, address, run, every=every, dumps=dumps)


def _fetch(filesystem: object, root: str, folder: Path, address: str) -> tuple[Path, dict[str, str]]:
    """Copy what can be a log or a setting; the local path of what the address names.

    Completions are not copied, since they may be large: their addresses come by their paths below the root.
    """
    info = filesystem.info(root)  # type: ignore[attr-defined]
    # how a web server shows a folder; some give every file that they do not know as a page too
    is_page = info.get("mimetype") == "text/html" and not WANTED.search(root)
    left = [MAX_FETCH]
    if info.get("type") == "file" and not is_page:
        if int(info.get("size") or 0) > MAX_FETCH:
            raise NothingReadable(
                f"{address}: {int(info['size']) >> 30} GiB are too much to fetch; fetch it yourself and give the path"
            )
        target = folder / safe_name(PurePosixPath(root).name.partition("?")[0] or "log")
        _copy(filesystem, root, target, left, address)
        return target, {}
    root = f"{root.rstrip('/')}/" if is_page else root
    depth = MAX_LINKS if is_page else MAX_DEPTH
    listed: dict[str, dict[str, object]] = filesystem.find(root, maxdepth=depth, detail=True)  # type: ignore[attr-defined]
    wanted = []
    dumps: dict[str, str] = {}
    for name, detail in sorted(listed.items()):
        relative = str(name).removeprefix(str(root).rstrip("/")).lstrip("/")
        dump = _dump(relative)
        if dump is not None and not is_page:
            dumps[dump] = filesystem.unstrip_protocol(str(name)[: len(str(name)) - len(relative) + len(dump)])  # type: ignore[attr-defined]
        elif detail.get("type") == "file" and WANTED.search(relative) and not UNWANTED.search(relative):
            wanted.append((str(name), relative, int(detail.get("size") or 0)))  # type: ignore[call-overload]
    if not wanted and is_page:
        raise NothingReadable(
            f"{address}: a web page that links to no log; give the log's own address, or the raw file's"
        )
    if not wanted and not dumps:
        raise NothingReadable(f"{address}: {len(listed)} files, and none that could be a log of a training")
    if len(wanted) > MAX_FILES or sum(size for _, _, size in wanted) > MAX_FETCH:
        raise NothingReadable(
            f"{address}: {len(wanted)} files of {sum(s for _, _, s in wanted) >> 20} MiB could be logs; give the address of one run or one log"
        )
    for name, relative, _ in wanted:
        _copy(filesystem, name, _target(folder, relative), left, address)
    return folder, dumps


def _dump(relative: str) -> str | None:
    """The folder or file of completions that a path belongs to; None for any other."""
    parts = relative.split("/")
    for depth, part in enumerate(parts[:-1]):
        if part in ROLLOUT_FOLDERS:
            return "/".join(parts[: depth + 1])
    return relative if DUMP_FILE.match(parts[-1]) else None


def _target(folder: Path, relative: str) -> Path:
    """Where a file of that name is put: below the folder, and in no other's place."""
    target = folder.joinpath(*(safe_name(part) for part in PurePosixPath(relative).parts))
    number = 0
    while True:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # an object store knows a file and a folder of one name
            pass
        else:
            if not target.exists():
                return target
        number += 1
        target = folder / f"again_{number}" / target.name


def safe_name(name: str) -> str:
    """A file name that stays where it is put: no separators, no `..`, no longer than a name can be."""
    cleaned = re.sub(r"[\\/\0:]", "_", name).encode("utf-8", "replace")
    if len(cleaned) > MAX_NAME:  # what a file is, its ending tells
        cleaned = cleaned[: MAX_NAME // 2 - 1] + b"_" + cleaned[-MAX_NAME // 2 :]
    text = cleaned.decode("utf-8", "ignore").strip()
    return "_" if text in ("", ".", "..") else text


def _copy(filesystem: object, name: str, target: Path, left: list[int], address: str) -> None:
    """Copy one file; `left` is what may still be fetched, as not every server tells sizes, or the right ones."""
    with filesystem.open(name, "rb") as source, target.open("wb") as kept:  # type: ignore[attr-defined]
        while piece := source.read(PIECE):
            left[0] -= len(piece)
            if left[0] < 0 or MAX_FETCH - left[0] > MAX_UNPACKED:
                raise NothingReadable(
                    f"{address}: {name} does not end, or all is too much to fetch: more than {MAX_FETCH >> 30} GiB came; "
                    "fetch it yourself and give the path"
                )
            kept.write(piece)


def _named(
    folder: _Folder, base: Path, address: str, run: str | None, *, every: bool, dumps: Mapping[str, str] | None = None
) -> Named:
    """The runs that were fetched: their readers hold the folder, and speak of the address."""
    from vario.sources import found_below

    said = "standard input" if address == "-" else address

    def clean(text: str) -> str:
        if base != folder.path:
            return text.replace(str(base), said)
        return text.replace(f"{folder.path}{os.sep}", "").replace(str(folder.path), said)

    @contextlib.contextmanager
    def speaking() -> Iterator[None]:
        try:
            yield
        except (NothingReadable, Malformed) as error:
            text = clean(str(error))
            raise type(error)(text if said in text else f"{said}: {text}") from error

    def holding(name: str, make: Callable[[], Table], *, alone: bool) -> Callable[[], Table]:
        def made() -> Table:
            with speaking():
                table = make()
            table.warnings = [clean(w) for w in table.warnings]
            # what was fetched goes when the log is read; completions may be asked for again
            table.dumps = [
                address if d == str(base) else d.replace(str(base), address.rstrip("/")) for d in table.dumps
            ]
            table.dumps += [place for below, place in (dumps or {}).items() if alone or below.startswith(f"{name}/")]
            table.checkpoints = [dataclasses.replace(c, path=clean(c.path)) for c in table.checkpoints]
            return table

        made.folder = folder  # type: ignore[attr-defined]
        return made

    def found(name: str | None, *, all_of_them: bool) -> Named:
        with speaking():
            below = found_below(base, name, shown=address, every=all_of_them)
        return [(clean(n), holding(n, make, alone=len(below) == 1)) for n, make in below]

    try:
        return found(run, all_of_them=every)
    except NothingReadable:
        # a name that was shown without the folder's
        chosen = [(n, make) for n, make in found(None, all_of_them=True) if n == run] if run is not None else []
        if not chosen:
            raise
        return chosen
