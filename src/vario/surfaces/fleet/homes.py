"""The output folders below a root: which folders hold a run, told by names and, on a disk, by the first bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vario.errors import ConfigError, SourceError
from vario.sources.folder import CONFIG_NAMES, DUMP_FILE, ROLLOUT_FOLDERS, checkpoint_step, is_log, is_regular
from vario.sources.marks import NAME as MARKS
from vario.sources.places import home_under, is_samples, reader_of
from vario.sources.readers import mlflow_folder
from vario.sources.settings import is_trainer_config, read_config
from vario.sources.states import home_of
from vario.surfaces.fleet.listing import File, Folder

WEAK = (".txt", ".out", ".err", ".log", ".json", ".csv", ".tsv")
"""Endings that much else has: where such files alone stand beside or inside other runs, they may be no log."""


@dataclass(slots=True)
class Home:
    """A folder in which a run was written, with the files that a diagnosis of it rests on.

    Attributes:
        path: where it lies; relative to the address in an object store.
        logs: files that are logs by their names.
        files: everything that the judgement may depend on: logs, states, settings, completions, marks.
        nested: homes below it.
        above: the nearest home that it lies in, if any.
        reason: why it cannot be read, where that is known already.
        strong: it holds what only a run leaves behind.
    """

    path: Path
    logs: list[Path] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)
    nested: list[Path] = field(default_factory=list)
    above: Path | None = None
    reason: str = ""
    strong: bool = False

    @property
    def weak(self) -> bool:
        """Whether its files may as well be no logs."""
        return not self.strong and bool(self.logs) and all(log.suffix in WEAK for log in self.logs)

    @property
    def size(self) -> int:
        """Bytes, for an idea of the work."""
        return sum(file.size for file in self.files.values())


@dataclass(slots=True)
class _Seen:
    """What the walk has met, before it is known to whom it belongs."""

    states: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    configs: list[Path] = field(default_factory=list)
    stores: list[Path] = field(default_factory=list)
    trained: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    denied: dict[Path, str] = field(default_factory=dict)
    files: dict[Path, File] = field(default_factory=dict)


def homes(
    root: Path, folders: Iterable[Folder], *, on_disk: bool, without: frozenset[Path] = frozenset()
) -> list[Home]:
    """The homes at the root and below, in the order of their paths.

    Args:
        root: where the walk began.
        folders: from `walk` or `walk_store`.
        on_disk: first bytes can be read.
        without: files that are no logs, whatever their names: where this fleet itself is written.
    """
    seen = _look(root, folders, on_disk=on_disk, without=without)
    found: dict[Path, Home] = {}

    def home(path: Path) -> Home:
        return found.setdefault(path, Home(path))

    for state in seen.states:
        where = home(home_under(root, _within(root, home_of(state))))
        where.files[str(state)] = seen.files[state]
        where.strong = True
    for log in seen.logs:
        where = home(home_under(root, log.parent))
        where.logs.append(log)
        where.files[str(log)] = seen.files[log]
    dumps = list(seen.dumps)
    for one in list(found.values()):
        if on_disk and not one.strong and not _recognised(one, seen.files, dumps) and not one.reason:
            del found[one.path]
    for store in seen.stores:
        home(store).strong = True
    for path, reason in seen.denied.items():
        if not _covered(path, found):
            home(path).reason = f"{path}: no permission to read it ({reason}); check its owner and mode"
    _beside(root, seen, dumps, found)
    _without_logs(root, seen, found, on_disk=on_disk)
    for one in found.values():
        one.above = next((p for p in one.path.parents if p in found), None)
    for one in found.values():
        for above in one.path.parents:
            if above in found:
                found[above].nested.append(one.path)
    return sorted(found.values(), key=lambda h: h.path.parts)


def _look(root: Path, folders: Iterable[Folder], *, on_disk: bool, without: frozenset[Path]) -> _Seen:
    seen = _Seen()
    whole: dict[Path, str] = {}  # folders whose files all belong to one thing, and what that is
    for folder in folders:
        here = folder.path
        if folder.denied:
            seen.denied[here] = folder.denied
            continue
        kind = whole.get(here.parent) if here != root else None
        if kind is None:
            folder.folders[:] = [f for f in folder.folders if not f.startswith(".") or f == ".hydra"]
            if _is_store(folder, on_disk=on_disk):
                kind = "store"
                seen.stores.append(here)
            elif here.name in ROLLOUT_FOLDERS and here != root:
                kind = "dump"
        if kind is not None:
            whole[here] = kind
            for name, file in folder.files.items():
                seen.files[here / name] = file
                if kind == "dump":
                    seen.dumps.append(here / name)
            continue
        checkpoint = checkpoint_step(here, folder.folders) is not None and here != root
        if checkpoint:
            seen.trained.append(here.parent)
            folder.folders[:] = []
        if not folder.files and not folder.folders:
            seen.empty.append(here)
        for name, file in folder.files.items():
            path = here / name
            if path in without or (on_disk and not is_regular(path)):
                continue
            seen.files[path] = file
            if name == "trainer_state.json":
                seen.states.append(path)
            elif (
                name in CONFIG_NAMES or name == MARKS or (path.suffix == ".toml" and here.name in ("config", "configs"))
            ):
                seen.configs.append(path)
            elif DUMP_FILE.match(name) and not checkpoint:
                seen.dumps.append(path)
            elif is_log(path) and not checkpoint:
                seen.logs.append(path)
    return seen


def _is_store(folder: Folder, *, on_disk: bool) -> bool:
    if "meta.yaml" not in folder.files or "metrics" not in folder.folders:
        return False
    return mlflow_folder.is_run(folder.path) if on_disk else True


def _within(root: Path, path: Path) -> Path:
    return path if path.is_relative_to(root) else root


def _recognised(home: Home, files: dict[Path, File], dumps: list[Path]) -> bool:
    """Whether any of its files is a log by its content; one that cannot be opened may be."""
    for log in home.logs:
        try:
            reader, head = reader_of(log)
        except SourceError as error:
            if not files[log].size and log.suffix not in WEAK:
                home.reason = home.reason or str(error)
        except OSError as error:
            home.reason = home.reason or f"{log}: cannot be read ({error.strerror or error}); check its owner and mode"
        else:
            if not hasattr(reader, "runs") and is_samples(reader, log, head):
                dumps.append(log)
            else:
                home.reason = ""
                return True
    return False


def _covered(path: Path, found: dict[Path, Home]) -> bool:
    """Whether the path lies in a home that holds no other: then it is a part of that run."""
    return any(p in found and not any(h != p and h.is_relative_to(p) for h in found) for p in path.parents)


def _beside(root: Path, seen: _Seen, dumps: list[Path], found: dict[Path, Home]) -> None:
    """Give completions, settings and stores' files to the home that they belong to."""
    named = set(seen.dumps)
    for dump in dumps:
        top = next((p for p in dump.parents if p.name in ROLLOUT_FOLDERS and p != root), dump)
        where = home_under(root, top.parent)
        owner = next((p for p in (where, *where.parents) if p in found), None)
        alone = owner is not None and owner != where and any(h != owner and h.is_relative_to(owner) for h in found)
        if owner is None or alone:
            if dump not in named:
                continue  # a table of texts by itself is a data set sooner than a run
            owner = where
            found.setdefault(where, Home(where, strong=True))
        found[owner].files[str(dump)] = seen.files[dump]
    for config in seen.configs:
        for p in (config.parent, *config.parents):
            if p in found:
                found[p].files[str(config)] = seen.files[config]
                break
    if seen.stores:
        stores = set(seen.stores)
        for path, file in seen.files.items():
            store = next((p for p in path.parents if p in stores), None)
            if store is not None:
                found[store].files[str(path)] = file


