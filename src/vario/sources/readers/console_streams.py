"""Streams of a console log: rows of one kind of line, and the choice of those that are the run."""

from __future__ import annotations

from array import array

import numpy as np

from vario.run import Ints, Series
from vario.sources.readers.console_lines import Said
from vario.sources.readers.metric_words import kinds_of, of_a_step
from vario.sources.rows import BESIDE, EVALUATION, MAX_STEP, Table, number

NEIGHBOUR = 1.3
"""A stream that speaks at most so often as the main one is one row a step, not one a sample."""
RECENT = 16
"""Steps for which a row is remembered, so that the same row from another rank is not a second one."""
FRESH = 1
"""A step at most so far from the first one, long after it, is a training that was started anew."""
MIN_ROWS = 3
"""Fewer rows without a grammar of their own can be a configuration or a sentence."""
MIN_ROWS_OF_ONE = 5
"""The same for rows with a single metric."""
LEAST_RUN = 6
"""Steps that start again and again after fewer rows count something else (steps of an answer, of a game)."""
MANY_RESTARTS = 5


class Stream:
    """Rows of one kind of line. Either all of them say their step, or none does and they are counted."""

    def __init__(self, name: str, path: str, *, source: str, certain: bool, stepped: bool) -> None:
        self.name, self.source, self.certain, self.stepped = name, source, certain, stepped
        self.table = Table(path, "console")
        self.kinds: set[str] = set()
        self.keys: set[str] = set()
        self.orders = array("q")
        """When each row that counts was said, by the order of all rows in the log."""
        self.steps = array("q")
        self._aside: list[tuple[int, dict[str, object]]] = []
        self._epochs = array("d")
        self._recent: dict[int, dict[str, object]] = {}
        self._first: dict[str, object] | None = None
        self._varied = self._fractions = False
        self._shift = self._gap = 0
        self._said: int | None = None

    def add(self, said: Said, order: int) -> bool:
        """Take a row; False where it begins a training anew, and is not of this stream."""
        row = said.row
        if fresh := row.keys() - self.keys:
            self.keys |= fresh
            self.kinds |= kinds_of(fresh)
        trains = "train_runtime" not in row and not all(k.startswith(EVALUATION) or k in BESIDE for k in row)
        if said.step is not None:
            step = self._unrolled(said.step, row)
            if self._recent.get(step) == row:
                return True  # another rank says the same
            if trains and self._starts_anew(step):
                return False
            self._recent[step] = row
            if len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
            self.steps.append(step)
        elif not trains:
            self._aside.append((order, row))
            return True
        elif not self._count(row):
            return False
        self.orders.append(order)
        if trains:
            if self._first is None:
                self._first = row
            elif not self._varied:
                self._varied = any(self._first.get(k, v) != v for k, v in row.items() if k not in BESIDE)
            self._fractions = self._fractions or any(map(_is_fraction, row.values()))
        self.table.add(row, step=self.steps[-1])
        return True

    def settle(self, main: Stream) -> None:
        """Put evaluations and totals, which say no step, at the last step that was said before them, by the main stream if by none here."""
        by = self if self.steps else main
        orders, steps = np.array(by.orders, dtype=np.int64), np.array(by.steps, dtype=np.int64)
        for i, (order, row) in enumerate(self._aside):
            place = int(np.searchsorted(orders, order)) - 1
            step = i + 1 if not steps.size else int(steps[max(place, 0)])
            self.table.add({k: v for k, v in row.items() if k not in BESIDE}, step=step)
        self._aside.clear()

    def _count(self, row: dict[str, object]) -> bool:
        """Count a row without a step; where its epoch goes back, it is a resume or a training started anew."""
        place = self.steps[-1] if self.steps else 0
        before = self._epochs[-1] if self._epochs else 0.0
        epoch = number(row.get("epoch", before))
        if epoch is None or not epoch >= before:
            if epoch is None or epoch <= 2.0 * self._epochs[0]:
                return False
            place = next((i for i, e in enumerate(self._epochs) if e >= epoch), place)
            self._epochs = self._epochs[:place]
        self._epochs.append(epoch)
        self.steps.append(place + 1)
        return True

    def _unrolled(self, step: int, row: dict[str, object]) -> int:
        """The step from the start, where the steps are counted within an epoch."""
        epoch = number(row.get("epoch", row.get("Epoch", "")))
        if epoch is not None:
            if self._epochs and self._said is not None:
                if step < self._said and epoch > self._epochs[0]:
                    self._shift = self.steps[-1] + max(self._gap, 1) - step
                elif not self._gap and step > self._said:
                    self._gap = step - self._said
            self._epochs = array("d", [epoch])
            self._said = step
        return step + self._shift

    def _starts_anew(self, step: int) -> bool:
        return bool(self.steps) and step <= self.steps[0] + FRESH and self.steps[-1] - step >= LEAST_RUN - 1

    @property
    def distinct(self) -> int:
        """How many steps it tells of."""
        return len(set(self.steps))

    @property
    def is_training(self) -> bool:
        """Whether it can be the rows of a training, and not those of samples, of a configuration or of prose."""
        if not self.kinds or not self.rows:
            return False
        if self.certain:
            return True
        own = of_a_step(self.keys)
        if not own and (not self.stepped or len(self.steps) > 1.5 * self.distinct):
            return False
        if not self.stepped and not self._fractions:
            return False
        if len(self.kinds) >= 2 and ("epoch" in self.keys or (self.stepped and self.is_dict)):
            return True
        if self.kinds == {"length"} or self.rows < (MIN_ROWS if len(self.kinds) >= 2 else MIN_ROWS_OF_ONE):
            return False
        return self._varied or self.stepped

    @property
    def is_dict(self) -> bool:
        """Whether its rows were printed as dicts."""
        return self.name.startswith("dict:")

    @property
    def is_beside(self) -> bool:
        """Whether it can complete a training: held-out figures, and dicts of scoped keys under a step of their own."""
        held_out = all(k.startswith(EVALUATION) or k.lower() in BESIDE for k in self.keys)
        scoped = self.is_dict and any("/" in k for k in self.keys)
        return self.is_training or (self.stepped and (held_out or scoped)) or (self.is_dict and held_out)

    @property
    def rows(self) -> int:
        """How many rows it has that are no copies, those of one step as one."""
        return self.distinct or len(self._aside)

    @property
    def weight(self) -> float:
        """How much it looks like the run: the breadth of its metrics counts more than its rows."""
        return float(self.distinct or 1) * len(self.kinds) ** 2


