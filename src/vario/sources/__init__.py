"""`read(path)`: find the run, read its formats, give its keys their meaning."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from vario.catalogue import lookup
from vario.errors import ConfigError, NothingReadable, SeveralRuns, SourceError
from vario.run import Declared, Ints, Run, Series, Setting
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import NEWEST, OLDEST, Context, Dialect, Version, give_meaning, with_part_sizes
from vario.sources.growing import Growing
from vario.sources.places import Place, checkpoints_of, find, load, together
from vario.sources.rows import Table
from vario.sources.sampled import SampleOptions, with_dumps
from vario.sources.settings import MODEL_FIELDS, is_trainer_config, read_config, settle

__all__ = ["found_below", "interpret", "read", "read_all", "runs"]


def read(
    path: str | Path,
    *,
    config: str | Path | None = None,
    run: str | None = None,
    mapping: Mapping[str, str] | None = None,
    samples: SampleOptions | None = None,
    growing: Growing | None = None,
) -> Run:
    """Read one run from a folder, a file, an address or standard input (`-`).

    Args:
        path: what the trainer or its tracker wrote; `s3://…` and the like through fsspec,
            `wandb://entity/project/run` and `mlflow+http://host:port/…` through their own clients.
        config: a configuration file to use instead of the one found beside the log.
        run: which of several runs, by the name that `runs` gives.
        mapping: canonical metrics and the keys that hold them, for words that no dialect knows.
        samples: what is wished of the completions that lie beside the log; by default they are counted.
        growing: what earlier readings of the same path left, for a log that is read again and again.

    Raises:
        NothingReadable: nothing there is a log. Malformed: a log without a single row.
        SeveralRuns: more than one run lies there, and none was chosen.
        ConfigError: the given `config` cannot be read, or `mapping` names no metric.
    """
    found = _found(path, run, growing=growing)
    if len(found) > 1:
        raise SeveralRuns(path, [name for name, _ in found])
    made = _interpreted(found[0][1](), config, mapping, samples or SampleOptions())
    if growing is not None:
        growing.settle()
    return made


def read_all(
    path: str | Path,
    *,
    config: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    samples: SampleOptions | None = None,
) -> Iterator[tuple[str, Run | SourceError]]:
    """Every run below a path with its name; one that cannot be read gives its error and stops no other."""
    for name, make in _found(path, None, every=True):
        try:
            yield name, _interpreted(make(), config, mapping, samples or SampleOptions())
        except SourceError as error:
            yield name, error


def runs(path: str | Path) -> list[str]:
    """The names of the runs at a path, each good for `read(path, run=NAME)`."""
    return [name for name, _ in _found(path, None, every=True)]


def _interpreted(
    table: Table, config: str | Path | None, mapping: Mapping[str, str] | None, samples: SampleOptions
) -> Run:
    if config is not None:
        table.config.update(read_config(Path(config)))
    run = interpret(table, mapping or {})
    return with_dumps(run, table.dumps, samples, only=table.kind == "samples")


def _found(
    path: str | Path, run: str | None, *, every: bool = False, growing: Growing | None = None
) -> list[tuple[str, Callable[[], Table]]]:
    """Names of runs and what reads each; a folder's own run stands for it unless every one is wanted."""
    if str(path) == "-" or "://" in str(path):
        from vario.sources.remote import found_at

        return found_at(str(path), run, every=every)
    return found_below(Path(path), run, every=every, growing=growing)


def found_below(
    path: Path,
    run: str | None,
    shown: str | None = None,
    *,
    every: bool = False,
    growing: Growing | None = None,
    places: list[Place] | None = None,
) -> list[tuple[str, Callable[[], Table]]]:
    """The runs of a local path; with `run`, the one of that name. Places that were found there are not looked for again."""
    try:
        places = find(path) if places is None else places
        if run is not None and any(run in (p.name, p.name.rpartition("@")[0]) for p in places):
            places = [p for p in places if run in (p.name, p.name.rpartition("@")[0])]
            run = None
        groups = together(places, growing)
        if run is None and not every and any(p.own for p, _ in groups):
            groups = [g for g in groups if g[0].own]
        if len(groups) > 1:
            return _choose(
                [(p.name, _maker(p, t[0] if len(t) == 1 else None, shown, growing)) for p, t in groups], path, run
            )
        place, tables = groups[0]
        tables = tables or load(place, growing)
        if len(tables) == 1:
            if run is not None:
                raise NothingReadable(f"{path}: no run {run!r} here; there is one, {place.name}")
            return [(place.name, _maker(place, tables[0], shown, growing))]
        named = [
            (Path(t.path).name if Path(t.path).is_file() else t.path, _maker(place, t, shown, growing)) for t in tables
        ]
        return _choose(named, path, run)
    except OSError as error:
        raise NothingReadable(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its permissions"
        ) from error


def _choose(
    named: list[tuple[str, Callable[[], Table]]], path: Path, run: str | None
) -> list[tuple[str, Callable[[], Table]]]:
    if run is None:
        return named
    chosen = [(name, make) for name, make in named if name == run]
    if not chosen:
        raise NothingReadable(f"{path}: no run {run!r} here; there are {', '.join(n for n, _ in named[:10])}")
    return chosen


def _maker(place: Place, table: Table | None, shown: str | None, growing: Growing | None) -> Callable[[], Table]:
    def make() -> Table:
        made = load(place, growing)[0] if table is None else table
        made.files |= place.files
        made.warnings += place.warnings
        base = shown or str(place.path)
        made.path = f"{base}#{place.run}" if place.run is not None else base
        made.checkpoints = checkpoints_of(place)
        made.dumps = [str(d) for d in place.dumps]
        _configure(made, place.configs)
        return made

    return make


