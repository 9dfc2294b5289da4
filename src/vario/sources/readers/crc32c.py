"""CRC-32C as TFRecord masks it, over many records at once: what a half-written record fails.

A CRC is linear: the sum of a message is the exclusive or of what each byte contributes at its
distance from the end. So records are cut into chunks of one width, counted from their ends, all
chunks are summed at once by a table of contributions, and the sums of the chunks are moved to
their distance and joined. No loop runs over bytes or over records.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from vario.run import Ints

Bytes = NDArray[np.uint8]
Sums = NDArray[np.uint32]
POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, reflected."""
WIDTH = 64
"""Bytes of a chunk: a plain scalar fits into one."""
AT_ONCE = 1 << 14
"""Chunks that are summed together: their index stays within a few MB, whatever a record's length."""


@cache
def _contributions() -> Sums:
    """What a byte adds to the sum, by its place in a chunk: shape (WIDTH * 256,), the first place first."""
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, (one >> 1) ^ np.uint32(POLYNOMIAL), one >> 1).astype(np.uint32)
    table = np.empty((WIDTH, 256), dtype=np.uint32)
    table[-1] = one
    for place in range(WIDTH - 2, -1, -1):
        table[place] = one[table[place + 1] & 0xFF] ^ (table[place + 1] >> np.uint32(8))
    return table.ravel()


@cache
def _move(power: int) -> Sums:
    """What `2 ** power` bytes of zero behind it do to a sum, by each of its four bytes: shape (4, 256)."""
    values = np.arange(256, dtype=np.uint32)[None, :] << (np.uint32(8) * np.arange(4, dtype=np.uint32)[:, None])
    if power:
        half = _move(power - 1)
        return _moved(half, _moved(half, values))
    one = _contributions()[-256:]
    return np.asarray(one[values & 0xFF] ^ (values >> np.uint32(8)), dtype=np.uint32)


def _moved(table: Sums, sums: Sums) -> Sums:
    return np.asarray(
        table[0][sums & 0xFF] ^ table[1][(sums >> 8) & 0xFF] ^ table[2][(sums >> 16) & 0xFF] ^ table[3][sums >> 24],
        dtype=np.uint32,
    )


@lru_cache(4096)
def _start(size: int) -> int:
    """What the register's start at all ones adds to the sum of `size` bytes."""
    sums = np.array([0xFFFFFFFF], dtype=np.uint32)
    for power in range(size.bit_length()):
        if size >> power & 1:
            sums = _moved(_move(power), sums)
    return int(sums[0])


def masked(data: Bytes, starts: Ints, sizes: Ints) -> Sums:
    """The masked sum of each record that begins at `starts` in `data` and has `sizes` bytes, shape (n,)."""
    if not sizes.size:
        return np.empty(0, dtype=np.uint32)
    counts = np.maximum(-(-sizes // WIDTH), 1)
    firsts = np.cumsum(counts) - counts
    sums = np.empty(int(counts.sum()), dtype=np.uint32)
    # chunk 0 of a record is its first, which may reach before the record: those bytes count as zeros
    record = np.repeat(np.arange(sizes.size), counts)
    behind = counts[record] - 1 - (np.arange(sums.size) - firsts[record])
    begins = (starts + sizes)[record] - (behind + 1) * WIDTH
    outside = starts[record] - begins
    places = np.arange(WIDTH)
    table, offsets = _contributions(), places * 256
    data = data if data.size else np.zeros(1, dtype=np.uint8)
    for at in range(0, sums.size, AT_ONCE):
        part = slice(at, at + AT_ONCE)
        rows = data.take(begins[part, None] + places, mode="clip")
        rows[places < outside[part, None]] = 0
        sums[part] = np.bitwise_xor.reduce(table[rows + offsets], axis=1)
    for power in range(int(counts.max() - 1).bit_length()):
        far = np.flatnonzero(behind >> power & 1)
        sums[far] = _moved(_move(power + WIDTH.bit_length() - 1), sums[far])
    joined = np.bitwise_xor.reduceat(sums, firsts)
    lengths, which = np.unique(sizes, return_inverse=True)
    joined ^= np.array([_start(n) for n in lengths.tolist()], dtype=np.uint32)[which]
    joined ^= np.uint32(0xFFFFFFFF)
    return np.asarray(((joined >> np.uint32(15)) | (joined << np.uint32(17))) + np.uint32(0xA282EAD8), dtype=np.uint32)
