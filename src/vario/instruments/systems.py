"""Systems: step time."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class StepTime:
    """Wall time of a step."""

    seconds: Reading

    @classmethod
    def read(cls, look: Look) -> StepTime:
        """Needs systems/step-time."""
        return cls(look.need("systems/step-time", least=10))
