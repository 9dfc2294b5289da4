"""Series from samples: every piece of a dump counted, put together, and joined with what the trainer logged."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import polars as pl

from vario.catalogue import FROM_SAMPLES
from vario.run import Floats, Run, Series
from vario.samples import Samples
from vario.sources.readers.parquet import panicked
from vario.sources.rollouts.blocks import Troubles, blocks
from vario.sources.rollouts.counting import STEP, Wishes, count
from vario.sources.rollouts.discovery import LOOKED_INTO, first_keys
from vario.sources.rollouts.dumps import Dump, Piece
from vario.sources.rollouts.reduction import GROUP_SPREADS, ROUNDING, TIED_FAILED, TIED_VALUES, VERSION, reduce
from vario.sources.sampled import SampleOptions
from vario.work import Lost, pool

LARGE = 256 << 20
"""Bytes of a dump from which starting processes is worth it."""
MOST_WORKERS = 8
"""Processes by default: each takes a quarter of a gigabyte, and the trainer may be on the same machine."""
COMPLETE = 0.9
"""Share of the logged steps at which a metric must be counted to stand in the log's place: exact, but never sparse."""
TINY = 0.05
"""Of the first step's spread: groups that differ by less, and not by rounding, differ in crumbs."""
MOST_KEPT = 200_000
"""Samples whose numbers stay with the run; beyond it whole steps are left out, evenly."""
LEAST_KEPT = 4_096
"""The same for one piece of many."""
AGAIN = 0.5
"""Of the most rows that a step had: so many, later in the dump, are the step sampled again."""
LOGGED_AS = MappingProxyType(
    {
        "samples/reward/mean": "reward/mean",
        "samples/zero-variance-share": "signal/zero-variance-share",
        "samples/truncated-share": "length/truncated-share",
    }
)
"""What is counted under a name of its own, to be held against the log, and what the log calls it."""
MEASURES = ("reward", "advantage", "length", "size", "truncated", "looped", "garbled", "entropy", "copied")


@dataclass(frozen=True, slots=True)
class _Task:
    piece: Piece
    wishes: Wishes
    kept: int


@dataclass(frozen=True, slots=True)
class PieceCounts:
    """What one piece gives: small tables, whatever its size."""

    steps: pl.DataFrame
    drawn: pl.DataFrame
    rows: int
    troubles: Troubles
    repeated: int
    regrouped: int


def count_piece(task: _Task) -> PieceCounts | None:
    """Count one piece; the same wherever it is done. None if it holds no sample."""
    troubles = Troubles()
    steps, drawn = [], []
    rows = repeated = regrouped = 0
    layout = task.piece.files[0].layout
    for block in blocks(task.piece, troubles):
        counted = count(block, layout, task.wishes)
        reduced = reduce(counted, task.wishes.weights)
        if not layout.versioned:
            reduced = reduced.drop(VERSION)
        steps.append(_of_kept_groups(reduced) if task.piece.files[0].filtered else reduced)
        held = counted.rows
        copied = (pl.len().over(*STEP, "group", "text") > 1).alias("copied")
        drawn.append(
            _thinned(
                held.with_columns(copied).filter("drawn").select(*STEP, "place_in_step", "group", *MEASURES), task.kept
            )
        )
        rows += held.height
        repeated += counted.repeated
        regrouped += counted.regrouped
    if not steps:
        return (
            PieceCounts(pl.DataFrame(), pl.DataFrame(), 0, troubles, 0, 0) if troubles.texts or troubles.lines else None
        )
    return PieceCounts(
        pl.concat(steps, how="diagonal"),
        _thinned(pl.concat(drawn, how="diagonal"), task.kept),
        rows,
        troubles,
        repeated,
        regrouped,
    )


def _state(piece: Piece, wishes: Wishes) -> object | None:
    """What the counts of a piece depend on: its files, and what the log says of their steps; None where that is not told."""
    files = []
    for one in piece.files:
        try:
            told = os.stat(one.place)  # noqa: PTH116  (as many as there are steps, at every look)
        except OSError:
            return None  # an address, or gone: counted anew each time
        files.append((one, told.st_ino, told.st_mtime_ns))
    steps = {one.step for one in piece.files}
    lengths, cut = (
        tuple(of.items()) if None in steps else tuple(of.get(s) for s in sorted(s for s in steps if s is not None))
        for of in (wishes.lengths, wishes.cut)
    )
    rest = replace(wishes, lengths={}, cut={})
    return (tuple(files), piece.start, piece.end, lengths, cut, repr(rest))


