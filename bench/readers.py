"""Time and memory of reading each format, whole process, beside what reads it elsewhere.

    python bench/readers.py [--peers PYTHON] [--old-wandb PYTHON] [--only FORMAT ...] [--scale 1.0] [--json FILE]

The logs are written once into a temporary folder and kept there. Each reading is a process of its
own, from starting Python to having the numbers in arrays; what it read is counted and summed, and a
way that read something else is marked. The least time of the repeats counts, the most memory.

`--peers` names an interpreter that has tensorboard, tbparse and wandb (default: this one); wandb
writes the offline run, so without it that format is left out. `--old-wandb` names one that has
wandb 0.16, the last line of releases that reads an offline run in Python.

Bars: TensorBoard of 1,000,000 points 3 s and 250 MB; W&B offline of 2,000,000 points 5 s; JSON
lines 100 MB/s; console logs and CSV 50 MB/s. On a busy machine wall time says too much: where only
the processor time meets a bar, the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from shared import table

KEYS = (
    "reward", "frac_reward_zero_std", "kl", "entropy", "loss", "grad_norm", "learning_rate", "step_time", "num_tokens",
    "completions/mean_length", "completions/min_length", "completions/max_length", "completions/clipped_ratio",
    "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/high_max", "clip_ratio/region_mean",
    "rewards/correctness/mean", "rewards/correctness/std", "rewards/format/mean",
)  # fmt: skip
"""What TRL's GRPO logs, as far as every version means the same by it: each becomes a metric."""
VERL_KEYS = (
    "actor/entropy", "actor/kl_loss", "actor/kl_coef", "actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl",
    "actor/pg_clipfrac_lower", "actor/grad_norm", "actor/lr", "critic/score/mean", "critic/score/max",
    "critic/score/min", "critic/rewards/mean", "critic/rewards/max", "critic/rewards/min", "critic/advantages/mean",
    "critic/advantages/max", "critic/advantages/min", "critic/returns/mean", "critic/returns/max",
    "critic/returns/min", "response_length/mean", "response_length/max", "response_length/min",
    "response_length/clip_ratio", "prompt_length/mean", "prompt_length/max", "prompt_length/min",
    "prompt_length/clip_ratio", "num_turns/min", "num_turns/max", "num_turns/mean", "timing_s/generate_sequences",
    "timing_s/gen", "timing_s/reward", "timing_s/old_log_prob", "timing_s/ref", "timing_s/adv",
    "timing_s/update_actor", "timing_s/step", "timing_per_token_ms/gen", "timing_per_token_ms/ref",
    "timing_per_token_ms/adv", "timing_per_token_ms/update_actor", "perf/total_num_tokens", "perf/time_per_step",
    "perf/throughput", "perf/mfu/actor", "perf/max_memory_allocated_gb", "perf/max_memory_reserved_gb",
    "perf/cpu_memory_used_gb", "training/global_step", "training/epoch",
)  # fmt: skip
TAGS, STEPS = 50, 20_000
WANDB_ROWS = 100_000
SHARE_OFF = 1e-6
"""Sums of single-precision numbers may differ by so much."""


# the logs


def curves(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Values of shape (rows, columns): noise with memory around a learning curve, between 0 and 1."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((rows, columns))
    for i in range(1, rows):
        noise[i] = 0.5 * noise[i - 1] + 0.866 * noise[i]
    at = np.arange(rows) / rows
    return np.clip(0.2 + 0.5 * (1.0 - np.exp(-at / 0.2))[:, None] + 0.05 * noise, 0.001, 0.999)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _crc_table() -> np.ndarray:
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, (one >> 1) ^ np.uint32(0x82F63B78), one >> 1).astype(np.uint32)
    return one


def masked_crc(rows: np.ndarray) -> np.ndarray:
    """The masked CRC-32C of TFRecord of each row of bytes, byte by byte: rows of shape (n, size)."""
    contributions = _crc_table()
    crc = np.full(len(rows), 0xFFFFFFFF, dtype=np.uint32)
    for column in range(rows.shape[1]):
        crc = contributions[(crc ^ rows[:, column]) & 0xFF] ^ (crc >> np.uint32(8))
    crc = ~crc
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _records(bodies: np.ndarray) -> np.ndarray:
    """TFRecords around bodies of one size, shape (n, size + 16)."""
    n, size = bodies.shape
    made = np.empty((n, size + 16), dtype=np.uint8)
    length = np.frombuffer(size.to_bytes(8, "little"), dtype=np.uint8)
    made[:, :8] = length
    made[:, 8:12] = masked_crc(length[None, :]).view(np.uint8)
    made[:, 12:-4] = bodies
    made[:, -4:] = masked_crc(bodies).astype("<u4")[:, None].view(np.uint8)
    return made


