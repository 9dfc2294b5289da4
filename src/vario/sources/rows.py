"""What a reader hands on: rows of numbers in columns, with everything it had to skip counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from vario.run import Checkpoint, Event, Floats, Ints, Series

STEP_KEYS = (
    "step", "training_step", "global_step", "train/global_step", "eval/global_step", "_step", "global_step/max_steps", "current_steps",
    "trainer/global_step", "iteration", "iter", "Step", "update", "timestep",
)  # fmt: skip
"""Keys that can hold a row's step, most trusted first."""
EVALUATION = ("eval_", "eval/", "val-core/", "val-aux/", "val/", "validation/", "test/", "eval-rollout/")
"""Rows that hold nothing but such keys are evaluations, and count no training step."""
BESIDE = (
    *STEP_KEYS, "epoch", "_timestamp", "_runtime", "timestamp", "time", "recorded_at", "memory(GiB)",
    "train_speed(iter/s)", "train_speed(s/it)", "elapsed_time", "remaining_time", "percentage", "total_steps",
)  # fmt: skip
"""Keys that stand in rows of every kind."""
GAUGES = ("system/",)
"""Gauges of the machine, sampled by a clock: MLflow numbers its samples where others have a step."""
WAITING_ROWS = 2048
"""Rows kept as lists before they become columns: enough to spread the cost, few enough to stay small."""
MAX_NESTING = 4
MAX_KEYS = 20_000
MAX_STEP = 2**62


LARGEST = 1e100
"""A larger size is no measurement: it counts as infinite, and squares of the rest do not overflow."""


