"""Error rates of the statistics on simulated series: the statistical rows of design.md section 8.

    python bench/error_rates.py [--seed 0] [--json FILE]

Noise is AR(1) with unit standard deviation throughout; every share comes with n and Wilson's
95 % interval. rldoctor's figures are those that design.md quotes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from shared import share, table

from vario.run import Floats
from vario.stats.shape import shape_of
from vario.stats.shifts import find_shifts, find_spikes
from vario.stats.trend import two_scale

PHIS = (0.0, 0.5, 0.9, 0.97)
PEER_TREND = {0.0: "5.7 %", 0.5: "24 %", 0.9: "64 %", 0.97: "81 %"}


def ar1(rng: np.random.Generator, n: int, phi: float) -> Floats:
    """Stationary AR(1) noise of unit standard deviation."""
    innovations = rng.standard_normal(n) * np.sqrt(1.0 - phi * phi)
    y = np.empty(n)
    y[0] = rng.standard_normal()
    for i in range(1, n):
        y[i] = phi * y[i - 1] + innovations[i]
    return y


def trends(rng: np.random.Generator, runs: int = 1000) -> list[tuple]:
    """False significant trends on flat series; bar 7 %."""
    rows = []
    for phi in PHIS:
        hits = sum((t := two_scale(ar1(rng, 200, phi))) is not None and t.p < 0.05 for _ in range(runs))
        rows.append((f"false trend, n 200, phi {phi:g}", share(hits, runs), "<= 7 %", PEER_TREND[phi]))
    return rows


def power(rng: np.random.Generator, runs: int = 200) -> list[tuple]:
    """Real slopes found: what the false-alarm bar costs."""
    rows = []
    for phi in PHIS:
        for rise in (2.0, 4.0):
            hits = 0
            for _ in range(runs):
                t = two_scale(ar1(rng, 200, phi) + np.linspace(0.0, rise, 200))
                hits += t is not None and t.rises()
            rows.append((f"trend found, rise {rise:g} sd, phi {phi:g}", share(hits, runs), "-", "-"))
    return rows


def cliffs(rng: np.random.Generator, runs: int = 200) -> list[tuple]:
    """Smooth exponential decay that is called a cliff; bar 5 %."""
    rows = []
    for n, share_tau, phi in ((200, 0.2, 0.0), (200, 0.2, 0.5), (200, 0.1, 0.5), (500, 0.2, 0.5)):
        shifted = collapsed = 0
        for _ in range(runs):
            y = 20.0 * np.exp(-np.arange(n) / (share_tau * n)) + ar1(rng, n, phi)
            shifted += bool(find_shifts(y))
            shape = shape_of(y)
            collapsed += shape is not None and shape.word == "collapsed"
        case = f"decay of 20 sd, n {n}, tau {share_tau:g} n, phi {phi:g}"
        rows.append((f"{case}: shift", share(shifted, runs), "<= 5 %", "100 %"))
        rows.append((f"{case}: collapsed", share(collapsed, runs), "<= 5 %", "-"))
    return rows


def shapes(rng: np.random.Generator, runs: int = 400) -> list[tuple]:
    """Rise-then-flat called plateau (bar 95 %), and what other known shapes and flat series are called."""
    rows = []
    n, phi = 150, 0.5
    t = np.linspace(0.0, 1.0, n)
    known = {
        "rise then flat (knee at half), 4 sd": ("plateau", 4.0 * np.minimum(t / 0.5, 1.0), "95 %"),
        "rise then flat (knee at third), 4 sd": ("plateau", 4.0 * np.minimum(t / 0.33, 1.0), "-"),
        "line, 4 sd": ("rising", 4.0 * t, "-"),
        "line, then a quarter of its slope": ("slowing", 4.0 * np.where(t < 0.5, t / 0.5, 1.0 + (t - 0.5) / 2.0), "-"),
        "rise then back to half, 4 sd": ("peaked", 4.0 * np.where(t < 0.5, t / 0.5, 1.0 - (t - 0.5)), "-"),
        "fall, 4 sd": ("declining", -4.0 * t, "-"),
    }
    for case, (word, clean, bar) in known.items():
        said: Counter[str] = Counter()
        for _ in range(runs):
            shape = shape_of(clean + ar1(rng, n, phi))
            said[shape.word if shape else "None"] += 1
        others = ", ".join(f"{w} {c}" for w, c in said.most_common() if w != word)
        rows.append((f"{case}: {word}", share(said[word], runs), bar, f"[{others}]" if others else ""))
    for m in (60, 200, 1000):
        for phi in PHIS:
            flat = Counter(s.word if (s := shape_of(ar1(rng, m, phi))) else "None" for _ in range(runs))
            others = ", ".join(f"{w} {c}" for w, c in flat.most_common() if w != "flat")
            rows.append(
                (
                    f"flat series, n {m}, phi {phi:g}: not flat",
                    share(runs - flat["flat"], runs),
                    "<= 7 %",
                    f"[{others}]",
                )
            )
    return rows


def shifts(rng: np.random.Generator, runs: int = 200) -> list[tuple]:
    """False alarms per 1,000 points by noise, and jumps that are found, with the delay."""
    rows = []
    noises = {f"AR(1) phi {phi:g}": (lambda n, phi=phi: ar1(rng, n, phi)) for phi in PHIS}
    noises["heavy tails (t, 3 df)"] = lambda n: rng.standard_t(3, n) / np.sqrt(3.0)
    noises["coarse (binomial, 16 of .5)"] = lambda n: rng.binomial(16, 0.5, n) / 2.0
    noises["lognormal, phi .5"] = lambda n: np.exp(ar1(rng, n, 0.5))
    noises["random walk of .1 sd, white noise"] = lambda n: (
        np.cumsum(0.1 * rng.standard_normal(n)) + rng.standard_normal(n)
    )
    for name, make in noises.items():
        series, length = 40, 1000
        alarms = sum(len(find_shifts(make(length))) for _ in range(series))
        rows.append(
            (f"false shifts per 1,000, {name}", f"{alarms / series:.3f} ({alarms} in {series * length})", "-", "-")
        )
    for name, make in noises.items():
        alarms = sum(len(find_spikes(2.0 + 0.3 * make(1000))) for _ in range(40))
        rows.append((f"false spikes per 1,000, {name}", f"{alarms / 40:.3f} ({alarms} in 40000)", "-", "-"))
    for phi in (0.0, 0.5, 0.9):
        for size in (3.0, 5.0):
            delays = []
            for _ in range(runs):
                y = ar1(rng, 200, phi)
                y[100:] -= size
                seen = [s.seen for s in find_shifts(y) if s.seen >= 100 and not s.up]
                if seen and seen[0] < 150:
                    delays.append(seen[0] - 100)
            median = f"median delay {statistics.median(delays):g} points" if delays else ""
            rows.append((f"jump of {size:g} sd found within 50, phi {phi:g}", share(len(delays), runs), "-", median))
    for times in (8.0, 15.0):
        found = 0
        for _ in range(runs):
            y = np.exp(0.2 * ar1(rng, 100, 0.3))
            y[60] *= times
            found += any(s.index == 60 for s in find_spikes(y))
        rows.append((f"spike of {times:g} times the level found", share(found, runs), "-", "-"))
    return rows


def main() -> int:
    """Print the table; the exit code is 0 whatever the rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    began = time.perf_counter()
    rows = [row for make in (trends, power, cliffs, shapes, shifts) for row in make(rng)]
    print(table(rows, ("measure", "share [95 % interval]", "bar", "peer, or what else was said")))
    print(f"\nseed {arguments.seed}, {time.perf_counter() - began:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
