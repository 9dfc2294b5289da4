"""Where the runs are: every run below a path, and the files that each one wrote.

Files of one output folder belong to one run when they agree; trackers' folders (`runs/`,
`wandb/offline-run-…/`, `tensorboard/`) count as their output folder's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from vario.errors import Malformed, NothingReadable, SourceError
from vario.run import Checkpoint, Event
from vario.sources import event_files
from vario.sources.folder import CHECKPOINT, MAX_ENTRIES, PACKED, ROTATED, Found, look, nothing
from vario.sources.growing import Growing
from vario.sources.merging import Told, agree, join
from vario.sources.opening import head_of
from vario.sources.readers import (
    READERS,
    console,
    csv_rows,
    json_document,
    jsonl,
    mlflow_folder,
    notebook,
    parquet,
    tensorboard,
    wandb_offline,
)
from vario.sources.readers.metric_words import SAMPLE_KEYS, of_a_step
from vario.sources.readers.parser import read_all
from vario.sources.rows import Table
from vario.sources.states import home_of, read_states

CONTAINER = re.compile(
    r"^(?:checkpoint-\d+|runs|logs?|tensorboard(?:_logs?)?|tb(?:_logs?)?|step3_tensorboard_logs|wandb|mlflow|trackio|metrics"
    r"|(?:offline-)?run-\d{8}_\d{6}-\w+|latest-run|files|\.hydra|configs?|rank[_-]?\d+|trainer|orchestrator|latest"
    r"|\d{9,11}\.\d+|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.+)$"
)
"""Folders that trainers and trackers make inside an output folder (the last two: TensorBoard's hparams and the Trainer's runs)."""
FEW_ROWS, SHORT_START = 5, 0.05
"""A source with fewer rows, or with a smaller share of the longest one's, is an attempt that was given up."""
MAX_TOGETHER = 12
"""So many places are read to see whether they tell of one run."""
RANK: tuple[ModuleType, ...] = (tensorboard, jsonl, json_document, csv_rows, notebook, console)
"""Of two sources with as many points the earlier one serves a metric: printed numbers are rounded."""


@dataclass(slots=True)
class Place:
    """One run, as far as its files are known before they are read.

    Attributes:
        joined: whether another place turned out to tell of the same run, and is read with it.
    """

    name: str
    path: Path
    reader: ModuleType | None = None
    run: str | None = None
    states: list[Path] = field(default_factory=list)
    logs: list[tuple[ModuleType, Path]] = field(default_factory=list)
    store: Path | None = None
    configs: list[Path] = field(default_factory=list)
    checkpoints: list[tuple[int, Path]] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    own: bool = False
    joined: bool = False


def reader_of(path: Path) -> tuple[ModuleType, bytes]:
    """The reader that recognises a file by its content.

    Raises:
        Malformed: it is empty. NothingReadable: no reader does.
    """
    head = head_of(path)
    if not head.strip():
        with path.open("rb"):
            pass
        raise Malformed(f"{path}: empty file; was the trainer stopped before its first log, or the disk full?")
    for reader in READERS:
        if reader.recognises(path, head):
            return reader, head
    kind = "binary" if b"\0" in head else "text"
    raise NothingReadable(
        f"{path}: a {kind} file in no known format; vario reads trainer_state.json, TensorBoard, W&B, trackio, MLflow, "
        "JSON lines, CSV, Parquet, notebooks and console logs"
    )


def find(path: Path) -> list[Place]:
    """Every run at a file or below a folder.

    Raises:
        NothingReadable: nothing there is a log. Malformed: an empty file.
    """
    if path.is_symlink() and not path.exists():
        raise NothingReadable(f"{path}: a symbolic link that leads nowhere, or in a circle")
    if not path.exists():
        raise NothingReadable(f"{path}: does not exist; give an output folder, a log file or an address such as s3://…")
    if path.is_file():
        return _in_file(path)
    if not path.is_dir():
        raise NothingReadable(f"{path}: neither a file nor a folder")
    return _in_folder(path)


def _beside(path: Path) -> list[Path]:
    names = ("config.json", "training_args.bin", "config.yaml", "args.json", "training_args.yaml")
    return [p for p in (path.parent / n for n in names) if p.is_file()]


