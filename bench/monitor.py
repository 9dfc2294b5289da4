"""What `vario.Monitor` costs the process that trains, and what its judging process takes, beside plain ways to judge.

    python bench/monitor.py [--rows 10000] [--metrics 60] [--calls 1000] [--pause 0.02] [--long 100000] [--json FILE]

Each figure is taken in a fresh process. `log` is called on the main thread of one with `--rows` rows of history behind
it, as the rows of a training come: one, then a pause (not back to back, where nothing else would get the processor).
Bars: 1 ms at the median, 50 ms at the worst, an import of 0.15 s beyond numpy, 16 bytes a value, and nothing else that
grows. A plain callback that diagnoses the whole history again every 25 rows is measured for comparison, and rl-doctor's
way of doing so where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import peer_rldoctor
from shared import table

BARS = {"median ms": 1.0, "worst ms": 50.0, "import s": 0.15, "bytes a value": 16.0}
COMMON = """
import gc, json, os, sys, threading, time
import numpy as np

def process(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def rows(count, metrics, seed=0):
    chance = np.random.default_rng(seed)
    keys = ["reward", "kl", "loss", "entropy", "grad_norm", "completions/mean_length", "learning_rate", "step_time"]
    keys = (keys + [f"rewards/part_{i}/{w}" for i in range(metrics) for w in ("mean", "std")])[:metrics]
    for step in range(count):
        values = chance.standard_normal(metrics) * 0.1 + 0.5
        values[0] += 0.3 * step / count
        yield step, dict(zip(keys, values.tolist()))

def settled(monitor):
    courier = monitor._courier
    while True:
        held = courier._process
        if held is not None and courier._handed == len(monitor._recorder) and held.taken >= held.sent:
            return
        time.sleep(0.05)
"""
LOG = """
import vario
count, metrics, calls, pause, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
made = list(rows(count + calls, metrics))
monitor = vario.Monitor(directory=folder)
for step, row in made[:count]:
    monitor.log(step, row)
settled(monitor)
time.sleep(1.0)
began, (cpu, _) = time.perf_counter(), process(monitor.beside)
took = []
for step, row in made[count:]:
    time.sleep(pause)
    at = time.perf_counter()
    monitor.log(step, row)
    took.append((time.perf_counter() - at) * 1000)
seconds = time.perf_counter() - began
settled(monitor)
after, memory = process(monitor.beside)
took.sort()
print(json.dumps({"median ms": took[len(took) // 2], "p99 ms": took[int(len(took) * 0.99)], "worst ms": took[-1],
    "judging CPU": (after - cpu) / seconds, "judging MiB": memory, "failures": sum(monitor.failures.values())}))
monitor.close(60)
"""
GROWTH = """
import vario
count, metrics, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
monitor = vario.Monitor(directory=folder)
made = rows(count, metrics)
first = count // 10
def log(number):
    for _ in range(number):
        step, row = next(made)
        monitor.log(step, row)
        if step % 200 == 0:
            time.sleep(0.01)
    settled(monitor)
    gc.collect()
def held():
    return {"threads": threading.active_count(), "descriptors": len(os.listdir("/proc/self/fd")),
        "queued": monitor._queue.qsize() + len(monitor._courier._tables) + len(monitor._courier._unsure),
        "failures": len(monitor.failures), "notices": len(monitor.notices)}
log(first)
start, before = resident(), held()
log(count - first)
values = (count - first) * metrics
arrays = {id(a): a for _, pieces in monitor._recorder.columns() for piece in pieces for a in piece}
arrays = sum(map(sys.getsizeof, (monitor._recorder.steps, monitor._recorder.times, *arrays.values())))
print(json.dumps({"bytes a value": (resident() - start) / values, "arrays a value": arrays / (count * metrics),
    "before": before, "after": held(), "judging MiB": process(monitor.beside)[1], "failed": dict(monitor.failures)}))
monitor.close(60)
"""
IMPORT = """
import numpy, time
began, cpu = time.perf_counter(), time.process_time()
from vario import Monitor
print(time.perf_counter() - began, time.process_time() - cpu)
"""
PLAIN = """
import vario
from vario.surfaces.live.recorded import table_of
from vario.surfaces.live.recorder import Recorder
from vario.sources import interpret
count, metrics = int(sys.argv[1]), int(sys.argv[2])
recorder, took = Recorder(), []
for step, row in rows(count + 75, metrics):
    at = time.perf_counter()
    recorder.add(step, 1e9 + step, row)
    if step >= count and step % 25 == 0:
        vario.diagnose(interpret(table_of(recorder, "run", {})))
    if step >= count:
        took.append((time.perf_counter() - at) * 1000)
took.sort()
print(json.dumps({"median ms": took[len(took) // 2], "worst ms": took[-1], "mean ms": sum(took) / len(took)}))
"""
PEER = """
from rl_doctor.live import LiveMonitor
count, metrics = int(sys.argv[1]), int(sys.argv[2])
monitor, took = LiveMonitor(check_every=10**9, on_finding=lambda finding: None), []
for step, row in rows(count + 50, metrics):
    if step == count:
        monitor.check_every = 25
    at = time.perf_counter()
    monitor.log(row, step=step)
    if step >= count:
        took.append((time.perf_counter() - at) * 1000)
took.sort()
print(json.dumps({"median ms": took[len(took) // 2], "worst ms": took[-1], "mean ms": sum(took) / len(took)}))
"""


def run(code: str, *arguments: object, python: str = sys.executable) -> dict:
    """The figures that a program prints, in a process of its own."""
    with tempfile.TemporaryFile() as trouble:
        done = subprocess.run(
            [python, "-c", COMMON + code, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=trouble, check=False,
        )  # fmt: skip
        if done.returncode:
            trouble.seek(0)
            raise SystemExit(trouble.read().decode())
    return json.loads(done.stdout)


def imports(repeats: int) -> tuple[float, float]:
    """Seconds beyond numpy, on the clock and of the processor: medians over fresh processes."""
    found = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        found.append([float(word) for word in done.stdout.split()])
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found)


def main() -> int:
    """Print the table; the exit code is 0 whatever the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=10_000, help="rows of history before the calls that are timed")
    parser.add_argument("--metrics", type=int, default=60)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two rows")
    parser.add_argument("--long", type=int, default=100_000, help="rows of 12 metrics whose memory is measured")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        log = run(LOG, arguments.rows, arguments.metrics, arguments.calls, arguments.pause, place / "log")
        plain = run(PLAIN, arguments.rows, arguments.metrics)
        installed = Path(peer_rldoctor.PYTHON).exists()
        peer = run(PEER, arguments.rows, arguments.metrics, python=peer_rldoctor.PYTHON) if installed else None
        growth = run(GROWTH, arguments.long, 12, place / "long")
    seconds, cpu = imports(9)
    shape = f"{arguments.rows} rows x {arguments.metrics} metrics"
    rows: list[tuple[str, float, float | None]] = [
        (f"log, {shape}: median ms", log["median ms"], BARS["median ms"]),
        (f"log, {shape}: p99 ms", log["p99 ms"], None),
        (f"log, {shape}: worst ms", log["worst ms"], BARS["worst ms"]),
        ("judging process: share of a core", log["judging CPU"], None),
        ("judging process: MiB", log["judging MiB"], None),
        ("all of it again every 25 rows, on the thread: mean ms a row", plain["mean ms"], None),
        ("all of it again every 25 rows, on the thread: worst ms", plain["worst ms"], None),
        *(
            (
                f"{peer_rldoctor.NAME}, every 25 rows, on the thread: {word} ms{' a row' if word == 'mean' else ''}",
                peer[f"{word} ms"],
                None,
            )
            for word in (("mean", "worst") if peer else ())
        ),
        (f"{arguments.long} rows x 12: resident bytes a value", growth["bytes a value"], BARS["bytes a value"]),
        (f"{arguments.long} rows x 12: bytes of the arrays a value", growth["arrays a value"], BARS["bytes a value"]),
        (f"{arguments.long} rows x 12: judging process, MiB", growth["judging MiB"], None),
        ("import of vario.Monitor beyond numpy: s", seconds, BARS["import s"]),
        ("import of vario.Monitor beyond numpy: s of the processor", cpu, None),
    ]
    print(
        table(
            [
                (name, f"{value:.3g}", *(("", "") if bar is None else (f"{bar:g}", "ok" if value < bar else "OVER")))
                for name, value, bar in rows
            ],
            ("figure", "value", "bar", ""),
        )
    )
    grown = {k: (growth["before"][k], n) for k, n in growth["after"].items() if n > growth["before"][k]}
    print(
        f"\nbeside the rows, what has grown over {arguments.long} rows: {grown or 'nothing'}; failures: {growth['failed']}"
    )
    print(
        f"load of this machine at the beginning: {load:.1f} on {os.cpu_count()} cores, at the end: {os.getloadavg()[0]:.1f}"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps({"log": log, "plain": plain, "growth": growth, "import": [seconds, cpu]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
