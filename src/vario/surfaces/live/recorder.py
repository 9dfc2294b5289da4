"""Rows of a training as they come, in columns: at most 16 bytes a value, and nothing else that grows with their number."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping

MAX_KEYS = 20_000
"""A trainer that makes a new key at every step would grow without end; beyond so many its new keys are counted only."""
MOST_COLUMNS = 40_000
"""Columns of rows with the same keys; where hardly two rows have the same, each key is kept by itself."""
LARGEST_ROWS = 2**32 - 1
Piece = tuple["array[int]", "array[float]"]
"""Numbers of rows, and a key's values there."""


class _Kind:
    """Rows with the same keys: their numbers, once for all keys, and the values of each; None for a key that has no room."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: list[array[float] | None]) -> None:
        self.rows = array("I")
        self.columns = columns


class Recorder:
    """Columns of one run.

    A value takes 8 bytes, and a row 20 beside its values; arrays grow by a sixteenth at a time. Not safe for two threads
    at once.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("d")
        self._kinds: dict[tuple[str, ...], _Kind] = {}
        self._columns = 0
        self._keys: dict[str, list[Piece]] = {}
        self._loose: dict[str, Piece] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    @property
    def values(self) -> int:
        """How many values are kept."""
        return sum(len(values) for pieces in self._keys.values() for _, values in pieces)

    def add(self, step: int, at: float, metrics: Mapping[str, float]) -> None:
        """Keep one row, written at `at` (seconds since 1970)."""
        row = len(self.steps)
        if row >= LARGEST_ROWS:
            self.left_out += len(metrics)
            return
        self.steps.append(step)
        self.times.append(at)
        names = tuple(metrics)
        kind = self._kinds.get(names) or self._new_kind(names)
        if kind is None:
            self._add_loose(row, metrics)
            return
        kind.rows.append(row)
        for column, value in zip(kind.columns, metrics.values(), strict=True):
            if column is None:
                self.left_out += 1
            else:
                column.append(value)

    def _new_kind(self, names: tuple[str, ...]) -> _Kind | None:
        if self._columns + len(names) > MOST_COLUMNS:
            return None
        self._columns += len(names)
        kind = self._kinds[names] = _Kind([array("d") if self._has_room(name) else None for name in names])
        for name, column in zip(names, kind.columns, strict=True):
            if column is not None:
                self._keys[name].append((kind.rows, column))
        return kind

    def _add_loose(self, row: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            piece = self._loose.get(name)
            if piece is None:
                if not self._has_room(name):
                    self.left_out += 1
                    continue
                piece = self._loose[name] = array("I"), array("d")
                self._keys[name].append(piece)
            piece[0].append(row)
            piece[1].append(value)

    def _has_room(self, name: str) -> bool:
        if name not in self._keys:
            if len(self._keys) >= MAX_KEYS:
                return False
            self._keys[name] = []
        return True

    def columns(self) -> Iterator[tuple[str, list[Piece]]]:
        """Each key with its values in pieces: in each the numbers of the rows that hold it ascend, and no row is in two."""
        yield from self._keys.items()

    def rows(self, start: int, most: int) -> Iterator[tuple[int, float, dict[str, float]]]:
        """At most so many rows from number `start` on, as they were added: to be handed to somebody who lacks them."""
        end = min(len(self.steps), start + most)
        made: list[dict[str, float]] = [{} for _ in range(end - start)]
        for names, kind in self._kinds.items():
            for i in range(bisect_left(kind.rows, start), bisect_left(kind.rows, end)):
                held = (
                    (name, column[i]) for name, column in zip(names, kind.columns, strict=True) if column is not None
                )
                made[kind.rows[i] - start].update(held)
        for name, (numbers, values) in self._loose.items():
            for i in range(bisect_left(numbers, start), bisect_left(numbers, end)):
                made[numbers[i] - start][name] = values[i]
        for i, row in enumerate(made):
            yield self.steps[start + i], self.times[start + i], row
