"""Reward: the trained score, its components, and whatever stands nearer to the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.run import Floats, KnobSetting
from vario.stats.spread import robust_sd, running_median

LEAST = 5
BINARY_TOLERANCE = 0.02
"""How closely var = p(1-p) must hold, after Bessel's correction, for a reward to be taken as 0/1."""
LAG = 5
"""Points between two rewards whose difference is taken: noise with memory has mostly forgotten itself by then."""
PAIRS = 30
"""Fewer differences than this say nothing of a spread."""
LITTLE = 0.1
"""Share of the run's largest spread below which a batch is all but tied."""


def scatter(values: Floats, lag: int = LAG) -> float:
    """Standard deviation of the noise, from differences: a climb, a jump and single spikes do not count."""
    return float(robust_sd(values[lag:] - values[:-lag]) / 2.0**0.5)


@dataclass(frozen=True)
class Reward:
    """The raw score of the training batch.

    Attributes:
        ceiling: the highest possible value, where the user declares it or 0/1 components prove it; None otherwise.
        updates: updates per rollout, None if unknown.
        spread: spread of rewards over the batch; prompts: how many prompts are in it. None if unknown.
    """

    total: Reading
    ceiling: float | None
    floor: float | None
    standard_error: float | None
    spread: Reading | None = None
    prompts: float | None = None

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
        # what the user says of the bounds stands before what the components prove
        ceiling = declared.reward_high if declared.reward_high is not None else ceiling
        floor = declared.reward_low if declared.reward_low is not None else floor
        if ceiling is not None and floor is None:
            floor = min(0.0, float(total.values.min()))
        se = prompts = None
        spread = look.find("reward/std/batch")
        if declared.batch_completions and declared.group_size:
            prompts = declared.batch_completions / declared.group_size
        if spread is not None and prompts:
            # nothing known of the correlation inside a prompt: the upper bound, sd / sqrt(prompts)
            se = spread.level / prompts**0.5
        counted = look.find("samples/reward/se", least=5)
        if counted is not None:
            se = counted.level  # over groups, so that what prompts have in common is in it
        if ceiling is not None and total.high > ceiling + 1e-6:
            ceiling = None
        return cls(total, ceiling, floor, se, spread, prompts)

    @cached_property
    def share_of_ceiling(self) -> float | None:
        """Level between the floor and the ceiling, 0 to 1; None where the ceiling is not known."""
        if self.ceiling is None or self.floor is None or self.ceiling <= self.floor:
            return None
        return (self.total.level - self.floor) / (self.ceiling - self.floor)

    @property
    def ground(self) -> float:
        """What its height is measured from: its floor, or zero or its lowest level where none is known."""
        return self.floor if self.floor is not None else min(0.0, self.total.low)

    def rises(self) -> bool:
        """Whether the score has risen materially over the run."""
        return self.total.rises()

    def lost(self) -> float:
        """Share of the best level's height (above zero or the floor) that is gone by now, 0 to 1 and beyond."""
        height = self.total.high - self.ground
        return 0.0 if height <= 1e-12 else (self.total.high - self.total.level) / height

    def stands(self) -> bool:
        """Whether it lies where it began, and never was anywhere else, though it is not exactly constant."""
        total = self.total
        return total.flat() and not total.constant and abs(total.level - total.start) <= 2.0 * total.noise_sd

    @cached_property
    def solved(self) -> bool:
        """Whether little is left to gain, where the ceiling is known."""
        return self.share_of_ceiling is not None and self.share_of_ceiling > 0.85

    @cached_property
    def span(self) -> float:
        """The distance that rewards can cover: between the known bounds, 1 within [0, 1], else the largest level."""
        if self.ceiling is not None and self.floor is not None:
            return self.ceiling - self.floor
        values = self.total.values
        if float(values.min()) >= 0.0 and 0.0 < float(values.max()) <= 1.0:
            return 1.0
        return max(abs(self.total.high), abs(self.total.low))

    @cached_property
    def unrest(self) -> float:
        """Scatter of the last half from step to step: its climb and its jumps do not count. 0 where it is too short."""
        y = self.total.values[-max(PAIRS + LAG, self.total.points // 2) :]
        return scatter(y) if y.size >= PAIRS + LAG else 0.0

    @cached_property
    def excess(self) -> float | None:
        """Scatter of the last half over what sampling alone explains, at most; None where that is not known."""
        return self._excess(last=True)

    @cached_property
    def excess_at_start(self) -> float | None:
        """The same over the first third."""
        return self._excess(last=False)

    def _excess(self, *, last: bool) -> float | None:
        """Each difference over `LAG` points, held against the standard error of its own two batches.

        The error is sd / sqrt(prompts), as if all completions of a prompt were alike: up to three times too wide,
        so that what exceeds it is no sampling. Batches with next to no spread are left out.
        """
        if self.spread is None or not self.prompts:
            return None
        _, i, j = np.intersect1d(self.total.steps, self.spread.steps, assume_unique=True, return_indices=True)
        part = slice(-max(PAIRS + LAG, i.size // 2), None) if last else slice(0, max(PAIRS + LAG, i.size // 3))
        y, spread = self.total.values[i][part], self.spread.values[j][part]
        if y.size < PAIRS + LAG:
            return None
        error = running_median(spread) / self.prompts**0.5
        both = np.hypot(error[LAG:], error[:-LAG])
        usable = both > LITTLE * self.spread.high / self.prompts**0.5
        if int(usable.sum()) < PAIRS:
            return None
        return robust_sd((y[LAG:] - y[:-LAG])[usable] / both[usable])


@dataclass(frozen=True)
class RewardScale:
    """Whether rewards are scaled into advantages, and how far they lie apart.

    Attributes:
        spread: spread of the raw rewards: inside groups where that is logged, else over the batch.
        scaled: whether the configuration divides advantages by a spread, None where it does not say.
        setting: the key with its value. assumed: whether that is only the framework's default.
    """

    spread: Reading
    scaled: bool | None
    setting: str
    assumed: bool

    @classmethod
    def read(cls, look: Look) -> RewardScale:
        """Needs a spread of rewards."""
        spread = look.need("reward/std/within-group", "reward/std/batch", least=LEAST)
        knob = look.history.run.knobs.get("reward-scaling")
        setting = f"{knob.key} {knob.current}" if knob is not None else ""
        return cls(spread, _scaled(knob), setting, knob is not None and knob.is_default)


UNSCALED = frozenset({"false", "none", "no", "off", "centered", "ignored", "mean"})
"""What frameworks call advantages that are centred and not divided by a spread."""


def _scaled(knob: KnobSetting | None) -> bool | None:
    if knob is None or knob.current is None:
        return None
    on = str(knob.current).strip().lower() not in UNSCALED
    return not on if knob.key.endswith("no_std_norm") else on  # OpenRLHF's switch says what is left out


@dataclass(frozen=True)
class RewardBounds:
    """The bounds at which rewards are clipped, and what lies at them.

    Attributes:
        clipped: share of rewards that were clipped. low, high: the bounds, None if unknown.
        assumed: whether the bounds are only the framework's default.
        smallest, largest: extremes of each batch. mean, spread: of the raw reward.
    """

    clipped: Reading | None
    low: float | None
    high: float | None
    assumed: bool
    smallest: Reading | None
    largest: Reading | None
    mean: Reading | None
    spread: Reading | None

    @classmethod
    def read(cls, look: Look) -> RewardBounds:
        """Needs the clipped share, or a reward to hold against the bounds."""
        look.need("reward/clipped-share", "reward/mean", least=LEAST)
        low, high, assumed = declared_bounds(look)
        return cls(
            look.find("reward/clipped-share", least=LEAST), low, high, assumed,
            look.find("reward/min", least=LEAST), look.find("reward/max", least=LEAST),
            look.find("reward/mean", least=LEAST), look.find("reward/std/batch", least=LEAST),
        )  # fmt: skip


def declared_bounds(look: Look) -> tuple[float | None, float | None, bool]:
    """Bounds of the reward as configured: low, high, and whether they are only the framework's default."""
    run = look.history.run
    if run.declared.reward_low is not None and run.declared.reward_high is not None:
        return run.declared.reward_low, run.declared.reward_high, False
    knob = run.knobs.get("reward-bounds")
    if knob is None or knob.current is None or isinstance(knob.current, bool):
        return None, None, False
    found = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", str(knob.current))]
    if len(found) == 1 and found[0] > 0.0:
        return -found[0], found[0], knob.is_default  # one number bounds both sides in every framework that takes one
    if len(found) == 2 and found[0] < found[1]:
        return found[0], found[1], knob.is_default
    return None, None, False


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
