"""Systems: step time and its phases, what generation takes of it, requests, memory, pace, and work beside the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading, worked_out
from vario.run import Floats, Ints, Series
from vario.stats.spread import median, robust_sd, running_median

PHASES = {
    "systems/rollout-time": "generation",
    "systems/wait-time": "waiting for samples",
    "systems/train-time": "the update",
    "systems/logprob-time": "recomputing log-probabilities",
    "systems/reward-time": "scoring",
    "systems/sync-time": "handing over weights",
}
"""Phases of every step, in words. Saving and evaluating come now and then: `OCCASIONAL`."""


@dataclass(frozen=True)
class StepTime:
    """Wall time of a step, and of those of its phases that are logged."""

    seconds: Reading
    phases: Mapping[str, Reading]

    @classmethod
    def read(cls, look: Look) -> StepTime:
        """Needs systems/step-time."""
        seconds = look.need("systems/step-time", least=10)
        found = {name: look.find(name, least=10) for name in PHASES}
        return cls(seconds, {name: phase for name, phase in found.items() if phase is not None})

    def grown(self, before: int, after: int) -> tuple[str, float, float] | None:
        """The phase that took most of an increase between two steps: its name, seconds before and after.

        None where no logged phase took as much as half of it.
        """
        whole = self.seconds.level_at(after) - self.seconds.level_at(before)
        each = [(p.level_at(after) - p.level_at(before), name) for name, p in self.phases.items()]
        most, name = max(each, default=(0.0, ""))
        if most < 0.5 * whole or most <= 0.0:
            return None
        return name, self.phases[name].level_at(before), self.phases[name].level_at(after)


TINY = 1e-6
"""Seconds or tokens that measure nothing; and no share of interest is larger than one in so many."""


def _part_of(part: Reading, whole: Reading, look: Look) -> Reading | None:
    """One time as a share of another, at the steps that have both; None where they have none in common."""
    steps, i, j = np.intersect1d(part.steps, whole.steps, assume_unique=True, return_indices=True)
    usable = whole.values[j] > TINY
    if not usable.any():
        return None
    below = whole.values[j][usable]
    shares = np.minimum(part.values[i][usable], below / TINY) / below
    return worked_out(part.name, Series(part.key, steps[usable], shares), look.step)


@dataclass(frozen=True)
class Generation:
    """What generation takes of the step: the wait for samples where that is logged, the phase itself elsewhere.

    `share` is worked out of `seconds` and `step`; `in_use` is the share of the step in which devices computed. Where samples are made beside the training only the wait for
    them costs anything, so the wait counts first.
    """

    share: Reading
    seconds: Reading
    step: Reading
    in_use: Reading | None

    @property
    def waits(self) -> bool:
        """Whether it is the wait of an asynchronous trainer."""
        return self.seconds.name == "systems/wait-time"

    @classmethod
    def read(cls, look: Look) -> Generation:
        """Needs systems/step-time, and systems/wait-time or systems/rollout-time."""
        seconds = look.find("systems/wait-time") or look.need("systems/rollout-time")
        step = look.need("systems/step-time")
        share = _part_of(seconds, step, look)
        if share is None:
            raise NotReadable(seconds.name, reason="never logged at the same step as the step time")
        if share.level > 1.05:
            raise NotReadable(
                "systems/wait-time", reason="generation runs beside the step, and the wait for it is not logged"
            )
        return cls(share, seconds, step, look.find("systems/device-use"))


@dataclass(frozen=True)
class Requests:
    """The slowest rollout against the mean one: by their times where those are logged, else by their lengths.

    `ratio` is slowest over mean. `share` is what generation takes of the step, None if unknown.
    """

    ratio: Reading
    slowest: Reading
    mean: Reading
    share: float | None
    cap: float | None

    @property
    def timed(self) -> bool:
        """Whether requests were timed; lengths stand in for times else."""
        return self.slowest.name.startswith("systems/")

    @property
    def idle(self) -> float:
        """Share of the engine's places that stand empty while the slowest is awaited, had all begun together."""
        return max(0.0, 1.0 - 1.0 / self.ratio.level) if self.ratio.level > 0.0 else 0.0

    @classmethod
    def read(cls, look: Look) -> Requests:
        """Needs the mean and the largest of systems/request-time or of length."""
        slowest = look.need("systems/request-time/max", "length/max", least=10)
        mean = look.need(slowest.name.replace("/max", "/mean"), least=10)
        ratio = _part_of(slowest, mean, look)
        if ratio is None:
            raise NotReadable(mean.name, reason="never logged at the same step as the largest")
        generation = look.instrument(Generation)
        share = generation.share.level if isinstance(generation, Generation) else None
        return cls(ratio, slowest, mean, share, look.history.run.declared.max_length)


