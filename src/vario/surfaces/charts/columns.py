"""A series as so many columns as a picture is wide: nothing between the least and the largest value is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vario.run import Floats, Ints


@dataclass(frozen=True, slots=True)
class Columns:
    """What a series holds in each of a row of equal stretches of steps; stretches without a value are left out.

    Attributes:
        first, last: the first and the last step with a value, shape (n,).
        least, most, mean: of the values, shape (n,). counts: how many values they are, shape (n,).
    """

    first: Ints
    last: Ints
    least: Floats
    most: Floats
    mean: Floats
    counts: Ints

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def single(self) -> bool:
        """Whether every column is one value: what is drawn is the log itself."""
        return bool((self.counts <= 1).all())

    def rows(self) -> Iterator[tuple[int, int, float, float, float]]:
        """First and last step, least, mean and largest value of each column."""
        return zip(
            self.first.tolist(),
            self.last.tolist(),
            self.least.tolist(),
            self.mean.tolist(),
            self.most.tolist(),
            strict=True,
        )


def columns(steps: Ints, values: Floats, span: tuple[int, int], most: int) -> Columns:
    """Reduce the values of a span of steps to at most so many columns.

    Args:
        steps: ascending, shape (n,). values: finite, shape (n,).
        span: first and last step that are looked at.
        most: columns; where no more values lie in the span, each has one of its own.
    """
    begin, end = np.searchsorted(steps, span[0]), np.searchsorted(steps, span[1], side="right")
    steps, values = steps[begin:end], values[begin:end]
    if steps.size <= most:
        return Columns(steps, steps, values, values, values, np.ones(steps.size, dtype=np.int64))
    width = max(span[1] - span[0] + 1, 1)
    column = (steps - span[0]) * most // width
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    counts = np.diff(starts, append=steps.size)
    return Columns(
        steps[starts],
        steps[starts + counts - 1],
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        np.add.reduceat(values, starts) / counts,
        counts,
    )