class Streams:
    """All streams of a log, by name; of those that were started anew, the newest with the most metrics."""

    def __init__(self) -> None:
        self.current: dict[str, Stream] = {}
        self._ended: dict[str, Stream] = {}
        self._restarts: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    def restart(self, old: Stream, new: Stream) -> None:
        """Put a stream that starts anew in the place of the old one."""
        name = old.name
        self._restarts[name] = self._restarts.get(name, 0) + 1
        self._rows[name] = self._rows.get(name, 0) + len(old.steps)
        ended = self._ended.get(name)
        if ended is None or len(old.kinds) >= len(ended.kinds):
            self._ended[name] = old
        self.current[name] = new

    def choose(self) -> tuple[Stream, list[str]] | None:
        """The stream that is the run, its table completed by those beside it, and warnings; None if none can be."""
        streams: list[Stream] = []
        warnings: list[str] = []
        for name, stream in self.current.items():
            restarts = self._restarts.get(name, 0)
            if restarts > MANY_RESTARTS and not (of_a_step(stream.keys) and self._rows[name] >= LEAST_RUN * restarts):
                continue
            ended = self._ended.get(name)
            segments = [s for s in (stream, ended) if s is not None and s.is_beside]
            if segments:
                streams.append(max(segments, key=lambda s: (s.is_training, len(s.kinds))))
        streams.sort(key=lambda s: s.weight, reverse=True)
        ranked = [s for s in streams if s.is_training]
        if not ranked:
            return None
        main = _broader(ranked)
        if restarts := self._restarts.get(main.name, 0):
            which = "the newest start" if main is self.current[main.name] else "the one with most metrics"
            warnings.append(f"{restarts + 1} trainings one after the other in it; {which} was read")
        main.settle(main)
        main.table.flush()
        taken = set(main.keys)
        ranks = 0
        for other in streams:
            if other is main:
                continue
            if any(k.lower() not in BESIDE for k in other.keys & taken):
                ranks += other.name.partition("@")[0] == main.name
                continue
            other.settle(main)
            for key, series in _beside(main, other).items():
                if key not in taken:
                    main.table.put(key, series.steps, series.values)
                    taken.add(key)
        if ranks:
            warnings.append(f"{ranks + 1} ranks printed rows of their own; those of the first were read")
        main.table.index_steps = not main.stepped
        return main, warnings


def _broader(ranked: list[Stream]) -> Stream:
    """The first of them, unless it says several rows for each row of one that has more metrics: then it tells of samples."""
    main = ranked[0]
    several = not main.stepped or len(main.steps) >= 2 * main.distinct
    for other in ranked[1:]:
        if (
            several
            and len(other.kinds) > len(main.kinds)
            and len(other.steps) >= MIN_ROWS
            and len(main.steps) >= 2 * len(other.steps)
            and of_a_step(other.keys)
        ):
            return other
        if not main.stepped and other.stepped and other.distinct >= 0.9 * len(main.steps) and _beside(other, main):
            return other  # what counts its steps itself stands beside it, line for line
    return main


def _beside(main: Stream, other: Stream) -> dict[str, Series]:
    """The series of a stream that speaks once a step beside the main one, at the main one's steps; else none."""
    if other.stepped:
        if not main.stepped or other.distinct > NEIGHBOUR * main.distinct:
            return {}
        return other.table.series()
    if not len(other.steps):  # evaluations alone, which were put at the main one's steps
        return other.table.series()
    if other.source != main.source or len(other.steps) > NEIGHBOUR * len(main.steps):
        return {}
    steps, orders = np.array(main.steps, dtype=np.int64), np.array(main.orders, dtype=np.int64)
    said = np.array(other.orders, dtype=np.int64)
    place: Ints = np.searchsorted(orders, said) - 1
    if said[0] < orders[0]:
        place += 1  # it is said before the row of its step
    held = (place >= 0) & (place < steps.size)
    if not held.any() or np.unique(place[held]).size < 0.9 * held.sum():
        return {}
    counted = np.array(other.steps, dtype=np.int64)
    at = {int(c): int(steps[p]) for c, p, ok in zip(counted, place, held, strict=True) if ok}
    made: dict[str, Series] = {}
    for key, series in other.table.series().items():
        moved = [(at[s], v) for s, v in zip(series.steps.tolist(), series.values.tolist(), strict=True) if s in at]
        if moved:
            where, values = zip(*moved, strict=True)
            made[key] = Series(key, np.array(where, dtype=np.int64), np.array(values, dtype=np.float64))
    return made


def _is_fraction(value: object) -> bool:
    found = number(value)
    return found is not None and abs(found) < MAX_STEP and found != int(found)
