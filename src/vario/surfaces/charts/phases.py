"""KL against reward: the regime along the run as a strip, and the path through the plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vario.rules.base import number
from vario.run import Floats, Ints
from vario.surfaces.charts.chart import apart, range_of
from vario.surfaces.charts.look import OF_REGIME
from vario.surfaces.charts.plot import escape
from vario.surfaces.charts.trend import smoothed, thinned
from vario.surfaces.sentences import regime
from vario.verdict import Diagnosis
from vario.verdict.phases import Phase

ACROSS, DOWN = 1000.0, 100.0
KL, SCORES = "kl/reference", ("reward/mean", "preference/margin")
POINTS = 160
PARTS = 8
"""Parts of the path, from pale to full: when it went where."""
SIGNS = {"up": "↗", "flat": "→", "down": "↘"}
"""What the reward did, for those who see no colours."""
NARROWEST = 3.0
"""Percent of the strip that a sign needs."""
ROWS = 20
"""Rows of the table that says what the plane shows."""


def meaning(phase: Phase) -> str:
    """The name of the colour that the phase is drawn in."""
    return OF_REGIME[phase.regime.rpartition("-")[2]]


@dataclass(frozen=True, slots=True)
class Strip:
    """The phases of a run in a row: for each its place and width in percent of the run; and the run's first and last step."""

    parts: tuple[tuple[Phase, float, float], ...]
    span: tuple[int, int] = (0, 0)

    def svg(self) -> str:
        """As an `<svg>` element: KL is the height of a bar, the reward its colour."""
        told = "; ".join(f"{regime(p)}, steps {p.first} to {p.last}" for p, _, _ in self.parts)
        bars = "".join(
            f'<rect class="phase {meaning(p)}" x="{at:.2f}%" y="{_top(p)}%" width="{wide:.2f}%" height="{100 - _top(p)}%">'
            f"<title>{escape(regime(p))}, steps {p.first} to {p.last}</title></rect>"
            for p, at, wide in self.parts
        )
        signs = "".join(
            f'<text class="phase-sign" x="{at + wide / 2:.2f}%" y="85%">{SIGNS[p.regime.rpartition("-")[2]]}</text>'
            for p, at, wide in self.parts
            if wide >= NARROWEST
        )
        return f'<svg class="strip" role="img" aria-label="Regime along the run: {escape(told)}." focusable="false">{bars}{signs}</svg>'


def _top(phase: Phase) -> int:
    return {"up": 0, "flat": 45, "down": 70}[phase.regime.split("-")[1]]


def strip_of(diagnosis: Diagnosis) -> Strip | None:
    """The strip; None where no phases could be told."""
    run, phases = diagnosis.run, diagnosis.verdict.phases
    if not phases or run.first_step is None or run.last_step is None:
        return None
    first, wide = run.first_step, max(run.last_step - run.first_step, 1)
    return Strip(
        tuple((p, 100.0 * (p.first - first) / wide, 100.0 * max(p.last - p.first, 1) / wide) for p in phases),
        (first, run.last_step),
    )


@dataclass(frozen=True, slots=True)
class Plane:
    """The way of a run through KL and reward, both smoothed: what each gain cost.

    Attributes:
        score: the metric that stands for what was gained.
        steps: shape (n,). kl, reward: shape (n,).
        best: index of the best checkpoint's place, None where there is none.
    """

    score: str
    steps: Ints
    kl: Floats
    reward: Floats
    best: int | None

    @property
    def ranges(self) -> tuple[float, float, float, float]:
        """Lowest and highest KL, lowest and highest reward; a constant stands in the middle."""
        across, up = range_of(KL, self.kl), range_of(self.score, self.reward)
        return across[0], across[1], up[0], up[1]

    @property
    def ends(self) -> tuple[str, str, str, str]:
        """The same in words."""
        r = self.ranges
        return (*apart(r[0], r[1]), *apart(r[2], r[3]))

    @property
    def sentence(self) -> str:
        """What the picture shows, for those who do not see it."""
        ends = ", ".join(
            f"at step {self.steps[i]} KL {number(float(self.kl[i]))} and reward {number(float(self.reward[i]))}"
            for i in sorted({0, self.steps.size // 2, self.steps.size - 1})
        )
        return f"The way through KL (to the right) and {self.score} (upwards): {ends}."

    def svg(self) -> str:
        """As an `<svg>` element that stretches to any size."""
        return (
            f'<svg class="plane" role="img" aria-label="{escape(self.sentence)}" focusable="false">'
            f'<svg viewBox="0 0 {ACROSS:.0f} {DOWN:.0f}" preserveAspectRatio="none" width="100%" height="100%">'
            f"{''.join(self._path())}</svg></svg>"
        )

    def rows(self) -> list[tuple[int, float, float]]:
        """Some places on the way: step, KL, reward."""
        kept = thinned(self.steps.size, ROWS).tolist()
        return [(int(self.steps[i]), float(self.kl[i]), float(self.reward[i])) for i in kept]

    def _path(self) -> Iterator[str]:
        low_kl, high_kl, low, high = self.ranges
        xs = np.clip((self.kl - low_kl) / (high_kl - low_kl) * ACROSS, 0.0, ACROSS).tolist()
        ys = np.clip((high - self.reward) / (high - low) * DOWN, 0.0, DOWN).tolist()
        edges = np.linspace(0, len(xs) - 1, PARTS + 1).astype(int).tolist()
        for part, (a, b) in enumerate(pairwise(edges), 1):
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs[a : b + 1], ys[a : b + 1], strict=True))
            yield f'<path class="way part-{part}" d="M{path}"/>'
        yield f'<path class="way-start dot" d="M{xs[0]:.1f} {ys[0]:.1f}h0"/>'
        yield f'<path class="way-end dot" d="M{xs[-1]:.1f} {ys[-1]:.1f}h0"/>'
        if self.best is not None:
            for kind in ("best", "heart"):
                yield f'<path class="way-{kind} dot" d="M{xs[self.best]:.1f} {ys[self.best]:.1f}h0"/>'


def plane_of(diagnosis: Diagnosis) -> Plane | None:
    """The plane; None without both metrics at the same steps."""
    run = diagnosis.run
    score = next((name for name in SCORES if name in run.series), None)
    if score is None or KL not in run.series:
        return None
    paid, got = run.series[KL].finite(), run.series[score].finite()
    steps, at, beside = np.intersect1d(paid[0], got[0], return_indices=True)
    if steps.size < 3:
        return None
    breaks = {c for name in (KL, score) if name in diagnosis.readings for c in diagnosis.readings[name].changes}
    kept = thinned(int(steps.size), POINTS)
    kl, reward = smoothed(steps, paid[1][at], breaks, kept), smoothed(steps, got[1][beside], breaks, kept)
    best = diagnosis.verdict.best_checkpoint
    return Plane(
        score,
        steps[kept],
        kl,
        reward,
        None if best is None else int(np.argmin(np.abs(steps[kept] - best.step))),
    )
