"""Wall time and memory of the whole process `vario diagnose`, beside rldoctor on the same file.

    python bench/speed.py [--steps 5000 20000] [--metrics 60] [--repeats 3] [--peer-limit 300] [--json FILE]

The log is a TRL-like `trainer_state.json` with realistic noise (AR(1), a learning curve, heavy
tails), made in a temporary folder. Bars: 1 s without the replay, 3 s with it, 250 MB; 20,000
steps at most 5 times the 5,000. The least time of the repeats counts, the most memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import peer_rldoctor
from shared import table

KNOWN = (
    "loss", "grad_norm", "learning_rate", "reward", "reward_std", "frac_reward_zero_std", "entropy", "kl",
    "completions/mean_length", "completions/min_length", "completions/max_length", "completions/clipped_ratio",
    "completions/mean_terminated_length", "completions/min_terminated_length", "completions/max_terminated_length",
    "clip_ratio/low_mean", "clip_ratio/low_min", "clip_ratio/high_mean", "clip_ratio/high_max", "clip_ratio/region_mean",
    "step_time", "num_tokens",
)  # fmt: skip
"""What TRL's GRPO logs; the other columns are reward functions, two a function, as it names them."""


def synthesise(folder: Path, steps: int, metrics: int, seed: int = 0) -> Path:
    """Write a trainer_state.json (and its config.json) of `steps` rows with `metrics` numbers each."""
    rng = np.random.default_rng(seed)
    pieces = [f"rewards/reward_{i // 2}/{'mean' if i % 2 == 0 else 'std'}" for i in range(metrics - len(KNOWN))]
    keys = [*KNOWN, *pieces][:metrics]
    phi = 0.5
    noise = rng.standard_normal((steps, len(keys)))
    for i in range(1, steps):
        noise[i] = phi * noise[i - 1] + np.sqrt(1.0 - phi * phi) * noise[i]
    at = np.arange(steps) / steps
    curve = 1.0 - np.exp(-at / 0.2)
    columns: dict[str, np.ndarray] = {}
    for j, key in enumerate(keys):
        if key in ("loss", "clip_ratio/low_min"):
            y = 0.02 * noise[:, j]
        elif key == "grad_norm":
            y = 0.8 * np.exp(0.3 * noise[:, j]) + 5.0 * (rng.random(steps) < 0.001)
        elif key == "learning_rate":
            y = 1e-6 * (1.0 - at)
        elif key == "kl":
            y = 0.05 * curve * np.exp(0.2 * noise[:, j])
        elif key == "entropy":
            y = (1.0 - 0.6 * curve) * np.exp(0.1 * noise[:, j])
        elif "length" in key:
            y = np.round(300.0 + 100.0 * curve + 20.0 * noise[:, j], 2)
        elif "clip" in key or key == "frac_reward_zero_std":
            y = np.clip(0.03 + 0.02 * noise[:, j], 0.0, 1.0)
        elif key == "num_tokens":
            y = np.cumsum(np.full(steps, 40_000.0))
        elif key == "step_time":
            y = 12.0 * np.exp(0.1 * noise[:, j])
        elif key.endswith("std"):
            y = np.abs(0.25 + 0.03 * noise[:, j])
        else:
            y = np.clip(0.3 + 0.4 * curve + 0.06 * noise[:, j], 0.0, 1.0)
        columns[key] = y
    names = list(columns)
    rows = [
        dict(zip(names, values, strict=True)) | {"epoch": (i + 1) / steps, "step": i + 1}
        for i, values in enumerate(np.column_stack(list(columns.values())).tolist())
    ]
    path = folder / "trainer_state.json"
    state = {"global_step": steps, "max_steps": steps, "epoch": 1.0, "log_history": rows}
    path.write_text(json.dumps(state, indent=2), "utf-8")
    settings = {
        "num_generations": 8,
        "beta": 0.04,
        "learning_rate": 1e-6,
        "max_completion_length": 1024,
        "output_dir": "out",
    }
    (folder / "config.json").write_text(json.dumps(settings), "utf-8")
    return path


def measure(command: list[str], limit: float) -> tuple[float, float, float, int | None]:
    """Wall and processor seconds, peak resident MB, exit code; the code is None past the limit.

    Linux counts the memory of the parent at the fork into the child's peak, so this process
    stays small: the log is made in another one.
    """
    began = time.perf_counter()
    with Path(os.devnull).open("wb") as null:
        process = subprocess.Popen(command, stdout=null, stderr=null)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - began > limit:
                process.kill()
                _, _, usage = os.wait4(process.pid, 0)
                status = None
                break
            time.sleep(0.005)
    seconds = time.perf_counter() - began
    process.returncode = 0  # reaped above, for its own memory and not that of all children so far
    processor = usage.ru_utime + usage.ru_stime
    return seconds, processor, usage.ru_maxrss / 1024.0, None if status is None else os.waitstatus_to_exitcode(status)


def main() -> int:
    """Print the table; the exit code is 0 whatever the speed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[5_000, 20_000])
    parser.add_argument("--metrics", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-limit", type=float, default=300.0, help="seconds before the peer is stopped")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    vario = [sys.executable, "-m", "vario.surfaces.cli", "diagnose"]
    rows: list[tuple] = []
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for steps in arguments.steps:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                path = pool.submit(synthesise, Path(folder), steps, arguments.metrics).result()
            size = path.stat().st_size / 1e6
            ways: list[tuple[str, list[str], float, float]] = [
                ("vario --no-replay", [*vario, str(path), "--format", "json", "--no-replay"], 1.0, 120.0),
                ("vario", [*vario, str(path), "--format", "json"], 3.0, 120.0),
                ("json.load alone", [sys.executable, "-c", f"import json; json.load(open({str(path)!r}))"], 0.0, 60.0),
            ]
            if Path(peer_rldoctor.PYTHON).exists():
                peer = str(Path(peer_rldoctor.PYTHON).parent / "rl-doctor")
                ways.append(
                    (peer_rldoctor.NAME, [peer, "diagnose", str(path), "--format", "json"], 0.0, arguments.peer_limit)
                )
            for name, command, bar, limit in ways:
                peer_or_io = bar == 0.0
                runs = [measure(command, limit) for _ in range(1 if peer_or_io else arguments.repeats)]
                seconds, processor, memory = min(r[0] for r in runs), min(r[1] for r in runs), max(r[2] for r in runs)
                code = runs[0][3]
                growth = f"{'> ' if code is None else ''}{seconds / first[name]:.1f}x" if name in first else ""
                first.setdefault(name, seconds)
                goal = "" if peer_or_io else f"{bar:g} s, 250 MB" if not growth else "5x"
                said = "stopped at the limit" if code is None else f"exit {code}"
                rows.append(
                    (
                        f"{steps:,} x {arguments.metrics} ({size:.0f} MB): {name}",
                        f"{seconds:.2f} s",
                        f"{processor:.2f} s",
                        f"{memory:.0f} MB",
                        growth,
                        goal,
                        said,
                    )
                )
    print(
        table(
            rows, ("diagnose, whole process", "wall", "processor", "peak RSS", f"of {arguments.steps[0]:,}", "bar", "")
        )
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