def _in_file(path: Path) -> list[Place]:
    reader, head = reader_of(path)
    if hasattr(reader, "runs"):
        names: list[str] = reader.runs(path)
        if not names:
            raise Malformed(f"{path}: holds no run that logged anything")
        return [Place(name, path, reader, run=name) for name in names]
    if is_samples(reader, path, head):
        return [Place(path.name, path, dumps=[path], configs=_beside(path))]
    return [Place(path.name, path, reader, configs=_beside(path))]


def _in_folder(path: Path) -> list[Place]:
    found = look(path)
    if CHECKPOINT.search(path.resolve().name) and found.states:
        above = path.resolve().parent
        found.configs += [p for p in (above / "config.json", above / "training_args.bin") if p.is_file()]
        found.files |= {"completions.parquet"} if any((above / "completions").glob("*.parquet")) else set()
    places = _by_home(path, found)
    for store in found.stores:
        places.append(Place(f"{store.parent.name}/{store.name}", store, store=store))
    if not places:
        raise nothing(path, found)
    for place in places:
        if found.cut:
            place.warnings.append(f"more than {MAX_ENTRIES} files below {path}: the rest was not looked at")
        if found.denied:
            place.warnings.append(f"no permission for {len(found.denied)} folders, the first is {found.denied[0]}")
    for one in places:
        one.own = one.path == path and bool(one.states or one.logs)
    if any(p.own for p in places) and len(places) > 1:
        others = [p.name for p in places if not p.own]
        next(p for p in places if p.own).warnings.append(
            f"{len(places)} runs lie below {path}; its own was read, not {', '.join(others[:3])}"
        )
    return places


def home_under(root: Path, where: Path) -> Path:
    """The output folder, at the root or below, that what a tracker wrote there belongs to."""
    while where != root and CONTAINER.match(where.name):
        where = where.parent
    return where


def _by_home(root: Path, found: Found) -> list[Place]:
    places: dict[Path, Place] = {}

    def place(home: Path) -> Place:
        if home not in places:
            name = "." if home == root else str(home.relative_to(root))
            places[home] = Place(name, home, files=set(found.files))
        return places[home]

    for state in found.states:
        home = home_of(state)
        home = home if home.is_relative_to(root) else root
        place(home_under(root, home)).states.append(state)
    several: list[Place] = []
    failures: list[SourceError] = []
    for log in found.logs:
        try:
            reader, head = reader_of(log)
        except SourceError as error:
            failures.append(error)
            continue
        except OSError as error:
            failures.append(
                NothingReadable(f"{log}: cannot be read ({error.strerror or error}); check its owner and mode")
            )
            continue
        if hasattr(reader, "runs"):
            several += _in_file(log)
        elif is_samples(reader, log, head):
            found.others += 1
            # a folder of one file a step, or a file
            dump = log.parent if log.stem.isdigit() else log
            if dump not in found.dumps:
                found.dumps.append(dump)
        else:
            place(home_under(root, log.parent)).logs.append((reader, log))
    for home, one in places.items():
        one.configs = [c for c in found.configs if home_under(root, c.parent) == home or c.parent == root]
        one.configs.sort(key=lambda c: -len(c.parts))
        one.checkpoints = [
            c for c in found.checkpoints if home_under(root, c[1].parent) in (home, root) or c[1].is_relative_to(home)
        ]
    made = [p for p in places.values() if p.states or p.logs] + several
    if found.dumps and not made:
        made = [Place(".", root, configs=list(found.configs))]
    for dump in found.dumps:
        homes = [p for p in made if dump.is_relative_to(p.path) or home_under(root, dump.parent) == p.path]
        if homes or len(made) == 1:
            max(homes or made, key=lambda p: len(p.path.parts)).dumps.append(dump)
    if not made and failures:
        raise failures[0] if len(failures) == 1 else Malformed(str(failures[0]))
    for one in made:
        one.warnings += [str(e) for e in failures if one.path == root or str(one.path) in str(e)]
    return sorted(made, key=lambda p: (len(p.path.parts), p.name))


