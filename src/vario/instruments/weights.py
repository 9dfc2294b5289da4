"""Off-policy weights: trainer against sampling engine, and staleness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vario.instruments.reading import Look, Reading


class Bounds(NamedTuple):
    """From where on a gap is too large by itself, and from where on it is if it has grown tenfold."""

    large: float
    grown: float


MEASURES: dict[str, Bounds] = {
    "engine/logprob-gap/mean": Bounds(0.05, 0.02),
    # verl's FAQ calls 0.005 normal and 0.01 a problem of precision; twice that is left to other engines
    "engine/probability-gap/mean": Bounds(0.02, 0.01),
    # verl's guide to rollout correction calls 0.1 a significant gap, tinker's 0.01 a numerical one
    "engine/kl": Bounds(0.1, 0.02),
}
"""Each measure of the gap between trainer and sampling engine, the most direct one first."""


@dataclass(frozen=True)
class EngineGap:
    """How far trainer and sampler disagree on the same tokens."""

    gap: Reading
    largest: Reading | None
    bounds: Bounds

    @classmethod
    def read(cls, look: Look) -> EngineGap:
        """Needs a mean gap: of log-probabilities, of probabilities, or a divergence."""
        gap = look.need(*MEASURES, least=5)
        return cls(
            gap,
            look.find(gap.name.replace("/mean", "/max")) if gap.name.endswith("/mean") else None,
            MEASURES[gap.name],
        )


@dataclass(frozen=True)
class BehaviourWeight:
    """Weight trainer/sampler as it is applied (after caps and masks).

    `capped` is the share of weights that were capped or rejected, `effective` the share of the batch that still counts.
    """

    mean: Reading | None
    smallest: Reading | None
    capped: Reading | None
    effective: Reading | None

    @classmethod
    def read(cls, look: Look) -> BehaviourWeight:
        """Needs the mean weight, or the share of weights that were capped."""
        look.need("behaviour-weight/mean", "behaviour-weight/capped-share", least=5)
        return cls(
            look.find("behaviour-weight/mean", least=5),
            look.find("behaviour-weight/min"),
            look.find("behaviour-weight/capped-share", least=5),
            look.find("behaviour-weight/effective-share", least=5),
        )


@dataclass(frozen=True)
class Staleness:
    """Age of the samples in policy versions."""

    mean: Reading

    @classmethod
    def read(cls, look: Look) -> Staleness:
        """Needs staleness/mean."""
        return cls(look.need("staleness/mean", least=5))
