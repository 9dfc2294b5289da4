"""What a dialect is: the words of one framework, and when each of them holds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vario.run import Declared, KnobSetting, Series, Setting

Version = tuple[int, int]
OLDEST: Version = (0, 0)
NEWEST: Version = (999, 0)


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

    A key that ends in a group `(?P<part>…)` is a pattern, and `metric` then holds a `*`.
    """

    key: str
    metric: str
    algorithms: tuple[str, ...] = ()
    when: Condition | None = None
    zero_is_missing: bool = False

    def match(self, key: str) -> str | None:
        """The canonical name for `key`, or None."""
        if "(?P<" not in self.key:
            return self.metric if key == self.key else None
        found = re.fullmatch(self.key, key)
        return self.metric.replace("*", found["part"]) if found else None


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of one framework. `read` in this package applies it."""

    name: str
    recognises: Callable[[frozenset[str], Mapping[str, Setting]], bool]
    algorithm: Callable[[frozenset[str], Mapping[str, Setting]], str]
    aliases: Sequence[Alias]
    ignored: Sequence[str] = ()
    versions: Callable[[Context], tuple[Version, Version]] = lambda _: (OLDEST, NEWEST)
    declare: Callable[[Context, Mapping[str, Series]], Declared] = lambda _c, _s: Declared()
    knobs: Callable[[Context], Mapping[str, KnobSetting]] = lambda _: {}
    enable: Callable[[Context], Mapping[str, str]] = lambda _: {}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a dialect made of the keys."""

    series: Mapping[str, Series]
    unmapped: tuple[str, ...]
    unsettled: Mapping[str, str]
    repaired: Mapping[str, int] = field(default_factory=dict)


def canonical_key(key: str) -> str:
    """One spelling per key: no `train/` in front, `eval_` for `eval/`, no spaces around slashes."""
    key = re.sub(r"\s*/\s*", "/", key.strip())
    if key.startswith("train/") and not key.startswith("train/global_step"):
        key = key[len("train/") :]
    if key.startswith("eval/"):
        key = "eval_" + key[len("eval/") :]
    return key


def give_meaning(dialect: Dialect, context: Context) -> Meaning:
    """Apply the aliases. The first alias that holds wins; one that cannot be settled gives no metric."""
    series: dict[str, Series] = {}
    unmapped: list[str] = []
    unsettled: dict[str, str] = {}
    for key, values in context.series.items():
        known = any(re.fullmatch(pattern, key) for pattern in dialect.ignored)
        for alias in dialect.aliases:
            if alias.algorithms and context.algorithm not in alias.algorithms:
                continue
            metric = alias.match(key)
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
            if alias.zero_is_missing:
                keep = values.values != 0.0
                values = Series(key, values.steps[keep], values.values[keep])
            if metric not in series and len(values):
                series[metric] = values
            break
        if not known:
            unmapped.append(key)
    return Meaning(series, tuple(unmapped), unsettled)