@dataclass(frozen=True)
class Memory:
    """Device memory at the peak of the step: as a share of the device where that is logged, in GiB elsewhere."""

    peak: Reading

    @property
    def is_share(self) -> bool:
        """Whether the capacity is known: the peak is a share of it."""
        return self.peak.name == "systems/memory-share"

    def words(self, value: float) -> str:
        """A level in its unit."""
        return f"{100.0 * value:.3g} %" if self.is_share else f"{value:.3g} GiB"

    @classmethod
    def read(cls, look: Look) -> Memory:
        """Needs systems/memory-share or systems/memory."""
        return cls(look.need("systems/memory-share", "systems/memory", least=10))


@dataclass(frozen=True)
class Headroom:
    """How full the device is at the peak of the step, and at its emptiest moment, where that is logged."""

    peak: Reading
    low: Reading | None

    @property
    def elsewhere(self) -> float:
        """How much emptier it is at another moment of the step, as a share of the device; 0 where that is unknown."""
        return max(0.0, self.peak.level - self.low.level) if self.low is not None else 0.0

    @classmethod
    def read(cls, look: Look) -> Headroom:
        """Needs systems/memory-share."""
        return cls(look.need("systems/memory-share", least=10), look.find("systems/memory-share/low", least=10))


@dataclass(frozen=True)
class Stretch:
    """Seconds from the row before to each of these steps, shape (n,); `name` is the metric that says so."""

    name: str
    steps: Ints
    seconds: Floats


@dataclass(frozen=True)
class Pace:
    """How fast rows came: by the clock and by step times (`stretches`), and by tokens a second (`throughput`)."""

    stretches: tuple[Stretch, ...]
    throughput: Reading | None
    length: Reading | None
    resumed: tuple[int, ...]
    rows: int
    timed: Mapping[str, Reading]

    @classmethod
    def read(cls, look: Look) -> Pace:
        """Needs systems/step-time, systems/wall-clock or systems/throughput."""
        look.need("systems/step-time", "systems/wall-clock", "systems/throughput", least=20)
        found = []
        clock = look.find("systems/wall-clock", least=20)
        if clock is not None:
            found.append(Stretch(clock.name, clock.steps[1:], np.diff(clock.values)))
        step = look.find("systems/step-time", least=20)
        if step is not None:
            found.append(Stretch(step.name, step.steps, step.values))
        return cls(
            tuple(found),
            look.find("systems/throughput", least=20),
            look.find("length/mean", least=20),
            tuple(e.step for e in look.history.run.events if e.kind == "resume" and e.step <= look.step),
            look.rows,
            _timed(look),
        )

    def accounted(self, step: int) -> float:
        """Seconds that a logged save or evaluation took at this step."""
        total = 0.0
        for reading in self.timed.values():
            at = int(np.searchsorted(reading.steps, step))
            if at < reading.points and int(reading.steps[at]) == step:
                total += float(reading.values[at])
        return total


OCCASIONAL = {"systems/checkpoint-time": "checkpoint", "systems/eval-time": "evaluation"}
"""Work that comes every so many steps, by the metric that times it."""
RECENT_ROWS = 2000
"""So many rows are searched for periods: enough for every save interval, and the cost of a look stays bounded."""
NEIGHBOURS = 9
"""Rows around a step that say what is usual there: an odd number, more than twice what saves of every fourth row fill."""
SPIKE_SHARE = 0.2
"""A step that takes a fifth longer than its neighbours costs something (post-training-toolkit's stragglers: the same fifth)."""
SPIKE_SDS = 5.0


def _timed(look: Look) -> dict[str, Reading]:
    return {name: reading for name in OCCASIONAL if (reading := look.find(name)) is not None}


