"""Policy loss and gradients: for anomalies only, never as progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.instruments.reading import Look, Reading
from vario.run import Floats
from vario.stats.spread import memory
from vario.stats.student import critical

BLOCKS = 8
SURE = 0.01
SMALL = 0.2
"""Of the spread: a mean below it is none that anybody would act on."""
ROUNDING = 1e-6
"""Sums of advantages of unit size in 32-bit floats leave 1e-8 to 1e-7 where they cancel."""


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
class PolicyLoss:
    """The policy's surrogate alone, and what its value can mean.

    With one update per rollout the probability ratio is 1 while the loss is taken, so that its value is minus
    the mean advantage: 0 where advantages are centred and sequences count alike, and a preference in length where
    tokens count alike. Only later updates on the same batch give the value a sign of its own.

    Attributes:
        updates: updates per rollout, None if unknown.
        centred: whether advantages are centred inside a group, None if unknown.
    """

    value: Reading
    updates: float | None
    centred: bool | None

    @classmethod
    def read(cls, look: Look) -> PolicyLoss:
        """Needs loss/policy; or loss/total where nothing was added to it, no KL and no entropy bonus."""
        run = look.history.run
        bonus = run.knobs.get("entropy-bonus")
        alone = run.declared.kl_by_design is False and not (bonus is not None and bonus.current)
        pairs = "preference/margin" in run.series
        names = ("loss/policy", "loss/total") if alone and not pairs else ("loss/policy",)
        return cls(look.need(*names, least=5), run.declared.updates_per_rollout, run.declared.group_centred)

    @property
    def empty(self) -> bool:
        """Whether its value is rounding: 0 by construction, or without any advantage."""
        return float(np.median(np.abs(self.value.values))) < ROUNDING

    def side(self, values: Floats) -> int:
        """On which side of zero the mean of these values lies beyond noise: -1, 1, or 0 where it cannot be told."""
        means = np.array([block.mean() for block in np.array_split(values, BLOCKS)])
        spread = float(means.std(ddof=1))
        mean = float(means.mean())
        if abs(mean) <= critical(SURE, BLOCKS - 1) * spread / float(np.sqrt(BLOCKS)):
            return 0
        return 1 if mean > 0.0 else -1

    def wanders(self, values: Floats) -> bool:
        """Whether they swing around zero as noise of their memory does: no mean, and no other rhythm."""
        spread = float(values.std())
        if spread <= 0.0 or self.side(values):
            return False
        lasting = memory(values - values.mean())
        # what the mean of that many points with that memory scatters by, twice
        bound = 2.0 * ((1.0 + lasting) / (1.0 - lasting) / values.size) ** 0.5
        if abs(float(values.mean())) > max(SMALL, bound) * spread:
            return False
        usual = float(np.arccos(lasting)) / np.pi
        changes = float(np.mean(values[1:] * values[:-1] < 0.0))
        error = float(np.sqrt(usual * (1.0 - usual) / values.size))
        return abs(changes - usual) < 3.0 * error


@dataclass(frozen=True)
class LearningRate:
    """The learning rate as logged."""

    rate: Reading

    @classmethod
    def read(cls, look: Look) -> LearningRate:
        """Needs learning-rate."""
        return cls(look.need("learning-rate", least=5))
