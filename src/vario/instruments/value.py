"""Value function: PPO only."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Value:
    """Value loss and what goes with it."""

    loss: Reading
    clipped: Reading | None
    explained: Reading | None

    @classmethod
    def read(cls, look: Look) -> Value:
        """Needs loss/value."""
        return cls(
            look.need("loss/value", least=10),
            look.find("value/clip-fraction", least=5),
            look.find("value/explained-variance", least=5),
        )
