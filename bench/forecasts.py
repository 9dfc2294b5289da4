"""Coverage of the 80 % forecast: simulated saturating curves cut at 30, 50 and 70 %, and recorded runs.

    python bench/forecasts.py [--runs 200] [--seed 0] [--lab DIR] [--corpus DIR]

A simulated curve is Hill, exponential, power or logarithmic, with AR(1) noise; what the interval should hold is
the true level at a quarter more steps, and at twice the steps. On recorded runs it is the mean of the tenth of
the run around that step, whose own noise is not in the interval. Silent: the fit did not beat "no change".
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from error_rates import ar1
from shared import labels_of, raw_log, share, shared_folder, table

from vario.stats.forecast import forecast

CUTS = (0.3, 0.5, 0.7)
AHEAD = (0.25, 1.0)


def truth(rng: np.random.Generator, family: str, n: int) -> np.ndarray:
    """A noiseless curve of `2 n` steps that starts at .2 and gains about .5."""
    t = np.arange(1, 2 * n + 1) / n
    m = rng.uniform(0.1, 0.8)
    gain = rng.uniform(0.3, 0.6)
    if family == "hill":
        g = 1.0 / (1.0 + (m / t) ** rng.uniform(1.0, 3.0))
    elif family == "exponential":
        g = 1.0 - np.exp(-t / m)
    elif family == "power":
        g = 1.0 - (1.0 + t / (0.3 * m)) ** -rng.uniform(0.4, 1.2)
    else:
        g = 0.25 * np.log1p(t / (0.1 * m))
    return np.asarray(0.2 + gain * g)


def simulated(runs: int, seed: int) -> list[tuple]:
    """Coverage by family, cut and horizon; silence counted apart."""
    rng = np.random.default_rng(seed)
    rows = []
    total: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for family in ("hill", "exponential", "power", "logarithmic"):
        for cut in CUTS:
            gains = 0
            held = dict.fromkeys(AHEAD, 0)
            said = dict.fromkeys(AHEAD, 0)
            silent, widths, errors = 0, [], []
            for _ in range(runs):
                n = int(rng.integers(150, 400))
                clean = truth(rng, family, n)
                noisy = clean[:n] + rng.choice([0.02, 0.05]) * ar1(rng, n, rng.choice([0.0, 0.5, 0.8]))
                seen = noisy[: round(cut * n)]
                for ahead in AHEAD:
                    made = forecast(seen, ahead)
                    at = min(round(seen.size * (1.0 + ahead)), clean.size) - 1
                    if made is None or made.skill <= 0.0:
                        silent += ahead == AHEAD[0]
                        continue
                    said[ahead] += 1
                    held[ahead] += made.low <= clean[at] <= made.high
                    if ahead == AHEAD[0]:
                        gains += made.gain_low <= clean[at] - clean[seen.size - 1] <= made.gain_high
                        widths.append(made.high - made.low)
                        errors.append(abs(made.expected - clean[at]))
            for ahead in AHEAD:
                total[ahead][0] += held[ahead]
                total[ahead][1] += said[ahead]
            rows.append(
                (
                    f"{family}, cut at {cut:.0%}",
                    share(held[0.25], said[0.25]),
                    share(held[1.0], said[1.0]),
                    share(gains, said[0.25]),
                    f"{np.median(errors):.3f}" if errors else "-",
                    f"{np.median(widths):.3f}" if widths else "-",
                    share(silent, runs),
                )
            )
    rows.append(("all", share(*total[0.25]), share(*total[1.0]), "", "", "", ""))
    return rows


def recorded(folders: dict[str, Path]) -> list[tuple]:
    """Coverage on recorded rewards, as it is: drops and second rises are not forecast, and count as misses."""
    import vario

    rows = []
    for name, folder in folders.items():
        held = said = silent = 0
        for run in labels_of(folder):
            path = raw_log(folder / run) if name == "corpus" else folder / run
            try:
                read = vario.read(path)
            except vario.errors.VarioError:
                continue
            series = read.series.get("reward/mean")
            if series is None:
                continue
            values = series.finite()[1]
            for cut in CUTS:
                count = round(cut * values.size)
                made = forecast(values[:count], 0.25) if count >= 30 else None
                if made is None:
                    continue
                if made.skill <= 0.0:
                    silent += 1
                    continue
                at, half = round(count * 1.25), max(2, count // 20)
                level = float(values[max(0, at - half) : at + half].mean())
                said += 1
                held += made.low <= level <= made.high
        rows.append((f"{name}: reward, a quarter ahead", share(held, said), "-", "-", "-", "-", share(silent, silent + said)))
    return rows


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lab", type=Path, default=shared_folder() / "lab" / "runs")
    parser.add_argument("--corpus", type=Path, default=shared_folder() / "corpus" / "runs")
    options = parser.parse_args()
    head = ("case", "a quarter more steps", "twice the steps", "gain, a quarter more", "median error", "median width", "silent")
    rows = simulated(options.runs, options.seed)
    places = {"lab": options.lab, "corpus": options.corpus}
    rows += recorded({name: folder for name, folder in places.items() if folder.is_dir()})
    print(table(rows, head))
    return 0


if __name__ == "__main__":
    sys.exit(main())
