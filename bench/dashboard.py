"""The dashboard under load, beside TensorBoard (with its fast data server) and trackio's dashboard on the same event files.

    python bench/dashboard.py [--runs 100] [--steps 5000] [--metrics 60] [--points 1000000] [--peers tensorboard trackio] [--keep FOLDER] [--json FILE]

Each server is a process of its own that is asked over HTTP on loopback, one after the other. *Ready* is the time until it
knows every run: for vario until every run has been judged from its start, which the others do not do; *every light* is
when each has been glanced at. *Index* is the page that lists the runs (of the peers, the call that their page makes for
it), *run* everything that the page of one run asks for, in the order of the page; *zoom* the curves of a hundredth of the steps, at full resolution (the peers draw it from what they sent before).
Memory is that of the process and its children, in proportional set size.

Bars: the index in under 200 ms, a run's page usable in under 1 s, under 1 GB, 100 runs x 5,000 steps x 60 metrics on two
cores; a chart of 1,000,000 points stays interactive.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from readers import write_events
from shared import table

ASKED = 20
"""Times that a page is asked for; the median and the longest are given."""
ONE_IN = 20
"""While the runs are judged the page of one of them is asked for so often: after so many calls of the list."""
READY = 3600.0
"""Seconds until which every run must be known."""
RUN = re.compile(r'href="/runs/([^"#/?]+)"')


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def got(address: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"} if data else {})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return bytes(answer.read())


def timed(ask: Callable[[], object], times: int = ASKED) -> tuple[float, float]:
    """Median and longest seconds of so many calls."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    return statistics.median(took), max(took)


def memory(process: psutil.Process) -> float:
    """MiB of a process and its children."""
    parts = [process, *process.children(recursive=True)]
    return sum(p.memory_full_info().pss for p in parts) / 2**20


@contextmanager
def served(command: list[str], env: dict[str, str] | None = None) -> Iterator[psutil.Process]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
        process.terminate()
        process.wait(30)


def until(done: Callable[[], bool]) -> float:
    """Seconds until something holds."""
    began = time.monotonic()
    while time.monotonic() - began < READY:
        try:
            if done():
                return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("a server did not get ready in time")


def figures(
    index: tuple[float, float], run: tuple[float, float], zoom: tuple[float, float] | None, **more: float
) -> dict[str, object]:
    made: dict[str, object] = {
        "index, median (ms)": round(1e3 * index[0], 1),
        "index, longest (ms)": round(1e3 * index[1], 1),
        "run, median (ms)": round(1e3 * run[0], 1),
        "run, longest (ms)": round(1e3 * run[1], 1),
    }
    if zoom is not None:
        made |= {"zoom, median (ms)": round(1e3 * zoom[0], 1), "zoom, longest (ms)": round(1e3 * zoom[1], 1)}
    return made | {name: round(value, 1) for name, value in more.items()}


def of_vario(logs: Path, runs: int, steps: int) -> dict[str, object]:
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "vario.surfaces.cli", "serve", str(logs), "--port", str(port)]
    with served(command) as process:
        first = until(lambda: bool(got(f"{at}/")))
        meanwhile: list[float] = []
        weighed: list[float] = []
        of_a_run: list[float] = []

        def page_meanwhile() -> str:
            began = time.perf_counter()
            page = got(f"{at}/").decode()
            meanwhile.append(time.perf_counter() - began)
            seen = RUN.findall(page) if page.count(" confidence ·") else []
            if seen and len(meanwhile) % ONE_IN == 0:
                weighed.append(memory(process))
                began = time.perf_counter()
                got(f"{at}/runs/{seen[len(of_a_run) % len(seen)]}")
                of_a_run.append(time.perf_counter() - began)
            return page

        def lit(page: str) -> bool:
            return len(set(RUN.findall(page))) == runs and page.count(" confidence ·") == runs

        lights = until(lambda: lit(page_meanwhile()))
        ready = lights + until(lambda: lit(page := page_meanwhile()) and "at a first glance" not in page)
        names = sorted(set(RUN.findall(got(f"{at}/").decode())))
        runs_in_turn = iter(names * ASKED)
        page = timed(lambda: got(f"{at}/runs/{next(runs_in_turn)}"))
        low, high = steps // 2, steps // 2 + max(steps // 100, 10)
        zoom = timed(lambda: got(f"{at}/runs/{next(runs_in_turn)}/panels?from={low}&to={high}"))
        return figures(
            timed(lambda: got(f"{at}/")), page, zoom,
            **{
                "first answer (s)": first, "every light (s)": lights, "ready (s)": ready,
                "index while judging, longest (ms)": 1e3 * max(meanwhile),
                "run while judging, longest (ms)": 1e3 * max(of_a_run, default=0.0),
                "size of a run's page (KiB)": len(got(f"{at}/runs/{names[0]}")) / 1024,
                "memory (MiB)": memory(process),
                "memory while judging, most (MiB)": max(weighed, default=0.0),
            },
        )  # fmt: skip