def is_samples(reader: ModuleType, path: Path, head: bytes) -> bool:
    """Whether the first row is a sample (a prompt and what was answered), and no row of metrics."""
    if reader is parquet:
        return parquet.holds_samples(path)
    if reader is csv_rows:
        names = re.split(rb"[,;\t]", head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0])
        keys = {n.strip(b' "\r').decode("utf-8", "replace") for n in names}
        return len(keys & SAMPLE_KEYS) >= 2 and not of_a_step(keys)
    if reader is not jsonl:
        return False
    line = head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    texts = set(re.findall(rb'"([A-Za-z_]+)"\s*:\s*["\[{]', line[:2000]))
    numbers = {k.decode() for k in re.findall(rb'"([^"\\]{1,80})"\s*:\s*[-\d]', line[:2000])}
    return len({k.decode() for k in texts} & SAMPLE_KEYS) >= 2 and not of_a_step(numbers)


def is_surely_one(place: Place) -> bool:
    """Whether the files of a place tell of one run whatever they hold, so that none has to be read to know it."""
    if place.run is not None or place.states:
        return True
    return all(reader is tensorboard for reader, _ in place.logs) or len(_rotated(place.logs)) == 1


def load(place: Place, growing: Growing | None = None) -> list[Table]:
    """Read a place: one table, or several if its files turn out to tell of several runs.

    Args:
        place: the files.
        growing: what earlier readings of them left.

    Raises:
        SourceError: nothing of it can be read.
    """
    if place.dumps and not (place.store or place.reader or place.states or place.logs):
        return [Table(str(place.path), "samples")]
    if place.store is not None:
        return [mlflow_folder.read(place.store)]
    if place.reader is not None:
        table: Table = (
            place.reader.read(place.path, place.run)
            if place.run is not None
            else _read(place.reader, place.path, growing)
        )
        table.flush()
        return [table]
    tables, failures = _tables(place, growing)
    if not tables:
        raise failures[0] if failures else Malformed(f"{place.path}: nothing in it could be read")
    whole = tables[0]
    apart: list[Table] = []
    for other in tables[1:]:
        told = join(whole, other, _short(other.path, place.path))
        if told is Told.ANOTHER and other.kind == whole.kind and other.rows >= max(FEW_ROWS, SHORT_START * whole.rows):
            apart.append(other)
        elif told is not Told.SAME:
            whole.warnings.append(f"{_short(other.path, place.path)} tells of {told.value}, and was left out")
    for failure in failures:
        whole.warnings.append(str(failure))
    if apart and place.states:
        whole.warnings += [f"{_short(t.path, place.path)} tells of another run, and was left out" for t in apart]
        apart = []
    return [whole, *apart]


def together(places: list[Place], growing: Growing | None = None) -> list[tuple[Place, list[Table]]]:
    """Places whose sources agree are one run, wherever a tracker keeps its files; the others stay apart.

    Two runs of one tracker are two runs, however alike: a seed that was used twice gives the same numbers.
    Only a few places are read for it: a folder with many runs is a list of runs.
    """
    if not 1 < len(places) <= MAX_TOGETHER:
        return [(place, []) for place in places]
    groups: list[tuple[Place, list[Table]]] = []
    kinds: list[set[str]] = []
    for place in sorted(places, key=lambda p: not p.states):
        try:
            tables = load(place, growing)
        except SourceError as error:
            if groups:
                groups[0][0].warnings.append(str(error))
            continue
        if len(tables) == 1:
            home = next(
                (
                    i
                    for i, (_, t) in enumerate(groups)
                    if tables[0].kind not in kinds[i] and len(t) == 1 and agree(t[0], tables[0])
                ),
                None,
            )
            if home is not None:
                join(groups[home][1][0], tables[0], place.path.name or place.name)
                kinds[home].add(tables[0].kind)
                groups[home][0].joined = True
                continue
        groups.append((place, tables))
        kinds.append({t.kind for t in tables})
    return sorted(groups, key=lambda g: places.index(g[0])) if groups else [(place, []) for place in places]


def _short(path: str, base: Path) -> str:
    return str(Path(path).relative_to(base)) if Path(path).is_relative_to(base) else path


