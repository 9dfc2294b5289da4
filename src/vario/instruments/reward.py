"""Reward: the trained score, its components, and whatever stands nearer to the truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading

LEAST = 5
BINARY_TOLERANCE = 0.02
"""How closely var = p(1-p) must hold, after Bessel's correction, for a reward to be taken as 0/1."""


@dataclass(frozen=True)
class Reward:
    """The raw score of the training batch.

    Attributes:
        ceiling: the highest possible value, where 0/1 components prove it; None otherwise.
        updates: updates per rollout, None if unknown.
    """

    total: Reading
    ceiling: float | None
    floor: float | None
    standard_error: float | None

    @classmethod
    def read(cls, look: Look) -> Reward:
        """Read from reward/mean and, for its bounds, the components."""
        total = look.need("reward/mean", least=LEAST)
        components = look.instrument(Components)
        components = components if isinstance(components, Components) else None
        ceiling = floor = None
        if components is not None and components.weights and all(components.binary(n) for n in components.weighted):
            ceiling = sum(max(w, 0.0) for w in components.weights.values())
            floor = sum(min(w, 0.0) for w in components.weights.values())
        declared = look.history.run.declared
        se = None
        spread = look.find("reward/std/batch")
        if spread is not None and declared.batch_completions and declared.group_size:
            # nothing known of the correlation inside a prompt: the upper bound, sd / sqrt(prompts)
            se = spread.level / (declared.batch_completions / declared.group_size) ** 0.5
        if ceiling is not None and total.high > ceiling + 1e-6:
            ceiling = None
        return cls(total, ceiling, floor, se)

    @cached_property
    def share_of_ceiling(self) -> float | None:
        """Level between the floor and the ceiling, 0 to 1; None where the ceiling is not known."""
        if self.ceiling is None or self.floor is None or self.ceiling <= self.floor:
            return None
        return (self.total.level - self.floor) / (self.ceiling - self.floor)

    @cached_property
    def at_floor(self) -> bool:
        """Whether it sits at the lowest place it has been, near zero or its floor."""
        floor = self.floor if self.floor is not None else min(0.0, float(self.total.values.min()))
        span = max(self.total.high - floor, abs(floor), 1e-9)
        return self.total.level <= floor + 0.05 * span and self.total.level <= self.total.start + 1e-12

    def rises(self) -> bool:
        """Whether the score has risen materially over the run."""
        return self.total.rises()

    def lost(self) -> float:
        """Share of the best level's height (above zero or the floor) that is gone by now, 0 to 1 and beyond."""
        floor = self.floor if self.floor is not None else min(0.0, self.total.low)
        height = self.total.high - floor
        return 0.0 if height <= 1e-12 else (self.total.high - self.total.level) / height


@dataclass(frozen=True)
class Components:
    """The reward functions apart: level and trend of each, with its weight where that is known."""

    means: dict[str, Reading]
    stds: dict[str, Reading]
    weights: dict[str, float]

    @classmethod
    def read(cls, look: Look) -> Components:
        """Needs at least one component that is logged apart."""
        names = look.history.run.components()
        means = {n: r for n in names if (r := look.find(f"reward/component/{n}/mean", least=LEAST))}
        if not means:
            raise NotReadable("reward/component/*/mean")
        stds = {n: r for n in means if (r := look.find(f"reward/component/{n}/std", least=LEAST))}
        return cls(means, stds, dict(look.history.run.declared.component_weights))

    @cached_property
    def weighted(self) -> tuple[str, ...]:
        """Components that take part in the training reward (all, where the weights are not known)."""
        return tuple(n for n in self.means if abs(self.weights.get(n, 1.0)) > 1e-3)

    @cached_property
    def witnesses(self) -> tuple[str, ...]:
        """Components logged with weight 0: nobody optimises them, so they stand near the truth."""
        return tuple(n for n in self.means if self.weights and abs(self.weights.get(n, 1.0)) <= 1e-3)

    @cached_property
    def _proven(self) -> dict[str, bool]:
        return {}

    def binary(self, name: str) -> bool:
        """Whether a 0/1 reward is proven, by `_binary`; asked once a look."""
        if name not in self._proven:
            self._proven[name] = self._binary(name)
        return self._proven[name]

    def _binary(self, name: str) -> bool:
        """Whether mean and spread prove a 0/1 reward: var = n/(n-1) p(1-p) at every step."""
        mean, std = self.means[name], self.stds.get(name)
        if std is None or std.points != mean.points:
            return False
        p = mean.values
        if float(p.min()) < -1e-9 or float(p.max()) > 1.0 + 1e-9:
            return False
        expected = p * (1.0 - p)
        inside = expected > 1e-4
        if not bool(inside.any()):
            return bool((std.values[~inside] < 0.05).all())
        ratio = std.values[inside] ** 2 / expected[inside]
        bessel = float(np.median(ratio))
        return 1.0 - BINARY_TOLERANCE <= bessel <= 1.4 and float(np.ptp(ratio)) <= BINARY_TOLERANCE * bessel

    def gain(self, name: str) -> float:
        """Fitted change over the run, times its weight."""
        reading = self.means[name]
        change = reading.shape.gain if reading.shape is not None else reading.level - reading.start
        return self.weights.get(name, 1.0) * change
