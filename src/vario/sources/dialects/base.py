"""What a dialect is: the words of one framework, and when each of them holds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vario.run import Declared, Floats, KnobSetting, Series, Setting
from vario.sources.dialects.own_words import add_own, is_own

Version = tuple[int, int]
OLDEST: Version = (0, 0)
NEWEST: Version = (999, 0)


OWN_SAMPLES = "the reward function can write a line of JSON for each: step, prompt, completion, reward"
"""What one can do where a framework keeps no completions."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a run before its keys are given meaning.

    `oldest` and `newest` bound the framework's version, both inclusive.
    """

    keys: frozenset[str]
    config: Mapping[str, Setting]
    algorithm: str
    series: Mapping[str, Series]
    oldest: Version = OLDEST
    newest: Version = NEWEST
    files: frozenset[str] = frozenset()

    def between(self, since: Version = OLDEST, until: Version = NEWEST) -> bool | None:
        """Whether the version lies in [since, until]; None when the bounds leave it open."""
        if self.oldest >= since and self.newest <= until:
            return True
        if self.newest < since or self.oldest > until:
            return False
        return None

    def number(self, key: str) -> float | None:
        """A numeric setting; None when it is absent, no number, or not finite."""
        value = self.config.get(key)
        return (
            float(value)
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            else None
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What a condition says of an alias: `holds` True, False, or None with the reason."""

    holds: bool | None
    why: str = ""


Condition = Callable[[Context, Series], Settled]


@dataclass(frozen=True, slots=True)
class Alias:
    """`key` means `metric`, in these algorithms, where `when` holds.

    A key that holds a group `(?P<part>…)` is a pattern, and `metric` then holds a `*`.
    `transform` brings the logged values into the metric's unit (percent to share, a solved share
    to an unsolved one); `zero_is_missing` marks keys whose 0 is written when nothing was measured.
    """

    key: str
    metric: str
    algorithms: tuple[str, ...] = ()
    when: Condition | None = None
    zero_is_missing: bool = False
    transform: Callable[[Floats], Floats] | None = None

    def match(self, key: str) -> str | None:
        """The canonical name for `key`, or None."""
        if "(?P<" not in self.key:
            return self.metric if key == self.key else None
        found = re.fullmatch(self.key, key)
        return self.metric.replace("*", found["part"]) if found else None


@dataclass(frozen=True, slots=True)
class Axis:
    """Keys under `prefix` are counted by their own step, logged beside them as `key`."""

    prefix: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The words of one framework. `interpret` in this package applies it.

    Attributes:
        recognises: whether keys (as `spell` gives them) and settings are this framework's.
        algorithm: which algorithm the log is of.
        aliases: what each key means; the first that holds wins, for a metric the first key wins.
        ignored: patterns of keys that carry no metric, each with the reason.
        spell: one spelling for a key that sinks prefix or rewrite.
        versions: bounds of the framework's version, from keys and settings.
        declare: what configuration and keys say that no series does.
        derive: metrics that take several keys together.
        knobs: the framework's own names and values for the canonical knobs.
        enable: how each metric that could be missing would be logged.
        axes: groups of keys that are counted by a step of their own.
        patch: how a setting is written so that it can be pasted (`vario.verdict.patch` knows the ways).
        devices: settings whose product is the number of accelerators; the first complete line counts.
        samples: how completions are written to a file, so that groups, lengths and texts can be judged.
    """

    name: str
    recognises: Callable[[frozenset[str], Mapping[str, Setting]], bool]
    algorithm: Callable[[frozenset[str], Mapping[str, Setting]], str]
    aliases: Sequence[Alias]
    ignored: Mapping[str, str] = field(default_factory=dict)
    spell: Callable[[str], str] = str
    versions: Callable[[Context], tuple[Version, Version]] = lambda _: (OLDEST, NEWEST)
    declare: Callable[[Context, Mapping[str, Series]], Declared] = lambda _c, _s: Declared()
    derive: Callable[[Context], Mapping[str, Series]] = lambda _: {}
    knobs: Callable[[Context], Mapping[str, KnobSetting]] = lambda _: {}
    enable: Callable[[Context], Mapping[str, str]] = lambda _: {}
    axes: Sequence[Axis] = ()
    patch: str = "overrides"
    devices: Sequence[tuple[str, ...]] = ()
    samples: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a dialect made of the keys."""

    series: Mapping[str, Series]
    unmapped: tuple[str, ...]
    unsettled: Mapping[str, str]
    ignored: Mapping[str, str] = field(default_factory=dict)


def hugging_face_spelling(key: str) -> str:
    """The Trainer's sinks prefix keys: no `train/` in front, `eval_` for `eval/`, no spaces around slashes."""
    key = re.sub(r"\s*/\s*", "/", key.strip())
    if key.startswith("train/") and not key.startswith("train/global_step"):
        key = key[len("train/") :]
    if key.startswith("eval/"):
        key = "eval_" + key[len("eval/") :]
    return key


def one_minus(values: Floats) -> Floats:
    """A share of the other kind."""
    return 1.0 - values


def percent(values: Floats) -> Floats:
    """Percent as a share."""
    return values / 100.0


