"""TensorBoard event files, at full resolution.

Records are checked by their sums and decoded by the thousand: records of one length and one
tag differ only in their time, step and value, so one is decoded field by field and the others
are compared with it and read off. What differs is decoded by itself. TensorBoard's own reader
decodes record by record in Python and keeps a sample of the steps; `bench/` has the figures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vario.run import Floats, Ints
from vario.sources.readers.crc32c import Bytes, masked
from vario.sources.readers.event_record import EventRecord, Scalar, decode, settings
from vario.sources.readers.parser import read_all
from vario.sources.readers.wire import BrokenWire
from vario.sources.rows import Table

HEADER, LENGTH, FOOTER = 12, 8, 4
MAX_RECORD = 256 << 20
"""Histograms and images are a few MB; a longer record is a damaged length (bytes)."""
LONGEST_SCALAR = 4096
"""A longer record is decoded by itself: it is no plain scalar (bytes)."""
ROUNDS = 64
"""So many different records of one length are tried as patterns before the rest is decoded one by one."""
STEPLESS = 8
"""So many values of one metric at step 0, and nothing anywhere else, were logged without a step: fewer may be a start."""
MAX_TEXT = 4 << 20

Narrow = NDArray[np.int32] | Ints


def recognises(_path: Path, head: bytes) -> bool:
    """Whether the first record's length carries its right sum."""
    return len(head) >= HEADER and 0 < int.from_bytes(head[:LENGTH], "little") < MAX_RECORD and _length_holds(head, 0)


def _length_holds(data: bytes, at: int) -> bool:
    row = np.frombuffer(data, dtype=np.uint8, count=HEADER, offset=at)
    return bool(_sums_hold(row, np.zeros(1, dtype=np.int64), np.array([LENGTH]))[0])


@dataclass(slots=True)
class _Points:
    """Points of one tag in pieces; `orders` are the numbers of the records that they stood in.

    A log that grows keeps them beside the run that was made of them, and a dashboard keeps a hundred: so they are as narrow
    as the file has them.
    """

    steps: list[Narrow] = field(default_factory=list)
    orders: list[Narrow] = field(default_factory=list)
    values: list[NDArray[np.floating]] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, object]) -> _Points:
        """The same pieces in lists of their own: nobody changes a piece."""
        return _Points(list(self.steps), list(self.orders), list(self.values))

    def add(self, steps: Ints, orders: Ints, values: NDArray[np.floating]) -> None:
        self.steps.append(_narrow(steps))
        self.orders.append(_narrow(orders))
        self.values.append(values)

    def whole(self) -> tuple[Ints, Ints, Floats]:
        """Steps, orders and values, each of shape (n,)."""
        return (
            np.concatenate(self.steps, dtype=np.int64),
            np.concatenate(self.orders, dtype=np.int64),
            np.concatenate(self.values, dtype=np.float64),
        )


def _narrow(numbers: Ints) -> Narrow:
    """Whole numbers in four bytes each, where they fit."""
    narrow = numbers.astype(np.int32)
    return narrow if bool((narrow == numbers).all()) else numbers


