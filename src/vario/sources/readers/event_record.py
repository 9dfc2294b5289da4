"""One TensorBoard event decoded field by field: what the scalars are and where they stand in the record."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from vario.sources.readers.wire import BYTES, FIXED32, FIXED64, VARINT, fields, signed

FLOAT, DOUBLE, INT32, INT64 = 1, 2, 3, 9
"""Element types of a tensor that a scalar can have."""
LARGEST_INTEGER = 1e15
"""The plugin keeps whole numbers as floats; below this they are shown whole."""


class Scalar(NamedTuple):
    """A scalar and, if its bytes have a fixed size, where they stand in the record."""

    tag: str
    value: float
    at: int | None
    size: int
    is_tensor: bool


@dataclass(slots=True)
class EventRecord:
    """What one record holds."""

    step: int = 0
    wall: float = 0.0
    scalars: list[Scalar] = field(default_factory=list)
    texts: list[tuple[str, bytes]] = field(default_factory=list)
    hparams: list[bytes] = field(default_factory=list)
    others: int = 0


def decode(record: bytes, plugins: dict[str, str]) -> EventRecord:
    """Decode a record; `plugins` remembers which plugin a tag belongs to (told once per tag).

    Raises:
        BrokenWire: the bytes are no event.
    """
    event = EventRecord()
    for number, kind, start, end in fields(record):
        if number == 1 and kind == FIXED64:
            event.wall = struct.unpack_from("<d", record, start)[0]
        elif number == 2 and kind == VARINT:
            event.step = signed(start)
        elif number == 5 and kind == BYTES:
            for inner, inner_kind, a, b in fields(record, start, end):
                if inner == 1 and inner_kind == BYTES:
                    _value(record, a, b, event, plugins)
    return event


def _value(record: bytes, start: int, end: int, event: EventRecord, plugins: dict[str, str]) -> None:
    tag = ""
    simple: int | None = None
    tensor: tuple[int, int] | None = None
    for number, kind, a, b in fields(record, start, end):
        if number == 1 and kind == BYTES:
            tag = record[a:b].decode("utf-8", "replace")
        elif number == 2 and kind == FIXED32:
            simple = a
        elif number == 8 and kind == BYTES:
            tensor = (a, b)
        elif number == 9 and kind == BYTES:
            name, content = _plugin(record, a, b)
            if name:
                plugins[tag] = name
            if name == "hparams" and content:
                event.hparams.append(content)
    if simple is not None:
        event.scalars.append(Scalar(tag, struct.unpack_from("<f", record, simple)[0], simple, 4, is_tensor=False))
    elif tensor is not None and plugins.get(tag, "scalars") == "scalars":
        scalar = _scalar(record, *tensor)
        if scalar is None:
            event.others += 1
        else:
            event.scalars.append(Scalar(tag, *scalar, is_tensor=True))
    elif tensor is not None and plugins.get(tag) == "text":
        event.texts += [(tag, record[a:b]) for n, k, a, b in fields(record, *tensor) if n == 8 and k == BYTES]
    else:
        event.others += 1


def _plugin(record: bytes, start: int, end: int) -> tuple[str, bytes]:
    name, content = "", b""
    for number, kind, a, b in fields(record, start, end):
        if number == 1 and kind == BYTES:
            for inner, inner_kind, c, d in fields(record, a, b):
                if inner == 1 and inner_kind == BYTES:
                    name = record[c:d].decode("utf-8", "replace")
                elif inner == 2 and inner_kind == BYTES:
                    content = record[c:d]
    return name, content


def _scalar(record: bytes, start: int, end: int) -> tuple[float, int | None, int] | None:
    """Value, place and size of a tensor with one element; None for anything larger."""
    element = 0
    found: tuple[float, int | None, int] | None = None
    for number, kind, a, b in fields(record, start, end):
        if number == 1 and kind == VARINT:
            element = a
        elif number == 2 and kind == BYTES:
            for inner, inner_kind, c, d in fields(record, a, b):
                if inner == 2 and inner_kind == BYTES and any(n == 1 and v != 1 for n, k, v, _ in fields(record, c, d)):
                    return None
        elif number == 4 and kind == BYTES:
            layout = {FLOAT: ("<f", 4), DOUBLE: ("<d", 8), INT32: ("<i", 4), INT64: ("<q", 8)}.get(element)
            if layout is None or b - a != layout[1]:
                return None
            found = (float(struct.unpack_from(layout[0], record, a)[0]), a if element <= DOUBLE else None, b - a)
        elif number == 5 and b - a == 4 and kind in (BYTES, FIXED32):
            found = (struct.unpack_from("<f", record, a)[0], a, 4)
        elif number == 6 and b - a == 8 and kind in (BYTES, FIXED64):
            found = (struct.unpack_from("<d", record, a)[0], a, 8)
        elif number in (7, 10) and kind == VARINT:
            found = (float(signed(a)), None, 0)
        elif number in (7, 10) and kind == BYTES and 0 < b - a <= 10:
            from vario.sources.readers.wire import varint

            value, behind = varint(record, a)
            if behind != b:
                return None
            found = (float(signed(value)), None, 0)
    return found


def settings(content: bytes) -> dict[str, object]:
    """The hyperparameters in the hparams plugin's session start."""
    found: dict[str, object] = {}
    for number, kind, a, b in fields(content):
        if number != 3 or kind != BYTES:
            continue
        for inner, inner_kind, c, d in fields(content, a, b):
            if inner != 1 or inner_kind != BYTES:
                continue
            name, value = "", None
            for n, k, e, f in fields(content, c, d):
                if n == 1 and k == BYTES:
                    name = content[e:f].decode("utf-8", "replace")
                elif n == 2 and k == BYTES:
                    value = _plain(content, e, f)
            if name:
                found[name] = value
    return found


def _plain(content: bytes, start: int, end: int) -> object:
    for number, kind, a, b in fields(content, start, end):
        if number == 2 and kind == FIXED64:
            value: float = struct.unpack_from("<d", content, a)[0]
            return int(value) if abs(value) < LARGEST_INTEGER and value == int(value) else value
        if number == 3 and kind == BYTES:
            return content[a:b].decode("utf-8", "replace")
        if number == 4 and kind == VARINT:
            return bool(a)
    return None
