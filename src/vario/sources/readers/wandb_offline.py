"""W&B offline runs: `run-*.wandb`, a log of protocol buffers in checked blocks of 32 KiB.

The released client writes this file and can no longer read it in Python; an older release can,
many times slower (`bench/` has the figures).
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np

from vario.run import Floats, Ints
from vario.sources.readers.parser import read_all
from vario.sources.readers.wire import BYTES, FIXED64, VARINT, BrokenWire, fields, signed
from vario.sources.rows import STEP_KEYS, Table, number

MAGIC = b":W&B"
FILE_HEADER, CHUNK_HEADER, BLOCK = 7, 7, 32768
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}
HISTORY, CONFIG, RUN = 2, 5, 17
"""Kinds of record that are read: a logged row, settings, and what the run is."""
ROWS_AT_ONCE = 4096
MAX_RECORD = 64 << 20
MAX_KEYS = 20_000


def recognises(_path: Path, head: bytes) -> bool:
    """By the magic bytes."""
    return head.startswith(MAGIC)


_STEP_KEYS = tuple(key.encode() for key in STEP_KEYS)
_ITEMS = re.compile(rb"\n[\x00-\x7f][\x0a\x12][\x00-\x7f]([^\x82]*)\x82\x01[\x00-\x7f]([^\x00-\x1f]*)")
"""The common item: one key, one JSON text, each shorter than 128 bytes (JSON escapes control characters)."""
ITEM_FRAME = 7
"""Bytes of such an item beside its key and its text."""


class OfflineRun:
    """The history of one offline run, at every logged step."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "wandb")
        self._name = Path(name).name
        self._rest = b""
        self._at = 0
        self._parts: list[bytes] = []
        self._broken: str | None = None
        self._steps: list[int] = []
        self._columns: dict[bytes, tuple[list[int], list[bytes | float]]] = {}
        self._last = -1

    def feed(self, data: bytes) -> None:
        """Take the next bytes; a chunk that is not whole waits for the rest of it."""
        if self._broken:
            return
        buffer = self._rest + data
        at = 0
        if self._at == 0:
            if len(buffer) < FILE_HEADER:
                self._rest = buffer
                return
            at = FILE_HEADER
        total = len(buffer)
        while True:
            left = BLOCK - (self._at + at) % BLOCK
            if left < CHUNK_HEADER:
                if at + left > total:
                    break
                at += left
                continue
            if at + CHUNK_HEADER > total:
                break
            checksum, size, kind = struct.unpack_from("<IHB", buffer, at)
            if kind == 0 and size == 0 and checksum == 0:
                break  # room that was set aside and not written yet
            end = at + CHUNK_HEADER + size
            if end > total:
                break
            body = buffer[at + CHUNK_HEADER : end]
            if kind not in _SEEDS or zlib.crc32(body, _SEEDS[kind]) != checksum:
                self._broken = f"a chunk at byte {self._at + at} does not match its checksum"
                break
            self._chunk(kind, body)
            at = end
        self._at += at
        self._rest = buffer[at:]

    def _chunk(self, kind: int, body: bytes) -> None:
        if kind == FULL:
            self._record(body)
        elif kind == FIRST:
            self._parts = [body]
        elif self._parts:
            self._parts.append(body)
            if kind == LAST:
                whole, self._parts = b"".join(self._parts), []
                if len(whole) <= MAX_RECORD:
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
            step = self._last + 1
        self._last = step
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
            key, nested, text = "", [], b""
            for inner, inner_kind, c, d in fields(data, a, b):
                if inner == 1 and inner_kind == BYTES:
                    key = data[c:d].decode()
                elif inner == 2 and inner_kind == BYTES:
                    nested.append(data[c:d].decode())
                elif inner == 16 and inner_kind == BYTES:
                    text = data[c:d]
            name = key or ".".join(nested)
            if name and name != "_wandb" and text:
                self.table.config[name] = json.loads(text)

    def _flush(self) -> None:
        steps = np.array(self._steps, dtype=np.int64)
        ready: dict[str, tuple[Ints, Floats]] = {}
        for encoded, (rows, raw) in self._columns.items():
            key = encoded.decode("utf-8", "replace")
            held = np.array(rows, dtype=np.int64)
            try:
                values = (
                    np.array(raw).astype(np.float64)
                    if raw and isinstance(raw[0], bytes)
                    else np.array(raw, dtype=np.float64)
                )
            except (ValueError, TypeError):
                self._one_by_one(key, held, raw, ready)
                continue
            ready[key] = (held, values)
        self.table.put_rows(steps, ready)
        self._steps, self._columns = [], {}

    def _one_by_one(
        self, key: str, rows: Ints, raw: list[bytes | float], ready: dict[str, tuple[Ints, Floats]]
    ) -> None:
        """A column that is not all numbers: texts are counted, mappings become columns of their own."""
        for row, item in zip(rows.tolist(), raw, strict=True):
            try:
                value: object = json.loads(item) if isinstance(item, bytes) else item
            except (ValueError, RecursionError):
                self.table.texts += 1
                continue
            flat = self.table._flat({key: value}, "", 0) if isinstance(value, dict) else [(key, value)]
            for name, leaf in flat:
                found = number(leaf) if not isinstance(leaf, list) else None
                if found is None:
                    self.table.texts += 1
                    continue
                held, values = ready.get(name, (np.empty(0, np.int64), np.empty(0)))
                ready[name] = (np.append(held, row), np.append(values, found))

    def close(self) -> None:
        """Hand on what waits; a tail that was cut off is said."""
        if self._steps:
            self._flush()
        if self._broken:
            self.table.warnings.append(f"{self._name}: {self._broken}; nothing behind it was read")
            self.table.ignored += 1
        elif self._rest.strip(b"\0"):
            self.table.warnings.append(f"{self._name}: ends inside a record ({len(self._rest)} bytes left over)")


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
