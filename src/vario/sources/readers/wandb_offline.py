"""W&B offline runs: `run-*.wandb`, a log of protocol buffers in checked blocks of 32 KiB.

The released client writes this file and can no longer read it in Python; an older release can,
many times slower (`bench/` has the figures).
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vario.run import Floats, Ints
from vario.sources.readers.parser import read_all
from vario.sources.readers.wire import BYTES, FIXED64, VARINT, BrokenWire, fields, signed
from vario.sources.rows import STEP_KEYS, Table, kind_of, number

MAGIC = b":W&B"
FILE_HEADER, CHUNK_HEADER, BLOCK = 7, 7, 32768
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}
HISTORY, CONFIG, STATS, RUN = 2, 5, 7, 17
"""Kinds of record that are read: a logged row, settings, a sample of the hardware, and what the run is."""
GAUGE = re.compile(rb"gpu\.\d+\.(memoryAllocated|powerWatts|gpu)")
"""Gauges of single devices: percent of memory, watts, percent of time in use. Sampled by the clock, every few seconds."""
ROWS_AT_ONCE = 4096
MAX_RECORD = 64 << 20
MAX_KEYS = 20_000
LONGEST_NUMBER = 64
"""A longer text is no number (bytes)."""


def recognises(_path: Path, head: bytes) -> bool:
    """By the magic bytes."""
    return head.startswith(MAGIC)


_STEP_KEYS = tuple(key.encode() for key in STEP_KEYS)
_ITEMS = re.compile(rb"\n[\x00-\x7f][\x0a\x12][\x00-\x7f]([^\x00-\x1f\x82]*)\x82\x01[\x00-\x7f]([^\x00-\x1f]*)")
"""The common item: one key, one JSON text, each shorter than 128 bytes (JSON escapes control characters)."""
ITEM_FRAME = 7
"""Bytes of such an item beside its key and its text."""
MEDIA = "_type"
"""Images, tables and histograms are mappings that name their type; their sizes are no metrics."""


class OfflineRun:
    """The history of one offline run, at every logged step.

    A damaged chunk costs what stands behind it in its block: the next block begins anew.
    """

    def __init__(self, name: str) -> None:
        self.table = Table(name, "wandb")
        self._name = Path(name).name
        self._rest = b""
        self._at = 0
        self._skip = FILE_HEADER
        self._parts: list[bytes] = []
        self._size = 0
        self._damaged: list[int] = []
        self._steps: list[int] = []
        self._columns: dict[bytes, tuple[list[int], list[bytes | float]]] = {}
        self._last = -1
        self._gauges: dict[bytes, list[float]] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes; a chunk that is not whole waits for the rest of it."""
        buffer = self._rest + data
        at, total = 0, len(buffer)
        while at < total:
            here = self._at + at
            left = BLOCK - here % BLOCK
            if here < self._skip:
                at += min(self._skip - here, total - at)
                continue
            if left < CHUNK_HEADER:
                self._skip = here + left
                continue
            if at + CHUNK_HEADER > total:
                break
            checksum, size, kind = struct.unpack_from("<IHB", buffer, at)
            if not checksum and not size and not kind:
                # room that was set aside and not written, or lost when a machine went down
                if at + left > total:
                    break
                if any(buffer[at : at + left]):
                    self._damaged.append(here)
                self._skip = here + left
                continue
            end = at + CHUNK_HEADER + size
            if size <= left - CHUNK_HEADER and end > total:
                break
            body = buffer[at + CHUNK_HEADER : end]
            if size > left - CHUNK_HEADER or kind not in _SEEDS or zlib.crc32(body, _SEEDS[kind]) != checksum:
                self._damaged.append(here)
                self._parts = []
                self._skip = here + left
                continue
            self._chunk(kind, body)
            at = end
        self._at += at
        self._rest = buffer[at:]

    def _chunk(self, kind: int, body: bytes) -> None:
        if kind in (FULL, FIRST):
            if self._parts:
                self.table.ignored += 1  # its writer was stopped, and another went on behind it
            self._parts, self._size = [], 0
        if kind == FULL:
            self._record(body)
        elif kind == FIRST or self._parts:
            self._size += len(body)
            # of a record beyond all measure only the beginning is kept, until its end is seen
            self._parts.append(body if self._size <= MAX_RECORD else b"")
            if kind == LAST:
                whole, self._parts = b"".join(self._parts), []
                if self._size <= MAX_RECORD:
                    self._record(whole)
                else:
                    self.table.ignored += 1

    def _record(self, data: bytes) -> None:
        try:
            for field, kind, start, end in fields(data):
                if kind != BYTES:
                    continue
                if field == HISTORY:
                    self._history(data, start, end)
                elif field == STATS:
                    self._sample(data, start, end)
                elif field == CONFIG:
                    self._settings(data, start, end)
                elif field == RUN:
                    for inner, inner_kind, a, b in fields(data, start, end):
                        if inner == 4 and inner_kind == BYTES:
                            self._settings(data, a, b)
        except (BrokenWire, UnicodeDecodeError, ValueError, RecursionError):
            self.table.ignored += 1

    def _history(self, data: bytes, start: int, end: int) -> None:
        row = len(self._steps)
        columns = self._columns
        step: int | None = None
        pairs = _ITEMS.findall(data, start, end)
        found: dict[bytes, bytes | float] = dict(pairs)
        # every item is counted again by its length: a byte that the pattern took for an item's end shows so
        behind = start + sum(map(len, found)) + sum(map(len, found.values())) + ITEM_FRAME * len(pairs)  # type: ignore[arg-type]
        if behind != end and not (behind + 1 < end and data[behind] == 0x12 and data[behind + 1] == end - behind - 2):
            found = {}
            at = start
            while at < end:
                at = self._item(data, at, end, found)
        for key in _STEP_KEYS:
            raw = found.get(key)
            if raw is not None:
                value = float(raw) if _is_number(raw) else None
                if value is not None and value == int(value):
                    step = int(value)
                    break
        if step is None:
            step = self._own_step(data, start, end)
        self._last = step
        if self._gauges and kind_of([key.decode("utf-8", "replace") for key in found]) == "train":
            # what the devices did until this row was written belongs to it
            found.update({b"system/gpu/" + name: value for name, value in self._reduced()})
        taken = False
        for key, raw in found.items():
            column = columns.get(key)
            if column is None:
                if key in _STEP_KEYS or key == b"_wandb":
                    continue
                if len(columns) >= MAX_KEYS:
                    self.table.ignored += 1
                    continue
                column = columns[key] = ([], [])
            column[0].append(row)
            column[1].append(raw)
            taken = True
        if taken:
            self._steps.append(step)
            if len(self._steps) >= ROWS_AT_ONCE:
                self._flush()

    def _sample(self, data: bytes, start: int, end: int) -> None:
        """One sample of the hardware: the mean over the devices of each gauge, and the fullest device's memory."""
        found: dict[bytes, list[float]] = {}
        for field, kind, a, b in fields(data, start, end):
            if field != 3 or kind != BYTES:
                continue
            item = {which: data[c:d] for which, inner, c, d in fields(data, a, b) if inner == BYTES}
            gauge = GAUGE.fullmatch(item.get(1, b""))
            if gauge and _is_number(item.get(16, b"")):
                found.setdefault(gauge[1], []).append(float(item[16]))
        for name, values in found.items():
            seen = max(values) if name == b"memoryAllocated" else sum(values) / len(values)
            self._gauges.setdefault(name, []).append(seen)

    def _reduced(self) -> Iterator[tuple[bytes, float]]:
        """The extremes of each gauge since the last row, and how much the devices were in use."""
        for name, values in self._gauges.items():
            if name == b"gpu":
                yield b"gpu/mean", sum(values) / len(values)
            else:
                yield name + b"/min", min(values)
                yield name + b"/max", max(values)
        self._gauges = {}

    def _own_step(self, data: bytes, start: int, end: int) -> int:
        """The step that W&B itself counts, for a row without one among its items."""
        for field, kind, a, b in fields(data, start, end):
            if field == 2 and kind == BYTES:
                return next((signed(v) for n, k, v, _ in fields(data, a, b) if n == 1 and k == VARINT), 0)
        return self._last + 1

    def _item(self, data: bytes, at: int, end: int, found: dict[bytes, bytes | float]) -> int:
        """One item of any shape; returns the place behind it."""
        number_, kind, start, stop = next(fields(data, at, end))
        if kind == VARINT:
            return stop
        if number_ != 1:
            return stop
        key, nested = b"", []
        value: bytes | float | None = None
        for field, inner, a, b in fields(data, start, stop):
            if field == 1 and inner == BYTES:
                key = data[a:b]
            elif field == 2 and inner == BYTES:
                nested.append(data[a:b])
            elif field in (8, 16) and inner == BYTES:
                value = data[a:b]
            elif field == 6 and inner == FIXED64:
                value = struct.unpack_from("<d", data, a)[0]
            elif field == 4 and inner == VARINT:
                value = float(a)
            elif field == 5 and inner == VARINT:
                value = float(signed((a >> 1) ^ -(a & 1) & (1 << 64) - 1))
        name = key or b"/".join(nested)
        if name and value is not None:
            found[name] = value
        return stop

    def _settings(self, data: bytes, start: int, end: int) -> None:
        for field, kind, a, b in fields(data, start, end):
            if field != 1 or kind != BYTES:
                continue
            names: list[str] = []
            text = b""
            for inner, inner_kind, c, d in fields(data, a, b):
                if inner in (1, 2) and inner_kind == BYTES:
                    names.append(data[c:d].decode())
                elif inner == 16 and inner_kind == BYTES:
                    text = data[c:d]
            if not names or names[0] == "_wandb" or not text:
                continue
            section = self.table.config
            for name in names[:-1]:
                inside = section.get(name)
                if not isinstance(inside, dict):
                    inside = section[name] = {}
                section = inside
            section[names[-1]] = json.loads(text)

    def _flush(self) -> None:
        steps = np.array(self._steps, dtype=np.int64)
        ready: dict[str, list[tuple[Ints, Floats]]] = {}
        named = {encoded.decode("utf-8", "replace"): column for encoded, column in self._columns.items()}
        media = tuple(key.removesuffix(MEDIA) for key in named if key.endswith("/" + MEDIA))
        for key, (rows, raw) in named.items():
            if media and key.startswith(media):
                self.table.texts += len(raw)
            elif (values := _all_numbers(raw)) is not None:
                ready.setdefault(key, []).append((np.array(rows, dtype=np.int64), values))
            else:
                self._one_by_one(key, rows, raw, ready)
        joined = {
            key: parts[0]
            if len(parts) == 1
            else (np.concatenate([r for r, _ in parts]), np.concatenate([v for _, v in parts]))
            for key, parts in ready.items()
        }
        if joined:
            self.table.put_rows(steps, joined)
        self._steps, self._columns = [], {}

    def _one_by_one(
        self, key: str, rows: list[int], raw: list[bytes | float], ready: dict[str, list[tuple[Ints, Floats]]]
    ) -> None:
        """A column that is not all numbers: texts are counted, mappings become columns of their own."""
        found: dict[str, tuple[list[int], list[float]]] = {}
        for row, item in zip(rows, raw, strict=True):
            try:
                value: object = json.loads(item) if isinstance(item, bytes) else item
            except (ValueError, RecursionError):
                self.table.texts += 1
                continue
            if isinstance(value, dict) and MEDIA in value:
                self.table.texts += 1
                continue
            flat = self.table._flat({key: value}, "", 0) if isinstance(value, dict) else [(key, value)]
            for name, leaf in flat:
                read = number(leaf) if not isinstance(leaf, list) else None
                if read is None:
                    self.table.texts += 1
                    continue
                held, values = found.setdefault(name, ([], []))
                held.append(row)
                values.append(read)
        for name, (held, values) in found.items():
            ready.setdefault(name, []).append((np.array(held, dtype=np.int64), np.array(values, dtype=np.float64)))

    def close(self) -> None:
        """Hand on what waits; what was damaged or cut off is said."""
        if self._steps:
            self._flush()
        if self._damaged:
            places = f"{len(self._damaged)} places, the first" if len(self._damaged) > 1 else "a place"
            self.table.warnings.append(
                f"{self._name}: damaged at {places} at byte {self._damaged[0]}; "
                f"rows up to the next block of {BLOCK >> 10} KiB were lost"
            )
            self.table.ignored += len(self._damaged)
        if self._rest.strip(b"\0"):
            self.table.warnings.append(f"{self._name}: ends inside a record ({len(self._rest)} bytes left over)")
        elif self._parts:
            self.table.warnings.append(f"{self._name}: ends inside a record")


def _all_numbers(raw: list[bytes | float]) -> Floats | None:
    """The values of a column that holds nothing but numbers; None for any other."""
    # as an array of bytes every item takes the room of the longest one
    if any(isinstance(item, bytes) and len(item) > LONGEST_NUMBER for item in raw):
        return None
    try:
        return np.array(raw).astype(np.float64)
    except (ValueError, TypeError):
        return None


def _is_number(raw: bytes | float) -> bool:
    try:
        return abs(float(raw)) < 2**62
    except ValueError:
        return False


def start(path: Path) -> OfflineRun:
    """A parser for this file."""
    return OfflineRun(str(path))


def read(path: Path) -> Table:
    """Read one offline run.

    Raises:
        Malformed: no row was logged.
    """
    return read_all(start(path), path, "an offline W&B run without a logged row")
