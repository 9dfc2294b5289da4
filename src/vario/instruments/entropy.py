"""Entropy: how much choice the policy leaves itself. Compared with its own start, never with a constant."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Entropy:
    """Mean entropy of the policy."""

    mean: Reading

    @classmethod
    def read(cls, look: Look) -> Entropy:
        """Needs entropy/mean."""
        return cls(look.need("entropy/mean", least=5))

    @property
    def share_left(self) -> float:
        """Level now relative to the start; 1 where the start is zero."""
        return self.mean.level / self.mean.start if self.mean.start > 0 else 1.0
