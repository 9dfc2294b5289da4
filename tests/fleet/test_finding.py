"""Which folders are runs: nested, side by side, inside one another, without a log, closed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.cli.logs import trl_log
from tests.conftest import recorded
from tests.fleet.trees import GOLDEN, ROOT
from vario.surfaces.fleet.homes import homes
from vario.surfaces.fleet.jobs import MAX_BESIDE, jobs_below
from vario.surfaces.fleet.judging import judged
from vario.surfaces.fleet.listing import walk


def wishes() -> object:
    import argparse

    return argparse.Namespace(map=[], config=None, only=[], without=[], rules=[], baseline=None, reference=None, replay=False, count=True, all_text=False)


def names(root: Path) -> list[str]:
    return [job.name for job in jobs_below(str(root), wishes())]


def results(root: Path) -> dict[str, tuple[str, str]]:
    made = {}
    for job in jobs_below(str(root), wishes()):
        for document in judged(job):
            told = document["fleet"]
            assert told["name"] not in made
            made[told["name"]] = (told["status"], told.get("reason", ""))
    return made


def test_runs_at_every_depth(tmp_path: Path) -> None:
    places = ["alice/sweep/lr-1e-6/seed0", "alice/sweep/lr-1e-6/seed1", "alice/one", "bob/a/b/c/d/e/f/run", "top"]
    for place in places:
        recorded("grpo-drift", tmp_path / place)  # with checkpoints, which are no runs
    assert names(tmp_path) == sorted(places)


def test_trackers_folders_belong_to_their_run(tmp_path: Path) -> None:
    run = tmp_path / "u" / "run"
    trl_log(run / "logs" / "rows.jsonl")
    trl_log(run / "metrics" / "again.jsonl")
    (run / "checkpoint-100").mkdir()
    shutil.copy(GOLDEN / "grpo-drift" / "checkpoint-100" / "trainer_state.json", run / "checkpoint-100")
    (run / "checkpoint-100" / "model").mkdir()
    (run / "checkpoint-100" / "model" / "weights.json").write_text("{}")
    (run / "plots").mkdir()
    assert names(tmp_path) == ["u/run"]


def test_the_root_itself_is_a_run_or_a_file(tmp_path: Path) -> None:
    run = recorded("dpo-healthy", tmp_path / "seed0")
    assert names(run) == ["seed0"]
    assert names(run / "trainer_state.json") == ["trainer_state.json"]


def test_what_is_no_run_is_none(tmp_path: Path) -> None:
    recorded("dpo-healthy", tmp_path / "runs1" / "seed0")
    (tmp_path / "models" / "qwen").mkdir(parents=True)
    (tmp_path / "models" / "qwen" / "config.json").write_text(json.dumps({"hidden_size": 64, "architectures": ["Q"], "vocab_size": 10}))
    (tmp_path / "code" / ".git").mkdir(parents=True)
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    (tmp_path / "code" / "tmp").mkdir()
    (tmp_path / "data").mkdir()
    rows = "".join(json.dumps({"prompt": f"what is {i}?", "completion": f"it is {i}"}) + "\n" for i in range(20))
    (tmp_path / "data" / "train.jsonl").write_text(rows)
    (tmp_path / "nohup.out").write_text("hello\n")
    (tmp_path / "notes.txt").write_text("try a larger beta\n")
    assert list(results(tmp_path)) == ["runs1/seed0"]


def test_runs_that_left_no_log(tmp_path: Path) -> None:
    recorded("dpo-healthy", tmp_path / "sweep" / "seed0")
    (tmp_path / "sweep" / "seed1").mkdir()
    (tmp_path / "sweep" / "seed2").mkdir()
    (tmp_path / "sweep" / "seed2" / "trainer_state.json").write_text('{"log_history": [{"loss"')
    (tmp_path / "sweep" / "seed3").mkdir()
    (tmp_path / "sweep" / "seed3" / "rows.jsonl").write_text("")
    (tmp_path / "sweep" / "seed4" / "checkpoint-20").mkdir(parents=True)
    (tmp_path / "sweep" / "seed4" / "checkpoint-20" / "model.safetensors").write_bytes(b"\0" * 100)
    (tmp_path / "sweep" / "seed5").mkdir()
    (tmp_path / "sweep" / "seed5" / "args.json").write_text('{"learning_rate": 1e-6, "beta": 0.1, "num_generations": 8}')
    made = results(tmp_path)
    assert {name: status for name, (status, _) in made.items()} == {"sweep/seed0": "ok"} | {f"sweep/seed{i}": "unreadable" for i in range(1, 6)}
    for i, word in enumerate(("empty", "trainer_state.json", "rows.jsonl", "no log", "no log"), 1):
        assert word in made[f"sweep/seed{i}"][1]


def test_a_broken_log_above_others_is_told_and_hides_none(tmp_path: Path) -> None:
    recorded("dpo-healthy", tmp_path / "exp" / "seed0")
    recorded("grpo-healthy", tmp_path / "exp" / "seed1")
    (tmp_path / "exp" / "trainer_state.json").write_text('{"log_hist')
    made = results(tmp_path)
    assert {n: s for n, (s, _) in made.items()} == {"exp": "unreadable", "exp/seed0": "ok", "exp/seed1": "ok"}
    assert "trainer_state.json" in made["exp"][1]
    shutil.rmtree(tmp_path / "exp" / "seed1")
    assert {n: s for n, (s, _) in results(tmp_path).items()} == {"exp": "unreadable", "exp/seed0": "ok"}


def test_one_training_seen_by_two_trackers_is_one_run(tmp_path: Path) -> None:
    run = recorded("grpo-healthy", tmp_path / "u" / "run")
    history = json.loads((run / "trainer_state.json").read_text())["log_history"]
    (run / "mine" / "deep").mkdir(parents=True)
    (run / "mine" / "deep" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in history))
    trl_log(run / "another" / "rows.jsonl", reward=np.linspace(0.9, 0.1, 120))
    assert list(results(tmp_path)) == ["u/run", "u/run/another"]


def test_a_shelf_with_a_log_of_its_own_hides_no_run(tmp_path: Path) -> None:
    recorded("grpo-healthy", tmp_path)
    expected = [tmp_path.name]
    for i in range(MAX_BESIDE + 2):
        trl_log(tmp_path / f"run{i:02}" / "rows.jsonl", seed=i)
        expected.append(f"run{i:02}")
    assert list(results(tmp_path)) == expected


def test_several_runs_in_one_file_are_a_job_each(tmp_path: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    path = tmp_path / "trackio" / "project.db"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
    for run in ("red", "blue"):
        for step in range(1, 41):
            connection.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('2026-01-01', ?, ?, ?)", (run, step, json.dumps({"reward": step / 40, "kl": 0.01})))
    connection.commit()
    connection.close()
    made = jobs_below(str(tmp_path), wishes())
    assert sorted(job.run for job in made) == ["blue", "red"]
    assert {s for s, _ in results(tmp_path).values()} == {"ok"}
    assert len(results(tmp_path)) == 2


def test_completions_without_a_log_are_a_run_and_beside_one_its_part(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"step": [1] * 4, "prompt": ["a", "a", "b", "b"], "completion": ["x", "y", "z", "w"], "reward": [0.0, 1.0, 0.5, 0.5]})
    for run in ("with", "without"):
        (tmp_path / run / "completions").mkdir(parents=True)
        for step in range(1, 13):
            table.with_columns(step=pl.lit(step)).write_parquet(tmp_path / run / "completions" / f"completions_{step:05}.parquet")
    trl_log(tmp_path / "with" / "rows.jsonl")
    found = homes(tmp_path, walk(tmp_path), on_disk=True)
    assert [home.path.name for home in found] == ["with", "without"]
    assert [len(home.files) for home in found] == [13, 12]
    assert {n: s for n, (s, _) in results(tmp_path).items()} == {"with": "ok", "without": "ok"}


def test_links_are_not_followed_and_circles_end(tmp_path: Path) -> None:
    recorded("dpo-healthy", tmp_path / "runs1" / "seed0")
    (tmp_path / "latest").symlink_to(tmp_path / "runs1" / "seed0")
    (tmp_path / "runs1" / "up").symlink_to(tmp_path)
    (tmp_path / "runs1" / "nowhere").symlink_to(tmp_path / "gone")
    assert names(tmp_path) == ["runs1/seed0"]


def test_folders_without_permission(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(0o755)
    recorded("dpo-healthy", tmp_path / "seed0")
    closed = recorded("dpo-healthy", tmp_path / "seed1")
    secret = recorded("dpo-healthy", tmp_path / "seed2") / "trainer_state.json"
    for path in (closed, secret):
        path.chmod(0)
    # the modules are loaded before root's right to read everything is given up
    code = (
        "import os, sys, json, numpy.random\nfrom pathlib import Path\nfrom tests.fleet.test_finding import results\n"
        "import vario; vario.sources.fast_json.loads(b'{}')\n"
        "os.chdir(sys.argv[1])\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(json.dumps(results(Path(sys.argv[1]))))\n"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    finally:
        closed.chmod(0o755)
        secret.chmod(0o644)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert {n: s for n, (s, _) in made.items()} == {"seed0": "ok", "seed1": "unreadable", "seed2": "unreadable"}
    assert "ermission" in made["seed1"][1]
    assert "ermission" in made["seed2"][1]
