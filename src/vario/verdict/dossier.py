"""The batch behind a spike or a jump: how that step's samples and metrics differ from its neighbours'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vario.run import Run, Series
from vario.stats.spread import median

JUMPS = frozenset(
    {"kl-spike", "kl-reset", "gradient-spike", "entropy-spike", "length-jumped", "signal-dropped-suddenly",
     "loss-discontinuity", "policy-loss-changed-sign", "reward-function-broke", "data-shift", "reward-collapsed",
     "unexplained-change"}
)  # fmt: skip
"""Findings that begin at one step, so that its batch can be asked what was special about it."""
OF_A_BATCH = ("text/", "samples/", "length/", "reward/", "signal/", "advantage/")
"""Metrics that describe what was sampled and how it was scored, and not what the optimiser did with it."""
NEIGHBOURS = 8
LEAST = 4
"""Sampled steps on the way to this one: fewer are no measure of what is usual."""
NOTABLE = 3.0
MOST = 5
FLOOR = 0.02
"""Of the usual size of a metric: a spread below it is rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of the batch, what it usually is, and how many of its usual spreads lie between."""

    metric: str
    here: float
    usual: float
    spreads: float


@dataclass(frozen=True, slots=True)
class Dossier:
    """What is special about the batch of a step.

    Attributes:
        step: the sampled step that was looked at; None without samples.
        differences: what differs most, the largest first.
        compared: metrics that were held against the steps before.
        text: the same in a sentence.
    """

    step: int | None
    differences: tuple[Difference, ...]
    compared: int
    text: str


def dossier(name: str, since: int | None, metrics: Iterable[str], run: Run) -> Dossier | None:
    """The dossier of a finding that begins at one step; None for any other.

    Args:
        name: of the rule. since: the step at which it begins. metrics: those of its evidence, left out of the comparison.
        run: with the samples' series, where there are samples.
    """
    if name not in JUMPS or since is None:
        return None
    if run.samples is None:
        how = f": {run.how_to_sample}" if run.how_to_sample else ""
        return Dossier(
            None, (), 0, f"what was in the batch of step {since} cannot be told without its completions{how}"
        )
    steps = np.unique(run.samples.steps)
    at = int(steps[np.argmin(np.abs(steps - since))]) if steps.size else since
    before = steps[steps <= max(at, since)]
    near = int(np.median(np.diff(before))) if before.size > 1 else 1
    if not steps.size or abs(at - since) > near:
        return Dossier(None, (), 0, f"no completion of step {since} or near it was written down")
    said = frozenset(metrics)
    found, compared = [], 0
    for metric, series in run.series.items():
        if metric in said or not metric.startswith(OF_A_BATCH) or metric.endswith("/se"):
            continue
        difference = _difference(metric, series, at)
        if difference is not None:
            compared += 1
            if difference.spreads >= NOTABLE:
                found.append(difference)
    found.sort(key=lambda d: -d.spreads)
    return Dossier(at, tuple(found[:MOST]), compared, _told(at, found, compared))


def _difference(metric: str, series: Series, at: int) -> Difference | None:
    steps, values = series.finite()
    here = values[steps == at]
    before = values[steps < at][-NEIGHBOURS:]
    if not here.size or before.size < LEAST:
        return None
    usual = median(before)
    scatter = 1.4826 * median(np.abs(before - usual))
    spread = max(scatter, FLOOR * abs(usual), float(before.std()) / 2.0, 1e-9)
    return Difference(metric, float(here[0]), usual, abs(float(here[0]) - usual) / spread)


def _told(at: int, found: list[Difference], compared: int) -> str:
    if not compared:
        return f"the batch of step {at} has no sampled steps before it to be held against"
    if not found:
        return (
            f"the batch of step {at} is like those before it in all {compared} measures of its samples: "
            "look at the update, not at the data"
        )
    parts = [f"{d.metric} {d.here:.3g} ({d.usual:.3g} before)" for d in found[:MOST]]
    return f"the batch of step {at} differs from those before it: {', '.join(parts)}"
