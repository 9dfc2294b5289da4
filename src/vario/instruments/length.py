"""Length: mean, extremes, the share cut at the cap, and what length does to the reward inside groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.stats.spread import median


@dataclass(frozen=True)
class Length:
    """Completion lengths. `cap` is the configured maximum in tokens, None if unknown."""

    mean: Reading
    shortest: Reading | None
    longest: Reading | None
    terminated: Reading | None
    truncated: Reading | None
    cap: float | None

    @classmethod
    def read(cls, look: Look) -> Length:
        """Needs length/mean."""
        mean = look.need("length/mean", least=5)
        return cls(
            mean,
            look.find("length/min"),
            look.find("length/max"),
            look.find("length/terminated/mean"),
            look.find("length/truncated-share"),
            look.history.run.declared.max_length,
        )

    @property
    def growth(self) -> float:
        """Level now relative to the start."""
        return self.mean.level / self.mean.start if self.mean.start > 0 else 1.0


@dataclass(frozen=True)
class Truncation:
    """Share of completions cut at the cap. `believable` is False where the longest stay below the cap."""

    share: Reading
    believable: bool
    cap: float | None

    @classmethod
    def read(cls, look: Look) -> Truncation:
        """Needs the truncated share; a cap and a maximum length make it checkable."""
        share = look.need("length/truncated-share", least=5)
        longest, cap = look.find("length/max"), look.history.run.declared.max_length
        believable = not (cap and longest is not None and share.level > 0.05 and longest.high < 0.95 * cap)
        return cls(share, believable, cap)


EFFECT_STEPS = 5
"""Sampled steps that an effect is pooled over: each brings the error of its own groups, so fewer do than for a level."""
LATE_STEPS = 2
"""Of them in the last half of the run: completions are often written down at every fifth step only."""
POOLED_SHARE = 0.25
POOLED_LEAST = 8
"""Steps that an effect is pooled over: the last quarter of them, at least eight. One step has far too few groups."""


@dataclass(frozen=True)
class Effect:
    """An effect inside groups, pooled over the last steps by its standard errors. `error` is that of `now`."""

    reading: Reading
    now: float
    error: float

    @classmethod
    def of(cls, look: Look, name: str, error_name: str) -> Effect:
        """Pool an effect with its standard errors.

        Raises:
            NotReadable: one of them is missing, or too few steps, or too few late ones, could be judged.
        """
        reading = look.find(name, least=EFFECT_STEPS)
        errors = look.find(error_name, least=EFFECT_STEPS)
        if reading is None or errors is None:
            raise NotReadable(name, error_name)
        _, here, there = np.intersect1d(reading.steps, errors.steps, return_indices=True)
        values, sizes = reading.values[here], errors.values[there]
        known = sizes > 0.0  # groups that all agree give no error
        steps, values, sizes = reading.steps[here][known], values[known], sizes[known]
        # what held in the first half alone is over
        late = int((2 * steps > int(reading.steps[0]) + look.step).sum())
        if values.size < EFFECT_STEPS or late < LATE_STEPS:
            raise NotReadable(
                name,
                error_name,
                reason=f"{name}: fewer than {LATE_STEPS} late steps with mixed groups, or {EFFECT_STEPS} in all",
            )
        width = max(EFFECT_STEPS, int(late * POOLED_SHARE))
        # an error from a few groups can be next to nothing by luck: half of them count as the median one
        sizes = np.maximum(sizes[-width:], median(sizes[-width:]))
        weights = 1.0 / sizes**2
        return cls(reading, float(weights @ values[-width:] / weights.sum()), float(weights.sum() ** -0.5))

    @property
    def sure(self) -> bool:
        """Whether it lies three standard errors from none: a few hundred looks must not find one by chance."""
        return abs(self.now) > 3.0 * self.error


@dataclass(frozen=True)
class LengthPays:
    """How the length goes with the reward: rank correlation inside groups, or the lengths of right and wrong answers."""

    inside: Effect | None
    solved: Reading | None
    unsolved: Reading | None

    @classmethod
    def read(cls, look: Look) -> LengthPays:
        """Needs the correlation with its standard error, or both lengths."""
        correlation = ("length/reward-correlation/within-group", "length/reward-correlation/se")
        try:
            return cls(Effect.of(look, *correlation), None, None)
        except NotReadable as error:
            solved = look.find("length/solved/mean", least=POOLED_LEAST)
            unsolved = look.find("length/unsolved/mean", least=POOLED_LEAST)
            if solved is None or unsolved is None:
                raise NotReadable(*correlation, reason=error.reason) from None
            return cls(None, solved, unsolved)


@dataclass(frozen=True)
class TruncationGap:
    """Reward of cut completions minus that of finished ones, inside groups that hold both.

    `filtered`: cut completions are left out of the loss. `priced`: the reward charges for length on purpose.
    """

    gap: Effect
    share: Reading | None
    spread: Reading | None
    filtered: bool
    priced: bool

    @classmethod
    def read(cls, look: Look) -> TruncationGap:
        """Needs the gap with its standard error; the truncated share and the spread give it a size."""
        run = look.history.run
        penalty = run.knobs.get("length-penalty")
        return cls(
            Effect.of(look, "reward/truncated-gap/within-group", "reward/truncated-gap/se"),
            look.find("length/truncated-share", least=5) or look.find("samples/truncated-share", least=5),
            look.find("reward/std/within-group", least=5) or look.find("reward/std/batch", least=5),
            "overlong-filter" in run.knobs and run.knobs["overlong-filter"].current is True,
            (penalty is not None and bool(penalty.current)) or any("overlong" in n.lower() for n in run.components()),
        )


@dataclass(frozen=True)
class Bimodality:
    """Whether lengths inside groups have two modes: bimodality coefficient with a separation, or a dip test's p."""

    coefficient: Reading | None
    separation: Reading | None
    dip: Reading | None
    within: Reading | None

    @classmethod
    def read(cls, look: Look) -> Bimodality:
        """Needs the coefficient or the dip test."""
        coefficient = look.find("length/bimodality/within-group", least=POOLED_LEAST)
        dip = look.find("length/bimodality/dip-p", least=POOLED_LEAST)
        if coefficient is None and dip is None:
            raise NotReadable("length/bimodality/within-group", "length/bimodality/dip-p")
        separation = look.find("length/bimodality/separation", least=POOLED_LEAST)
        return cls(coefficient, separation, dip, look.find("length/std/within-group", least=POOLED_LEAST))
