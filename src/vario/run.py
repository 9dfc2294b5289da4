"""A run: canonical series, configuration, checkpoints and events. Immutable."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vario.errors import ConfigError
from vario.samples import Mark, Samples

if TYPE_CHECKING:
    import pandas
    import polars

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LARGEST = 1e150
"""Beyond it squares overflow: such a value is an accident, and is treated as not finite."""
Setting = bool | int | float | str | None
"""A configuration value as far as vario reads it; lists are kept as text."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One metric over the run.

    Attributes:
        key: the name under which the trainer logged it.
        steps: the run's own step numbers, ascending, shape (n,).
        values: shape (n,); NaN and infinities stand where the trainer logged them.
        counted: whether it was counted from completions, and not logged.
    """

    key: str
    steps: Ints
    values: Floats
    counted: bool = False

    def until(self, step: int) -> Series:
        """The part up to and including `step`, as a view."""
        end = int(np.searchsorted(self.steps, step, side="right"))
        return Series(self.key, self.steps[:end], self.values[:end], self.counted)

    def usable(self) -> NDArray[np.bool_]:
        """Which values are finite and small enough to be squared, shape (n,)."""
        return np.abs(self.values) < LARGEST  # False for NaN

    def finite(self) -> tuple[Ints, Floats]:
        """Steps and values without the non-finite ones."""
        ok = self.usable()
        if ok.all():
            return self.steps, self.values
        return self.steps[ok], self.values[ok]

    def __len__(self) -> int:
        return int(self.steps.size)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that lies on disk."""

    step: int
    path: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a step: a resume, a seam, a repeated stretch."""

    kind: str
    step: int
    text: str


@dataclass(frozen=True, slots=True)
class KnobSetting:
    """A knob as the run's framework calls it, and what it is set to.

    `current` is None when the configuration does not say; `is_default` marks a value taken
    from the framework's defaults, which is weaker evidence than a file of the run. `inverse`
    marks a key that counts the other way: a size of parts where the knob is their number.
    """

    knob: str
    key: str
    current: Setting
    is_default: bool = False
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound of the user's own on one metric: `most`, `least`, or both, in `unit` (None: the metric's own)."""

    metric: str
    most: float | None = None
    least: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """What a metric was in a run that serves as a measure: its level, the spread of single values, how many they were."""

    level: float
    spread: float
    points: int


