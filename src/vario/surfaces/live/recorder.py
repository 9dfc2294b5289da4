"""Rows of a training as they come, in columns: at most 16 bytes a value, and nothing else that grows with their number."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping

MAX_KEYS = 20_000
"""A trainer that makes a new key at every step would grow without end; beyond so many its new keys are counted only."""
LARGEST_ROWS = 2**32 - 1


class Recorder:
    """Columns of one run.

    A value takes 8 bytes and the number of its row 4; arrays grow by a sixteenth at a time. Not safe for two threads at once.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("d")
        self._rows: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return len(self._rows)

    @property
    def values(self) -> int:
        """How many values are kept."""
        return sum(map(len, self._values.values()))

    def add(self, step: int, at: float, metrics: Mapping[str, float]) -> None:
        """Keep one row, written at `at` (seconds since 1970)."""
        row = len(self.steps)
        if row >= LARGEST_ROWS:
            self.left_out += len(metrics)
            return
        self.steps.append(step)
        self.times.append(at)
        for key, value in metrics.items():
            rows = self._rows.get(key)
            if rows is None:
                if len(self._rows) >= MAX_KEYS:
                    self.left_out += 1
                    continue
                rows = self._rows[key] = array("I")
                self._values[key] = array("d")
            rows.append(row)
            self._values[key].append(value)

    def columns(self) -> Iterator[tuple[str, array[int], array[float]]]:
        """Each key with the numbers of the rows that hold it, and its values."""
        for key, rows in self._rows.items():
            yield key, rows, self._values[key]

    def rows(self, start: int, most: int) -> Iterator[tuple[int, float, dict[str, float]]]:
        """At most so many rows from number `start` on, as they were added: to be handed to somebody who lacks them."""
        end = min(len(self.steps), start + most)
        made: list[dict[str, float]] = [{} for _ in range(end - start)]
        for key, numbers, values in self.columns():
            for i in range(bisect_left(numbers, start), bisect_left(numbers, end)):
                made[numbers[i] - start][key] = values[i]
        for i, row in enumerate(made):
            yield self.steps[start + i], self.times[start + i], row
