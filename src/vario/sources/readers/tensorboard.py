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
from vario.sources.readers.event_record import EventRecord, decode, settings
from vario.sources.readers.parser import read_all
from vario.sources.readers.wire import BrokenWire
from vario.sources.rows import Table

HEADER, FOOTER = 12, 4
MAX_RECORD = 256 << 20
"""Histograms and images are a few MB; a longer record is a damaged length (bytes)."""
LONGEST_SCALAR = 4096
"""A longer record is decoded by itself: it is no plain scalar (bytes)."""
ROUNDS = 64
"""So many different records of one length are tried as patterns before the rest is decoded one by one."""
MAX_TEXT = 4 << 20


def recognises(_path: Path, head: bytes) -> bool:
    """Whether the first record's length carries its right sum."""
    return len(head) >= HEADER and 0 < int.from_bytes(head[:8], "little") < MAX_RECORD and _length_holds(head[:HEADER])


def _length_holds(header: bytes) -> bool:
    row = np.frombuffer(header[:8], dtype=np.uint8)[None, :]
    return int(masked(row)[0]) == int.from_bytes(header[8:12], "little")


@dataclass(slots=True)
class _Points:
    steps: list[Ints] = field(default_factory=list)
    walls: list[Floats] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def add(self, steps: Ints, walls: Floats, values: Floats) -> None:
        self.steps.append(steps)
        self.walls.append(walls)
        self.values.append(values)


