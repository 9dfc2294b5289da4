"""Each rule on the log of a real trainer: recorded as it was, or with a fault written into the trainer's own keys.

One file a family holds `REAL`, a tuple of `OnRealLog`. `tests/test_real_logs.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from tests.conftest import GOLDEN, ROOT, SHARED
from vario.run import Budget, Floats, Ints, Level, Run, Series, Setting
from vario.sources import _found, interpret
from vario.sources.rows import Table

Fault = Callable[[Floats, Ints], Floats]
"""New values of a key, from its values (its present ones, shape (n,)) and its steps."""

PLACES = {
    "golden": GOLDEN,
    "lab": SHARED / "lab" / "runs",
    "corpus": SHARED / "corpus" / "runs",
    "logs": ROOT / "tests" / "sources" / "logs",
}
"""`golden`: recorded here; `lab` and `corpus`: labelled runs beside the checkout; `logs`: excerpts and synthetic files."""


@dataclass(frozen=True)
class OnRealLog:
    """What one rule says at the end of one log.

    Attributes:
        rule: its name. says: `fires`, `clear` or `unknown`.
        log: `lab/healthy_grpo-s0`, `corpus/<run>` or `golden/<run>`: the place and the run.
        how: `recorded`, `provoked` (the run was made to fail so) or `injected`.
        why: what this log shows, in one sentence.
        faults: the trainer's own key -> its new values; a new key takes the steps of `beside`.
        beside: the key whose steps a new key takes.
        config: settings that stand in the trainer's configuration instead of, or beside, its own.
        until: the step at which it is judged; the last one where it is None.
        mapping, budgets, baseline, reference: what the user declares.
    """

    rule: str
    says: str
    log: str
    how: str
    why: str
    faults: Mapping[str, Fault] = field(default_factory=dict)
    beside: str = "loss"
    config: Mapping[str, Setting] = field(default_factory=dict)
    until: int | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    baseline: Mapping[str, Level] = field(default_factory=dict)
    reference: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where the log lies."""
        place, _, run = self.log.partition("/")
        path = PLACES[place] / run
        return path / "raw" if place == "corpus" else path

    def read(self) -> Run:
        """The run as vario reads it, with the faults in."""
        table = _Injected.of(_table(self.path), self)
        run = interpret(table, self.mapping)
        declared = replace(run.declared, baseline=dict(self.baseline), reference=dict(self.reference))
        run = replace(run, budgets=self.budgets, declared=declared)
        return run if self.until is None else run.until(self.until)


@cache
def _table(path: Path) -> Table:
    return _found(path, None)[0][1]()


class _Injected(Table):
    """A table whose series hold the faults; everything else is the log's."""

    case: OnRealLog

    @classmethod
    def of(cls, table: Table, case: OnRealLog) -> _Injected:
        made = cls(table.path, table.kind)
        for part in fields(Table):
            setattr(made, part.name, getattr(table, part.name))
        made.config = dict(table.config) | dict(case.config)
        made.warnings = list(table.warnings)
        made.case = case
        return made

    def series(self) -> dict[str, Series]:
        found = super().series()
        for key, fault in self.case.faults.items():
            old = found.get(key)
            if old is None:
                near = found[self.case.beside]
                old = replace(near, key=key, values=np.full(len(near), np.nan))
            found[key] = replace(old, values=np.asarray(fault(old.values.copy(), old.steps), dtype=np.float64))
        return found


def after(step: int, change: Callable[[Floats], Floats]) -> Fault:
    """Change the values from `step` on."""

    def fault(values: Floats, steps: Ints) -> Floats:
        here = steps >= step
        values[here] = change(values[here])
        return values

    return fault


def drawn(level: Callable[[Floats], Floats], noise: float, *, memory: float = 0.5, seed: int = 0) -> Fault:
    """A key that this trainer could have logged: `level` of the share of the run that is over (0 to 1), with AR(1) noise."""

    def fault(values: Floats, steps: Ints) -> Floats:
        draws = noise * np.random.default_rng(seed).standard_normal(values.size)
        for i in range(1, draws.size):
            draws[i] = memory * draws[i - 1] + np.sqrt(1.0 - memory**2) * draws[i]
        span = max(int(steps[-1]) - int(steps[0]), 1) if steps.size else 1
        return level((steps - steps[0]) / span) + draws

    return fault
