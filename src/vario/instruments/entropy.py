"""Entropy: how much choice the policy leaves itself. Compared with its own start, never with a constant."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class AttentionEntropy:
    """How widely attention is spread: at most the logarithm of the tokens that can be attended to."""

    mean: Reading
    lowest: Reading | None

    @classmethod
    def read(cls, look: Look) -> AttentionEntropy:
        """Needs attention/entropy/mean, or that of the layer with the least."""
        lowest = look.find("attention/entropy/layer-min", least=5)
        return cls(look.need("attention/entropy/mean", "attention/entropy/layer-min", least=5), lowest)


@dataclass(frozen=True)
class Entropy:
    """Mean entropy of the policy. `bonus` is its weight in the loss, None if unknown."""

    mean: Reading
    bonus: float | None = None

    @classmethod
    def read(cls, look: Look) -> Entropy:
        """Needs entropy/mean."""
        knob = look.history.run.knobs.get("entropy-bonus")
        bonus = knob.current if knob is not None else None
        return cls(look.need("entropy/mean", least=5), float(bonus) if isinstance(bonus, int | float) else None)

    @property
    def share_left(self) -> float:
        """Level now relative to the start; 1 where the start is zero."""
        return self.mean.level / self.mean.start if self.mean.start > 0 else 1.0
