"""Logs that grow: rows as TRL logs them, written piece by piece, and what a watch and an offline diagnosis say of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import vario
from vario.run import Run
from vario.sources.growing import Growing
from vario.surfaces.live.followed import Followed
from vario.surfaces.live.watched import Polled, Source, WatchedRun
from vario.verdict import Diagnosis, Finding

Row = dict[str, float]


def rows(count: int, *, seed: int = 0, breaks: int | None = None, first: int = 1) -> list[Row]:
    """Rows of a run that learns; from row `breaks` on the reward is zero, as of a parser that stopped to match."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count + first, 6))
    made: list[Row] = []
    for i in range(first - 1, first - 1 + count):
        learnt = 1.0 - np.exp(-(i + 1) / 60)
        broken = breaks is not None and i + 1 >= breaks
        n = noise[i]
        made.append(
            {
                "loss": 0.02 * n[0],
                "reward": 0.0 if broken else float(np.clip(0.2 + 0.5 * learnt + 0.04 * n[1], 0, 1)),
                "reward_std": 0.0 if broken else float(0.3 + 0.03 * n[2]),
                "frac_reward_zero_std": 1.0 if broken else round(float(np.clip(0.2 + 0.08 * n[2], 0, 1)), 2),
                "kl": float(0.02 * learnt * np.exp(0.2 * n[3])),
                "entropy": float(0.8 - 0.2 * learnt + 0.02 * n[4]),
                "grad_norm": 0.001 if broken else float(0.5 * np.exp(0.2 * n[5])),
                "learning_rate": 1e-6,
                "completions/mean_length": float(180 + 4 * n[3]),
                "completions/clipped_ratio": 0.0,
                "step": i + 1,
            }
        )
    return made


BROKEN = rows(100, breaks=61)
"""A run whose reward breaks at row 61: `reward-function-broke` opens at the look at row 70."""


def lines(some: Iterable[Mapping[str, object]]) -> str:
    """JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in some)


def append(path: Path, text: str) -> None:
    """Write on, as a trainer does."""
    with path.open("a", encoding="utf-8") as log:
        log.write(text)


def read(path: str, name: str | None, growing: Growing | None) -> Run:
    """What a watch reads, without a project file."""
    return vario.read(path, run=name, growing=growing)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Last:
    """A source that says that no row will follow: the look at the last row is then taken, as offline."""

    def __init__(self, source: Source) -> None:
        self.name, self._source = source.name, source

    def poll(self) -> Polled:
        return replace(self._source.now() if isinstance(self._source, Followed) else self._source.poll(), ended=True)


def watched(path: Path, clock: Clock | None = None) -> WatchedRun:
    """A run under watch whose log lies there; its clock stands still unless one is given."""
    clock = clock or Clock()
    return WatchedRun(path.name, Followed(str(path), read, clock=clock), clock=clock)


def told(notices: Iterable[object]) -> list[str]:
    """Kind and subject of each notice."""
    return [f"{n.kind.value} {n.subject}" if n.finding or n.kind.value == "resolved" else n.kind.value for n in notices]  # type: ignore[attr-defined]


def at_the_end(run: WatchedRun) -> Diagnosis:
    """The diagnosis after the last row."""
    run.source = Last(run.source)
    run.look()
    assert run.diagnosis is not None
    return run.diagnosis


def findings(diagnosis: Diagnosis) -> list[tuple[object, ...]]:
    """All that a diagnosis says of its findings, symptoms included."""
    return list(_all(diagnosis.findings, 0))


def _all(some: Iterable[Finding], depth: int) -> Iterator[tuple[object, ...]]:
    for f in some:
        yield depth, f.name, f.severity, f.confidence, f.since, f.detected_at, f.until, f.evidence
        yield from _all(f.symptoms, depth + 1)


def same_as_offline(run: WatchedRun, path: Path | str, name: str | None = None) -> list[tuple[object, ...]]:
    """Assert that the watch says at its end what `vario diagnose` says of the finished log; gives the findings."""
    live, offline = findings(at_the_end(run)), findings(vario.diagnose(vario.read(path, run=name)))
    assert live == offline
    return live
