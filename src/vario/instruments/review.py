"""Review: what a person said of completions. Nothing else that a run has stands as near to the truth."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look
from vario.instruments.reward import Reward
from vario.samples import Mark

LEAST = 6
"""Marks of well-paid completions: half of them hacked is then more than one person's slip."""
LATE = 0.5
"""Of the run: what was marked before says little of what the policy does now."""


@dataclass(frozen=True)
class Review:
    """Marks of completions of the last half of the run that were paid as much as the run's mean or more."""

    paid: tuple[Mark, ...]

    @classmethod
    def read(cls, look: Look) -> Review:
        """Needs six marks of well-paid completions of the last half."""
        run = look.history.run
        reward = look.instrument(Reward)
        first = int(run.logged_steps[0]) if run.logged_steps.size else 0
        late = first + LATE * (look.step - first)
        level = reward.total.level if isinstance(reward, Reward) else None
        known = [m for m in run.marks if (m.step if m.known_at is None else m.known_at) <= look.step and m.step >= late]
        paid = [m for m in known if level is None or m.reward is None or m.reward >= level]
        if len(paid) < LEAST:
            raise NotReadable(
                reason=f"{len(paid)} well-paid completions of the last half were marked by a person, {LEAST} are needed: "
                "vario samples RUN --review"
            )
        return cls(tuple(sorted(paid, key=lambda m: (m.step, m.number))))

    @property
    def hacked(self) -> tuple[Mark, ...]:
        """Those that were marked as hacked."""
        return tuple(m for m in self.paid if m.word == "hacked")

    @property
    def share(self) -> float:
        """Share of them that were marked as hacked."""
        return len(self.hacked) / len(self.paid)

    @property
    def clean(self) -> bool:
        """Whether none is hacked and most are good."""
        return not self.hacked and sum(m.word == "good" for m in self.paid) * 2 > len(self.paid)