class EventFile:
    """The scalars of one event file; histograms, images and texts are counted and left out."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "tensorboard")
        self._name = Path(name).name
        self._rest = b""
        self._points: dict[str, _Points] = {}
        self._single: dict[str, tuple[list[int], list[float], list[float]]] = {}
        self._plugins: dict[str, str] = {}
        self._broken: str | None = None
        self.first_wall, self.last_wall = np.inf, -np.inf
        self.others = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; an incomplete record waits for the rest of it."""
        if self._broken:
            return
        buffer = self._rest + data
        starts, sizes, at, total = [], [], 0, len(buffer)
        read = int.from_bytes
        while at + HEADER <= total:
            size = read(buffer[at : at + 8], "little")
            if size > MAX_RECORD:
                break
            end = at + HEADER + size + FOOTER
            if end > total:
                break
            starts.append(at + HEADER)
            sizes.append(size)
            at = end
        if at + HEADER <= total and not _length_holds(buffer[at : at + HEADER]):
            self._broken = f"a damaged record after byte {at} of the last piece"
        self._rest = buffer[at:]
        if starts:
            self._take(buffer, np.array(starts, dtype=np.int64), np.array(sizes, dtype=np.int64))

    def _take(self, buffer: bytes, starts: Ints, sizes: Ints) -> None:
        data = np.frombuffer(buffer, dtype=np.uint8)
        ok = np.zeros(starts.size, dtype=bool)
        groups: list[tuple[NDArray[np.int64], Bytes]] = []
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            if size <= LONGEST_SCALAR:
                rows = data[starts[chosen][:, None] + np.arange(size)]
                sums = _sums_at(data, starts[chosen] + size)
                good = masked(rows) == sums
                ok[chosen] = good
                groups.append((chosen[good], rows[good]))
            else:
                for i in chosen.tolist():
                    start = int(starts[i])
                    row = data[start : start + size][None, :]
                    if size > MAX_TEXT or int(masked_long(row)) == int(_sums_at(data, np.array([start + size]))[0]):
                        ok[i] = True
                        groups.append((np.array([i]), row))
        if not ok.all():
            # what follows a damaged record may be out of step with the writer: it is not trusted
            first = int(np.flatnonzero(~ok)[0])
            self._broken = f"record {first + 1} of the last piece does not match its checksum"
            groups = [(chosen[chosen < first], rows[chosen < first]) for chosen, rows in groups]
        for chosen, rows in groups:
            if chosen.size:
                self._group(rows)
        self._settle_single()

    def _group(self, rows: Bytes) -> None:
        """Records of one length: split by the length of the step, then read off by patterns."""
        size = rows.shape[1]
        if size < 16 or size > LONGEST_SCALAR:
            for row in rows:
                self._one(row.tobytes())
            return
        plain = (rows[:, 0] == 0x09) & (rows[:, 9] == 0x10)
        for row in rows[~plain]:
            self._one(row.tobytes())
        rows = rows[plain]
        if not rows.size:
            return
        limit = min(10, size - 10)
        steps_end = np.argmax(rows[:, 10 : 10 + limit] < 0x80, axis=1) + 11
        for end in np.unique(steps_end).tolist():
            self._patterns(rows[steps_end == end], int(end))

    def _patterns(self, rows: Bytes, end: int) -> None:
        weights = _weights()[: rows.shape[1]].copy()
        weights[:end] = 0
        weights[-4:] = 0  # a plain scalar's value stands last
        marks = rows.astype(np.uint64) @ weights
        _, first, member = np.unique(marks, return_index=True, return_inverse=True)
        if first.size <= max(ROUNDS, rows.shape[0] // 8):
            left: list[Bytes] = []
            for i, one in enumerate(first.tolist()):
                alike = rows[member == i] if first.size > 1 else rows
                if (rest := self._read_off(alike, rows[one], end)) is not None and rest.size:
                    left.append(rest)
            rows = np.concatenate(left) if left else rows[:0]
        for _ in range(ROUNDS):
            if not rows.size:
                return
            found = self._read_off(rows, rows[0], end)
            if found is None:
                break
            rows = found
        for row in rows:
            self._one(row.tobytes())

    def _read_off(self, rows: Bytes, pattern: Bytes, end: int) -> Bytes | None:
        """Read the rows that differ from the pattern in time, step and value only; return the others."""
        record = pattern.tobytes()
        try:
            event = decode(record, self._plugins)
        except BrokenWire:
            self.table.ignored += 1
            return np.asarray(rows[(rows != pattern).any(axis=1)])
        if not event.scalars or event.others or event.texts or any(s.at is None for s in event.scalars):
            return None
        same = np.ones(pattern.size, dtype=bool)
        same[1:9] = False
        same[10:end] = False
        for scalar in event.scalars:
            same[scalar.at : (scalar.at or 0) + scalar.size] = False
        alike = (rows[:, same] == pattern[same]).all(axis=1)
        mine = rows[alike]
        walls = np.ascontiguousarray(mine[:, 1:9]).view("<f8")[:, 0]
        steps = np.zeros(mine.shape[0], dtype=np.uint64)
        for place, column in enumerate(range(10, end)):
            steps |= (mine[:, column].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * place)
        for scalar in event.scalars:
            raw = np.ascontiguousarray(mine[:, scalar.at : (scalar.at or 0) + scalar.size])
            values = raw.view("<f4" if scalar.size == 4 else "<f8")[:, 0].astype(np.float64)
            self._points.setdefault(scalar.tag, _Points()).add(steps.astype(np.int64), walls, values)
        self._seen(float(walls.min()), float(walls.max()))
        return np.asarray(rows[~alike])

    def _one(self, record: bytes) -> None:
        try:
            event = decode(record, self._plugins)
            self._config(event)
        except BrokenWire:
            self.table.ignored += 1
            return
        self.others += event.others
        for scalar in event.scalars:
            steps, walls, values = self._single.setdefault(scalar.tag, ([], [], []))
            steps.append(event.step)
            walls.append(event.wall)
            values.append(scalar.value)
        if event.scalars:
            self._seen(event.wall, event.wall)

    def _seen(self, first: float, last: float) -> None:
        self.first_wall, self.last_wall = min(self.first_wall, first), max(self.last_wall, last)

    def _config(self, event: EventRecord) -> None:
        if event.hparams is not None:
            self.table.config.update(settings(event.hparams))
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
        for tag, (steps, walls, values) in self._single.items():
            self._points.setdefault(tag, _Points()).add(
                np.array(steps, dtype=np.int64), np.array(walls, dtype=np.float64), np.array(values, dtype=np.float64)
            )
        self._single = {}

    def columns(self) -> dict[str, tuple[Ints, Floats, Floats]]:
        """Steps, wall times and values of each tag, in the order of writing where that is known by time."""
        made: dict[str, tuple[Ints, Floats, Floats]] = {}
        for tag, points in self._points.items():
            steps: Ints = np.concatenate(points.steps)
            walls: Floats = np.concatenate(points.walls)
            values: Floats = np.concatenate(points.values)
            if walls.size > 1 and not bool((np.diff(walls) >= 0).all()):
                order = np.argsort(walls, kind="stable")
                steps, walls, values = steps[order], walls[order], values[order]
            made[tag] = (steps, walls, values)
        return made

    @property
    def has_points(self) -> bool:
        """Whether any scalar was found."""
        return bool(self._points)

    def close(self) -> None:
        """Hand the columns to the table; a tail that was cut off is said."""
        for tag, (steps, _, values) in self.columns().items():
            self.table.put(tag, steps, values)
        self.note_end()

    def note_end(self) -> None:
        """Say how the file ends, where it does not end as it should."""
        if self._broken:
            self.table.warnings.append(f"{self._name}: {self._broken}; nothing behind it was read")
            self.table.ignored += 1
        elif self._rest:
            self.table.warnings.append(f"{self._name}: ends inside a record ({len(self._rest)} bytes left over)")


@cache
def _weights() -> NDArray[np.uint64]:
    """Odd random weights: a sum of bytes that tells patterns apart; equality is checked afterwards."""
    return np.random.default_rng(20).integers(1, 2**63, LONGEST_SCALAR, dtype=np.uint64) | np.uint64(1)


def _sums_at(data: Bytes, at: Ints) -> NDArray[np.uint32]:
    return np.ascontiguousarray(data[at[:, None] + np.arange(4)]).view("<u4")[:, 0]


def masked_long(row: Bytes) -> int:
    """The masked sum of one long record, shape (1, n)."""
    return int(masked(row)[0])


def start(path: Path) -> EventFile:
    """A parser for this file."""
    return EventFile(str(path))


def read(path: Path) -> Table:
    """Read one event file.

    Raises:
        Malformed: it holds no scalar.
    """
    return read_all(start(path), path, "an event file without scalars; was anything logged before it was cut off?")