def _without_logs(root: Path, seen: _Seen, found: dict[Path, Home], *, on_disk: bool) -> None:
    """Runs that left no log: a trainer's settings or checkpoints with nothing beside them, and empty folders of runs."""
    trained = {home_under(root, p) for p in seen.trained}
    if on_disk:
        trained |= {home_under(root, c.parent) for c in seen.configs if c.name != MARKS and _is_trainers(c)}
    for path in sorted(trained):
        if path not in found and not any(p in found for p in path.parents) and not _holds(path, found):
            found[path] = Home(path, reason=f"{path}: settings or checkpoints of a training, and no log of it")
    above = {p for h in found for p in h.parents} | {root}
    for path in seen.empty:
        if path != root and path.parent in above and path.parent not in found:
            found[path] = Home(path, reason=f"{path}: empty; did the training not start?")


def _holds(path: Path, found: dict[Path, Home]) -> bool:
    return any(h.is_relative_to(path) for h in found)


def _is_trainers(config: Path) -> bool:
    try:
        return is_trainer_config(read_config(config))
    except (ConfigError, OSError):
        return False


def names_of(home: Home) -> Iterator[tuple[str, File]]:
    """Its files by their names below it, so that a fleet that was moved as a whole is still known."""
    for name, file in home.files.items():
        path = Path(name)
        yield (str(path.relative_to(home.path)) if path.is_relative_to(home.path) else name), file
