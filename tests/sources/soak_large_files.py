"""Time and peak memory of reading very large logs. Not collected: `python tests/sources/soak_large_files.py [MB]`.

Each format is read in a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READ = """
import resource, sys, time, vario
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
at = time.perf_counter()
run = vario.read(sys.argv[1])
read = time.perf_counter() - at
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
at = time.perf_counter()
vario.diagnose(run.until(run.logged_steps[2000]))
print(f"{run.logged_steps.size} rows, {len(run.series)} metrics: read {read:.0f} s, peak {peak / 1024:.0f} MB "
      f"({start / 1024:.0f} MB before), a diagnosis of the first 2000 rows {time.perf_counter() - at:.1f} s")
"""


def row(step: int) -> str:
    value = (step * 2654435761 % 2**32) / 2**32
    keys = ("reward", "reward_std", "frac_reward_zero_std", "kl", "entropy", "loss", "grad_norm", "learning_rate",
            "completions/mean_length", "completions/max_length", "completions/clipped_ratio", "rewards/a/mean",
            "rewards/a/std", "clip_ratio/region_mean", "step_time", "num_tokens")  # fmt: skip
    return json.dumps({"step": step} | {k: value * (i + 1) for i, k in enumerate(keys)})


def write(path: Path, megabytes: float) -> None:
    size, step, state = 0, 0, path.suffix == ".json"
    with path.open("w") as out:
        out.write('{"global_step": 1, "log_history": [\n' if state else "")
        while size < megabytes * 1e6:
            step += 1
            line = row(step)
            size += out.write((",\n" if state and step > 1 else "") + line + ("" if state else "\n"))
        out.write('\n], "max_steps": 5}\n' if state else "")


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 500.0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rows.jsonl", "trainer_state.json"):
            path = Path(folder) / name
            write(path, megabytes)
            at = time.perf_counter()
            made = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False)
            print(f"{name} of {path.stat().st_size / 1e6:.0f} MB: {made.stdout.strip() or made.stderr[-2000:]} [{time.perf_counter() - at:.0f} s]")
            path.unlink()
    print(f"this script: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
