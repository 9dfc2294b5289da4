"""Ratio and clipping: the share of tokens whose probability ratio left the trust region."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Clipping:
    """Clipped shares. `updates` is the number of updates per rollout batch, None if unknown."""

    total: Reading
    low: Reading | None
    high: Reading | None
    updates: float | None

    @classmethod
    def read(cls, look: Look) -> Clipping:
        """Needs the total clipped share."""
        total = look.need("clip/fraction/total", "clip/fraction/high", least=5)
        return cls(
            total,
            look.find("clip/fraction/low"),
            look.find("clip/fraction/high"),
            look.history.run.declared.updates_per_rollout,
        )


@dataclass(frozen=True)
class Ratio:
    """Probability ratio new/old policy."""

    mean: Reading
    updates: float | None

    @classmethod
    def read(cls, look: Look) -> Ratio:
        """Needs the mean ratio."""
        return cls(
            look.need("ratio/mean", "importance-weight/mean", least=5), look.history.run.declared.updates_per_rollout
        )
