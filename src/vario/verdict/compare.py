"""Two runs or more beside each other: settings that differ, where metrics part, and what each is worth at equal cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vario.instruments.kl import TO_REFERENCE
from vario.run import Floats, Run, Series, Setting
from vario.stats.departure import departure
from vario.stats.shape import shape_of
from vario.stats.spread import running_median, thin
from vario.verdict.diagnosis import Diagnosis
from vario.verdict.ladder import Branch, Evidence, Rung, branch_of

AXES = ("steps", "samples", "KL")
POINTS = 240
"""Places at which two runs are compared: no more than a look reads."""
KL_PLACES = 5
CLOCKS = ("systems/tokens", "systems/wall-clock", "learning-rate")
SCORES = ("reward/mean", "eval/score/mean", "preference/margin")
NAMES = ("path", "output_dir", "run_name", "logging_dir", "experiment_name", "trial_name", "name")
"""Settings that name a run and do not make it."""
SECRET = re.compile(r"(^|_)(token|secret|password|key|credentials?)$")
"""Names of settings that are nobody's business."""
RISES = ("rising", "slowing", "plateau", "peaked", "saturated")
"""Trajectories of a reward that has risen; a plateau counts where it did so."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A metric of one run that stays apart from the first run's from `at` on, with both levels at the end."""

    metric: str
    run: int
    axis: str
    at: float
    first: float
    other: float


@dataclass(frozen=True, slots=True)
class AtEqualKl:
    """A score of every run where each had spent the same KL; None where a run never did."""

    kl: float
    score: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first run is the one that the others are held against.

    `settings` are those that differ; `branch` is the ladder's, where the first run does not rise and there is one other.
    """

    diagnoses: tuple[Diagnosis, ...]
    settings: Mapping[str, tuple[Setting, ...]]
    departures: tuple[Departure, ...]
    equal_kl: tuple[AtEqualKl, ...]
    branch: Branch | None
    notes: tuple[str, ...]


def compare(diagnoses: Sequence[Diagnosis]) -> Comparison:
    """Compare diagnosed runs, the first one with each of the others."""
    runs = [d.run for d in diagnoses]
    departures: list[Departure] = []
    notes = []
    for axis in AXES:
        stood = [places(run, axis) for run in runs]
        missing = [str(i + 1) for i, p in enumerate(stood) if p is None]
        if missing:
            why = "logs none that moved" if axis == "KL" else "does not log it"
            notes.append(f"at equal {axis}: run {', '.join(missing)} {why}")
            continue
        kinds = sorted({p.key for p in stood if p is not None})
        if len(kinds) > 1:
            notes.append(f"at equal {axis}: some log {kinds[0]} and others {kinds[1]}, which cannot be compared")
            continue
        for i in range(1, len(runs)):
            departures += _departures(runs[0], runs[i], i, axis, stood[0], stood[i])
    notes += [
        f"run {i + 1} logs no metric that run 1 does ({runs[0].algorithm} and {run.algorithm}): nothing could be compared"
        for i, run in enumerate(runs)
        if i and not runs[0].series.keys() & run.series.keys()
    ]
    return Comparison(
        tuple(diagnoses), _settings(runs), tuple(departures), tuple(_equal_kl(runs)), _branch(diagnoses), tuple(notes)
    )


def _settings(runs: Sequence[Run]) -> dict[str, tuple[Setting, ...]]:
    keys = dict.fromkeys(key for run in runs for key in run.config)
    found = {}
    for key in keys:
        values = tuple(run.config.get(key) for run in runs)
        last = key.rpartition(".")[2]
        if len({repr(v) for v in values}) > 1 and last not in NAMES and not SECRET.search(last.lower()):
            found[key] = values
    return found


def places(run: Run, axis: str) -> Series | None:
    """Where a run stood, by step: the step itself, the samples seen, or the KL spent (which never comes back).

    None where the log does not say, or where its KL never moved.

    The key says what is counted: two runs are held against each other only where both count the same.
    """
    if axis == "steps":
        steps = run.logged_steps
        return Series("step", steps, steps.astype(np.float64))
    if axis == "samples":
        batch = run.declared.batch_completions
        if batch:
            return Series("completions", run.logged_steps, (run.logged_steps * batch).astype(np.float64))
        tokens = run.series.get("systems/tokens")
        return None if tokens is None else Series("tokens", *tokens.finite())
    name = next((n for n in TO_REFERENCE if len(run.series.get(n, ()))), None)
    if name is None:
        return None
    steps, values = run.series[name].finite()
    if values.size < 2 * POINTS // 10:
        return None
    # what one batch spiked to was not spent: the highest so far would keep it for ever
    smooth, size = thin(running_median(values), POINTS)
    moved = shape_of(smooth)
    if moved is None or not moved.moved:
        return None  # the highest so far of what only scatters is no place
    at = steps[steps.size - smooth.size * size :].reshape(-1, size)[:, -1]
    return Series(name, at, np.maximum.accumulate(smooth).astype(np.float64))


def placed(series: Series, stood: Series) -> tuple[Floats, Floats]:
    """Where a run stood at each of a metric's points, and the values there."""
    steps, values = series.finite()
    known = (steps >= stood.steps[0]) & (steps <= stood.steps[-1])
    where = np.interp(steps[known].astype(np.float64), stood.steps.astype(np.float64), stood.values)
    return np.asarray(where), values[known]


