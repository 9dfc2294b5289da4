"""What the run says of the task beside the total reward: the witness, and each reward function."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.instruments.reward import Components
from vario.instruments.witness import Witness

LOST = 0.8
"""A score below this share of its best has fallen."""
SOLVED, NEAR = 0.85, 0.9
"""A score so high, and so near its own best, has little left to rise by."""
LEAST = 5


@dataclass(frozen=True)
class Scores:
    """The scores apart from the total: nearest to the truth first."""

    parts: tuple[Reading, ...]

    @classmethod
    def read(cls, look: Look) -> Scores:
        """Needs a witness, or two reward functions: one alone is the total."""
        witness, components = look.instrument(Witness), look.instrument(Components)
        parts = [witness.score] if isinstance(witness, Witness) else []
        if isinstance(components, Components) and len(components.weighted) > 1:
            parts += [components.means[n] for n in components.weighted]
        if not parts:
            raise NotReadable("eval/score/mean", reason="one reward function and no held-out score")
        return cls(tuple(r for r in parts if r.points >= LEAST))

    def falling(self) -> Reading | None:
        """The first score that has fallen from its start or its peak, and stands below it now."""
        return next((r for r in self.parts if r.fell() and r.level < LOST * r.high), None)

    def left_behind(self) -> Reading | None:
        """The first score that falls, or has stood still for the last half below its ceiling."""
        for r in self.parts:
            if r.fell() and r.level < LOST * r.high:
                return r
            late = r.late
            solved = r.level >= SOLVED and r.level >= NEAR * r.high
            if late is not None and not solved and not late.rises(0.1) and late.change < 0.02 + 0.02 * abs(r.high):
                return r
        return None
