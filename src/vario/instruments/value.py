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
    weight: float | None
    clip_at: float | None

    @classmethod
    def read(cls, look: Look) -> Value:
        """Needs loss/value."""
        return cls(
            look.need("loss/value", least=10),
            look.find("value/clip-fraction", least=5),
            look.find("value/explained-variance", least=5),
            _set(look, "value-coef"),
            _set(look, "value-clip"),
        )


def _set(look: Look, knob: str) -> float | None:
    setting = look.history.run.knobs.get(knob)
    value = setting.current if setting is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