def _along(where: Floats, values: Floats, grid: Floats) -> Floats | None:
    """A metric at the places of a grid; None where too few of its points lie there."""
    half = float(grid[1] - grid[0]) / 2.0
    cell = np.searchsorted(np.linspace(grid[0] - half, grid[-1] + half, grid.size + 1), where, side="right") - 1
    here = (cell >= 0) & (cell < grid.size)
    counts = np.bincount(cell[here], minlength=grid.size)
    sums = np.bincount(cell[here], weights=values[here], minlength=grid.size)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    gaps = np.isnan(means)
    if gaps.mean() > 0.5:
        return None
    means[gaps] = np.interp(grid[gaps], grid[~gaps], means[~gaps])
    return np.asarray(means)


def _grid(a: Floats, b: Floats) -> Floats | None:
    """Even places where both runs were, no more than either has points there."""
    if min(a.size, b.size) < 2:
        return None
    low, high = max(float(a[0]), float(b[0])), min(float(a[-1]), float(b[-1]))
    if high <= low:
        return None
    fewest = min(int(((at >= low) & (at <= high)).sum()) for at in (a, b))
    return np.linspace(low, high, min(max(fewest, 2), POINTS))


def _departures(a: Run, b: Run, index: int, axis: str, at_a: Series | None, at_b: Series | None) -> list[Departure]:
    if at_a is None or at_b is None or not len(at_a) or not len(at_b):
        return []
    found = []
    for name in a.series:
        if name not in b.series or name.startswith(CLOCKS) or (axis == "KL" and name not in SCORES):
            continue
        (where_a, values_a), (where_b, values_b) = placed(a.series[name], at_a), placed(b.series[name], at_b)
        grid = _grid(where_a, where_b)
        if grid is None:
            continue
        first, other = _along(where_a, values_a, grid), _along(where_b, values_b, grid)
        if first is None or other is None:
            continue
        at = departure(first, other)
        if at is not None:
            edge = max(3, grid.size // 10)
            ends = (float(np.median(first[-edge:])), float(np.median(other[-edge:])))
            found.append(Departure(name, index, axis, float(grid[at]), *ends))
    return sorted(found, key=lambda d: d.at)


def _equal_kl(runs: Sequence[Run]) -> list[AtEqualKl]:
    stood = [places(run, "KL") for run in runs]
    known = [p for p in stood if p is not None and len(p)]
    if len({p.key for p in known}) > 1:
        return []  # a token's KL and a sequence's
    score = next((s for s in SCORES if all(s in run.series for run in runs)), None)
    if len(known) < 2 or len(known) < len(runs) or score is None:
        return []
    high = min(float(p.values[-1]) for p in known)
    low = max(float(p.values[0]) for p in known)
    if high <= low:
        return []
    made = []
    edges = np.linspace(low, high, KL_PLACES + 1)
    for left, right in pairwise(edges.tolist()):
        values = []
        for run, place in zip(runs, known, strict=True):
            steps, measured = run.series[score].finite()
            at = np.interp(steps.astype(np.float64), place.steps.astype(np.float64), place.values)
            here = measured[(at >= left) & (at <= right)]
            values.append(float(here.mean()) if here.size else None)
        made.append(AtEqualKl((left + right) / 2.0, score, tuple(values)))
    return made


def rises(diagnosis: Diagnosis) -> bool | None:
    """Whether the reward of a run has risen; None while that cannot be said."""
    word = diagnosis.verdict.trajectory
    if word == "too-short":
        return None
    reading = diagnosis.readings.get("reward/mean")
    if word == "plateau":
        return reading is not None and reading.direction == "up"
    return word in RISES


def _branch(diagnoses: Sequence[Diagnosis]) -> Branch | None:
    """The ladder's branch with the second run as the one on the test set; None where the first one rises."""
    if len(diagnoses) != 2 or any("reward/mean" not in d.run.series for d in diagnoses):
        return None
    train, test = rises(diagnoses[0]), rises(diagnoses[1])
    if train is not False:
        return None
    own = diagnoses[0].verdict.ladder
    if own is not None and own.rung is Rung.MEND_FIRST:
        return own
    return branch_of(Evidence(train, "", True, test, test is None))