def with_samples(run: Run, dump: Dump, options: SampleOptions) -> Run:
    """The run with what its completions say: series that the log lacks, the counted twins of some, and the samples.

    A metric that is logged stays as logged, unless it is defined on samples and was counted at nine tenths of
    its steps: then the count stands in its place. What has a counted twin (`LOGGED_AS`) keeps both, to be compared.
    """
    dump = dump.for_run(run)
    run, unsettled = settled(run, dump)
    wishes = wishes_of(run, options)
    known = options.counted
    pieces = dump.pieces() if known is None else dump.pieces(most=0)
    kept = max(MOST_KEPT // max(len(pieces), 1), LEAST_KEPT)
    found: dict[int, PieceCounts] = {}
    if known is not None:
        keys = [_state(p, wishes) for p in pieces]
        for old in set(known) - set(keys):
            del known[old]
        found = {i: had for i, key in enumerate(keys) if isinstance(had := known.get(key), PieceCounts)}
    left = [i for i in range(len(pieces)) if i not in found]
    tasks = [_Task(pieces[i], wishes, kept) for i in left]
    warnings = [*dump.warnings, *unsettled]
    work = pool(_workers(dump, [pieces[i] for i in left], options), options.ray)
    for done, (number, made) in enumerate(work.each(count_piece, tasks), 1):
        index = left[number]
        if isinstance(made, Lost):
            warnings.append(f"{_said(pieces[index])}: could not be counted ({made.reason}); the rest was used")
        elif made is not None:
            found[index] = made
            if known is not None and keys[index] is not None:
                known[keys[index]] = made
        if options.told is not None:
            options.told(done, len(tasks))
    parts = [found[i] for i in sorted(found)]
    warnings += _remarks(parts)
    tables = [p.steps for p in parts if p.steps.height]
    if not tables:
        warnings.append("no completion could be read in what lies beside the log" if dump.files else "")
        return replace(run, warnings=(*run.warnings, *dict.fromkeys(w for w in warnings if w)))
    steps, scattered = _one_row_a_step(pl.concat(tables, how="diagonal"))
    if scattered:
        warnings.append(f"{scattered} steps lie in several parts of the dump; the last that is as large counts")
    train = steps.filter(~pl.col("evaluation"))
    warnings += _elsewhere(run, train)
    series = _joined(run, _finished(train), _label(dump))
    series |= _evaluations(run, steps.filter("evaluation"), _label(dump))
    return replace(
        run,
        series=MappingProxyType(dict(sorted(series.items()))),
        logged_steps=run.logged_steps if run.logged_steps.size else train["step"].to_numpy().astype(np.int64),
        samples=_kept(parts, run.dumps),
        framework=run.framework if run.series or run.framework != "generic" else dump.frameworks[0],
        warnings=(*run.warnings, *dict.fromkeys(warnings)),
    )


def _of_kept_groups(steps: pl.DataFrame) -> pl.DataFrame:
    """What samples say that a filter has been through: how many groups had no difference, they cannot."""
    lost = [c for c in steps.columns if c.startswith(("signal/", "samples/zero", "_tied", "_failed", "_spreads"))]
    return steps.drop(lost).rename({"samples/reward/mean": "reward/kept/mean"}).drop("samples/reward/se")


def _first_names(dump: Dump) -> list[str]:
    """The reward functions of the first file that tells any, in its order."""
    for one in dump.files[:LOOKED_INTO]:
        try:
            if names := list(one.layout.components(first_keys(one.place))):
                return names
        except Exception:
            continue
        except BaseException as error:
            if not panicked(error):
                raise
    return []


def _workers(dump: Dump, pieces: list[Piece], options: SampleOptions) -> int | None:
    """As many processes as were asked for; by default one for each core where the dump is large."""
    if options.workers is not None or options.ray is not None:
        return options.workers
    if sum(f.size for f in dump.files) < LARGE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, len(pieces), MOST_WORKERS)


def settled(run: Run, dump: Dump) -> tuple[Run, list[str]]:
    """Settle the weights of the reward functions by their order in the dump, where the log alone could not."""
    layout = dump.files[0].layout
    if not layout.weighted:
        return run, []
    names = _first_names(dump)
    names = [n for n in names if n in run.components()] or names
    known = run.declared.component_weights
    if set(names) <= set(known):
        return run, []
    written = run.config.get("reward_weights")
    weights = _numbers(written) if isinstance(written, str) else None
    if weights is None and (written is None and (run.config or len(names) == 1)):
        weights = [1.0] * len(names)  # TRL's default
    if weights is None or len(weights) != len(names):
        text = (
            "the weights of the reward functions are not known: the total reward cannot be counted from the completions"
        )
        return run, [f"{text}; lay the trainer's configuration beside the log"]
    told = MappingProxyType(dict(zip(names, weights, strict=True)) | dict(known))
    return replace(run, declared=replace(run.declared, component_weights=told)), []


