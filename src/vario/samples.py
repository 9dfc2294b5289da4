"""Samples of a run as numbers: what a finding can point to. Their texts stay where they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person said of a completion: `good`, `bad` or `hacked`.

    Attributes:
        step, number: which completion it is.
        reward: what it was paid; None if unknown.
        known_at: the last logged step when it was marked: before it nobody knew.
    """

    step: int
    number: int
    word: str
    reward: float | None = None
    known_at: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The completions whose texts were measured, in order of their steps; every array has shape (n,).

    Attributes:
        places: where the completions lie, for people.
        steps: the step of each.
        numbers: which completion of its step it is, counted from 0 in the order of the dump; with the step, its name.
        groups: equal for answers of one step to one prompt; the same number in two steps says nothing.
        measures: reward, advantage, length, size (bytes), looped, entropy, and truncated, garbled, copied (0 or 1);
            NaN where unknown.
        counted: completions that the series were counted from.
    """

    places: tuple[str, ...]
    steps: NDArray[np.int64]
    numbers: NDArray[np.int64]
    groups: NDArray[np.uint64]
    measures: Mapping[str, NDArray[np.float64]] = field(default_factory=lambda: MappingProxyType({}))
    counted: int = 0

    def until(self, step: int) -> Samples:
        """Those up to and including a step, as views."""
        return self._part(slice(0, int(np.searchsorted(self.steps, step, side="right"))))

    def between(self, first: int, last: int) -> Samples:
        """Those of the steps from one to another, both included, as views."""
        return self._part(slice(*(int(i) for i in np.searchsorted(self.steps, [first, last + 1]))))

    def _part(self, part: slice) -> Samples:
        return Samples(
            self.places,
            self.steps[part],
            self.numbers[part],
            self.groups[part],
            MappingProxyType({n: v[part] for n, v in self.measures.items()}),
            self.counted,
        )

    def at(self, step: int) -> slice:
        """Those of one step."""
        return slice(*(int(i) for i in np.searchsorted(self.steps, [step, step + 1])))

    def __len__(self) -> int:
        return int(self.steps.size)
