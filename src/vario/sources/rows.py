"""What a reader hands on: rows of numbers in columns, with everything it had to skip counted."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vario.run import Checkpoint, Event, Floats, Ints, Series

STEP_KEYS = (
    "step", "global_step", "train/global_step", "_step", "training_step", "global_step/max_steps",
    "iteration", "iter", "Step", "update", "timestep",
)  # fmt: skip
"""Keys that can hold a row's step, most trusted first."""
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


@dataclass(slots=True)
class Table:
    """Columns under construction. `add` takes one row; `series` sorts and settles repeats.

    A step that comes twice (a resume that repeats work, several rows of one step) keeps the
    value that was written last; the repeats are counted and a step that goes back becomes a
    `resume` event.
    """

    path: str
    kind: str
    steps: dict[str, array[int]] = field(default_factory=dict)
    values: dict[str, array[float]] = field(default_factory=dict)
    ignored: int = 0
    rows: int = 0
    index_steps: bool = False
    warnings: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    config: dict[str, object] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    texts: int = 0
    _last: dict[str, int] = field(default_factory=dict)
    _order: array[int] = field(default_factory=lambda: array("q"))

    def add(self, row: Mapping[str, object], *, step: int | None = None) -> bool:
        """Take one row; False when it holds no step and no number."""
        if step is None:
            for key in STEP_KEYS:
                if key in row and (step := step_number(row[key])) is not None:
                    break
        had_step = step is not None
        if step is None:
            if self.rows and not self.index_steps:
                return False  # the others have a step: a place in between cannot be guessed
            step = self.rows + 1
        taken = 0
        rest: dict[str, object] = {}
        for key, value in row.items():
            # the common case of a long log, kept short: a known key with a plain number
            if type(value) is float and key in self.values and key not in STEP_KEYS:
                self.values[key].append(value)
                self.steps[key].append(step)
                taken += 1
            else:
                rest[key] = value
        for key, value in self._flat(rest, "", 0):
            taken += self._put(key, value, step)
        if not taken:
            return False
        if not had_step:
            self.index_steps = True
        self.rows += 1
        if "train_runtime" in row:
            return True  # the closing summary of the Trainer, no step of its own
        kind = (
            "eval" if all(k.startswith(("eval_", "eval/")) for k in row if k not in (*STEP_KEYS, "epoch")) else "train"
        )
        last = self._last.get(kind)
        if kind == "train" and last is not None and step < last:
            self.events.append(
                Event("resume", step, f"the step goes back from {last} to {step}: resumed, or restarted")
            )
        self._last[kind] = step
        if kind == "train":
            self._order.append(step)
        return True

    def _put(self, key: str, value: object, step: int) -> bool:
        """Append one value; False for a step, a text, or a key beyond the limit."""
        if key in STEP_KEYS:
            return False
        found = number(value)
        if found is None:
            self.texts += 1
            return False
        if key not in self.values:
            if len(self.values) >= MAX_KEYS:
                self.ignored += 1
                return False
            self.values[key], self.steps[key] = array("d"), array("q")
        self.values[key].append(found)
        self.steps[key].append(step)
        return True

    def put_before(self, older: Table, first: int) -> None:
        """Take over what an older table of the same run holds before step `first`."""
        for key, series in older.series().items():
            end = int(np.searchsorted(series.steps, first))
            if end:
                self.values[key] = array("d", series.values[:end].tolist()) + self.values.get(key, array("d"))
                self.steps[key] = array("q", series.steps[:end].tolist()) + self.steps.get(key, array("q"))
        earlier = [int(s) for s in older.logged_steps() if s < first]
        self._order = array("q", earlier) + self._order
        self.rows += len(earlier)
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
        made: dict[str, Series] = {}
        for key, raw in self.values.items():
            steps: Ints = np.asarray(self.steps[key], dtype=np.int64)
            values: Floats = np.asarray(raw, dtype=np.float64)
            if steps.size > 1 and not bool((np.diff(steps) > 0).all()):
                order = np.argsort(steps, kind="stable")
                steps, values = steps[order], values[order]
                last = np.append(np.diff(steps) > 0, True)
                steps, values = steps[last], values[last]
            made[key] = Series(key, steps, values)
        return made

    def logged_steps(self) -> Ints:
        """Steps with a training row, ascending and unique."""
        return np.unique(np.asarray(self._order, dtype=np.int64))

    @property
    def repeated(self) -> int:
        """Training rows whose step had been logged before."""
        return len(self._order) - len(set(self._order))