def _numbers(written: str) -> list[float] | None:
    try:
        found = json.loads(written)
    except ValueError:
        return None
    return (
        [float(v) for v in found]
        if isinstance(found, list) and all(isinstance(v, int | float) for v in found)
        else None
    )


def wishes_of(run: Run, options: SampleOptions) -> Wishes:
    """What the run tells that helps to count its samples."""
    declared = run.declared
    size = options.group_size or declared.group_size
    return Wishes(
        group_size=int(size) if size is not None and size >= 1 else None,
        weights=dict(declared.component_weights),
        components=run.components(),
        max_length=options.max_length or declared.max_length,
        lengths=_by_step(run.series.get("length/mean")),
        cut=_by_step(run.series.get("length/truncated-share")),
        all_text=options.all_text,
    )


def _by_step(series: Series | None) -> dict[int, float]:
    if series is None:
        return {}
    steps, values = series.finite()
    return dict(zip(steps.tolist(), values.tolist(), strict=True))


def _said(piece: Piece) -> str:
    names = [f.name for f in piece.files]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _remarks(parts: list[PieceCounts]) -> list[str]:
    lines, dropped = sum(p.troubles.lines for p in parts), sum(p.troubles.rows for p in parts)
    repeated, regrouped = sum(p.repeated for p in parts), sum(p.regrouped for p in parts)
    made = [text for p in parts for text in p.troubles.texts]
    if lines:
        made.append(f"{lines} broken {'line' if lines == 1 else 'lines'} of the completions left out")
    if dropped:
        made.append(f"{dropped} {'row' if dropped == 1 else 'rows'} of the completions left out: padding, or failed")
    if repeated:
        made.append(
            f"{repeated} {'step' if repeated == 1 else 'steps'} sampled again after a resume; the later samples count"
        )
    if regrouped:
        made.append(f"{regrouped} steps do not hold groups as configured; equal prompts were taken as groups")
    return made


def _elsewhere(run: Run, train: pl.DataFrame) -> list[str]:
    """Said where no completion is of a step that the log tells of: one of the two counts otherwise, or is another's."""
    steps: list[int] = train["step"].to_list()
    if run.first_step is None or run.last_step is None or not steps:
        return []
    if any(run.first_step <= step <= run.last_step for step in steps):
        return []
    return [
        f"the completions are of steps {min(steps)} to {max(steps)}, the log tells of steps {run.first_step} to "
        f"{run.last_step}: are they of one run?"
    ]


def _label(dump: Dump) -> str:
    """Where series come from, as one short pattern."""
    first = dump.files[0].place.replace("\\", "/")
    folder, _, name = first.rpartition("/")
    ending = name[name.index(".") :] if "." in name else ""
    return f"{folder.rpartition('/')[2]}/*{ending}" if len(dump.files) > 1 else name


