"""Real runs under watch, which grow by some rows at each turn: what the terminal shows in these tests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

import numpy as np

import vario
from tests.conftest import GOLDEN
from vario.run import Run
from vario.samples import Samples
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.watched import Polled, WatchedRun

HOSTILE = "a\x1b[31mb\x1b]0;own\x07[red]c[/red]\u202ed\ne\u2028f[@click=app.quit]g[/]:bomb:"
"""Escapes, a title, markup, a turned direction, ends of lines, a link and a picture."""


@cache
def recorded(name: str) -> Run:
    """A recorded run of tests/golden."""
    return vario.read(GOLDEN / name)


@dataclass
class Growing:
    """A run that grows by so many rows whenever it is asked, and ends."""

    run: Run
    rows: int = 10
    name: str = "growing"
    count: int = 0
    troubles: tuple[str, ...] = ()

    def poll(self) -> Polled:
        self.count += self.rows
        steps = self.run.logged_steps
        if self.count >= steps.size:
            return Polled(self.run, troubles=self.troubles, ended=True)
        return Polled(self.run.until(int(steps[self.count - 1])), troubles=self.troubles)


@dataclass
class Nothing:
    """A place where nothing lies yet."""

    name: str = "nothing"

    def poll(self) -> Polled:
        return Polled(None)


@dataclass
class Lab:
    """A feed as the loop gives one: turns all its runs, and remembers what was acknowledged and read."""

    runs: list[WatchedRun]
    every: float = 0.05
    messages: list[str] = field(default_factory=list)
    history: list[Notice] = field(default_factory=list)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    turns: int = 0
    slow: float = 0.0
    errors: deque[Exception] = field(default_factory=deque)

    def turn(self) -> list[Notice]:
        self.turns += 1
        time.sleep(self.slow)
        if self.errors:
            raise self.errors.popleft()
        made = [notice for run in self.runs for notice in run.look()]
        for notice in made:
            if notice.kind is Kind.RESOLVED:
                self.reasons.get(notice.run, {}).pop(notice.subject, None)
        self.history += made
        return made

    def acknowledge(self, run: WatchedRun, subject: str, reason: str) -> None:
        self.reasons.setdefault(run.name, {})[subject] = reason

    def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        return self.reasons.get(run.name, {})

    def reviewed(self, run: WatchedRun) -> None:
        run.reviewed(run.run.last_step or 0 if run.run is not None else 0, time.time())


def watched(name: str, *, rows: int = 10, run: Run | None = None, troubles: tuple[str, ...] = ()) -> WatchedRun:
    """A recorded run of tests/golden under watch, under its own name or with another run under this one."""
    return WatchedRun(name, Growing(recorded(name) if run is None else run, rows, troubles=troubles))


def lab(*names: str, rows: int = 10, **more: object) -> Lab:
    """A feed of recorded runs."""
    return Lab([watched(name, rows=rows) for name in names], **more)  # type: ignore[arg-type]


def hostile(run: Run) -> Run:
    """The run with words in it that would drive a terminal, or be taken for markup."""
    series = {
        name.replace("correctness", HOSTILE.replace("/", "|")) if "correctness" in name else name: one
        for name, one in run.series.items()
    }
    return replace(
        run, path=f"/runs/{HOSTILE}", framework=HOSTILE, series=MappingProxyType(series), how_to_sample=HOSTILE, warnings=(HOSTILE,)
    )  # fmt: skip


def sampled(run: Run, a_step: int = 4) -> Run:
    """The run with completions at every tenth step."""
    steps = run.logged_steps[9::10]
    n = steps.size * a_step
    drawn = np.random.default_rng(0)
    measures = {
        "reward": drawn.permutation(n) / n,
        "size": drawn.normal(100.0, 5.0, n),
        "looped": np.zeros(n),
        "entropy": drawn.normal(4.0, 0.1, n),
    }
    numbers = np.tile(np.arange(a_step), steps.size)
    samples = Samples(
        ("completions",), np.repeat(steps, a_step), numbers.astype(np.int64), (numbers // 2).astype(np.uint64),
        MappingProxyType(measures), n,
    )  # fmt: skip
    return replace(run, samples=samples)