def write_tensorboard(path: Path, scale: float) -> None:
    """The event file that is read."""
    write_events(path, int(STEPS * scale), TAGS)


def write_events(path: Path, steps: int, many: int, seed: int = 0) -> None:
    """An event file as a SummaryWriter writes it: a record a scalar, step by step, tag after tag, of so many tags."""
    tags = [*KEYS, *(f"rewards/function_{i}/{kind}" for i in range(many) for kind in ("mean", "std"))][:many]
    values = curves(steps, many, seed).astype("<f4")
    names = [f"train/{tag}".encode() for tag in tags]
    numbers = np.arange(1, steps + 1)
    widths = np.where(numbers < 1 << 7, 1, np.where(numbers < 1 << 14, 2, 3))
    # wall: 9 bytes; step: 1 + its width; summary and value: a tag and a length each; then the tag and the scalar
    inner = np.array([2 + len(name) + 5 for name in names])
    size = 9 + 1 + widths[:, None] + 2 + 2 + inner[None, :] + 16
    starts = np.concatenate([[0], np.cumsum(size.ravel())])
    out = np.empty(int(starts[-1]), dtype=np.uint8)
    starts = starts[:-1].reshape(size.shape)
    for width in (1, 2, 3):
        chosen = np.flatnonzero(widths == width)
        if not chosen.size:
            continue
        step_bytes = np.frombuffer(b"".join(_varint(int(n)) for n in numbers[chosen]), dtype=np.uint8).reshape(
            -1, width
        )
        walls = (1.7e9 + numbers[chosen] * 1.5).astype("<f8")[:, None].view(np.uint8)
        for j, name in enumerate(names):
            head = bytes([0x2A, int(inner[j]) + 2, 0x0A, int(inner[j]), 0x0A, len(name)]) + name + b"\x15"
            body = np.empty((chosen.size, 10 + width + len(head) + 4), dtype=np.uint8)
            body[:, 0], body[:, 1:9], body[:, 9] = 0x09, walls, 0x10
            body[:, 10 : 10 + width] = step_bytes
            body[:, 10 + width : -4] = np.frombuffer(head, dtype=np.uint8)
            body[:, -4:] = np.ascontiguousarray(values[chosen, j])[:, None].view(np.uint8)
            record = _records(body)
            out[starts[chosen, j][:, None] + np.arange(record.shape[1])] = record
    version = b"\x09" + np.float64(1.7e9).tobytes() + b"\x1a\x0dbrain.Event:2"
    with path.open("wb") as file:
        file.write(_records(np.frombuffer(version, dtype=np.uint8)[None, :]).tobytes())
        file.write(out.tobytes())


def _rows(columns: int) -> Iterator[list[float]]:
    block = curves(20_000, columns)
    while True:
        yield from block.tolist()


def _until(path: Path, megabytes: float, lines: Iterator[str]) -> None:
    """Write lines until the file is large enough."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            size += file.write(line)
            if size >= megabytes * 1e6:
                return


def write_jsonl(path: Path, scale: float) -> None:
    """A row of TRL's keys a line."""
    rows = enumerate(_rows(len(KEYS)), 1)
    _until(path, 100 * scale, (json.dumps({"step": i, **dict(zip(KEYS, row, strict=True))}) + "\n" for i, row in rows))


def write_csv(path: Path, scale: float) -> None:
    """TRL's keys as columns."""

    def lines() -> Iterator[str]:
        yield ",".join(("step", *KEYS)) + "\n"
        for i, row in enumerate(_rows(len(KEYS)), 1):
            yield f"{i},{','.join(map(repr, row))}\n"

    _until(path, 50 * scale, lines())


