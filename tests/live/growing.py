"""A recorded run that grows again, a few rows at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vario.run import Declared, Run, Series
from vario.surfaces.live.watched import Polled


class Growing:
    """A source that gives so many more rows at each poll, and ends with the last."""

    def __init__(self, run: Run, rows: int = 10, name: str = "run") -> None:
        self.name = name
        self.run = run
        self.rows = rows
        self.count = 0

    def poll(self) -> Polled:
        self.count += self.rows
        steps = self.run.logged_steps
        if self.count >= steps.size:
            return Polled(self.run, ended=True)
        return Polled(self.run.until(int(steps[self.count - 1])))


def made(series: Mapping[str, Sequence[float] | np.ndarray], **more: object) -> Run:
    """A run of some series that are logged at each step from 1 on."""
    length = max(len(v) for v in series.values())
    steps = np.arange(1, length + 1, dtype=np.int64)
    columns = {
        name: Series(name, steps[: len(values)], np.asarray(values, dtype=np.float64))
        for name, values in series.items()
    }
    return Run("made", "generic", "grpo", MappingProxyType(columns), steps, declared=Declared(), **more)  # type: ignore[arg-type]


def breaking(steps: int = 200, at: int = 100, seed: int = 0) -> Run:
    """A reward that climbs and is nothing from a step on; KL creeps, the rest is quiet."""
    rng = np.random.default_rng(seed)
    climb = 0.2 + 0.5 * np.minimum(np.arange(steps) / (0.8 * steps), 1.0)
    reward = np.where(np.arange(steps) < at, climb + 0.03 * rng.normal(size=steps), 0.0)
    return made(
        {
            "reward/mean": reward,
            "signal/zero-variance-share": np.where(np.arange(steps) < at, 0.1 + 0.02 * rng.random(steps), 1.0),
            "kl/reference": 0.01 + 0.0001 * np.arange(steps) + 0.002 * rng.random(steps),
        }
    )
