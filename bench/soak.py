"""Hours in minutes: growing logs, one `vario watch --plain` process beside them, and what it missed, cost and how late it was.

    python bench/soak.py [--runs 50] [--metrics 12] [--rate 1] [--seconds 600] [--every 2] [--keep FOLDER] [--json FILE]
    python bench/soak.py --runs 1 --rate 200

Simulated runs (`simulated.py`), every second one with a fault that begins in its middle (`faults.py`), are written row by
row in real time by a process of its own, as TRL would log them. The watcher has a state file, alerts that go to an HTTP
receiver by apprise, pictures with them, and numbers for Prometheus.

What should have been told comes from the finished logs, gone through look by look: what a watcher that is never late would
tell. A notice is late by the time from the writing of the row of that look to its line, or its alert. Where rows come so
fast that several looks fall between two readings, the watcher takes them together: what opened and passed between them is
counted as such.

Bars: no row missed; findings as offline; memory that does not grow but with the logs; clearly less than half a core for 50
runs at a row a second; alerts within 10 s at the 99th percentile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import psutil
from faults import faulty
from shared import table
from simulated import MEMORIES, SHAPES, healthy

from vario import read
from vario.rules.engine import looks_between
from vario.run import Floats, Run
from vario.surfaces.live.notices import OF_FINDINGS, open_in
from vario.surfaces.live.rehearsal import Replayed
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.state import State, place_of, run_key
from vario.verdict import Finding, diagnose

KEYS = {
    "reward/mean": "reward", "reward/std/batch": "reward_std", "reward/std/within-group": "reward_std",
    "signal/zero-variance-share": "frac_reward_zero_std", "kl/reference": "kl", "entropy/mean": "entropy",
    "gradient/norm": "grad_norm", "loss/total": "loss", "learning-rate": "learning_rate",
    "length/mean": "completions/mean_length", "length/truncated-share": "completions/clipped_ratio",
    "length/max": "completions/max_length", "length/min": "completions/min_length", "systems/step-time": "step_time",
    "clip/fraction/high": "clip_ratio/high_mean", "clip/fraction/low": "clip_ratio/low_mean", "systems/tokens": "num_tokens",
}  # fmt: skip
"""What the simulated metrics are called by TRL, the ones that matter most first."""
FAULTS = (
    "reward-function-broke", "kl-runaway", "peak-then-decline", "entropy-collapse", "nan-gradient", "length-jump",
    "policy-collapse", "kl-spike", "truncation-grows", "gradient-spike", "mode-collapse", "data-shift",
)  # fmt: skip
MOST_DRAWN = 2000
"""Rows that are drawn sample by sample; a longer run has the curve of one, and its noise over and over."""
SMOOTH = 51
LATE = 10.0
"""Seconds: the bar of the latency."""
WARM = 30.0
"""Seconds until what a process loads once has been loaded: memory is compared with that."""
SETTLE = 60.0
"""Seconds after the last row until which the watcher must have read it."""
LINE = re.compile(r"^(\S+T\S+) (\S+) step (\S+) ([a-z-]+) ([a-z]+) (\S+)")
"""A notice of `--plain`: time, run, step, kind, severity, and the finding's name as the first word."""
ROWS = re.compile(r'^vario_run_rows_total\{run="([^"]+)"\} (\S+)', re.MULTILINE)


@dataclass
class Told:
    """Something that was told, or should have been: the step of the look, and when the line came (seconds since 1970)."""

    run: str
    kind: str
    subject: str
    step: int
    at: float = 0.0


