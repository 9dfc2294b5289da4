"""Off-policy weights: trainer against sampling engine, and staleness."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class EngineGap:
    """How far trainer and sampler disagree on the same tokens."""

    gap: Reading
    largest: Reading | None

    @classmethod
    def read(cls, look: Look) -> EngineGap:
        """Needs the mean log-probability gap."""
        return cls(look.need("engine/logprob-gap/mean", least=5), look.find("engine/logprob-gap/max"))


@dataclass(frozen=True)
class BehaviourWeight:
    """Weight trainer/sampler as it is applied (after caps and masks)."""

    mean: Reading
    smallest: Reading | None

    @classmethod
    def read(cls, look: Look) -> BehaviourWeight:
        """Needs the mean weight."""
        return cls(look.need("behaviour-weight/mean", least=5), look.find("behaviour-weight/min"))


@dataclass(frozen=True)
class Staleness:
    """Age of the samples in policy versions."""

    mean: Reading

    @classmethod
    def read(cls, look: Look) -> Staleness:
        """Needs staleness/mean."""
        return cls(look.need("staleness/mean", least=5))