@dataclass(frozen=True, slots=True)
class Declared:
    """What the dialect or the user knows of this run that no series says.

    Attributes:
        updates_per_rollout: optimiser updates made from one rollout batch; None if unknown.
        max_length: cap on completion length in tokens; None if unknown.
        kl_by_design: False when the configuration switches the reference KL off.
        component_weights: weight of each reward function, where it could be settled.
        steps_per_row: optimiser steps that one logged row averages over; None if unknown.
        batch_completions: completions per rollout batch; group_size: completions per prompt.
        step_unit: what a step of the log counts: `rollout` batches, `optimiser` updates, or `unknown`.
        reward_filtered: True when the logged reward is that of the groups a dynamic filter kept.
        reward_low, reward_high: bounds of the raw score.
        target: the held-out score (or the reward, where there is none) at which the user would stop.
        devices: accelerators that the run occupies; None if unknown.
        test_run_rises: whether the reward rose when the same recipe was trained on the test set; None if not tried.
        baseline: the model before RL, by metric (`vario baseline`).
        reference: range of each metric in a healthy run of the same recipe, (low, high).
    """

    updates_per_rollout: float | None = None
    max_length: float | None = None
    kl_by_design: bool | None = None
    component_weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    batch_completions: float | None = None
    group_size: float | None = None
    group_centred: bool | None = None
    steps_per_row: float | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    step_unit: str = "unknown"
    reward_filtered: bool | None = None
    target: float | None = None
    devices: float | None = None
    test_run_rises: bool | None = None
    baseline: Mapping[str, Level] = field(default_factory=lambda: MappingProxyType({}))
    reference: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """What was read of one training run.

    `run.until(step)` is the run as it stood then; nothing in it looks ahead. `unmapped` are keys
    that the dialect does not know, `unsettled` those whose meaning depends on what is not known
    (with the reason), `ignored` those that are known and carry no metric (with the reason). `budgets`
    are the user's own bounds; `patch` names how the framework's settings are written down. `samples` are
    the completions that were counted, as numbers; None where none lie beside the log; `dumps` are the places
    where they lie, `marks` what a person said of them; `how_to_sample` says how this framework writes them.
    """

    path: str
    framework: str
    algorithm: str
    series: Mapping[str, Series]
    logged_steps: Ints
    framework_version: str | None = None
    config: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    declared: Declared = field(default_factory=Declared)
    knobs: Mapping[str, KnobSetting] = field(default_factory=lambda: MappingProxyType({}))
    enable: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    checkpoints: tuple[Checkpoint, ...] = ()
    events: tuple[Event, ...] = ()
    unmapped: tuple[str, ...] = ()
    unsettled: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ignored: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ignored_lines: int = 0
    warnings: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
    patch: str = "overrides"
    samples: Samples | None = None
    dumps: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    how_to_sample: str = ""

    def missing(self) -> dict[str, str]:
        """Metrics that this framework could log and this run does not: how to log each."""
        return {name: how for name, how in self.enable.items() if name not in self.series and "*" not in name}

    @property
    def first_step(self) -> int | None:
        """First logged step, None for an empty run."""
        return int(self.logged_steps[0]) if self.logged_steps.size else None

    @property
    def last_step(self) -> int | None:
        """Last logged step, None for an empty run."""
        return int(self.logged_steps[-1]) if self.logged_steps.size else None

    def __repr__(self) -> str:
        steps = f"steps {self.first_step} to {self.last_step}" if self.logged_steps.size else "no row"
        return f"<Run {self.path!r}: {self.framework} {self.algorithm}, {steps}, {len(self.series)} metrics>"

    def until(self, step: int) -> Run:
        """The run as it stood at `step`: later rows, events and checkpoints are not there yet.

        Raises:
            TypeError: the step is no whole number: of a text every row would come before it.
        """
        step = operator.index(step)
        end = int(np.searchsorted(self.logged_steps, step, side="right"))
        cut = {name: part for name, s in self.series.items() if len(part := s.until(step))}
        return replace(
            self,
            series=MappingProxyType(cut),
            logged_steps=self.logged_steps[:end],
            checkpoints=tuple(c for c in self.checkpoints if c.step <= step),
            events=tuple(e for e in self.events if e.step <= step),
            samples=self.samples.until(step) if self.samples is not None else None,
            marks=tuple(m for m in self.marks if (m.step if m.known_at is None else m.known_at) <= step),
        )

    def components(self) -> tuple[str, ...]:
        """Names of the reward functions that have a logged mean, in order."""
        prefix, suffix = "reward/component/", "/mean"
        return tuple(n[len(prefix) : -len(suffix)] for n in self.series if n.startswith(prefix) and n.endswith(suffix))

    def to_pandas(self) -> pandas.DataFrame:
        """The series as a table: a row for each step of any series, ascending, indexed by `step`; a column a metric.

        Returns:
            Shape (steps, metrics), in the metrics' units; NaN where a metric was not logged, or was logged as NaN.

        Raises:
            ConfigError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ConfigError("to_pandas: needs `pip install 'vario[notebook]'` (pandas)") from error
        steps, columns = self._columns()
        return pandas.DataFrame(
            {name: values for name, (values, _) in columns.items()}, index=pandas.Index(steps, name="step")
        )

    def to_polars(self) -> polars.DataFrame:
        """The series as a table: a row for each step of any series, ascending, with `step` first; a column a metric.

        Returns:
            Shape (steps, 1 + metrics), in the metrics' units; null where a metric was not logged, NaN where it was
            logged as NaN.

        Raises:
            ConfigError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise ConfigError("to_polars: needs `pip install 'vario[parquet]'` (polars)") from error
        steps, columns = self._columns()
        made = [polars.Series("step", steps)]
        for name, (values, logged) in columns.items():
            made.append(polars.Series(name, values).set(polars.Series(~logged), None))
        return polars.DataFrame(made)

    def _columns(self) -> tuple[Ints, dict[str, tuple[Floats, NDArray[np.bool_]]]]:
        """Every step of any series, shape (n,), and for each metric its values there and where it was logged, (n,) each."""
        every = [series.steps for series in self.series.values()]
        steps = np.unique(np.concatenate(every)) if every else np.zeros(0, dtype=np.int64)
        made: dict[str, tuple[Floats, NDArray[np.bool_]]] = {}
        for name, series in self.series.items():
            values, logged = np.full(steps.size, np.nan), np.zeros(steps.size, dtype=np.bool_)
            at = np.searchsorted(steps, series.steps)
            values[at], logged[at] = series.values, True
            made[name] = values, logged
        return steps, made
