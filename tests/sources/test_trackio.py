"""trackio: projects made by the real library, read at rest, while it writes, and where nothing may be written."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.sources.writers import assert_same, points_of
from vario.errors import Malformed, NothingReadable, VarioError
from vario.sources.readers import trackio
from vario.sources.readers.sqlite import opened

PROJECT = """
import math, sys, time
import trackio

def rows(first, last, add=0.0):
    for s in range(first, last):
        loss = {3: math.nan, 4: math.inf, 5: -math.inf}.get(s, s / 3)
        trackio.log({"train/reward": s / 7 + add, "loss": loss, "text": "x", "nested": {"a": s}, "none": None})

for i in range(2):
    trackio.init(project="my proj", name="same", config={"learning_rate": 1e-6 * (i + 1), "actor": {"lr": i}})
    rows(0, 30, i)
    trackio.finish()
trackio.init(project="my proj", name="exp@home", config={"beta": 0.1})
for s in range(20):
    trackio.log({"train/reward": s / 9, "train/global_step": s * 10, "image": trackio.Table(columns=["a"], data=[[1]])}, step=s * 5)
trackio.finish()
trackio.init(project="live", name="one", config={"beta": 0.2})
rows(0, 40)
print("waiting", flush=True)
sys.stdin.readline()
rows(40, 60)
trackio.finish()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project, and one that was read while it was written (`live` holds how far it was then)."""
    pytest.importorskip("trackio")
    folder = tmp_path_factory.mktemp("trackio")
    environment = {**os.environ, "TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROJECT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        try:
            while "waiting" not in (line := writer.stdout.readline()):
                assert line, "the writer stopped"
            live = folder / "live.db"
            for _ in range(400):  # trackio writes in a thread of its own, twice a second
                try:
                    read = points_of(trackio.read(live)) if live.is_file() else {}
                except Malformed:
                    read = {}  # the file is there before its tables are
                if len(read.get("train/reward", [])) == 40:
                    break
                time.sleep(0.05)
            (folder / "seen.json").write_text(json.dumps(read["train/reward"]))
        finally:
            writer.stdin.write("\n")
            writer.stdin.close()
            writer.stdout.read()
    return folder


def test_runs_of_one_name_are_told_apart_with_their_own_settings(home: Path) -> None:
    path = home / "myproj.db"
    names = trackio.runs(path)
    assert [n.partition("@")[0] for n in names] == ["same", "same", "exp"]
    assert names[2] == "exp@home"
    for i, name in enumerate(names[:2]):
        table = trackio.read(path, name)
        loss = [{3: math.nan, 4: math.inf, 5: -math.inf}.get(s, s / 3) for s in range(30)]
        expected = {
            "train/reward": [(s, s / 7 + i) for s in range(30)],
            "loss": list(enumerate(loss)),
            "nested/a": [(s, float(s)) for s in range(30)],
            "none": [(s, math.nan) for s in range(30)],
        }
        assert_same(points_of(table), expected)
        assert table.config == {"learning_rate": 1e-6 * (i + 1), "actor": {"lr": i}}
        assert table.texts == 30
        assert table.ignored == 0


def test_the_trainers_step_comes_before_trackios(home: Path) -> None:
    table = trackio.read(home / "myproj.db", "exp@home")
    assert points_of(table) == {"train/reward": [(s * 10, s / 9) for s in range(20)]}  # a table's size is no metric
    assert table.config == {"beta": 0.1}


def test_through_the_front_door(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = vario.sources.runs(home / "myproj.db")
    assert len(set(names)) == 3
    assert vario.read(home / "myproj.db", run=names[1]).config["learning_rate"] == 2e-6
    monkeypatch.setenv("TRACKIO_DIR", str(home))
    assert vario.read("trackio://live").config["beta"] == 0.2
    assert vario.read("trackio://live/one").last_step == 59
    assert vario.read(f"trackio://my proj/{names[0]}").config["learning_rate"] == 1e-6  # the file's name has no blank
    with pytest.raises(NothingReadable, match="TRACKIO_DIR"):
        vario.read("trackio://nothing")
    with pytest.raises(VarioError, match="no run 'two'"):
        vario.read("trackio://live/two")


def test_while_trackio_writes(home: Path) -> None:
    seen = json.loads((home / "seen.json").read_text())
    assert [tuple(p) for p in seen] == [(s, s / 7) for s in range(40)]
    assert points_of(trackio.read(home / "live.db"))["train/reward"] == [(s, s / 7) for s in range(60)]


def copied(home: Path, folder: Path, name: str = "live.db") -> Path:
    shutil.copyfile(home / name, folder / name)
    return folder / name


def add_row(connection: sqlite3.Connection, step: int) -> None:
    run = connection.execute("SELECT run_id FROM metrics LIMIT 1").fetchone()[0]
    row = (run, "2026-01-01", "one", step, json.dumps({"train/reward": float(step)}))
    connection.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)", row)


def test_committed_rows_are_seen_and_others_are_not(home: Path, tmp_path: Path) -> None:
    path = copied(home, tmp_path)
    connection = sqlite3.connect(path)
    try:
        for step in (100, 101):
            add_row(connection, step)
            assert points_of(trackio.read(path))["train/reward"][-1][0] == (59 if step == 100 else 100)
            connection.commit()
            assert points_of(trackio.read(path))["train/reward"][-1] == (step, float(step))
    finally:
        connection.close()


def test_nothing_is_left_beside_the_file(home: Path, tmp_path: Path) -> None:
    path = copied(home, tmp_path)
    assert sum(map(len, points_of(trackio.read(path)).values())) == 240
    assert [p.name for p in tmp_path.iterdir()] == ["live.db"]


def test_a_log_of_changes_without_its_writer(home: Path, tmp_path: Path) -> None:
    """The writer was killed, or the files were copied: file and log, and no index."""
    here, there = tmp_path / "a", tmp_path / "b"
    here.mkdir()
    there.mkdir()
    path = copied(home, here)
    connection = sqlite3.connect(path)
    try:
        add_row(connection, 100)
        connection.commit()
        for name in ("live.db", "live.db-wal"):
            shutil.copyfile(here / name, there / name)
    finally:
        connection.close()
    before = {p.name: p.read_bytes() for p in there.iterdir()}
    assert points_of(trackio.read(there / "live.db"))["train/reward"][-1] == (100, 100.0)
    assert {p.name: p.read_bytes() for p in there.iterdir()} == before


def test_a_change_that_was_broken_off_is_taken_back(home: Path, tmp_path: Path) -> None:
    """Without a log of changes a killed writer leaves half a change, and a journal to undo it with."""
    path = copied(home, tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    code = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA cache_size=1'); c.execute('PRAGMA synchronous=OFF')\n"
        "c.execute(\"UPDATE metrics SET metrics = '{\\\"train/reward\\\": 77777.0}'\"); os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert b"77777" in path.read_bytes()  # half of the change stands in the file
    assert path.with_name("live.db-journal").stat().st_size > 0
    before = path.read_bytes()
    assert points_of(trackio.read(path))["train/reward"] == [(s, s / 7) for s in range(60)]
    assert path.read_bytes() == before


def test_a_file_that_changes_while_it_is_copied_is_copied_again(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(home, tmp_path)
    whole = path.read_bytes()
    copyfile, copies = shutil.copyfile, []

    def interrupted(source: Path, target: Path) -> None:
        copyfile(source, target)
        copies.append(source)
        if len(copies) == 1:  # the first copy is half of one state and half of another
            target.write_bytes(target.read_bytes()[: len(whole) // 2])
            path.write_bytes(whole)
            os.utime(path, ns=(1, 1))

    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with opened(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM metrics").fetchone() == (60,)
    assert len([c for c in copies if c == path]) == 2

    def never_at_rest(source: Path, target: Path) -> None:
        copyfile(source, target)
        os.utime(path, ns=(len(copies), len(copies)))
        copies.append(source)

    monkeypatch.setattr(shutil, "copyfile", never_at_rest)
    with pytest.raises(Malformed, match="without a pause"), opened(path):
        pass


@pytest.mark.parametrize("damage", ["cut", "zeros", "noise", "head"])
def test_a_damaged_project_is_an_error_or_a_part(home: Path, tmp_path: Path, damage: str) -> None:
    path = copied(home, tmp_path, "myproj.db")
    data = bytearray(path.read_bytes())
    true = {n: points_of(trackio.read(path, n))["train/reward"] for n in trackio.runs(path)}
    middle = slice(len(data) // 4, len(data) // 2)
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "head":
        del data[50:]
    else:
        size = middle.stop - middle.start
        data[middle] = bytes(size) if damage == "zeros" else np.random.default_rng(0).bytes(size)
    path.write_bytes(data)
    try:
        found = trackio.runs(path)
        for name in found:
            read = points_of(trackio.read(path, name)).get("train/reward", [])
            assert set(read) <= set(true.get(name, [])) or name not in true
    except VarioError as error:
        assert "myproj.db" in str(error)


def test_a_project_of_the_first_releases(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
        for s in range(30):
            for run in ("b", "a"):
                values = json.dumps({"train/reward": s / 7 + (run == "a"), "loss": "NaN" if s == 3 else s})
                connection.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('', ?, ?, ?)", (run, s, values))
        connection.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('', 'a', 30, '{broken')")
    connection.close()
    assert trackio.runs(path) == ["b", "a"]
    table = trackio.read(path, "a")
    assert points_of(table)["train/reward"] == [(s, s / 7 + 1) for s in range(30)]
    assert table.ignored == 1
    assert math.isnan(points_of(table)["loss"][3][1])


def test_a_project_without_a_row(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
    connection.close()
    with pytest.raises(Malformed, match=r"empty\.db"):
        vario.read(path)
    new = tmp_path / "new.db"  # its tables are made one after the other
    with sqlite3.connect(new) as connection:
        connection.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY)")
    connection.close()
    assert trackio.runs(new) == []
    with pytest.raises(Malformed, match="without a run"):
        trackio.read(new)