def write_verl(path: Path, scale: float) -> None:
    """What verl's console logger prints through Ray: a long line a step, and other workers' lines between."""

    def lines() -> Iterator[str]:
        for i, row in enumerate(_rows(len(VERL_KEYS)), 1):
            for worker in range(6):
                yield (
                    f"(WorkerDict pid={4210 + worker}) INFO 01-05 10:15:{i % 60:02d} [executor.py:116] It took {row[0]:.3f} seconds to fall asleep, "
                    "memory is released\n"
                )
            yield (
                f"(TaskRunner pid=4711) step:{i} - "
                + " - ".join(f"{k}:{v!r}" for k, v in zip(VERL_KEYS, row, strict=True))
                + "\n"
            )
            yield f"(TaskRunner pid=4711) Training Progress:  {i % 100:2d}%|███       | {i}/99999 [1:02:03<9:08:07, 21.3s/it]\n"

    _until(path, 50 * scale, lines())


def write_trl(path: Path, scale: float) -> None:
    """What the Trainer prints: a dict a logged step, between the redrawn progress bars."""

    def lines() -> Iterator[str]:
        for i, row in enumerate(_rows(len(KEYS)), 1):
            yield f"  0%|          | {i}/99999 [00:{i % 60:02d}<9:08:07,  1.33s/it]\r"
            yield str({**dict(zip(KEYS, row, strict=True)), "epoch": i / 1000}) + "\n"

    _until(path, 50 * scale, lines())


WRITE_WANDB = """
import json, os, sys
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DISABLE_GIT="true", WANDB_CONSOLE="off", WANDB__DISABLE_STATS="true")
import wandb
keys, rows, folder = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
run = wandb.init(project="bench", dir=folder, config={"beta": 0.04}, settings=wandb.Settings(silent=True))
for i in range(rows):
    run.log({key: ((i * 2654435761 + j * 40503) % 1000003) / 1000003 for j, key in enumerate(keys)})
run.finish()
"""


# the ways


VARIO = """
import json, sys
import numpy as np
import vario
run = vario.read(sys.argv[1])
print(json.dumps([sum(map(len, run.series.values())), float(sum(np.nansum(s.values) for s in run.series.values()))]))
"""
ACCUMULATOR = """
import json, sys
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
columns = {tag: np.array([(e.step, e.value) for e in log.Scalars(tag)]) for tag in log.Tags()["scalars"]}
print(json.dumps([sum(map(len, columns.values())), float(sum(c[:, 1].sum() for c in columns.values()))]))
"""
TBPARSE = """
import json, sys
from tbparse import SummaryReader
frame = SummaryReader(sys.argv[1]).scalars
print(json.dumps([len(frame), float(frame["value"].astype("float64").sum())]))
"""
OLD_WANDB = """
import json, sys
from array import array
from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore
store = DataStore()
store.open_for_scan(sys.argv[1])
columns = {}
while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record()
    try:
        record.ParseFromString(data)
    except DecodeError:
        continue  # what newer releases write of the machine, under a number that meant something else
    if record.WhichOneof("record_type") == "history":
        for item in record.history.item:
            key = item.key or "/".join(item.nested_key)
            if not key.startswith("_"):
                columns.setdefault(key, array("d")).append(json.loads(item.value_json))
print(json.dumps([sum(map(len, columns.values())), float(sum(map(sum, columns.values())))]))
"""
JSON_LOADS = """
import json, sys
import numpy as np
columns = {}
for line in open(sys.argv[1], encoding="utf-8"):
    for key, value in json.loads(line).items():
        columns.setdefault(key, []).append(value)
columns.pop("step")
columns = {key: np.array(values) for key, values in columns.items()}
print(json.dumps([sum(map(len, columns.values())), float(sum(c.sum() for c in columns.values()))]))
"""
CSV_MODULE = """
import csv, json, sys
import numpy as np
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    rows = csv.reader(file)
    names = next(rows)
    columns = dict(zip(names, (np.array(c, dtype=float) for c in zip(*rows))))
columns.pop("step")
print(json.dumps([sum(map(len, columns.values())), float(sum(c.sum() for c in columns.values()))]))
"""
REGEX = """
import json, re, sys
import numpy as np
columns = {}
for line in open(sys.argv[1], encoding="utf-8"):
    if found := re.search(r"step:(\\d+) - (.*)", line):
        for part in found[2].split(" - "):
            key, _, value = part.rpartition(":")
            columns.setdefault(key, []).append(float(value))
columns = {key: np.array(values) for key, values in columns.items()}
print(json.dumps([sum(map(len, columns.values())), 0.0]))
"""
LITERAL = """
import ast, json, sys
import numpy as np
columns = {}
for line in open(sys.argv[1], encoding="utf-8", newline="\\n"):
    start = line.find("{'")
    if start >= 0:
        for key, value in ast.literal_eval(line[start:].strip()).items():
            columns.setdefault(key, []).append(value)
columns.pop("epoch")
columns = {key: np.array(values) for key, values in columns.items()}
print(json.dumps([sum(map(len, columns.values())), float(sum(c.sum() for c in columns.values()))]))
"""