class EventFile:
    """The scalars of one event file; histograms, images and texts are counted and left out.

    Attributes:
        began: when the file was begun (seconds); `first_wall` and `last_wall` are its first and last scalar's.
        others: values that are no scalars.
    """

    def __init__(self, name: str) -> None:
        self.table = Table(name, "tensorboard")
        self._name = Path(name).name
        self._waiting: list[bytes] = []
        self._size, self._needed = 0, HEADER
        self._at = 0
        self._records = 0
        self._zeros = 0
        self._points: dict[str, _Points] = {}
        self._single: dict[str, tuple[list[int], list[int], list[float]]] = {}
        self._plugins: dict[str, str] = {}
        self._tensors: set[str] = set()
        self._broken: str | None = None
        self.began, self.first_wall, self.last_wall = np.inf, np.inf, -np.inf
        self.others = 0

    @property
    def stuck(self) -> bool:
        """Whether no more bytes are taken: what stands here may be filled in or mended, and has to be read anew then."""
        return self._broken is not None or self._zeros > 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; an incomplete record waits for the rest of it."""
        if self._broken:
            return
        if self._zeros:
            self._after_zeros(data)
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return
        buffer = b"".join(self._waiting)
        starts, sizes, at, total = [], [], 0, len(buffer)
        read = int.from_bytes
        self._needed = HEADER
        while at + HEADER <= total:
            size = read(buffer[at : at + LENGTH], "little")
            if not size and not any(buffer[at : at + HEADER]):
                break
            end = at + HEADER + size + FOOTER
            if end > total or size > MAX_RECORD:
                self._needed = end - at
                break
            starts.append(at + HEADER)
            sizes.append(size)
            at = end
        if starts:
            self._take(buffer, np.array(starts, dtype=np.int64), np.array(sizes, dtype=np.int64))
        self._at += at
        if at + HEADER <= total and not self._broken:
            self._judge(buffer, at)
        rest = buffer[at:] if not self._broken and not self._zeros else b""
        self._waiting, self._size = [rest], len(rest)

    def _judge(self, buffer: bytes, at: int) -> None:
        """A record whose end is not there: is it still being written, or is its length damaged."""
        size = int.from_bytes(buffer[at : at + LENGTH], "little")
        if not any(buffer[at : at + HEADER]):
            self._zeros = HEADER  # room that was set aside and not written, or lost when a machine went down
            self._after_zeros(buffer[at + HEADER :])
        elif not _length_holds(buffer, at):
            self._broken = f"the record at byte {self._at} has a damaged length"
        elif size > MAX_RECORD:
            self._broken = f"the record at byte {self._at} is said to have {size} bytes"

    def _after_zeros(self, data: bytes) -> None:
        if any(data):
            self._broken = f"zeros from byte {self._at} on, and something else behind them"
        self._zeros += len(data)

    def _take(self, buffer: bytes, starts: Ints, sizes: Ints) -> None:
        data = np.frombuffer(buffer, dtype=np.uint8)
        ok = _sums_hold(data, starts - HEADER, np.full_like(starts, LENGTH)) & _sums_hold(data, starts, sizes)
        if not ok.all():
            # what follows a damaged record may be out of step with the writer: it is not trusted
            first = int(np.flatnonzero(~ok)[0])
            at = self._at + int(starts[first]) - HEADER
            self._broken = f"the record at byte {at} does not match its checksum"
            starts, sizes = starts[:first], sizes[:first]
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            if size <= LONGEST_SCALAR:
                rows = data[starts[chosen][:, None] + np.arange(size)]
                self._group(rows, chosen + self._records)
            else:
                for i in chosen.tolist():
                    start = int(starts[i])
                    self._one(buffer[start : start + size], self._records + i)
        self._records += int(starts.size)
        self._settle_single()

    def _group(self, rows: Bytes, orders: Ints) -> None:
        """Records of one length: split by the length of the step, then read off by patterns."""
        size = rows.shape[1]
        plain = (rows[:, 0] == 0x09) & (rows[:, 9] == 0x10) if size >= 16 else np.zeros(rows.shape[0], dtype=bool)
        self._each(rows[~plain], orders[~plain])
        rows, orders = rows[plain], orders[plain]
        if not rows.size:
            return
        limit = min(10, size - 10)
        steps_end = np.argmax(rows[:, 10 : 10 + limit] < 0x80, axis=1) + 11
        for end in np.unique(steps_end).tolist():
            alike = steps_end == end
            self._patterns(rows[alike], orders[alike], int(end))

    def _each(self, rows: Bytes, orders: Ints) -> None:
        for row, order in zip(rows, orders.tolist(), strict=True):
            self._one(row.tobytes(), order)

    def _patterns(self, rows: Bytes, orders: Ints, end: int) -> None:
        weights = _weights()[: rows.shape[1]].copy()
        weights[:end] = 0
        weights[-4:] = 0  # a plain scalar's value stands last
        marks = rows.astype(np.uint64) @ weights
        _, first, member = np.unique(marks, return_index=True, return_inverse=True)
        left = np.ones(rows.shape[0], dtype=bool)
        if first.size <= max(ROUNDS, rows.shape[0] // 8):
            for i, one in enumerate(first.tolist()):
                mine = np.flatnonzero(member == i)
                alike = self._read_off(rows[mine], orders[mine], rows[one], end)
                if alike is not None:
                    left[mine[alike]] = False
        rows, orders = rows[left], orders[left]
        for _ in range(ROUNDS):
            if not rows.size:
                return
            alike = self._read_off(rows, orders, rows[0], end)
            if alike is None:
                self._each(rows[:1], orders[:1])
                alike = np.arange(rows.shape[0]) == 0
            rows, orders = rows[~alike], orders[~alike]
        self._each(rows, orders)

    def _read_off(self, rows: Bytes, orders: Ints, pattern: Bytes, end: int) -> NDArray[np.bool_] | None:
        """Read the rows that differ from the pattern in time, step and value only; which they are."""
        try:
            event = decode(pattern.tobytes(), self._plugins)
        except BrokenWire:
            return None
        if (
            not event.scalars
            or event.others
            or event.texts
            or event.hparams
            or any(s.at is None for s in event.scalars)
        ):
            return None
        same = np.ones(pattern.size, dtype=bool)
        same[1:9] = False
        same[10:end] = False
        for scalar in event.scalars:
            same[scalar.at : (scalar.at or 0) + scalar.size] = False
        alike: NDArray[np.bool_] = (rows[:, same] == pattern[same]).all(axis=1)
        mine, orders = rows[alike], orders[alike]
        walls = np.ascontiguousarray(mine[:, 1:9]).view("<f8")[:, 0]
        steps = np.zeros(mine.shape[0], dtype=np.uint64)
        for place, column in enumerate(range(10, end)):
            steps |= (mine[:, column].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * place)
        for scalar in event.scalars:
            raw = np.ascontiguousarray(mine[:, scalar.at : (scalar.at or 0) + scalar.size])
            values = raw.view("<f4" if scalar.size == 4 else "<f8")[:, 0]
            self._points_of(scalar).add(steps.astype(np.int64), orders, values)
        self._seen(float(np.fmin.reduce(walls)), float(np.fmax.reduce(walls)))
        return alike

    def _points_of(self, scalar: Scalar) -> _Points:
        if scalar.is_tensor:
            self._tensors.add(scalar.tag)
        return self._points.setdefault(scalar.tag, _Points())

    def _one(self, record: bytes, order: int) -> None:
        try:
            event = decode(record, self._plugins)
            self._config(event)
        except BrokenWire:
            self.table.ignored += 1
            return
        self.others += event.others + len(event.texts)
        if event.wall > 0.0:
            self.began = min(self.began, event.wall)
        for scalar in event.scalars:
            self._points_of(scalar)
            steps, orders, values = self._single.setdefault(scalar.tag, ([], [], []))
            steps.append(event.step)
            orders.append(order)
            values.append(scalar.value)
        if event.scalars:
            self._seen(event.wall, event.wall)

    def _seen(self, first: float, last: float) -> None:
        self.first_wall, self.last_wall = min(self.first_wall, first), max(self.last_wall, last)
        self.began = min(self.began, first)

    def _config(self, event: EventRecord) -> None:
        for content in event.hparams:
            self.table.config.update(settings(content))
        for tag, text in event.texts:
            # transformers writes its arguments as text under this tag
            if tag.split("/", 1)[0] == "args" and text.lstrip().startswith(b"{") and len(text) < MAX_TEXT:
                try:
                    loaded = json.loads(text)
                except (ValueError, RecursionError):
                    continue
                if isinstance(loaded, dict):
                    self.table.config.update(loaded)

    def _settle_single(self) -> None:
        for tag, (steps, orders, values) in self._single.items():
            self._points[tag].add(
                np.array(steps, dtype=np.int64), np.array(orders, dtype=np.int64), np.array(values, dtype=np.float64)
            )
        self._single = {}

    def columns(self) -> dict[str, tuple[Ints, Floats]]:
        """Steps and values of each tag, in the order of writing."""
        made: dict[str, tuple[Ints, Floats]] = {}
        for tag, points in self._points.items():
            if tag in self._tensors and self._plugins.get(tag, "scalars") != "scalars":
                continue  # its plugin was told once, and perhaps behind records that were decoded before
            steps, orders, values = points.whole()
            if orders.size > 1 and not bool((np.diff(orders) >= 0).all()):
                written = np.argsort(orders, kind="stable")
                steps, values = steps[written], values[written]
            made[tag] = (np.arange(1, values.size + 1) if self._stepless else steps, values)
        return made

    @property
    def _stepless(self) -> bool:
        """Whether nothing was logged with a step: TensorBoard then puts every value at step 0."""
        most = max((sum(s.size for s in p.steps) for p in self._points.values()), default=0)
        return most >= STEPLESS and not any(s.any() for p in self._points.values() for s in p.steps)

    @property
    def has_points(self) -> bool:
        """Whether any scalar was found."""
        return bool(self._points)

    def close(self) -> None:
        """Hand the columns to the table; a tail that was cut off is said."""
        for tag, (steps, values) in self.columns().items():
            self.table.put(tag, steps, values)
        self.note_end()

    def note_end(self) -> None:
        """Count what is no scalar, and say how the file ends where it does not end as it should."""
        self.table.texts += self.others
        if self._stepless:
            self.table.warnings.append(
                f"{self._name}: values without a step; the order of each metric's is used as the step"
            )
        if self._broken:
            self.table.warnings.append(f"{self._name}: {self._broken}; nothing from there on was read")
            self.table.ignored += 1
        elif self._zeros:
            self.table.warnings.append(f"{self._name}: ends in {self._zeros} zeros; was the machine switched off?")
        elif self._size:
            self.table.warnings.append(f"{self._name}: ends inside a record ({self._size} bytes left over)")


@cache
def _weights() -> NDArray[np.uint64]:
    """Odd random weights: a sum of bytes that tells patterns apart; equality is checked afterwards."""
    return np.random.default_rng(20).integers(1, 2**63, LONGEST_SCALAR, dtype=np.uint64) | np.uint64(1)


def _sums_hold(data: Bytes, starts: Ints, sizes: Ints) -> NDArray[np.bool_]:
    """Whether each stretch is followed by its masked sum, shape (n,)."""
    written = np.ascontiguousarray(data[(starts + sizes)[:, None] + np.arange(FOOTER)]).view("<u4")[:, 0]
    return np.asarray(masked(data, starts, sizes) == written)


def start(path: Path) -> EventFile:
    """A parser for this file."""
    return EventFile(str(path))


def read(path: Path) -> Table:
    """Read one event file.

    Raises:
        Malformed: it holds no scalar.
    """
    return read_all(start(path), path, "an event file without scalars; was anything logged before it was cut off?")
