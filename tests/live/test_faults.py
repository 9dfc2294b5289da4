"""The command itself, and trackers as they write: what a user runs, killed, piped, rotated and started anew."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vario
from tests.live.growth import BROKEN, append, lines, rows, same_as_offline, told, watched
from vario.surfaces.live.notices import Notice

PATIENCE = 60.0
"""Seconds after which a process that says nothing has failed."""
TOLD = re.compile(r"^\S+T\S+ (\S+) step (\S+) ([a-z-]+) ", re.MULTILINE)
"""A notice's line: time, run, step, kind."""


class Watcher:
    """A `vario watch --plain` process, and what it has said so far."""

    def __init__(self, folder: Path, *arguments: str, stdin: object = subprocess.DEVNULL) -> None:
        self._said = folder / f"said-{time.monotonic_ns()}.txt"
        with self._said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "vario.surfaces.cli", "watch", "--plain", "--every", "0.1", "--state", str(folder / "state.sqlite"), *arguments],
                stdin=stdin, stdout=out, stderr=subprocess.STDOUT,
            )  # type: ignore[call-overload]

    @property
    def said(self) -> str:
        return self._said.read_text()

    def kinds(self) -> list[str]:
        return [kind for _, _, kind in TOLD.findall(self.said)]

    def wait_for(self, what: Callable[[str], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not what(self.said):
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None or what(self.said), self.said
            time.sleep(0.03)

    def ended(self) -> int:
        return int(self.process.wait(PATIENCE))


@contextmanager
def watching(folder: Path, *arguments: str, stdin: object = subprocess.DEVNULL) -> Iterator[Watcher]:
    watcher = Watcher(folder, *arguments, stdin=stdin)
    try:
        yield watcher
    finally:
        if watcher.process.poll() is None:
            watcher.process.terminate()
            watcher.ended()


def test_a_watcher_that_is_killed_and_started_again_tells_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(lines(BROKEN[:85]))
    with watching(tmp_path, str(path)) as first:
        first.wait_for(lambda said: "live" in said)
        first.process.send_signal(signal.SIGKILL)
        assert first.ended() == -signal.SIGKILL
    assert first.kinds().count("opened") == 1
    assert "reward-function-broke" in first.said
    append(path, lines(BROKEN[85:]))  # while nobody looks
    lost = tmp_path / "lost.jsonl"
    lost.write_text(lines(BROKEN))
    with watching(tmp_path, "--once", str(path), str(lost)) as second:
        assert second.ended() == 0
    told_of = [(Path(run).name, kind) for run, _, kind in TOLD.findall(second.said)]
    assert told_of == [("lost.jsonl", "opened")], second.said


def test_a_log_that_is_rotated_and_replaced_under_the_command(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(lines(BROKEN[:30]))
    with watching(tmp_path, str(path)) as watcher:
        watcher.wait_for(lambda said: "step 30" in said)
        append(path, lines(BROKEN[30:50]))
        path.rename(tmp_path / "log.jsonl.1")
        path.write_text(lines(BROKEN[50:60]))
        watcher.wait_for(lambda said: "trouble" in said)
        append(path, lines(BROKEN[60:90]))
        watcher.wait_for(lambda said: "opened" in said)
        path.write_text(lines(rows(40, seed=3)))
        watcher.wait_for(lambda said: "replaced" in said)
    assert watcher.kinds() == ["trouble", "opened", "replaced"], watcher.said
    assert watcher.process.returncode == 0


WRITER = """
import json, os, signal, sys, time
rows, kill = json.load(open(sys.argv[1])), sys.argv[2] == "kill"
out = sys.stdout
print("Loading checkpoint shards: 100%", flush=True)
for i, row in enumerate(rows):
    out.write(json.dumps(row) + chr(10))
    if i % 10 == 0:
        out.flush()
        time.sleep(0.02)
if kill:
    out.write(json.dumps(rows[0])[:40])
    out.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["end", "kill"])
def test_a_pipe(tmp_path: Path, end: str) -> None:
    """`python writer.py | vario watch --plain -`: the last look is at the last row, half a row more is none."""
    (tmp_path / "rows.json").write_text(json.dumps(BROKEN))
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "rows.json"), end], stdout=subprocess.PIPE) as writer:
        with watching(tmp_path, "-", stdin=writer.stdout) as watcher:
            assert watcher.ended() == 0
        assert writer.wait(PATIENCE) == (-signal.SIGKILL if end == "kill" else 0)
    whole = tmp_path / "whole.log"
    whole.write_text("Loading checkpoint shards: 100%\n" + lines(BROKEN))
    offline = vario.diagnose(vario.read(whole))
    assert watcher.kinds() == ["opened", "ended"], watcher.said
    assert offline.verdict.action in watcher.said
    assert all(f.name in watcher.said for f in offline.findings if f.until is None and f.audience == "default")
    assert "step 100" in watcher.said


def test_each_pipe_is_a_run_of_its_own(tmp_path: Path) -> None:
    """What was told of one that came through the same shell before is told of the next one too."""
    for _ in range(2):
        with watching(tmp_path, "-", stdin=subprocess.PIPE) as watcher:
            assert watcher.process.stdin is not None
            watcher.process.stdin.write(lines(BROKEN[:90]).encode())
            watcher.process.stdin.close()
            assert watcher.ended() == 0
        assert watcher.kinds() == ["opened", "ended"], watcher.said


TRACKED = """
import json, sys, warnings
warnings.simplefilter("ignore")
import mlflow, trackio, wandb
folder, rows = sys.argv[1], json.load(open(sys.argv[2]))
config = {"learning_rate": 1e-6, "beta": 0.04, "num_generations": 8}
offline = wandb.init(project="p", dir=f"{folder}/wandb", mode="offline", config=config, id="abc123")
trackio.init(project="proj", name="one", config=config)
mlflow.set_tracking_uri(f"file://{folder}/mlflow/mlruns")
mlflow.set_experiment("one")
mlflow.start_run()
mlflow.log_params(config)
print("ready", flush=True)
for line in sys.stdin:
    first, end = map(int, line.split())
    for row in rows[first:end]:
        step = row.pop("step")
        scoped = {**{f"train/{k}": v for k, v in row.items()}, "train/global_step": step}
        offline.log(scoped)
        trackio.log(scoped)
        mlflow.log_metrics(row, step=step)
    print("logged", flush=True)
offline.finish()
trackio.finish()
mlflow.end_run()
print("done", flush=True)
"""
PLACES = ("wandb", "trackio", "mlflow")


def test_trackers_as_they_write(tmp_path: Path) -> None:
    """W&B's offline file, trackio's database and MLflow's file store, each written by its own library while it is watched."""
    for name in PLACES:
        pytest.importorskip(name)
        (tmp_path / name).mkdir()
    (tmp_path / "mlflow" / "mlruns").mkdir()
    (tmp_path / "rows.json").write_text(json.dumps(BROKEN))
    environment = {
        **os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1", "WANDB_SILENT": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true",
    }  # fmt: skip
    runs = {name: watched(tmp_path / name) for name in PLACES}
    made: dict[str, list[Notice]] = {name: [] for name in PLACES}

    def look() -> None:
        for name, run in runs.items():
            made[name] += run.look()

    with subprocess.Popen(
        [sys.executable, "-c", TRACKED, str(tmp_path), str(tmp_path / "rows.json")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    ) as writer:  # fmt: skip
        assert writer.stdin is not None
        assert writer.stdout is not None

        def said(word: str) -> None:
            assert writer.stdout is not None
            while word not in (line := writer.stdout.readline()):
                assert line, "the writer stopped"

        said("ready")
        for first in range(0, 100, 25):
            look()
            writer.stdin.write(f"{first} {first + 25}\n")
            writer.stdin.flush()
            said("logged")
        look()
        writer.stdin.close()
        said("done")
    for name in PLACES:
        look()
        assert runs[name].rows == 100, name
        assert told(made[name]).count("opened reward-function-broke") == 1, name
        assert not {"replaced", "trouble", "lost"} & set(told(made[name])), name
        same_as_offline(runs[name], tmp_path / name)
