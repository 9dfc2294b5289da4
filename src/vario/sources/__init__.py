"""`read(path)`: find the log, read its format, give its keys their meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

from vario.errors import ConfigError, Malformed, NothingReadable, SourceError
from vario.run import Checkpoint, Event, Run, Series
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import NEWEST, OLDEST, Context, Version, canonical_key, give_meaning
from vario.sources.folder import CHECKPOINT, MAX_ENTRIES, Found, head_of, look, nothing
from vario.sources.readers import READERS
from vario.sources.rows import Table
from vario.sources.settings import is_trainer_config, read_config, settle

__all__ = ["interpret", "read"]


def read(path: str | Path, *, config: str | Path | None = None) -> Run:
    """Read a run from a folder, a checkpoint folder, a trainer_state.json or a .jsonl of rows.

    Args:
        path: what the trainer wrote.
        config: a configuration file to use instead of the one found beside the log.

    Raises:
        NothingReadable: nothing there is a log. Malformed: a log without a single row.
        ConfigError: the given `config` cannot be read.
    """
    path = Path(path)
    try:
        table = _table(path)
    except OSError as error:
        raise NothingReadable(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its permissions"
        ) from error
    if config is not None:
        table.config.update(read_config(Path(config)))
    return interpret(table)


def _table(path: Path) -> Table:
    if path.is_symlink() and not path.exists():
        raise NothingReadable(f"{path}: a symbolic link that leads nowhere, or in a circle")
    if not path.exists():
        raise NothingReadable(f"{path}: does not exist; give an output folder, a trainer_state.json or a .jsonl")
    if path.is_file():
        table = _file(path)
        _configure(table, [p for p in (path.parent / "config.json", path.parent / "training_args.bin") if p.is_file()])
        return table
    if not path.is_dir():
        raise NothingReadable(f"{path}: neither a file nor a folder")
    found = look(path)
    if CHECKPOINT.search(path.resolve().name) and found.states:
        found = _siblings(path, found)
    table = _states(path, found) if found.states else _rows(path, found)
    table.files |= found.files
    table.path = str(path)
    table.checkpoints = [Checkpoint(step, str(where)) for step, where in found.checkpoints]
    _configure(table, found.configs)
    if found.cut:
        table.warnings.append(f"more than {MAX_ENTRIES} files below {path}: the rest was not looked at")
    if found.denied:
        table.warnings.append(f"no permission for {len(found.denied)} folders, the first is {found.denied[0]}")
    return table


def _siblings(path: Path, found: Found) -> Found:
    """A checkpoint folder: its own state file holds the history up to it; configs may lie above."""
    above = path.resolve().parent
    found.configs += [p for p in (above / "config.json", above / "training_args.bin") if p.is_file()]
    found.files |= {"completions.parquet"} if any((above / "completions").glob("*.parquet")) else set()
    return found


def _file(path: Path) -> Table:
    head = head_of(path)
    if not head.strip():
        with path.open("rb"):
            pass
        raise Malformed(f"{path}: empty file; was the trainer stopped before its first log, or the disk full?")
    for reader in READERS:
        if reader.recognises(path, head):
            table: Table = reader.read(path)
            return table
    kind = "binary" if b"\0" in head else "text"
    raise NothingReadable(f"{path}: a {kind} file in no known format; vario reads trainer_state.json and JSON lines")


def _readable(paths: Iterable[Path]) -> tuple[list[Table], list[str]]:
    tables, failures = [], []
    for path in paths:
        try:
            tables.append(_file(path))
        except SourceError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{path}: cannot be read ({error.strerror or error}); check its owner and mode")
    return tables, failures


def _states(path: Path, found: Found) -> Table:
    """One history from all state files: the longest, with the rows that only others have.

    Each checkpoint holds the whole history up to it. After a resume from an earlier checkpoint the
    later files hold another history from there on. The longest history counts: times of files do
    not survive a copy. So until a resumed run has passed the branch it left, that branch is shown.
    """
    states, others = _one_run(found)
    ordered = sorted(
        states, key=lambda p: (p.stat().st_mtime_ns if p.exists() else 0, p.parent.name != path.name, _step_of(p))
    )
    tables, failures = _readable(ordered)
    if not tables:
        if not found.rows:
            raise Malformed(failures[0])
        table = _rows(path, found)
        table.warnings += failures
        return table
    tables.sort(key=lambda t: max(t.logged_steps(), default=0))
    whole = tables[-1]
    whole.warnings += failures
    if others:
        whole.warnings.append(
            f"{len(others) + 1} runs lie below {path}; {_home(states[0])} was read, not {', '.join(map(str, others[:3]))}"
        )
    for older in reversed(tables[:-1]):
        _stitch(whole, older)
    return whole


def _home(state: Path) -> Path:
    """The output folder that a state file belongs to."""
    return state.parent.parent if CHECKPOINT.search(state.parent.name) else state.parent


def _one_run(found: Found) -> tuple[list[Path], list[Path]]:
    """The state files of one run, the nearest and then the latest, and the folders of the others.

    The checkpoints and configurations of the others are taken out of `found`.
    """
    homes: dict[Path, list[Path]] = {}
    for state in found.states:
        homes.setdefault(_home(state), []).append(state)
    ranked = sorted(
        homes,
        key=lambda h: (len(h.parts), -max((p.stat().st_mtime_ns for p in homes[h] if p.exists()), default=0), str(h)),
    )
    ours, others = ranked[0], ranked[1:]
    found.checkpoints = [c for c in found.checkpoints if c[1].parent not in others]
    found.configs = [
        c for c in found.configs if not any(c.is_relative_to(o) for o in others if not ours.is_relative_to(o))
    ]
    return homes[ours], others


def _step_of(path: Path) -> int:
    found = CHECKPOINT.search(path.parent.name)
    return int(found[1]) if found else 1 << 62


def _stitch(whole: Table, older: Table) -> None:
    """Note where two histories of one run part, and keep what only the older one holds."""
    ours, theirs = whole.series(), older.series()
    common: list[str] = [k for k in ("loss", "grad_norm", "reward", "epoch") if k in ours and k in theirs]
    parted: int | None = None
    for key in common:
        a, b = ours[key], theirs[key]
        at = {int(s): float(v) for s, v in zip(a.steps, a.values, strict=True)}
        for step, value in zip(b.steps.tolist(), b.values.tolist(), strict=True):
            if step in at and at[step] != value and (at[step] == at[step] or value == value):
                parted = step if parted is None else min(parted, step)
                break
    first = min(whole.logged_steps(), default=0)
    missing = any(s < first for s in older.logged_steps())
    if parted is not None and not any(e.kind == "resume" and e.step == parted for e in whole.events):
        repeated = int((older.logged_steps() >= parted).sum())
        whole.events.append(Event("resume", parted, f"resumed before step {parted}: {repeated} steps were run again"))
    if missing:
        whole.put_before(older, int(first))
        whole.events.append(
            Event("resume", int(first), f"the history starts again at step {first}; earlier rows are from {older.path}")
        )


def _rows(path: Path, found: Found) -> Table:
    tables, failures = _readable(found.rows)
    if not tables:
        if failures:
            raise Malformed(failures[0])
        raise nothing(path, found)
    tables.sort(key=lambda t: t.rows)
    best = tables[-1]
    if len(tables) > 1:
        best.warnings.append(f"{len(tables)} .jsonl files with rows; the longest was read: {best.path}")
    best.warnings += failures
    return best


def _configure(table: Table, paths: list[Path]) -> None:
    """Take the trainer's arguments from what lies beside the log; the nearest file wins."""
    for path in paths:
        try:
            raw = read_config(path)
        except ConfigError as error:
            table.warnings.append(str(error))
            continue
        if path.suffix == ".bin" or is_trainer_config(raw):
            for key, value in raw.items():
                table.config.setdefault(key.lstrip("_") if path.suffix == ".bin" else key, value)