def number(value: object) -> float | None:
    """A metric value as a float: numbers, numeric strings, null (NaN); None for anything else."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 64 else None
        except ValueError:
            value = None
    if not isinstance(value, int | float):
        return None
    if abs(value) > LARGEST:
        return math.inf if value > 0 else -math.inf
    return float(value)


def step_number(value: object) -> int | None:
    """A step: a whole number, a whole float, or the `9` of `"9/547"`."""
    if isinstance(value, str):
        value = number(value.split("/", 1)[0])
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value if abs(value) < MAX_STEP else None
    if isinstance(value, float) and abs(value) < MAX_STEP and value == int(value):
        return int(value)
    return None


class Block(NamedTuple):
    """A piece of one column: row numbers in the order of writing, steps and values, each of shape (n,)."""

    order: Ints
    steps: Ints
    values: Floats

    def __deepcopy__(self, memo: dict[int, object]) -> Block:
        """Itself: nobody changes a column once it is there."""
        return self


@dataclass(slots=True)
class _Waiting:
    """Rows with the same keys that are not columns yet."""

    keys: tuple[str, ...]
    step_keys: tuple[str, ...]
    nested: bool
    kind: str
    last: int | None = None
    order: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rows: list[list[object]] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, object]) -> _Waiting:
        """The same rows in lists of their own."""
        return replace(self, order=list(self.order), steps=list(self.steps), rows=list(self.rows))


def kind_of(keys: Iterable[str]) -> str:
    """Whether rows with these keys are `train`, `eval`, a `gauge`, or the `summary` at the end."""
    if "train_runtime" in keys:
        return "summary"  # written once, when the Trainer ends: no step of its own
    own = [k for k in keys if k not in BESIDE]
    if own and all(k.startswith(GAUGES) for k in own):
        return "gauge"
    return "eval" if all(k.startswith(EVALUATION) for k in own) else "train"


def _summarises(key: str) -> bool:
    return key in BESIDE or key.startswith(("train_", "total_"))


@dataclass(slots=True)
class Table:
    """Columns under construction. `add` takes one row, `put` a column; `series` sorts and settles repeats.

    A step that comes twice (a resume that repeats work, several rows of one step) keeps the
    value that was written last; the repeats are counted and a step that goes back becomes a
    `resume` event. Rows with the same keys are turned into columns together, which is what
    makes a long log fast.
    """

    path: str
    kind: str
    ignored: int = 0
    rows: int = 0
    index_steps: bool = False
    warnings: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    config: dict[str, object] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    dumps: list[str] = field(default_factory=list)
    texts: int = 0
    _blocks: dict[str, list[Block]] = field(default_factory=dict)
    _waiting: dict[tuple[str, ...], _Waiting] = field(default_factory=dict)
    _waiting_rows: int = 0
    _unplaced: list[dict[str, object]] = field(default_factory=list)
    _train: list[Ints] = field(default_factory=list)
    _last: int | None = None
    _repeats: int = 0

    def __deepcopy__(self, memo: dict[int, object]) -> Table:
        """A table that goes on by itself; columns and rows that are there are shared, for nobody changes them."""
        made = copy(self)
        made._blocks = {key: list(blocks) for key, blocks in self._blocks.items()}
        made._train = list(self._train)
        made._unplaced = list(self._unplaced)
        for name in ("warnings", "events", "checkpoints", "config", "files", "dumps", "_waiting"):
            setattr(made, name, deepcopy(getattr(self, name), memo))
        return made

    def add(self, row: Mapping[str, object], *, step: int | None = None) -> bool:
        """Take one row; False when it holds no step and no number."""
        keys = tuple(row)
        waiting = self._waiting.get(keys)
        if waiting is None:
            waiting = self._waiting[keys] = _Waiting(
                keys,
                tuple(k for k in STEP_KEYS if k in row),
                any(isinstance(v, Mapping) for v in row.values()),
                kind_of(keys),
            )
        if step is None:
            for key in waiting.step_keys:
                value = row[key]
                if (
                    step := value if type(value) is int and -MAX_STEP < value < MAX_STEP else step_number(value)
                ) is not None:
                    break
        if waiting.kind == "summary" and not all(map(_summarises, keys)):
            # what is left in the trainer's averages goes out with the summary: it is no step's own row
            return self.add({k: v for k, v in row.items() if _summarises(k)}, step=step)
        if waiting.nested:
            flat = dict(self._flat(row, "", 0))
            return bool(flat) and tuple(flat) != keys and self.add(flat, step=step)
        had_step = step is not None
        if step is None:
            if any(row[key] is None for key in waiting.step_keys):
                return self._without_step(row)
            if self.rows and not self.index_steps:
                return False  # the others have a step: a place in between cannot be guessed
            step = self.rows + 1
        if not waiting.rows and not self._has_number(row):
            self.texts += len(row)
            return False
        if not had_step:
            self.index_steps = True
        waiting.rows.append(list(row.values()))
        waiting.steps.append(step)
        waiting.order.append(self.rows)
        self.rows += 1
        self._waiting_rows += 1
        if self._waiting_rows >= WAITING_ROWS:
            self.flush()
        return True

    def _without_step(self, row: Mapping[str, object]) -> bool:
        """A row whose step is null: a gauge beside the training, unless no row has a step."""
        if self.rows and not self.index_steps:
            return False
        if len(self._unplaced) >= WAITING_ROWS:
            self.ignored += 1
            return True
        self._unplaced.append(dict(row))
        return True

    def _place_rest(self) -> None:
        """Rows with a null step count by their order where no other row has a step, and else not at all."""
        rows, self._unplaced = self._unplaced, []
        if self.rows and not self.index_steps:
            self.ignored += len(rows)
            return
        for row in rows:
            self.add({k: v for k, v in row.items() if k not in STEP_KEYS or v is not None})

    @staticmethod
    def _has_number(row: Mapping[str, object]) -> bool:
        return any(number(v) is not None for k, v in row.items() if k not in STEP_KEYS)

    def put(self, key: str, steps: Ints, values: Floats) -> None:
        """Take a column, in the order of writing: steps and values of shape (n,)."""
        order = np.arange(self.rows, self.rows + steps.size, dtype=np.int64)
        if key in STEP_KEYS or not self._append(key, Block(order, steps, _bounded(values))):
            return
        self.rows += 1
        if kind_of((key,)) == "train":
            self._train.append(steps)

    def drop(self, key: str) -> None:
        """Forget a column."""
        self.flush()
        self._blocks.pop(key, None)

    def put_rows(self, steps: Ints, columns: Mapping[str, tuple[Ints, Floats]], *, side_by_side: bool = False) -> None:
        """Take rows as columns: the step of each row, and for each key the rows that hold it with their values.

        Args:
            steps: of each row, in the order of writing.
            columns: key -> numbers of the rows that hold it, and its values there.
            side_by_side: rows with other keys are another writer's, as with `add`: its step is no return of the first's.
        """
        self.flush()
        order = np.arange(self.rows, self.rows + steps.size, dtype=np.int64)
        trained = np.zeros(steps.size, dtype=bool)
        kinds = np.zeros(steps.size, dtype=np.uint64)
        marks = np.random.default_rng(0).integers(1, 2**63, len(columns), dtype=np.uint64)
        for (key, (held, values)), mark in zip(columns.items(), marks, strict=True):
            kinds[held] += mark
            if key in STEP_KEYS or not held.size:
                continue
            self._append(key, Block(order[held], steps[held], _bounded(values)))
            if key not in BESIDE and kind_of((key,)) == "train":
                trained[held] = True
        if "train_runtime" in columns:
            trained[columns["train_runtime"][0]] = False  # the summary at the end has no step of its own
        self.rows += int(steps.size)
        if not trained.any():
            return
        self._train.append(steps[trained])
        if not side_by_side:
            self._last = self._note_returns(steps[trained], self._last)
            return
        by_kind = np.argsort(kinds[trained], kind="stable")
        ends = np.flatnonzero(np.diff(kinds[trained][by_kind])) + 1
        for rows in sorted(np.split(by_kind, ends), key=lambda rows: int(rows[0])):
            self._note_returns(steps[trained][rows], None)

    def _append(self, key: str, block: Block) -> bool:
        if key not in self._blocks and len(self._blocks) >= MAX_KEYS:
            self.ignored += 1
            return False
        self._blocks.setdefault(key, []).append(block)
        return True

    def flush(self) -> None:
        """Turn the rows that wait into columns, and note where the step goes back."""
        if self._unplaced:
            self._place_rest()
        orders: list[Ints] = []
        steps: list[Ints] = []
        for waiting in self._waiting.values():
            if not waiting.rows:
                continue
            at, where = np.array(waiting.order, dtype=np.int64), np.array(waiting.steps, dtype=np.int64)
            self._columns(waiting, at, where)
            if waiting.kind == "train":
                waiting.last = self._note_returns(where, waiting.last)
                orders.append(at)
                steps.append(where)
            waiting.order, waiting.steps, waiting.rows = [], [], []
        self._waiting_rows = 0
        if len(self._waiting) > MAX_KEYS:
            self._waiting.clear()
        if orders:
            self._train.append(np.concatenate(steps)[np.argsort(np.concatenate(orders), kind="stable")])

    def _note_returns(self, written: Ints, last_before: int | None) -> int:
        """Note where rows of one kind go back; two processes that write side by side do not."""
        before = written[:1] if last_before is None else np.array([last_before], dtype=np.int64)
        path = np.concatenate([before, written])
        for i in np.flatnonzero(np.diff(path) < 0).tolist()[:MAX_RETURNS]:
            step, last = int(path[i + 1]), int(path[i])
            if not any(e.kind == "resume" and e.step == step for e in self.events):
                self.events.append(
                    Event("resume", step, f"the step goes back from {last} to {step}: resumed, or restarted")
                )
        return int(written[-1])

    def _columns(self, waiting: _Waiting, order: Ints, steps: Ints) -> None:
        keep = [i for i, k in enumerate(waiting.keys) if k not in STEP_KEYS]
        matrix: Floats | None
        first = waiting.rows[0]
        plain = [
            i for i in keep if isinstance(first[i], int | float) or first[i] is None or number(first[i]) is not None
        ]
        try:
            picked = waiting.rows if len(plain) == len(first) else [[row[i] for i in plain] for row in waiting.rows]
            matrix = np.array(picked, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            matrix = None
        if matrix is not None:
            matrix = _bounded(matrix)
            for column, i in enumerate(plain):
                if waiting.keys[i] in STEP_KEYS:
                    continue
                self._append(waiting.keys[i], Block(order, steps, matrix[:, column].copy()))
        done = set(plain) if matrix is not None else set()
        for i in keep:
            if i in done:
                continue
            found = [number(row[i]) for row in waiting.rows]
            ok = np.array([v is not None for v in found])
            self.texts += int((~ok).sum())
            if ok.any():
                values = np.array([v for v in found if v is not None], dtype=np.float64)
                self._append(waiting.keys[i], Block(order[ok], steps[ok], values))

    def put_before(self, older: Table, first: int) -> None:
        """Take over what an older table of the same run holds before step `first`."""
        self.flush()
        for key, series in older.series().items():
            end = int(np.searchsorted(series.steps, first))
            if end:
                order = np.arange(-end, 0, dtype=np.int64)
                self._blocks.setdefault(key, []).insert(0, Block(order, series.steps[:end], series.values[:end]))
        earlier = older.logged_steps()
        earlier = earlier[earlier < first]
        self._train.insert(0, earlier)
        self.rows += int(earlier.size)
        self.events = [e for e in older.events if e.step < first] + self.events

    def _flat(self, row: Mapping[str, object], prefix: str, depth: int) -> Iterable[tuple[str, object]]:
        for key, value in row.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping):
                if depth < MAX_NESTING:
                    yield from self._flat(value, f"{name}/", depth + 1)
                else:
                    self.texts += 1
            elif isinstance(value, list | tuple):
                self.texts += 1
            else:
                yield name, value

    def series(self) -> dict[str, Series]:
        """One Series a key: steps ascending, the value written last where a step repeats."""
        self.flush()
        known: list[Ints] = []
        return {key: _settled(key, blocks, known) for key, blocks in self._blocks.items()}

    def logged_steps(self) -> Ints:
        """Steps with a training row, ascending and unique."""
        self.flush()
        return np.unique(np.concatenate(self._train)) if self._train else np.empty(0, dtype=np.int64)

    @property
    def repeated(self) -> int:
        """Training rows whose step had been logged before, as most of the metrics have it."""
        self.flush()
        counts = [_repeats(b) for k, b in self._blocks.items() if k not in BESIDE and kind_of((k,)) == "train"]
        return int(np.median(counts)) if counts else 0


MOST_SHARED = 8
"""Different columns of steps that are kept in mind: training, evaluation, and a few that skip rows."""
MAX_RETURNS = 100
"""So many returns of the step are told one by one; a log that goes back more often has no order."""


def _repeats(blocks: list[Block]) -> int:
    steps = blocks[0].steps if len(blocks) == 1 else np.concatenate([b.steps for b in blocks])
    if bool((np.diff(steps) > 0).all()):
        return 0
    return int(steps.size - np.unique(steps).size)


def _bounded(values: Floats) -> Floats:
    """Values of which the too large ones are infinite."""
    with np.errstate(invalid="ignore"):
        large = np.abs(values) > LARGEST
    return np.where(large, np.copysign(np.inf, values), values) if large.any() else values


def _shared(steps: Ints, known: list[Ints]) -> Ints:
    """The same steps as another key's where they are: a row has one step, and sixty copies of it are half the memory."""
    for other in known:
        if other.size == steps.size and np.array_equal(other, steps):
            return other
    known.append(steps)
    del known[:-MOST_SHARED]
    return steps


def _settled(key: str, blocks: list[Block], known: list[Ints]) -> Series:
    order, steps, values = (np.concatenate(part) if len(blocks) > 1 else part[0] for part in zip(*blocks, strict=True))
    if order.size > 1 and not bool((np.diff(order) > 0).all()):
        written = np.argsort(order, kind="stable")
        steps, values = steps[written], values[written]
    if steps.size > 1 and not bool((np.diff(steps) > 0).all()):
        ranked = np.argsort(steps, kind="stable")
        steps, values = steps[ranked], values[ranked]
        last = np.append(np.diff(steps) > 0, True)
        steps, values = steps[last], values[last]
    return Series(key, _shared(steps, known), values)
