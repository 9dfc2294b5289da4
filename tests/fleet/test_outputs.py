"""What is written: Parquet equals JSON, and an object store is read, resumed from and written to."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.logs import trl_log
from tests.conftest import recorded
from tests.fleet.trees import FAST, ROOT, fleet, lines
from vario.surfaces.cli import fleet_command
from vario.surfaces.fleet.row import Row, row_of
from vario.work import Serial


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    return tmp_path


def tree(root: Path) -> Path:
    for name in ("grpo-drift", "dpo-healthy", "grpo-length-hack"):
        recorded(name, root / "sweep" / name)
    (root / "broken").mkdir()
    (root / "broken" / "trainer_state.json").write_text("{")
    return root


def test_parquet_holds_what_json_holds(here: Path) -> None:
    pl = pytest.importorskip("polars")
    tree(here / "runs")
    assert fleet("runs", "-o", "out.jsonl", "-o", "out.parquet", *FAST) == 1
    table = pl.read_parquet("out.parquet")
    assert table.columns == [field.name for field in dataclasses.fields(Row)]
    documents = lines(here / "out.jsonl")
    assert [d["fleet"]["name"] for d in documents] == ["sweep/grpo-drift", "sweep/grpo-length-hack", "sweep/dpo-healthy", "broken"]
    for row, document in zip(table.to_dicts(), documents, strict=True):
        expected = dataclasses.asdict(row_of(document))
        expected["findings"] = list(expected["findings"])
        assert row == expected
    first, told = table.to_dicts()[0], documents[0]
    assert (first["action"], first["trajectory"], first["last_step"]) == (told["verdict"]["action"], told["verdict"]["trajectory"], told["run"]["last_step"])
    assert first["finding"] == told["findings"][0]["name"]
    assert (first["change_key"], first["change_now"]) == ("beta", "0.001")
    assert first["best_value"] == told["verdict"]["best_checkpoint"]["value"]
    assert table["reason"].to_list()[:3] == [None] * 3
    assert table["status"].to_list()[3] == "unreadable"


def test_a_table_without_runs_has_its_columns(here: Path) -> None:
    pl = pytest.importorskip("polars")
    (here / "runs").mkdir()
    fleet("runs", "-o", "out.parquet", *FAST)
    table = pl.read_parquet("out.parquet")
    assert table.columns == [field.name for field in dataclasses.fields(Row)]
    assert table.schema["best_value"] == pl.Float64


def test_without_polars_it_says_what_to_install(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trl_log(here / "runs" / "a" / "rows.jsonl")
    monkeypatch.setitem(sys.modules, "polars", None)
    assert fleet("runs", "-o", "out.parquet") == 2
    assert "pip install 'vario[rollouts]'" in capsys.readouterr().err
    assert fleet("runs", "-o", "out.jsonl", *FAST) == 0


def test_completions_are_counted_unless_they_are_not_wanted(here: Path) -> None:
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"step": [1] * 4, "prompt": ["a", "a", "b", "b"], "completion": ["x", "y", "z", "w"], "reward": [0.0, 1.0, 0.5, 0.5]})
    trl_log(here / "runs" / "a" / "rows.jsonl")
    (here / "runs" / "a" / "completions").mkdir()
    for step in range(1, 13):
        table.with_columns(step=pl.lit(step)).write_parquet(here / "runs" / "a" / "completions" / f"completions_{step:05}.parquet")
    for more, expected in (((), True), (("--no-samples",), False), ((), True)):
        fleet("runs", "-o", "out.jsonl", *FAST, *more)
        assert (lines(here / "out.jsonl")[0]["run"]["samples"] is not None) is expected


def test_an_output_that_is_a_link_stays_one(here: Path) -> None:
    trl_log(here / "runs" / "a" / "rows.jsonl")
    (here / "real").mkdir()
    (here / "out.jsonl").symlink_to(here / "real" / "results.jsonl")
    fleet("runs", "-o", "out.jsonl", *FAST)
    assert (here / "out.jsonl").is_symlink()
    assert len(lines(here / "real" / "results.jsonl")) == 1
    assert [p.name for p in (here / "real").iterdir()] == ["results.jsonl"], "nothing unfinished is left behind"


@pytest.mark.parametrize("place", ["file://{}/out.jsonl", "memory://fleet/out.jsonl"])
def test_an_address_is_read_whole_and_written_whole(here: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fsspec = pytest.importorskip("fsspec")
    trl_log(here / "runs" / "a" / "rows.jsonl")
    trl_log(here / "runs" / "b" / "rows.jsonl", seed=1)
    address = place.format(here)
    for expected in ("", "1 of 2 are known", "2 of 2"):
        fleet("runs", "-o", address, "--no-replay")
        err = capsys.readouterr().err
        assert expected in err if expected != "2 of 2" else "1/2" not in err
        with fsspec.open(address, "rb") as stream:
            documents = [json.loads(line) for line in stream.read().splitlines()]
        assert [d["fleet"]["name"] for d in documents] == ["a", "b"]
        if not expected:
            with fsspec.open(address, "wb") as stream:
                stream.write((json.dumps(documents[0]) + "\n").encode())


def test_an_object_store(here: Path) -> None:
    """Listed once, each run its own address; results go there too, and the next fleet goes on from them."""
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server")
    tree(here / "runs")
    server = server_of.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
        code = (
            "import json, sys, fsspec\nfrom tests.fleet.trees import fleet\n"
            "fs = fsspec.filesystem('s3'); fs.mkdir('fleets'); fs.put('runs/', 'fleets/experiments/', recursive=True)\n"
            "fs.pipe('fleets/experiments/nohup.out', b'hello')\n"
            "def judge():\n"
            "    made = fleet('s3://fleets/experiments', '-o', 's3://fleets/out/f.jsonl', '-o', 's3://fleets/out/f.parquet', '--no-replay', '--workers', '2')\n"
            "    fs.invalidate_cache()\n"
            "    documents = [json.loads(line) for line in fs.cat('fleets/out/f.jsonl').splitlines()]\n"
            "    print(made, [(d['fleet']['name'], d['run']['path']) for d in documents], [d['fleet']['seconds'] == -1 for d in documents], file=sys.stderr)\n"
            "    for d in documents: d['fleet']['seconds'] = -1\n"
            "    fs.pipe('fleets/out/f.jsonl', ''.join(json.dumps(d) + '\\n' for d in documents).encode())\n"
            "judge(); judge()\n"
            "state = json.loads(fs.cat('fleets/experiments/sweep/dpo-healthy/trainer_state.json')); state['log_history'].pop()\n"
            "fs.pipe('fleets/experiments/sweep/dpo-healthy/trainer_state.json', json.dumps(state).encode())\n"
            "judge()\n"
        )
        env = {**os.environ, **keys, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=env)
    finally:
        server.stop()
    told = [line for line in done.stderr.splitlines() if line.startswith("1 [")]
    runs = [(name, f"s3://fleets/experiments/{name}") for name in ("sweep/grpo-drift", "sweep/grpo-length-hack", "sweep/dpo-healthy", "broken")]
    assert told == [f"1 {runs} {kept}" for kept in ([False] * 4, [True, True, True, False], [True, True, False, False])], done.stderr[-3000:]
