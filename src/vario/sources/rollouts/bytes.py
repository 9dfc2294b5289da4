"""Texts as one array of bytes: what the measures of text compute on, without a loop over completions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Texts:
    """n texts in UTF-8, one after the other.

    Attributes:
        data: every byte, shape (bytes,).
        starts, ends: where each text lies in `data`, shape (n,).
    """

    data: Bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, column: pl.Series) -> Texts:
        """The texts of a column; a null is an empty text."""
        filled = column.fill_null("")
        ends = filled.str.len_bytes().cum_sum().cast(pl.Int64).to_numpy()
        joined = "".join(filled.to_list()).encode("utf-8", "surrogatepass")
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]) if ends.size else ends
        return cls(np.frombuffer(joined, dtype=np.uint8), starts, ends)

    @property
    def sizes(self) -> Ints:
        """Bytes of each text, shape (n,)."""
        return self.ends - self.starts

    def __len__(self) -> int:
        return int(self.starts.size)

    def part(self, first: int, last: int) -> Texts:
        """The texts from `first` up to `last`."""
        return Texts(self.data, self.starts[first:last], self.ends[first:last])

    def take(self, rows: Ints) -> Texts:
        """The texts of these rows."""
        return Texts(self.data, self.starts[rows], self.ends[rows])

    def holding(self, where: Ints) -> Ints:
        """Which text each of these bytes stands in, shape of `where`."""
        return np.searchsorted(self.ends, where, side="right")

    def tails(self, width: int) -> NDArray[np.int16]:
        """The last `width` bytes of each text, the very last first; -1 beyond the start. Shape (n, width)."""
        back = np.arange(1, width + 1)
        held = back <= self.sizes[:, None]
        where = np.where(held, self.ends[:, None] - back, 0)
        found = self.data[where].astype(np.int16) if self.data.size else np.zeros(where.shape, dtype=np.int16)
        return np.where(held, found, np.int16(-1))
