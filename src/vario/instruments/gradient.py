"""Policy loss and gradients: for anomalies only, never as progress."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Gradient:
    """Gradient norm, before clipping."""

    norm: Reading
    clip_at: float | None

    @classmethod
    def read(cls, look: Look) -> Gradient:
        """Needs gradient/norm."""
        norm = look.need("gradient/norm", least=5)
        knob = look.history.run.knobs.get("max-grad-norm")
        bound = knob.current if knob is not None else None
        return cls(norm, float(bound) if isinstance(bound, int | float) else None)


@dataclass(frozen=True)
class Loss:
    """The optimised loss."""

    total: Reading

    @classmethod
    def read(cls, look: Look) -> Loss:
        """Needs loss/policy or loss/total."""
        return cls(look.need("loss/policy", "loss/total", least=5))


@dataclass(frozen=True)
class LearningRate:
    """The learning rate as logged."""

    rate: Reading

    @classmethod
    def read(cls, look: Look) -> LearningRate:
        """Needs learning-rate."""
        return cls(look.need("learning-rate", least=5))