def _one_row_a_step(steps: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Of a step that lies in several parts, the last part that is at least half as large as the largest."""
    if not steps.select(pl.struct(*STEP).is_duplicated().any()).item():
        return steps.sort(*STEP), 0
    times = steps.group_by(*STEP).len().filter(pl.col("len") > 1).height
    large = steps.filter(pl.col("rows") >= AGAIN * pl.col("rows").max().over(*STEP))
    return large.unique(STEP, keep="last", maintain_order=True).sort(*STEP), times


def _finished(train: pl.DataFrame) -> dict[str, Series]:
    """Series of the training samples; what needs the steps before is judged here, never by what came after."""
    at = train["step"].to_numpy().astype(np.int64)
    made = {
        name: values
        for name in train.columns
        if name not in (*STEP, "rows", TIED_VALUES, GROUP_SPREADS) and not name.startswith("_")
        for values in [train[name].cast(pl.Float64).to_numpy()]
    }
    if VERSION in train.columns:
        made["staleness/mean"] = at - train[VERSION].cast(pl.Float64).to_numpy()
    tied = made.get("samples/zero-variance-share")
    if tied is not None:
        made["signal/zero-variance-excess"] = tied - train["_tied_by_chance"].cast(pl.Float64).to_numpy()
        made["signal/solved-share"], made["signal/unsolved-share"] = _at_the_ends(train, made)
        made["signal/tiny-spread-share"] = _tiny(train, made)
    return {
        name: Series("", at[held], values[held]) for name, values in made.items() if (held := np.isfinite(values)).any()
    }


def _at_the_ends(train: pl.DataFrame, made: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Share of groups that all have the highest reward so far, or none: the lowest so far, at 0 or below.

    Where the task's own functions are known, a group that has nothing from them is unsolved, whatever its form is paid.
    """
    high = np.fmax.accumulate(made["reward/max"])
    low = np.fmin.accumulate(made["reward/min"])
    solved, unsolved = np.full(high.size, np.nan), np.full(high.size, np.nan)
    columns = (train[name].to_list() for name in (GROUP_SPREADS, TIED_VALUES, TIED_FAILED))
    for i, (groups, tied, failures) in enumerate(zip(*columns, strict=True)):
        if not groups:
            continue
        near = ROUNDING * max(abs(high[i]), abs(low[i]))
        level, failed = np.asarray(tied, dtype=np.float64), np.asarray(failures) == True  # noqa: E712  (None is unknown)
        apart = high[i] - low[i] > near
        if apart and high[i] > 0.0:
            solved[i] = np.count_nonzero((level >= high[i] - near) & ~failed) / len(groups)
        unsolved[i] = np.count_nonzero(((level <= low[i] + near) & (level <= near)) | failed) / len(groups)
    return solved, unsolved


def _tiny(train: pl.DataFrame, made: Mapping[str, Floats]) -> Floats:
    """Share of groups whose spread is above rounding and below a twentieth of the batch's at the first step.

    The first step is the first that has a spread; up to then no group has one either.
    """
    largest = np.fmax(np.abs(made["reward/max"]), np.abs(made["reward/min"]))
    start = 0.0
    found = np.full(train.height, np.nan)
    for i, (groups, batch) in enumerate(zip(train[GROUP_SPREADS].to_list(), made["reward/std/batch"], strict=True)):
        if not start and np.isfinite(batch) and batch > ROUNDING * largest[i]:
            start = float(batch)
        if groups:
            spread = np.asarray(groups, dtype=np.float64)
            found[i] = np.count_nonzero((spread > 0.0) & (spread < TINY * start)) / spread.size
    return found


def _joined(run: Run, counted: Mapping[str, Series], label: str) -> dict[str, Series]:
    series = dict(run.series)
    for name, one in counted.items():
        made = Series(label, one.steps, one.values, counted=True)
        logged = LOGGED_AS.get(name)
        if logged is not None and logged not in series:
            series[logged] = made
        elif logged is not None or name not in series or (name in FROM_SAMPLES and _complete(series[name], made)):
            series[name] = made
    return series


def _complete(logged: Series, counted: Series) -> bool:
    return bool(np.isin(logged.steps, counted.steps).mean() >= COMPLETE) if len(logged) else True


def _evaluations(run: Run, steps: pl.DataFrame, label: str) -> dict[str, Series]:
    """The mean score of evaluations that only a dump tells of."""
    if "eval/score/mean" in run.series or "samples/reward/mean" not in steps.columns:
        return {}
    known = steps.filter(pl.col("samples/reward/mean").is_finite())
    if not known.height:
        return {}
    values = known["samples/reward/mean"].to_numpy().astype(np.float64)
    return {"eval/score/mean": Series(label, known["step"].to_numpy().astype(np.int64), values, counted=True)}


def _thinned(drawn: pl.DataFrame, most: int) -> pl.DataFrame:
    """At most so many samples, or those of one step: every second step is left out, or more of them."""
    if drawn.height <= most:
        return drawn
    steps = drawn["step"].unique().sort()
    return drawn.filter(pl.col("step").is_in(steps.gather_every(-(-drawn.height // most)).implode()))


def _kept(parts: list[PieceCounts], places: tuple[str, ...]) -> Samples:
    tables = [p.drawn for p in parts if p.drawn.width]
    # a dump without texts has no sample that was measured
    drawn = pl.concat([t for t in tables if t.height] or tables[:1], how="diagonal").filter(~pl.col("evaluation"))
    drawn = _thinned(drawn, MOST_KEPT).sort("step", "place_in_step", maintain_order=True)
    return Samples(
        places,
        drawn["step"].to_numpy().astype(np.int64),
        drawn["place_in_step"].to_numpy().astype(np.int64),
        drawn["group"].to_numpy(),
        MappingProxyType({n: drawn[n].cast(pl.Float64).fill_null(np.nan).to_numpy() for n in MEASURES}),
        sum(p.rows for p in parts),
    )