@dataclass
class Receiver:
    """Alerts as they came over HTTP: when, and their titles."""

    came: list[tuple[float, str]] = field(default_factory=list)

    def start(self) -> str:
        """Listen on loopback; gives the address for apprise."""
        came = self.came

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at, body = time.time(), self.rfile.read(int(self.headers["Content-Length"]))
                came.append((at, str(json.loads(body)["title"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"json://127.0.0.1:{server.server_address[1]}/"


# the logs


def stretched(rng: np.random.Generator, values: Floats, rows: int) -> Floats:
    """A longer series with the same curve and noise drawn from the same values."""
    window = np.ones(SMOOTH) / SMOOTH
    curve = np.convolve(np.pad(values, SMOOTH // 2, mode="edge"), window, mode="valid")
    noise = rng.choice((values - curve)[np.isfinite(values - curve)], rows)
    return np.interp(np.linspace(0.0, len(values) - 1.0, rows), np.arange(len(values)), curve) + noise


def logged(run: Run, metrics: int, rows: int, rng: np.random.Generator) -> list[str]:
    """The rows of a run as lines, with so many metrics in each."""
    columns: dict[str, Floats] = {}
    for name, key in KEYS.items():
        series = run.series.get(name)
        if (
            series is not None
            and key not in columns
            and len(series) == run.logged_steps.size
            and len(columns) < metrics
        ):
            values = series.values
            columns[key] = values if values.size == rows else stretched(rng, values, rows)
    for i in range(metrics - len(columns)):
        columns[f"rewards/function_{i}/mean"] = rng.uniform(0.4, 0.6, rows)
    stride = int(run.logged_steps[1] - run.logged_steps[0])
    keys = list(columns)
    matrix = np.column_stack([columns[k] for k in keys])
    return [
        json.dumps({**dict(zip(keys, row.tolist(), strict=True)), "step": (i + 1) * stride})
        for i, row in enumerate(matrix)
    ]


def prepare(folder: Path, runs: int, metrics: int, rows: int, seed: int) -> None:
    """Write down what is going to be logged."""
    folder.mkdir()
    for i in range(runs):
        rng = np.random.default_rng([seed, i])
        drawn = min(rows, MOST_DRAWN)
        if i % 2 == 0:
            run = faulty(rng, FAULTS[i // 2 % len(FAULTS)], rows=drawn).run
        else:
            run = healthy(rng, SHAPES[i // 2 % len(SHAPES)], MEMORIES[i % len(MEMORIES)], drawn)
        (folder / f"run-{i:02d}.jsonl").write_text("\n".join(logged(run, metrics, rows, rng)) + "\n")


def write(prepared: Path, logs: Path, rate: float) -> None:
    """Log in real time, a write for each row; the times of writing lie beside what was prepared, in the end."""
    names = sorted(p.stem for p in prepared.glob("*.jsonl"))
    lines = [(prepared / f"{name}.jsonl").read_bytes().splitlines(keepends=True) for name in names]
    files = [os.open(logs / name / "log.jsonl", os.O_WRONLY | os.O_APPEND) for name in names]
    times = [np.zeros(len(some)) for some in lines]
    begin = time.monotonic()
    for i in range(1, len(lines[0])):  # the first row is there when the watcher starts
        for k, log in enumerate(files):
            pause = begin + (i - 1 + k / len(files)) / rate - time.monotonic()
            if pause > 0.0:
                time.sleep(pause)
            os.write(log, lines[k][i])
            times[k][i] = time.time()
    for name, at in zip(names, times, strict=True):
        np.save(prepared / f"{name}.npy", at)


# the watcher


class Watcher:
    """The process under test, what it prints and what it takes."""

    def __init__(self, root: Path, every: float, port: int) -> None:
        self.lines: list[tuple[float, str]] = []
        self.memory: list[tuple[float, float]] = []
        self.troubles = (root / "stderr.txt").open("wb")
        self.port = port
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vario.surfaces.cli", "watch", "--plain", "--every", str(every)),
                *("--state", str(root / "state.sqlite"), "--prometheus", str(port), str(root / "logs")),
            ],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=self.troubles,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._seen = psutil.Process(self._process.pid)
        self._began = time.monotonic()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    def measure(self) -> None:
        """Note its memory (MiB)."""
        self.memory.append((time.monotonic() - self._began, self._seen.memory_info().rss / 2**20))

    def seconds(self) -> float:
        """Processor time so far."""
        used = self._seen.cpu_times()
        return used.user + used.system

    def rows(self) -> dict[str, int]:
        """Rows that it knows of, by run."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return {Path(name).name: int(float(rows)) for name, rows in ROWS.findall(answer.read().decode())}

    def end(self) -> int:
        """End it; gives the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self.troubles.close()
        return code

    def told(self) -> list[Told]:
        """The notices of findings among what it printed."""
        found = ((at, LINE.match(line)) for at, line in self.lines)
        return [
            Told(Path(m[2]).name, m[4], m[6], int(m[3]), at) for at, m in found if m is not None and m[4] in OF_FINDINGS
        ]


# what should have been told


def expected(name: str, run: Run) -> list[Told]:
    """What a watcher that looks at each row would have told of the finished log."""
    due = max(looks_between(0, int(run.logged_steps.size) + 1), default=0)
    if not due:
        return []
    source = Replayed(name, run.until(int(run.logged_steps[due - 1])))
    watched = WatchedRun(name, source)
    made: list[Told] = []
    while not source.ended:
        made += [Told(name, n.kind.value, n.subject, n.step or 0) for n in watched.look() if n.kind in OF_FINDINGS]
    return made


def stands_as_offline(run: Run, told: set[str]) -> bool:
    """Whether what stands as told is what holds at the last look; what is beneath a cause by now was told before it."""
    due = max(looks_between(0, int(run.logged_steps.size) + 1), default=0)
    if not due:
        return not told
    top = open_in(diagnose(run.until(int(run.logged_steps[due - 1]))))
    beneath = {s.name for f in top.values() for s in _below(f)}
    return top.keys() <= told <= top.keys() | beneath


def _below(finding: Finding) -> Iterator[Finding]:
    for symptom in finding.symptoms:
        yield symptom
        yield from _below(symptom)


def matched(wanted: list[Told], told: list[Told]) -> tuple[list[tuple[Told, Told]], list[Told], list[Told]]:
    """Pairs of what should have been told and what was, then what was not told, and what should not have been."""
    left, pairs, extra = list(wanted), [], []
    for one in told:
        same = [
            w for w in left if (w.run, w.kind, w.subject) == (one.run, one.kind, one.subject) and w.step <= one.step
        ]
        if same:
            left.remove(same[-1])
            pairs.append((same[-1], one))
        else:
            extra.append(one)
    return pairs, left, extra


def at_rank(values: list[float], share: float) -> str:
    return f"{np.quantile(values, share):.2f} s" if values else "-"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def soak(root: Path, options: argparse.Namespace) -> dict[str, object]:
    """The whole of it; gives the figures."""
    rows = max(int(options.rate * options.seconds), 2)
    prepared, logs = root / "prepared", root / "logs"
    prepare(prepared, options.runs, options.metrics, rows, options.seed)
    names = sorted(p.stem for p in prepared.glob("*.jsonl"))
    for name in names:
        (logs / name).mkdir(parents=True)
        with (prepared / f"{name}.jsonl").open() as made:
            (logs / name / "log.jsonl").write_text(made.readline())
    receiver = Receiver()
    # without a cool-down: what it holds back is not late
    (root / "vario.toml").write_text(f'[alerts]\nto = ["{receiver.start()}"]\ncool-down = "off"\n')
    watcher = Watcher(root, options.every, free_port())
    until = time.monotonic() + SETTLE
    while sum(" live" in line for _, line in list(watcher.lines)) < options.runs and time.monotonic() < until:
        time.sleep(0.1)
    before, began, load = watcher.seconds(), time.monotonic(), [os.getloadavg()[0]]
    writer = subprocess.Popen(
        [sys.executable, __file__, "--write", str(prepared), str(logs), "--rate", str(options.rate)]
    )
    while writer.poll() is None:
        watcher.measure()
        load.append(os.getloadavg()[0])
        time.sleep(1.0)
    took, used = time.monotonic() - began, watcher.seconds() - before
    until, known = time.monotonic() + SETTLE, {}
    while sum((known := watcher.rows()).values()) < rows * options.runs and time.monotonic() < until:
        time.sleep(0.2)
    behind = SETTLE - (until - time.monotonic())
    time.sleep(2.0 * options.every)  # for the alerts of the last look
    watcher.measure()
    code = watcher.end()
    written = {name: np.load(prepared / f"{name}.npy") for name in names}
    finished = {name: read(logs / name) for name in names}
    place = place_of(str(logs / names[0]), str(root / "state.sqlite"))
    state = State.open(place)
    standing = {name: set(state.told(run_key(str(logs / name), place))) for name in names}
    state.close()
    other = [name for name in names if not stands_as_offline(finished[name], standing[name])]
    wanted = [told for name in names for told in expected(name, finished[name])]
    told = watcher.told()
    pairs, untold, extra = matched(wanted, told)

    def row_written(told: Told) -> float:
        return float(written[told.run][np.searchsorted(finished[told.run].logged_steps, told.step)])

    late = [max(came.at - row_written(want), 0.0) for want, came in pairs if row_written(want)]
    alerted = []
    for at, title in receiver.came:
        of = [w for w, _ in pairs if w.run in title and w.subject in title and row_written(w) and row_written(w) <= at]
        if of:
            alerted.append(at - row_written(of[-1]))
    (root / "lines.txt").write_text("".join(f"{at:.2f} {line}\n" for at, line in watcher.lines))
    (root / "alerts.txt").write_text("".join(f"{at:.2f} {title}\n" for at, title in receiver.came))
    memory = [(at, size) for at, size in watcher.memory if at >= min(WARM, options.seconds / 2)]
    half = memory[len(memory) // 2 :]
    slope = float(np.polyfit(*np.array(half).T, 1)[0]) * 60.0 if len(half) > 2 else 0.0
    lines = [line for _, line in watcher.lines]
    for what, some in (("not told", untold), ("told beyond", extra)):
        for one in some:
            print(f"{what}: {one.run} step {one.step} {one.kind} {one.subject}")
    for name in other:
        print(f"differs from offline: {name}, where {', '.join(sorted(standing[name])) or 'nothing'} stands as told")
    return {
        "runs": options.runs, "metrics": options.metrics, "rows a second": options.rate, "seconds": round(took, 1),
        "rows written": rows * options.runs, "rows read": sum(known.values()),
        "last row read after (s)": round(behind, 2), "exit code": code,
        "runs whose findings differ from offline": len(other),
        "notices that were due": len(wanted), "told": len(pairs),
        "not told: between two readings": len(untold),
        "told beyond them": len(extra),
        "told twice": sum(n - 1 for n in Counter((t.run, t.kind, t.subject, t.step) for t in told).values()),
        "troubles": sum(" trouble " in line for line in lines),
        "line: late by, median": at_rank(late, 0.5), "line: late by, 99 %": at_rank(late, 0.99),
        "line: late by, at most": at_rank(late, 1.0), "alerts received": len(receiver.came),
        "alert: late by, median": at_rank(alerted, 0.5), "alert: late by, 99 %": at_rank(alerted, 0.99),
        "alert: late by, at most": at_rank(alerted, 1.0),
        "later than the bar": sum(x > LATE for x in [*late, *alerted]),
        "processor, share of a core": round(used / took, 3),
        "memory after the start (MiB)": round(memory[0][1], 1), "memory at most (MiB)": round(max(m for _, m in memory), 1),
        "memory at the end (MiB)": round(memory[-1][1], 1), "memory, second half (MiB a minute)": round(slope, 2),
        "load of the machine, mean": round(float(np.mean(load)), 1), "cores": os.cpu_count(),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--metrics", type=int, default=12)
    parser.add_argument("--rate", type=float, default=1.0, help="rows a second of each run")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=2.0, help="as of vario watch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for logs, lines and state, which is kept")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(*options.write, options.rate)
        return 0
    with tempfile.TemporaryDirectory(prefix="vario-soak-") as temporary:
        root = options.keep or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        found = soak(root, options)
    print(table(found.items(), ["", "value"]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return int(found["rows read"] != found["rows written"] or bool(found["runs whose findings differ from offline"]))


if __name__ == "__main__":
    sys.exit(main())
