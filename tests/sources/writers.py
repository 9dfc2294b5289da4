"""Files as trainers and trackers write them, made with their own libraries, and what these read back."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from vario.sources.rows import Table

Points = dict[str, list[tuple[int, float]]]


def framed(payload: bytes) -> bytes:
    """One record of an event file, with its sums."""
    size = len(payload).to_bytes(8, "little")
    return size + masked_crc32c(size).to_bytes(4, "little") + payload + masked_crc32c(payload).to_bytes(4, "little")


def scalar_event(step: int, values: Mapping[str, float], wall: float | None = None) -> Event:
    """An event with plain scalars, as torch and tensorboardX write them."""
    summary = Summary(value=[Summary.Value(tag=t, simple_value=v) for t, v in values.items()])
    return Event(wall_time=1.7e9 + step if wall is None else wall, step=step, summary=summary)


def event_bytes(events: Iterable[Event], began: float = 1.7e9) -> bytes:
    """An event file: the version, then the events."""
    first = Event(wall_time=began, file_version="brain.Event:2")
    return b"".join(framed(e.SerializeToString()) for e in (first, *events))


def write_events(path: Path, events: Iterable[Event], began: float = 1.7e9) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(event_bytes(events, began))
    return path


def accumulated(path: Path) -> Points:
    """Every point of every scalar as TensorBoard's own reader gives it; of a repeated step the last."""
    reader = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False)
    reader.Reload()
    made = {tag: {e.step: e.value for e in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}
    return {tag: sorted(points.items()) for tag, points in made.items()}


def points_of(table: Table) -> Points:
    """Every point of every column."""
    return {key: list(zip(s.steps.tolist(), s.values.tolist(), strict=True)) for key, s in table.series().items()}


def assert_same(ours: Points, theirs: Points) -> None:
    """Equal step for step and value for value; NaN equals NaN."""
    assert ours.keys() == theirs.keys()
    for key, points in theirs.items():
        assert [s for s, _ in ours[key]] == [s for s, _ in points], key
        np.testing.assert_array_equal([v for _, v in ours[key]], [v for _, v in points], err_msg=key)


# W&B's offline log: protocol buffers in checked blocks, as its own client writes them

BLOCK, CHUNK_HEADER = 32768, 7


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field_bytes(number: int, content: bytes | int) -> bytes:
    """One field of a message: a length and bytes, or a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def wandb_item(key: str | tuple[str, ...], text: str) -> bytes:
    """A key and its value as JSON; a path of keys as newer clients write it."""
    names = [(1, key)] if isinstance(key, str) else [(2, k) for k in key]
    return b"".join(field_bytes(n, k.encode()) for n, k in names) + field_bytes(16, text.encode())


def wandb_history(row: Mapping[str | tuple[str, ...], str], step: int | None = None) -> bytes:
    """A record with one logged row."""
    items = b"".join(field_bytes(1, wandb_item(k, v)) for k, v in row.items())
    own = b"" if step is None else field_bytes(2, field_bytes(1, step) if step else b"")
    return field_bytes(1, 7) + field_bytes(2, items + own) + field_bytes(200, field_bytes(1, b"stream"))


def wandb_config(settings: Mapping[str | tuple[str, ...], str]) -> bytes:
    return field_bytes(5, b"".join(field_bytes(1, wandb_item(k, v)) for k, v in settings.items()))


def wandb_stats(gauges: Mapping[str, str]) -> bytes:
    """A record with one sample of the hardware; W&B takes one every few seconds."""
    items = b"".join(field_bytes(3, field_bytes(1, k.encode()) + field_bytes(16, v.encode())) for k, v in gauges.items())
    return field_bytes(7, field_bytes(2, field_bytes(1, 1_700_000_000)) + items)


def wandb_log(records: Iterable[bytes]) -> bytes:
    """The records framed: chunks that stay within their block of 32 KiB, each with its sum."""
    out = bytearray(b":W&B\x0f\xd7\x01")
    for record in records:
        at, is_first = 0, True
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < CHUNK_HEADER:
                out += bytes(left)
                left = BLOCK
            part = record[at : at + left - CHUNK_HEADER]  # empty where a block has room for the header alone
            is_last = at + len(part) == len(record)
            kind = 1 if is_first and is_last else 2 if is_first else 4 if is_last else 3
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            at, is_first = at + len(part), False
            if is_last:
                break
    return bytes(out)


def run_python(code: str, *arguments: str, **environment: str) -> str:
    """Run a script by itself, as its libraries leave threads and processes behind; what it printed."""
    made = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-3000:]
    return made.stdout


READ = """
import json, sys, time
import vario
from vario.sources.remote import found_at
for address in sys.argv[1:]:
    began = time.monotonic()
    address, _, name = address.partition(" ")
    try:
        found = found_at(address, name or None)
        table = found[0][1]()
        series = {k: [s.steps.tolist(), s.values.tolist()] for k, s in table.series().items()}
        print(json.dumps({"names": [n for n, _ in found], "series": series, "config": table.config, "warnings": table.warnings,
                          "ignored": table.ignored, "path": table.path}))
    except vario.errors.VarioError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error), "seconds": time.monotonic() - began}))
"""


def read_elsewhere(*addresses: str, **environment: str) -> list[dict[str, Any]]:
    """What is read at each address, where a name may follow, in a process of its own."""
    said = run_python(READ, *addresses, **environment)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
