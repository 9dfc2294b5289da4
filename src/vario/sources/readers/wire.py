"""Protocol buffers on the wire, as far as event files and W&B records need them."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_UNSIGNED = (1 << 64) - 1
"""Integers are 64 bits wide; what a tenth byte holds beyond them is dropped, as the format says."""


class BrokenWire(ValueError):
    """The bytes are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer and the place behind it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BrokenWire("an integer is cut off")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & MAX_UNSIGNED, at
        shift += 7


def signed(value: int) -> int:
    """A 64-bit integer with its sign."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, wire type, and where the value starts and ends.

    For VARINT the third item is the value itself.

    Raises:
        BrokenWire: the bytes are no message.
    """
    end = len(data) if end is None else end
    while at < end:
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, kind, value, at
            continue
        if kind == BYTES:
            size, at = varint(data, at)
        elif kind == FIXED64:
            size = 8
        elif kind == FIXED32:
            size = 4
        else:
            raise BrokenWire(f"unknown wire type {kind}")
        if at + size > end:
            raise BrokenWire("a field is cut off")
        yield number, kind, at, at + size
        at += size
