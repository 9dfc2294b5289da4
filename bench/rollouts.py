"""Completions: how fast a dump is read and counted, beside the way in which people load such files today.

    python bench/rollouts.py                # the file of 4,000 completions x 400 tokens, beside pandas and json
    python bench/rollouts.py --gigabytes 5  # throughput and memory on a large dump: one process, two, Ray
    python bench/rollouts.py --gigabytes 1 --plain  # the same without token columns: text is most of the file

Every figure comes from a process of its own, so that one's memory is not another's. What is timed is the whole of
reading, counting and reducing; with `--command` it is the whole command with its start.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS = ["the", "of", "and", "to", "in", "is", "that", "we", "can", "find", "number", "answer", "so", "let", "us", "x", "y", "equals", "therefore", "because", "step", "first", "then", "now", "check", "value", "total", "sum", "12", "7", "45", "apples", "since", "both", "sides", "divide", "by", "two", "gives", "write", "again", "carefully", "result"]
TOKENS, STEP, GROUP = 400, 128, 8


def write(path: Path, size: int | None, rows: int | None, *, tokens: bool) -> int:
    """A dump in RLLoggingBoard's format, of so many bytes or rows; how many rows were written."""
    import orjson

    rng = np.random.default_rng(0)
    pool = []
    for _ in range(512):
        said = [f" {w}" for w in rng.choice(WORDS, TOKENS)]
        row: dict[str, object] = {"response": "".join(said)}
        if tokens:
            row["response_tokens"] = said
            for name in ("logprobs", "ref_logprobs", "values", "token_rewards"):
                row[name] = np.round(rng.normal(size=TOKENS), 6).tolist()
        pool.append(row)
    written = count = 0
    with path.open("wb") as stream:
        while (rows is None or count < rows) and (size is None or written < size):
            row = {
                "prompt": f"Question {count // GROUP}: how many?",
                **pool[int(rng.integers(len(pool)))],
                "reward": float(rng.integers(0, 2)),
                "step": count // STEP,
            }
            written += stream.write(orjson.dumps(row) + b"\n")
            count += 1
    return count


def ours(path: Path, *, all_text: bool, workers: int | None, ray: str | None) -> dict[str, float]:
    """Count a dump as `vario diagnose` does, without the judgement."""
    import vario
    from vario.sources.sampled import SampleOptions

    if ray is not None:
        import ray as cluster

        cluster.init(address=None if ray == "local" else ray, num_cpus=workers, log_to_driver=False, logging_level="error")
        warm(cluster)
    start = time.perf_counter()
    run = vario.read(path, samples=SampleOptions(all_text=all_text, workers=workers, ray="auto" if ray else None))
    seconds = time.perf_counter() - start
    assert run.samples is not None
    return {"seconds": seconds, "rows": run.samples.counted, "texts": len(run.samples)}


def warm(cluster: object) -> None:
    """Start Ray's workers before the clock does: start-up is left out on both sides."""
    remote = cluster.remote(_imports)  # type: ignore[attr-defined]
    cluster.get([remote.remote(i) for i in range(8)])  # type: ignore[attr-defined]


def _imports(_: int) -> None:
    import vario.sources.rollouts  # noqa: F401


def board(path: Path) -> dict[str, float]:
    """RLLoggingBoard's way: json.loads of every line into a list, and a pandas frame of it."""
    import pandas

    start = time.perf_counter()
    with path.open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    frame = pandas.DataFrame(rows)
    by_step = frame.groupby("step")["reward"].mean()
    return {"seconds": time.perf_counter() - start, "rows": len(frame), "steps": len(by_step)}


def tree_memory() -> float:
    """Largest memory of this process and of its largest child, MB."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024.0


def child(arguments: argparse.Namespace) -> None:
    """Measure one way in this process, and print it."""
    path = Path(arguments.path)
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "board": lambda: board(path),
        "ours": lambda: ours(path, all_text=arguments.all_text, workers=arguments.workers, ray=arguments.ray),
    }
    print(json.dumps(ways[arguments.child]() | {"mb": tree_memory()}))


def measured(path: Path, way: str, *more: str) -> dict[str, float]:
    """One way, in a process of its own."""
    command = [sys.executable, __file__, "--child", way, "--path", str(path), *more]
    single = {"POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | single)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(name: str, found: dict[str, float], size: int, text: int, base: float | None = None) -> None:
    """One row of the table."""
    speed = size / 1e6 / found["seconds"]
    share = f"{base / found['seconds']:5.2f}x" if base else "      "
    share_of_text = found.get("texts", 0) / max(found["rows"], 1)
    of_text = f"{text * share_of_text / 1e6 / found['seconds']:7.1f} MB/s of text" if share_of_text else ""
    print(f"{name:34} {found['seconds']:7.2f} s {speed:7.1f} MB/s of file {share} {found['mb']:6.0f} MB {of_text}")


def main() -> None:
    """Make the dump, and measure each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float)
    parser.add_argument("--plain", action="store_true", help="no token columns")
    parser.add_argument("--folder", type=Path, help="where to write the dump (default: a temporary folder)")
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--child", choices=("ours", "board"), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--all-text", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ray", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rollouts.jsonl"
        size = None if arguments.gigabytes is None else int(arguments.gigabytes * 1e9)
        rows = write(path, size, 4_000 if size is None else None, tokens=not arguments.plain)
        held, text = path.stat().st_size, rows * 1_800
        print(f"{rows} completions of {TOKENS} tokens, {held / 1e6:.0f} MB, {rows // STEP} steps\n")
        one = measured(path, "ours", "--workers", "1")
        line("one process, a sample of the texts", one, held, text)
        every = measured(path, "ours", "--all-text", "--workers", "1")
        line("one process, every text", every, held, text, one["seconds"])
        if size is None:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "vario.surfaces.cli", "diagnose", str(path), "--all-text", "--exit-zero"],
                           check=True, capture_output=True)  # fmt: skip
            print(f"{'vario diagnose --all-text, all of it':34} {time.perf_counter() - start:7.2f} s")
            line("json and pandas, loading alone", measured(path, "board"), held, 0, every["seconds"])
            return
        two = measured(path, "ours", "--all-text", "--workers", "2")
        line("two processes, every text", two, held, text, every["seconds"])
        if not arguments.without_ray:
            cluster = measured(path, "ours", "--all-text", "--workers", "2", "--ray", "local")
            line("Ray, two workers, every text", cluster, held, text, every["seconds"])


if __name__ == "__main__":
    main()