@dataclass(frozen=True)
class Occasion:
    """Work that comes every so many steps, and when it came. `timed`: how long it took is logged."""

    name: str
    steps: Ints
    timed: bool


@dataclass(frozen=True)
class Work:
    """Work beside the training that was seen or told of, and the steps in which it ran; `metric` is the one that times it."""

    name: str
    steps: Ints
    metric: str


@dataclass(frozen=True)
class Spell:
    """A stretch of rows in which a work ran without a break.

    Attributes:
        first: its first step. rows: how many there are.
        rise: by what share the values stand above those of the rows around it, on the side where these are higher.
        extra: what its rows add up to beyond as many of these.
        beside: rows before and behind it that it was compared with.
    """

    first: int
    rows: int
    rise: float
    extra: float
    beside: tuple[int, int]


BESIDE = 12
"""Rows on each side of a stretch that it is compared with: the nearest ones, so that a slow trend is no rise."""
LEAST_BESIDE = 4
MOST_PLACES = 60
"""Places outside a work at which stretches of the same length are tried: what chance does, at a bounded cost."""


@dataclass(frozen=True)
class Surplus:
    """By what share values stand above their neighbours, shape (n,); `usual` is what the neighbours say."""

    name: str
    steps: Ints
    share: Floats
    usual: Floats

    @cached_property
    def spikes(self) -> NDArray[np.bool_]:
        """Which stand out: by a fifth, and beyond the noise of the others."""
        return np.asarray(self.share > max(SPIKE_SHARE, SPIKE_SDS * robust_sd(self.share)))

    def at(self, steps: Ints) -> Floats:
        """The surplus at these steps, as far as they are there."""
        return self.share[np.isin(self.steps, steps)]

    @cached_property
    def values(self) -> Floats:
        """The metric itself, shape (n,), logged saves and evaluations taken off."""
        return np.asarray((1.0 + self.share) * self.usual)

    def inside(self, work: Work) -> NDArray[np.bool_]:
        """Which rows a work ran in, shape (n,)."""
        return np.isin(self.steps, work.steps)

    def spells(self, work: Work) -> list[Spell]:
        """The stretches of a work that have rows beside them to be compared with."""
        inside = self.inside(work)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False])).astype(np.int8)))
        outside = np.flatnonzero(~inside)
        made = (self._spell(i, j, outside) for i, j in edges.reshape(-1, 2).tolist())
        return [spell for spell in made if max(spell.beside) >= LEAST_BESIDE]

    def elsewhere(self, work: Work, rows: int) -> Floats:
        """How far as many rows in a row rise at places where the work did not run: what else raises them."""
        outside = np.flatnonzero(~self.inside(work))
        if outside.size < rows:
            return np.empty(0)
        starts = outside[: outside.size - rows + 1]
        whole = starts[outside[rows - 1 :] - starts == rows - 1]
        if not whole.size:
            return np.empty(0)
        # evenly over the run, but for a period that they could fall in with
        chosen = whole[np.unique(np.random.default_rng(whole.size).integers(whole.size, size=MOST_PLACES))]
        made = (self._spell(i, i + rows, outside[(outside < i) | (outside >= i + rows)]) for i in chosen.tolist())
        return np.array([spell.rise for spell in made if max(spell.beside) >= LEAST_BESIDE])

    def _spell(self, i: int, j: int, outside: NDArray[np.intp]) -> Spell:
        """Rows i to j against the nearest of the rows `outside`; the upper half counts: edges are hardly touched."""
        at = int(np.searchsorted(outside, i))
        before, behind = outside[max(0, at - BESIDE) : at], outside[at : at + BESIDE]
        upper = np.sort(self.values[i:j])[(j - i) // 2 :]
        # the higher of the two sides: what began before the work, or went on behind it, is not the work's
        sides = [median(self.values[side]) for side in (before, behind) if side.size >= min(LEAST_BESIDE, j - i)]
        usual = max(sides, default=0.0)
        rise = median(upper) / max(abs(usual), 1e-12) - 1.0
        extra = float(self.values[i:j].sum()) - (j - i) * usual
        return Spell(int(self.steps[i]), j - i, rise, extra, (int(before.size), int(behind.size)))


def _surplus(reading: Reading, logged: Mapping[str, Reading]) -> Surplus:
    """What a metric does above its neighbours, the logged saves and evaluations taken off.

    Taken off is what explains the surplus and no more: some trainers count a save in the step, others do not.
    """
    steps, values = reading.steps[-RECENT_ROWS:], reading.values[-RECENT_ROWS:]
    usual = running_median(values, NEIGHBOURS)
    spent = np.zeros(values.size)
    for part in logged.values():
        _, i, j = np.intersect1d(steps, part.steps, assume_unique=True, return_indices=True)
        spent[i] += part.values[j]
    left = values - np.minimum(spent, np.maximum(values - usual, 0.0))
    return Surplus(reading.name, steps, np.asarray(left / np.maximum(np.abs(usual), 1e-12) - 1.0), usual)


@dataclass(frozen=True)
class Background:
    """Work that comes every so many steps, and what step time and memory do there.

    Attributes:
        slower: step time above its neighbours, logged saves and evaluations taken off. fuller: memory likewise.
        longer: the longest completions (or the mean ones) above their neighbours.
        works: other work that was seen or told of, and when it ran.
        occasions: the saves and evaluations that the run tells of.
        generating: steps at which completions were made; fewer than the rows where a batch is used several times.
        reuse: updates made from one batch, None if unknown.
    """

    slower: Surplus | None
    fuller: Surplus | None
    longer: Surplus | None
    works: tuple[Work, ...]
    occasions: tuple[Occasion, ...]
    generating: Ints
    reuse: float | None

    @classmethod
    def read(cls, look: Look) -> Background:
        """Needs systems/step-time, systems/memory-share or systems/memory."""
        look.need("systems/step-time", "systems/memory-share", "systems/memory", least=30)
        timed = _timed(look)
        seconds = look.find("systems/step-time", least=30)
        memory = look.find("systems/memory-share", least=30) or look.find("systems/memory", least=30)
        length = look.find("length/max", least=30) or look.find("length/mean", least=30)
        made = [r.steps for name in ("systems/tokens", "length/mean") if (r := look.find(name, least=2)) is not None]
        return cls(
            _surplus(seconds, timed) if seconds is not None else None,
            _surplus(memory, {}) if memory is not None else None,
            _surplus(length, {}) if length is not None else None,
            tuple(_works(look)),
            tuple(_occasions(look, timed)),
            min(made, key=len, default=np.empty(0, dtype=np.int64)),
            look.history.run.declared.updates_per_rollout,
        )


RAN_SHARE = 0.1
"""Of the longest time in one row, from which on work ran in a row: some write next to nothing where it did not."""
BACKGROUND = "systems/background/"
"""Work beside the training: a metric for each, which times it."""


def _works(look: Look) -> Iterator[Work]:
    """Work beside the training by name, with the rows in which it ran."""
    for name in look.history.run.series:
        if name.startswith(BACKGROUND) and (reading := look.find(name)) is not None:
            longest = float(reading.values.max())
            if longest > 0.0:
                yield Work(name.split("/")[2], reading.steps[reading.values > RAN_SHARE * longest], name)


def _occasions(look: Look, timed: Mapping[str, Reading]) -> Iterator[Occasion]:
    """The saves and evaluations that the run tells of: timed ones, files, evaluated steps, the save period as set."""
    run = look.history.run
    for metric, name in OCCASIONAL.items():
        reading = timed.get(metric)
        if reading is not None:
            # some trainers write the phase at every step, as next to nothing where it did not run
            ran = reading.values > RAN_SHARE * float(reading.values.max())
            yield Occasion(name, reading.steps[ran], timed=True)
    if "systems/checkpoint-time" not in timed:
        saved = sorted({c.step for c in run.checkpoints if c.step <= look.step})
        period = run.knobs.get("save-steps")
        if not saved and period is not None and not period.is_default and isinstance(period.current, int | float):
            saved = list(range(int(period.current), look.step + 1, int(period.current))) if period.current >= 1 else []
        if saved:
            yield Occasion("checkpoint", np.array(saved, dtype=np.int64), timed=False)
    if "systems/eval-time" not in timed:
        held_out = [s.steps for name, s in run.series.items() if name.startswith("eval/") and len(s)]
        if held_out:
            steps = np.unique(np.concatenate(held_out))
            yield Occasion("evaluation", steps[steps <= look.step], timed=False)
