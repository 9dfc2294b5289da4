"""Learning signal: how much of the batch has any advantage at all. GRPO's primary instrument."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vario.catalogue.reward_words import pays_for_form
from vario.errors import NotReadable
from vario.instruments.reading import LEVEL_LEAST, Look, Reading
from vario.instruments.reward import Components
from vario.run import Floats, Ints
from vario.stats.spread import median


@dataclass(frozen=True)
class Signal:
    """Share of groups without spread, or the spread within groups."""

    zero_share: Reading | None
    within: Reading | None
    batch: Reading | None

    @classmethod
    def read(cls, look: Look) -> Signal:
        """Needs a share of dead groups, a within-group spread, or a batch spread that is zero."""
        zero = _share_of_tied(look)
        within = look.find("reward/std/within-group", least=5)
        batch = look.find("reward/std/batch", least=5)
        if zero is None and within is None and (batch is None or batch.level > 1e-6):
            raise NotReadable("signal/zero-variance-share", "reward/std/within-group")
        return cls(zero, within, batch)

    @property
    def dead_share(self) -> float | None:
        """Share of groups that carry no advantage, now; None where only spreads are known."""
        if self.zero_share is not None:
            return self.zero_share.level
        for reading in (self.within, self.batch):
            if reading is not None and reading.level <= 1e-6:
                return 1.0
        return None

    @property
    def reading(self) -> Reading:
        """The metric it was read from."""
        found = self.zero_share or self.within or self.batch
        assert found is not None
        return found


COUNTED_LEAST = 8
"""Steps with both shares that tell a log that misses ties."""
HIDDEN = 0.1
"""Share of the groups, as in metric-contradicts-samples: less leads to no other diagnosis."""
TINY = 0.05
"""A twentieth of the spread that the run began with: far below what telling right from wrong makes."""
UNSCALED = (False, "none", "batch", "centered", "centred", "mean")
"""Settings of `reward-scaling` that leave a group's advantages as small as its spread."""


def _share_of_tied(look: Look) -> Reading | None:
    """The share as logged, which has more points; as counted, where rounding hides ties from the log."""
    logged = look.find("signal/zero-variance-share", least=5)
    counted = look.find("samples/zero-variance-share", least=COUNTED_LEAST)
    if logged is None or counted is None:
        return logged
    _, a, b = np.intersect1d(logged.steps, counted.steps, return_indices=True)
    late = slice(-COUNTED_LEAST, None)
    hidden = counted.values[b][late] - logged.values[a][late]
    return counted if hidden.size == COUNTED_LEAST and median(hidden) > HIDDEN else logged


def _tied(look: Look) -> Reading | None:
    """Share of groups without spread: counted from the samples where it can be, since rounding hides ties from a log."""
    return look.find("samples/zero-variance-share", least=5) or look.find("signal/zero-variance-share", least=5)


@dataclass(frozen=True)
class TinySpread:
    """Spreads inside groups that are not zero and far below the usual one.

    Attributes:
        share: share of groups with such a spread, counted from the samples.
        zero_share: share of groups without any.
        steps, sizes: a bound on the spread of the groups that have one, by step: largest minus smallest
            reward, or the mean spread over the share of groups that have any; shape (n,), empty if unknown.
        bound_by: the metrics that the bound is made of.
        scaled: whether advantages are divided by the group's spread, as configured; None if unknown.
    """

    share: Reading | None
    zero_share: Reading | None
    advantage: Reading | None
    steps: Ints
    sizes: Floats
    bound_by: tuple[str, ...]
    scaled: bool | None

    @classmethod
    def read(cls, look: Look) -> TinySpread:
        """Needs the share, both ends of the rewards, or the spread with the share of groups without one."""
        share = look.find("signal/tiny-spread-share", least=5)
        zero = _tied(look)
        advantage = look.find("advantage/max", least=5)
        high, low = look.find("reward/max", least=5), look.find("reward/min", least=5)
        within = look.find("reward/std/within-group", least=5)
        steps, sizes, names = np.zeros(0, dtype=np.int64), np.zeros(0), tuple[str, ...]()
        if high is not None and low is not None:
            steps, a, b = np.intersect1d(high.steps, low.steps, return_indices=True)
            sizes, names = high.values[a] - low.values[b], (high.name, low.name)
        elif within is not None and zero is not None:
            steps, a, b = np.intersect1d(within.steps, zero.steps, return_indices=True)
            # the mean over all groups is small where few have a spread, however large theirs is
            sizes = within.values[a] / np.maximum(1.0 - zero.values[b], 1e-9)
            names = (within.name, zero.name)
        if share is None and steps.size < 2 * LEVEL_LEAST:
            raise NotReadable("signal/tiny-spread-share")
        scaled: bool | None = None
        run = look.history.run
        knob = run.knobs.get("reward-scaling")
        if run.declared.group_centred is False:
            scaled = False
        elif knob is not None and knob.current is not None:
            said = knob.current.lower() if isinstance(knob.current, str) else knob.current
            scaled = (said in UNSCALED) == ("no_" in knob.key)  # `no_std_norm=False` divides
        return cls(share, zero, advantage, steps, sizes, names, scaled)

    @property
    def start(self) -> float:
        """The bound on the spread in the first tenth of the run; 0 if unknown."""
        return median(self.sizes[: self._edge]) if self.sizes.size else 0.0

    @property
    def now(self) -> float:
        """The bound on the spread in the last tenth of the run; 0 if unknown."""
        return median(self.sizes[-self._edge :]) if self.sizes.size else 0.0

    @property
    def since(self) -> int | None:
        """First step of the last stretch with a tiny bound."""
        large = np.flatnonzero(self.sizes >= TINY * self.start)
        first = int(large[-1]) + 1 if large.size else 0
        return int(self.steps[first]) if first < self.steps.size else None

    @property
    def _edge(self) -> int:
        return max(LEVEL_LEAST, self.sizes.size // 10)


@dataclass(frozen=True)
class Shaping:
    """What still differs in groups in which the task itself is failed by all.

    Attributes:
        share: share of groups in which only the shaping differs, counted from the samples.
        tasks, forms: weighted or witnessing reward functions that pay for the task, and weighted ones that pay
            for the form, by their names.
    """

    share: Reading | None
    zero_share: Reading | None
    components: Components | None
    tasks: tuple[str, ...]
    forms: tuple[str, ...]

    @classmethod
    def read(cls, look: Look) -> Shaping:
        """Needs the share, or the reward functions apart."""
        share = look.find("signal/shaping-only-share", least=5)
        found = look.instrument(Components)
        components = found if isinstance(found, Components) else None
        if share is None and components is None:
            raise NotReadable("signal/shaping-only-share")
        tasks = forms = tuple[str, ...]()
        if components is not None:
            forms = tuple(n for n in components.weighted if pays_for_form(n))
            tasks = tuple(n for n in components.means if not pays_for_form(n))
        return cls(share, _tied(look), components, tasks, forms)

    def failed_since(self, name: str) -> int | None:
        """First step from which a reward function has been 0 for every completion until now; None if it is not so."""
        assert self.components is not None
        mean, std = self.components.means[name], self.components.stds.get(name)
        if float(mean.values[-1]) != 0.0 or (std is not None and float(std.values[-1]) != 0.0):
            return None
        return mean.constant_since

    def differs(self, name: str) -> bool:
        """Whether a reward function has told completions apart over the last tenth of the run."""
        assert self.components is not None
        mean, std = self.components.means[name], self.components.stds.get(name)
        return std.level > 1e-6 if std is not None else mean.constant_since is None