def of_tensorboard(logs: Path, runs: int, _steps: int) -> dict[str, object]:
    port = free_port()
    at = f"http://127.0.0.1:{port}/data"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logs), "--port", str(port), "--load_fast=true"]
    with served(command) as process:
        first = until(lambda: bool(got(f"{at}/runs")))
        tags_at = f"{at}/plugin/scalars/tags"
        ready = until(lambda: len(json.loads(got(tags_at))) == runs)
        tags = json.loads(got(tags_at))
        names = iter(sorted(tags) * ASKED)

        def run_page() -> None:
            name = next(names)
            for tag in tags[name]:
                got(f"{at}/plugin/scalars/scalars?tag={tag}&run={name}")

        return figures(
            timed(lambda: got(tags_at)), timed(run_page), None,
            **{"first answer (s)": first, "ready (s)": ready, "memory (MiB)": memory(process)},
        )  # fmt: skip


def of_trackio(logs: Path, runs: int, _steps: int) -> dict[str, object]:
    port, home = free_port(), Path(tempfile.mkdtemp(prefix="trackio-"))
    env = {"TRACKIO_DIR": str(home), "HF_HUB_OFFLINE": "1"}
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", f"import trackio; trackio.import_tf_events({str(logs)!r}, 'bench')"],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, **env},
    )  # fmt: skip
    imported = time.monotonic() - began
    code = f"import trackio; trackio.show(project='bench', open_browser=False, block_thread=True, server_port={port}, host='127.0.0.1')"
    at = f"http://127.0.0.1:{port}/api"
    try:
        with served([sys.executable, "-c", code], env) as process:
            listed: list[dict[str, object]] = []

            def known() -> bool:
                found = json.loads(got(f"{at}/get_runs_for_project", {"project": "bench"}))
                listed[:] = found if isinstance(found, list) else found.get("data", found.get("result", []))
                return len(listed) == runs

            ready = until(known)
            names = iter(listed * ASKED)

            def run_page() -> None:
                one = next(names)
                got(f"{at}/get_logs", {"project": "bench", "run": one.get("name"), "run_id": one.get("id")})

            return figures(
                timed(lambda: got(f"{at}/get_runs_for_project", {"project": "bench"})), timed(run_page), None,
                **{"first answer (s)": ready, "ready (s)": ready, "import before (s)": imported, "memory (MiB)": memory(process)},
            )  # fmt: skip
    finally:
        shutil.rmtree(home, ignore_errors=True)


PEERS = {"tensorboard": of_tensorboard, "trackio": of_trackio}


def of_one_long_run(points: int, folder: Path) -> dict[str, object]:
    """A chart of so many points: the whole of it, and a stretch of a hundred steps."""
    log = folder / "long"
    log.mkdir()
    write_events(log / "events.out.tfevents.1700000000.bench", points, 1)
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "vario.surfaces.cli", "serve", str(log), "--port", str(port), "--no-replay"]
    with served(command) as process:
        until(lambda: " confidence ·" in got(f"{at}/").decode())
        name = RUN.findall(got(f"{at}/").decode())[0]
        whole = timed(lambda: got(f"{at}/runs/{name}/panels"))
        near = timed(lambda: got(f"{at}/runs/{name}/panels?from={points // 2}&to={points // 2 + 100}"))
        return {
            "points": points, "whole, median (ms)": round(1e3 * whole[0], 1), "whole, longest (ms)": round(1e3 * whole[1], 1),
            "100 steps, median (ms)": round(1e3 * near[0], 1), "memory (MiB)": round(memory(process), 1),
        }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--metrics", type=int, default=60)
    parser.add_argument("--points", type=int, default=1_000_000, help="of the one long run; 0: leave it out")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[], help="these too")
    parser.add_argument("--keep", type=Path, help="a folder for the event files, which is kept")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vario-dashboard-") as temporary:
        root = options.keep or Path(temporary)
        logs = root / "logs"
        for i in range(options.runs):
            path = logs / f"run-{i:03d}" / "events.out.tfevents.1700000000.bench"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_events(path, options.steps, options.metrics, seed=i)
        servers = {"vario": of_vario} | {name: PEERS[name] for name in options.peers}
        found = {name: server(logs, options.runs, options.steps) for name, server in servers.items()}
        long = of_one_long_run(options.points, Path(temporary)) if options.points else {}
    rows = list(dict.fromkeys(key for one in found.values() for key in one))
    print(f"{options.runs} runs x {options.steps:,} steps x {options.metrics} metrics")
    print(table([[row, *(one.get(row, "-") for one in found.values())] for row in rows], ["", *found]))
    if long:
        print(f"\none metric of {options.points:,} points in vario")
        print(table(long.items(), ["", "value"]))
    if options.json:
        options.json.write_text(json.dumps({"servers": found, "long": long}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