def knobs_from(context: Context, table: Mapping[str, tuple[str, Setting]]) -> dict[str, KnobSetting]:
    """Knob settings of this run from `{knob: (key, default)}`; a default is marked as one."""
    return {
        knob: KnobSetting(knob, key, context.config.get(key, default), is_default=key not in context.config)
        for knob, (key, default) in table.items()
    }


PART_SIZE = re.compile(r"(^|[._])batch_size$")


def with_part_sizes(knobs: Mapping[str, KnobSetting]) -> dict[str, KnobSetting]:
    """Mark keys that count the other way: `minibatches` set by the size of each, a decoupled loss by its bypass."""
    return {
        name: replace(knob, inverse=True)
        if (name == "minibatches" and PART_SIZE.search(knob.key))
        or (name == "decoupled-loss" and knob.key.endswith("bypass_mode"))
        else knob
        for name, knob in knobs.items()
    }


TRACKER = (
    # W&B's own samples of the devices, reduced over the time of a row
    Alias("system/gpu/memoryAllocated/max", "systems/memory-share", transform=percent),
    Alias("system/gpu/memoryAllocated/min", "systems/memory-share/low", transform=percent),
    Alias("system/gpu/powerWatts/max", "systems/power/max"),
    Alias("system/gpu/powerWatts/min", "systems/power/min"),
    Alias("system/gpu/gpu/mean", "systems/device-use", transform=percent),
)
"""What a tracker logs by itself, whatever the framework."""
CLOCKS = ("_timestamp", "timestamp", "time")
"""Where trackers and trainers put the time of day of a row, the surest first."""
EPOCH_SECONDS = (1e9, 1e11)
"""Seconds since 1970, from 2001 on: `time` is a duration elsewhere, and milliseconds lie beyond."""


def wall_clock(series: Mapping[str, Series]) -> Series | None:
    """When each row was written: the same keys in every framework, told from durations by their size."""
    low, high = EPOCH_SECONDS
    for key in CLOCKS:
        found = series.get(key)
        if found is not None and len(found) and bool(((found.values > low) & (found.values < high)).all()):
            return found
    return None


def reason_to_ignore(dialect: Dialect, key: str) -> str | None:
    """Why the dialect reads no metric from `key`; None when it does not know the key."""
    return next((why for pattern, why in dialect.ignored.items() if re.fullmatch(pattern, key)), None)


def give_meaning(dialect: Dialect, context: Context, declared: Mapping[str, str] | None = None) -> Meaning:
    """Apply the aliases. The first alias that holds wins; one that cannot be settled gives no metric.

    `declared` is what the user says a key means: it stands before every alias.
    """
    declared = declared or {}
    found: dict[str, tuple[int, Series]] = {}
    unmapped: list[str] = []
    unsettled: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for key, values in context.series.items():
        if key in declared:
            found[declared[key]] = (-1, values)
            continue
        if is_own(values.key):
            continue
        why = reason_to_ignore(dialect, key)
        known, used = why is not None, False
        for rank, alias in enumerate((*dialect.aliases, *TRACKER)):
            if alias.algorithms and context.algorithm not in alias.algorithms:
                continue
            # a tracker's own keys are spelled as it writes them, in every framework
            metric = alias.match(key if rank < len(dialect.aliases) else values.key)
            if metric is None:
                continue
            known = True
            settled = alias.when(context, values) if alias.when else Settled(True)
            if settled.holds is None:
                unsettled[key] = settled.why
                continue
            if not settled.holds:
                if settled.why:
                    unsettled[key] = settled.why
                continue
            unsettled.pop(key, None)
            if alias.transform is not None:
                values = Series(values.key, values.steps, alias.transform(values.values))
            if alias.zero_is_missing:
                keep = values.values != 0.0
                values = Series(values.key, values.steps[keep], values.values[keep])
                if not len(values):
                    why = "0 at every step, which is written where nothing was measured"
                    break
            used = True
            if len(values) and (metric not in found or rank < found[metric][0]):
                found[metric] = (rank, values)
            break
        if not known:
            unmapped.append(key)
        elif why is not None and not used and key not in unsettled:
            ignored[key] = why
    series = {metric: values for metric, (_, values) in found.items()}
    for metric in [m for m in series if m.startswith("entropy/")]:
        _, finite = series[metric].finite()
        if finite.size and not finite.any():
            unsettled[series[metric].key] = (
                "the entropy is exactly 0 throughout, which no policy that samples has: not computed, or written for NaN"
            )
            del series[metric]
    for metric, values in dialect.derive(context).items():
        if len(values):
            series.setdefault(metric, values)
    ignored |= add_own(series, {key: values for key, values in context.series.items() if key not in declared})
    if "systems/wall-clock" not in series and (clock := wall_clock(context.series)) is not None:
        series["systems/wall-clock"] = clock
        unmapped = [key for key in unmapped if context.series[key] is not clock]
        ignored = {key: why for key, why in ignored.items() if context.series[key] is not clock}
    sets = [name for name in series if name.startswith("eval/set/") and name.endswith("/mean")]
    if "eval/score/mean" not in series and len(sets) == 1:
        series["eval/score/mean"] = series[sets[0]]
    elif "eval/score/mean" not in series and sets:
        for name in sets:
            unsettled[series[name].key] = (
                "one of several held-out sets, and they are not averaged: name the trained task's with --map eval/score/mean=KEY"
            )
    return Meaning(series, tuple(unmapped), unsettled, ignored)
