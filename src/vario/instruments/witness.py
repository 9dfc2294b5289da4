"""The signal nearest to the truth: held-out score first, then a reward that nobody optimises."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.instruments.reward import Components

LEAST = 4


@dataclass(frozen=True)
class Witness:
    """A score that training does not optimise. `source` says which."""

    score: Reading
    source: str

    @classmethod
    def read(cls, look: Look) -> Witness:
        """Needs a held-out score, or a reward logged with weight 0."""
        held_out = look.find("eval/score/mean", least=LEAST)
        if held_out is not None:
            return cls(held_out, "held-out score")
        components = look.instrument(Components)
        if isinstance(components, Components) and components.witnesses:
            return cls(components.means[components.witnesses[0]], f"{components.witnesses[0]}, logged with weight 0")
        raise NotReadable("eval/score/mean", reason="no held-out score and no reward logged with weight 0")

    def lost(self) -> float:
        """Share of its best level that is gone by now."""
        low = min(0.0, self.score.low)
        height = self.score.high - low
        return 0.0 if height <= 1e-12 else (self.score.high - self.score.level) / height