def _read(reader: ModuleType, path: Path, growing: Growing | None) -> Table:
    table: Table = reader.read(path) if growing is None else growing.table(reader, path)
    return table


def _tables(place: Place, growing: Growing | None) -> tuple[list[Table], list[SourceError]]:
    """The tables of a place's files, the one to start from first."""
    failures: list[SourceError] = []
    tables: list[Table] = []
    first: Table | None = None
    if place.states:
        first, lost = read_states(place.states, place.path)
        failures += [Malformed(text) for text in lost]
    events = [path for reader, path in place.logs if reader is tensorboard]
    if events:
        try:
            tables.append(event_files.read_together(events, growing))
        except SourceError as error:
            failures.append(error)
    for reader, parts in _rotated(place.logs):
        if reader is tensorboard:
            continue
        path = parts[-1]
        try:
            if len(parts) == 1:
                table = _read(reader, path, growing)
            elif reader is wandb_offline:
                table = _resumed(parts)
            else:
                table = read_all(reader.start(path), parts, "no row of metrics")
            table.flush()
            tables.append(table)
        except NothingReadable as error:
            if len(place.logs) == 1 and not place.states:
                failures.append(error)
        except SourceError as error:
            failures.append(error)
        except OSError as error:
            failures.append(
                NothingReadable(f"{path}: cannot be read ({error.strerror or error}); check its owner and mode")
            )
    ranks = {reader.__name__.rpartition(".")[2].partition("_")[0]: i for i, reader in enumerate(RANK)}
    tables.sort(key=lambda t: (-_points(t), ranks.get(t.kind, 0)))
    return ([first] if first is not None else []) + tables, failures


def _rotated(logs: list[tuple[ModuleType, Path]]) -> list[tuple[ModuleType, list[Path]]]:
    """Files that log rotation cut one log into, oldest first; every other file by itself."""
    families: dict[tuple[str, Path], list[tuple[ModuleType, Path]]] = {}
    for reader, path in logs:
        # a W&B run that was resumed keeps its id, which is the file's name, and gets a folder of its own
        base = Path(path.name) if reader is wandb_offline else path.with_name(_base_name(path))
        families.setdefault((reader.__name__, base), []).append((reader, path))
    made: list[tuple[ModuleType, list[Path]]] = []
    for members in families.values():
        if len(members) > 1 and hasattr(members[0][0], "start"):
            parts = [p for _, p in members]
            in_order = sorted(parts) if members[0][0] is wandb_offline else sorted(parts, key=_rotation, reverse=True)
            made.append((members[0][0], in_order))
        else:
            made += [(reader, [path]) for reader, path in members]
    return made


def _resumed(parts: list[Path]) -> Table:
    """Offline runs of one id, oldest first: from its first step on the later one counts."""
    whole: Table | None = None
    failures: list[SourceError] = []
    for part in parts:
        try:
            later: Table = wandb_offline.read(part)
        except SourceError as error:  # a resume that ended before its first row, or was cut off there
            failures.append(error)
            continue
        if whole is not None:
            first = int(min(later.logged_steps(), default=0))
            later.put_before(whole, first)
            later.events.append(
                Event("resume", first, f"resumed at step {first}; the history before it is from another file")
            )
            later.warnings = [*whole.warnings, *later.warnings]
            later.config = {**whole.config, **later.config}
            later.flush()
        whole = later
    if whole is None:
        raise failures[-1]
    whole.warnings += [f"{error}; the rest of the run was read" for error in failures]
    return whole


def _base_name(path: Path) -> str:
    name = path.name
    for packed in PACKED:
        name = name.removesuffix(packed)
    return ROTATED.sub("", name) if ROTATED.fullmatch(Path(name).suffix) and Path(name).stem.count(".") else name


def _rotation(path: Path) -> int:
    found = [int(s[1:]) for s in path.suffixes if ROTATED.fullmatch(s)]
    return found[-1] if found else 0


def _points(table: Table) -> int:
    return sum(len(s) for s in table.series().values())


def checkpoints_of(place: Place) -> list[Checkpoint]:
    """The checkpoints that lie beside the run."""
    return [Checkpoint(step, str(where)) for step, where in place.checkpoints]