@dataclass(frozen=True)
class Way:
    """Something that reads a log, in an interpreter that may not have it."""

    name: str
    code: str
    python: str = sys.executable
    needs: str = ""
    comparable: bool = True
    """Whether it reads the same numbers: a parser without a dialect reads columns that are no metrics too."""


@dataclass(frozen=True)
class Format:
    """A log, what reads it, and the bar: seconds or MB a second, and MB of memory."""

    name: str
    file: str
    write: Callable[[Path, float], None] | None
    ways: tuple[Way, ...]
    seconds: float = 0.0
    rate: float = 0.0
    memory: float = 0.0


@dataclass
class Measured:
    """The best of the repeats."""

    wall: float = float("inf")
    processor: float = float("inf")
    memory: float = 0.0
    said: list[float] = field(default_factory=list)
    error: str = ""


def measure(command: list[str], limit: float) -> Measured:
    """One process: wall and processor seconds, peak resident MB, and what it printed.

    Linux counts the memory of the parent at the fork into the child's peak, so this process
    stays small: the logs are made in another one.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - began > limit:
                process.kill()
                os.wait4(process.pid, 0)
                process.returncode = -9
                return Measured(error=f"stopped after {limit:.0f} s")
            time.sleep(0.002)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)  # reaped above, for its own memory
        out.seek(0)
        err.seek(0)
        lines = out.read().decode().splitlines()
        if process.returncode or not lines:
            last = err.read().decode("utf-8", "replace").strip().splitlines()[-1:] or ["said nothing"]
            return Measured(error=last[0][:60])
        return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0, json.loads(lines[-1]))


def best_of(way: Way, path: Path, repeats: int, limit: float) -> Measured:
    """The least time and the most memory of some repeats."""
    best = Measured()
    for _ in range(repeats):
        one = measure([way.python, "-c", way.code, str(path)], limit)
        if one.error:
            return one
        best.wall, best.processor = min(best.wall, one.wall), min(best.processor, one.processor)
        best.memory, best.said = max(best.memory, one.memory), one.said
    return best


def has(python: str, module: str) -> bool:
    """Whether an interpreter finds a module."""
    if not Path(python).exists() and shutil.which(python) is None:
        return False
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0


def formats(peers: str, old: str) -> tuple[Format, ...]:
    """What is measured, and the bars."""
    ours = Way("vario", VARIO)
    return (
        Format(
            f"TensorBoard, {TAGS} tags x {STEPS:,}", "events.out.tfevents.1700000000.bench", write_tensorboard,
            (ours, Way("EventAccumulator", ACCUMULATOR, peers, "tensorboard"), Way("tbparse", TBPARSE, peers, "tbparse")),
            seconds=3.0, memory=250.0,
        ),
        Format(
            f"W&B offline, {WANDB_ROWS:,} x {len(KEYS)}", "run-bench.wandb", None,
            (ours, Way("wandb 0.16's own reader", OLD_WANDB, old, "wandb")), seconds=5.0,
        ),
        Format("JSON lines, 100 MB", "metrics.jsonl", write_jsonl, (ours, Way("json.loads a line", JSON_LOADS)), rate=100.0),
        Format(
            "verl console, 50 MB", "verl.log", write_verl,
            (ours, Way("a split for verl's line alone", REGEX, comparable=False)), rate=50.0,
        ),
        Format("TRL console, 50 MB", "trl.log", write_trl, (ours, Way("ast.literal_eval a line", LITERAL)), rate=50.0),
        Format("CSV, 50 MB", "metrics.csv", write_csv, (ours, Way("csv and numpy", CSV_MODULE)), rate=50.0),
    )  # fmt: skip


def made(log: Format, folder: Path, scale: float, peers: str) -> Path | None:
    """The log, written if it does not lie there yet; None where it cannot be."""
    path = folder / f"{scale:g}" / log.file
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part-{path.name}")
    if log.write is not None:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(log.write, part, scale).result()
    else:
        if not has(peers, "wandb"):
            return None
        with tempfile.TemporaryDirectory() as work:
            rows = str(int(WANDB_ROWS * scale))
            done = subprocess.run(
                [peers, "-c", WRITE_WANDB, json.dumps(KEYS), rows, work], check=False, capture_output=True
            )
            found = sorted(Path(work).rglob("run-*.wandb"))
            if done.returncode or not found:
                return None
            shutil.copy(found[0], part)
    part.replace(path)
    return path


def verdict(log: Format, one: Measured, megabytes: float, scale: float) -> tuple[str, str]:
    """The bar in words, and whether it holds."""
    seconds = log.seconds * scale if log.seconds else megabytes / log.rate
    words = [f"{log.seconds:g} s" if log.seconds else f"{log.rate:g} MB/s"]
    words += [f"{log.memory:g} MB"] if log.memory else []
    if log.memory and one.memory > log.memory:
        return ", ".join(words), "no"
    if one.wall <= seconds:
        return ", ".join(words), "yes"
    return ", ".join(words), "by processor time" if one.processor <= seconds else "no"


def agrees(ours: list[float], theirs: list[float]) -> bool:
    """Whether as many points with the same sum were read."""
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= SHARE_OFF * abs(theirs[1])


def main() -> int:
    """Print the table; the exit code is 0 whatever the speed, and 1 where two ways read different numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="has tensorboard, tbparse, wandb")
    parser.add_argument("--old-wandb", default="", metavar="PYTHON", help="has wandb 0.16")
    parser.add_argument("--only", nargs="+", default=[], metavar="FORMAT", help="formats whose names begin so")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="sizes of the logs; the bars go with them")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds before a way is stopped")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "vario-bench-readers")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    left_out: list[str] = []
    apart = False
    for log in formats(arguments.peers, arguments.old_wandb):
        if arguments.only and not log.name.lower().startswith(tuple(o.lower() for o in arguments.only)):
            continue
        path = made(log, arguments.folder, arguments.scale, arguments.peers)
        if path is None:
            left_out.append(f"{log.name}: no interpreter with wandb to write it (--peers PYTHON)")
            continue
        megabytes = path.stat().st_size / 1e6
        ours: Measured | None = None
        for way in log.ways:
            if way.needs and not has(way.python, way.needs):
                option = "--old-wandb" if way.code is OLD_WANDB else "--peers"
                left_out.append(f"{log.name}: {way.name} is not installed here ({option} PYTHON)")
                continue
            one = best_of(way, path, arguments.repeats if ours is None else 1, arguments.limit)
            bar = holds = ""
            if one.error:
                rows.append((f"{log.name}: {way.name}", "", "", "", "", "", bar, one.error))
                ours = ours or one
                continue
            times = ""
            if ours is None:
                ours = one
                bar, holds = verdict(log, one, megabytes, arguments.scale)
            elif ours.said:
                times = f"{one.wall / ours.wall:.1f}x"
                if way.comparable and not agrees(ours.said, one.said):
                    apart, holds = True, "READ OTHER NUMBERS"
            rows.append(
                (
                    f"{log.name} ({megabytes:.0f} MB): {way.name}",
                    f"{one.wall:.2f} s",
                    f"{one.processor:.2f} s",
                    f"{one.memory:.0f} MB",
                    f"{megabytes / one.wall:.0f} MB/s",
                    f"{one.said[0]:,.0f}",
                    bar,
                    holds or times,
                )
            )
    print(table(rows, ("reading, whole process", "wall", "processor", "peak RSS", "rate", "points", "bar", "holds")))
    for line in left_out:
        print(f"left out: {line}")
    print(f"load of this machine while it ran: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return int(apart)


if __name__ == "__main__":
    sys.exit(main())
