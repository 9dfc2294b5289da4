"""The signal nearest to the truth: held-out score first, then a reward that nobody optimises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.instruments.reward import Components
from vario.stats.few import MANY, Few, few_points

LEAST = 4
POWER_SDS = 4.0
"""Standard deviations of one evaluation that the gain must have: less could not have been seen."""
QUARTER = 0.25
"""Share of the training reward's gain that a held-out score of the same scale would show, were it the same gain."""


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

    @cached_property
    def _few(self) -> Few | None:
        """Evaluations are often too few for the shape test."""
        return few_points(self.score.values) if self.score.points < MANY else None

    @property
    def best(self) -> float:
        """Its best level so far."""
        return self._few.best if self._few is not None else self.score.high

    @property
    def now(self) -> float:
        """Where it stands."""
        return self._few.now if self._few is not None else self.score.level

    def rises(self) -> bool:
        """Whether it stands above its start beyond its scatter."""
        return self._few.rose() if self._few is not None else self.score.rises()

    def fell(self) -> bool:
        """Whether it stands below its start, or below a best on the way, beyond its scatter."""
        return self._few.fell() if self._few is not None else self.score.fell()

    def stands(self, gain: float) -> bool:
        """Whether it has not risen, and a rise of a quarter of `gain` is excluded or would long be seen."""
        if self._few is None:
            return self.score.flat()
        few = self._few
        return (
            not few.rose() and not few.fell() and few.change_high < QUARTER * gain and gain > POWER_SDS * few.noise_sd
        )

    def since_best(self) -> int:
        """Step of its best level."""
        return int(self.score.steps[self._few.at]) if self._few is not None else self.score.best_step()

    def lost(self) -> float:
        """Share of its best level that is gone by now."""
        low = min(0.0, self.score.low)
        height = self.best - low
        return 0.0 if height <= 1e-12 else (self.best - self.now) / height