def _version_text(oldest: Version, newest: Version) -> str | None:
    if oldest == OLDEST and newest == NEWEST:
        return None
    low, high = (".".join(map(str, v)) for v in (oldest, newest))
    if oldest == newest:
        return low
    if newest == NEWEST:
        return f">={low}"
    return f"<={high}" if oldest == OLDEST else f">={low},<={high}"


def interpret(table: Table) -> Run:
    """Give the columns of a reader their meaning; the only place where a dialect is chosen."""
    series: dict[str, Series] = {}
    for key, values in table.series().items():
        name = canonical_key(key)
        series.setdefault(name, dataclasses.replace(values, key=key))
    config = settle(table.config)
    keys = frozenset(series)
    dialect = next(d for d in DIALECTS if d.recognises(keys, config))
    context = Context(keys, config, dialect.algorithm(keys, config), series, files=frozenset(table.files))
    oldest, newest = dialect.versions(context)
    context = dataclasses.replace(context, oldest=oldest, newest=newest)
    meaning = give_meaning(dialect, context)
    if table.repeated:
        table.warnings.append(f"{table.repeated} steps were logged more than once; the later row counts")
    return Run(
        path=table.path,
        framework=dialect.name,
        framework_version=_version_text(oldest, newest),
        algorithm=context.algorithm,
        series=MappingProxyType(dict(sorted(meaning.series.items()))),
        logged_steps=table.logged_steps(),
        config=MappingProxyType(config),
        declared=dialect.declare(context, meaning.series),
        knobs=MappingProxyType(dict(dialect.knobs(context))),
        enable=MappingProxyType(dict(dialect.enable(context))),
        checkpoints=tuple(table.checkpoints),
        events=tuple(sorted(table.events, key=lambda e: e.step)),
        unmapped=meaning.unmapped,
        unsettled=MappingProxyType(dict(meaning.unsettled)),
        ignored_lines=table.ignored,
        warnings=tuple(dict.fromkeys(table.warnings)),
    )
