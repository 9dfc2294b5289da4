"""CRC-32C as TFRecord masks it, over many records at once: what a half-written record fails."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Sums = NDArray[np.uint32]
POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, reflected."""


def _byte_table() -> Sums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


_ONE = _byte_table()


def masked(rows: Bytes) -> Sums:
    """The masked sum of each row, shape (n, length) -> (n,)."""
    crc = np.full(rows.shape[0], 0xFFFFFFFF, dtype=np.uint32)
    even = rows.shape[1] // 2 * 2
    pairs = np.ascontiguousarray(rows[:, :even].T.astype(np.uint32))
    for i in range(0, even, 2):
        both = pairs[i] | (pairs[i + 1] << np.uint32(8))
        crc = _step_pair(crc, both)
    if even < rows.shape[1]:
        crc = _ONE[(crc ^ rows[:, even]) & 0xFF] ^ (crc >> np.uint32(8))
    crc = crc ^ np.uint32(0xFFFFFFFF)
    return np.asarray(((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8), dtype=np.uint32)


def _step_pair(crc: Sums, both: Sums) -> Sums:
    mixed = (crc ^ both) & np.uint32(0xFFFF)
    return np.asarray(_TWO[mixed] ^ (crc >> np.uint32(16)), dtype=np.uint32)


def _pair_table() -> Sums:
    """What two bytes do to the sum, looked up at once."""
    value = np.arange(65536, dtype=np.uint32)
    first = _ONE[value & 0xFF] ^ (value >> np.uint32(8))
    return np.asarray(_ONE[first & 0xFF] ^ (first >> np.uint32(8)), dtype=np.uint32)


_TWO = _pair_table()
