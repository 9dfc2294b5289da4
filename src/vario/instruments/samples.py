"""What the trainer logged beside the same quantity counted from the completions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.run import Floats, Ints

LEAST = 8
"""Steps with both values: fewer cannot tell a wrong metric from a small sample."""
COUNTED = ("reward/mean", "signal/zero-variance-share", "length/truncated-share")


@dataclass(frozen=True)
class Pair:
    """One metric twice: as logged and as counted. `apart`: logged minus counted at the shared steps, shape (n,)."""

    logged: Reading
    counted: Reading
    steps: Ints
    apart: Floats

    @property
    def bias(self) -> float:
        """Mean difference over the last half of the shared steps."""
        return float(self.apart[-self._half :].mean())

    @property
    def error(self) -> float:
        """Standard error of the bias."""
        late = self.apart[-self._half :]
        return float(late.std(ddof=1) / late.size**0.5)

    @property
    def since(self) -> int:
        """First shared step of the last stretch whose differences have the bias's sign."""
        other = np.flatnonzero(np.sign(self.apart) != np.sign(self.bias))
        return int(self.steps[min(int(other[-1]) + 1 if other.size else 0, self.steps.size - 1)])

    @property
    def _half(self) -> int:
        return max(LEAST, self.apart.size // 2)


@dataclass(frozen=True)
class Counted:
    """Metrics that were logged and can be counted again, and what bounds the share of cut completions."""

    pairs: tuple[Pair, ...]
    truncated: Reading | None
    longest: Reading | None
    cap: float | None
    spread: Reading | None

    @classmethod
    def read(cls, look: Look) -> Counted:
        """Needs one metric in both forms, or the truncated share with the longest completion."""
        pairs = []
        for name in COUNTED:
            logged = look.find(name, least=LEAST)
            again = look.find(f"samples/{name.removeprefix('signal/').removeprefix('length/')}", least=LEAST)
            if logged is None or again is None:
                continue
            steps, a, b = np.intersect1d(logged.steps, again.steps, return_indices=True)
            if steps.size >= LEAST:
                pairs.append(Pair(logged, again, steps, logged.values[a] - again.values[b]))
        truncated, longest = look.find("length/truncated-share", least=LEAST), look.find("length/max", least=LEAST)
        if not pairs and (truncated is None or longest is None):
            raise NotReadable("samples/reward/mean", "reward/mean")
        return cls(
            tuple(pairs), truncated, longest, look.history.run.declared.max_length, look.find("reward/std/batch")
        )