def _configure(table: Table, paths: list[Path]) -> None:
    """Take the trainer's arguments from what lies beside the log; the nearest file wins."""
    for path in paths:
        try:
            raw = read_config(path)
        except ConfigError as error:
            table.warnings.append(str(error))
            continue
        if path.suffix != ".bin" and not is_trainer_config(raw):
            if not MODEL_FIELDS & raw.keys():
                table.warnings.append(
                    f"{path.name}: holds no setting of a trainer that vario knows; give it with --config if it is one"
                )
        else:
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


def _recognise(table: Table, config: Mapping[str, Setting]) -> tuple[Dialect, dict[str, Series]]:
    """The dialect, and the series under its spelling of the keys."""
    raw = table.series()
    spelled: dict[Callable[[str], str], dict[str, Series]] = {}
    for dialect in DIALECTS:
        if dialect.spell not in spelled:
            named: dict[str, Series] = {}
            for key, values in raw.items():
                name = dialect.spell(key)
                named.setdefault(name, dataclasses.replace(values, key=key))
            spelled[dialect.spell] = named
        series = spelled[dialect.spell]
        if dialect.recognises(frozenset(series), config):
            return dialect, _on_their_axes(dialect, series)
    raise AssertionError("the generic dialect recognises everything")


def _on_their_axes(dialect: Dialect, series: dict[str, Series]) -> dict[str, Series]:
    """Series that are counted by a step of their own, put at that step."""
    for axis in dialect.axes:
        clock = series.get(axis.key)
        if clock is None or not len(clock):
            continue
        at = dict(zip(clock.steps.tolist(), clock.values.tolist(), strict=True))
        for name, values in list(series.items()):
            if name.startswith(axis.prefix) and name != axis.key:
                moved = np.array([at.get(s, np.nan) for s in values.steps.tolist()])
                ok = np.isfinite(moved) & np.isfinite(values.values)  # a null in a shared row is no measurement
                steps, first = np.unique(moved[ok].astype(np.int64)[::-1], return_index=True)
                series[name] = dataclasses.replace(values, steps=steps, values=values.values[ok][::-1][first])
    return series


def _steps_of(series: Mapping[str, Series]) -> Ints:
    train = [s.steps for name, s in series.items() if not name.startswith("eval/")]
    return np.unique(np.concatenate(train)) if train else np.empty(0, dtype=np.int64)


def _checked(mapping: Mapping[str, str], series: Mapping[str, Series]) -> dict[str, str]:
    """The user's own mapping, key to metric; both have to exist."""
    made: dict[str, str] = {}
    by_logged = {s.key: name for name, s in series.items()}
    for metric, key in mapping.items():
        try:
            lookup(metric)
        except KeyError:
            raise ConfigError(
                f"--map {metric}={key}: vario knows no metric {metric!r}; `vario metrics --known` lists them"
            ) from None
        name = key if key in series else by_logged.get(key)
        if name is None:
            some = ", ".join(sorted(by_logged)[:12])
            raise ConfigError(
                f"--map {metric}={key} (or [map] in vario.toml): the log holds no key {key!r}; it holds {some}"
            )
        made[name] = metric
    return made


def interpret(table: Table, mapping: Mapping[str, str] | None = None) -> Run:
    """Give the columns of a reader their meaning; the only place where a dialect is chosen."""
    config = settle(table.config)
    dialect, series = _recognise(table, config)
    keys = frozenset(series)
    context = Context(
        keys,
        config,
        dialect.algorithm(keys, config | {"log.name": Path(table.path.partition("#")[0]).name}),
        series,
        files=frozenset(table.files),
    )
    oldest, newest = dialect.versions(context)
    context = dataclasses.replace(context, oldest=oldest, newest=newest)
    meaning = give_meaning(dialect, context, _checked(mapping or {}, series))
    if table.repeated and not dialect.axes:
        table.warnings.append(f"{table.repeated} steps were logged more than once; the later row counts")
    return Run(
        path=table.path,
        framework=dialect.name,
        framework_version=_version_text(oldest, newest),
        algorithm=context.algorithm,
        series=MappingProxyType(dict(sorted(meaning.series.items()))),
        logged_steps=_steps_of(meaning.series) if dialect.axes else table.logged_steps(),
        config=MappingProxyType(config),
        declared=_with_devices(dialect.declare(context, meaning.series), dialect, context),
        knobs=MappingProxyType(with_part_sizes(dialect.knobs(context))),
        enable=MappingProxyType(dict(dialect.enable(context))),
        checkpoints=tuple(table.checkpoints),
        # on an axis of its own, the steps at which rows were written mean nothing
        events=() if dialect.axes else tuple(sorted(table.events, key=lambda e: e.step)),
        unmapped=meaning.unmapped,
        unsettled=MappingProxyType(dict(meaning.unsettled)),
        ignored=MappingProxyType(dict(meaning.ignored)),
        ignored_lines=table.ignored,
        warnings=tuple(dict.fromkeys(table.warnings)),
        patch=dialect.patch,
        how_to_sample=dialect.samples,
    )


def _with_devices(declared: Declared, dialect: Dialect, context: Context) -> Declared:
    for keys in dialect.devices:
        counts = [context.number(key) for key in keys]
        if all(count is not None for count in counts):
            return dataclasses.replace(declared, devices=math.prod(c for c in counts if c is not None))
    return declared
