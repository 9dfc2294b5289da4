"""Every command of docs/reading-runs.md is run, on files that are made here, and reads the run that it names."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import re
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
import tomllib
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import vario
from tests.conftest import ROOT
from vario.sources.readers import READERS
from vario.surfaces.cli import main

PAGE = ROOT / "docs/reading-runs.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
QUOTED = re.findall(r"`((?:vario|zcat|cat) [^`]+)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL))
COMMANDS = list(
    dict.fromkeys(
        c for c in [*"".join(b for kind, b in BLOCKS if kind == "sh").splitlines(), *QUOTED] if "PATH" not in c
    )
)
STEPS = 40
ID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
Row = dict[str, float]


def reward(step: int) -> float:
    return round(0.2 + 0.01 * step, 4)


def rows() -> list[Row]:
    return [
        {"step": s, "reward": reward(s), "kl": round(0.001 * s, 4), "loss": round(0.1 / s, 4)}
        for s in range(1, STEPS + 1)
    ]


# what lies there


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def write_wandb(path: Path) -> None:
    """An offline run: rows as records of W&B's log, each in one chunk or two where a block of 32 KiB ends."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for row in rows():
        items = b"".join(field(1, field(1, k.encode()) + field(16, json.dumps(v).encode())) for k, v in row.items())
        record = field(2, items)
        assert len(record) + 7 <= 32768 - len(out) % 32768, "the run of this test fits into one block"
        out += struct.pack("<IHB", zlib.crc32(record, zlib.crc32(b"\1")), len(record), 1) + record
    path.parent.mkdir(parents=True)
    path.write_bytes(out)


def write_tensorboard(folder: Path) -> None:
    with pytest.importorskip("tensorboardX").SummaryWriter(str(folder)) as writer:
        for row in rows():
            for key in ("reward", "kl", "loss"):
                writer.add_scalar(f"train/{key}", row[key], int(row["step"]))


def write_trackio(path: Path, *names: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)"
        )
        for name in names:
            db.executemany(
                "INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)",
                [(name, i, json.dumps(row)) for i, row in enumerate(rows())],
            )
    db.close()


def write_mlflow(folder: Path, database: Path) -> None:
    (folder / "metrics").mkdir(parents=True)
    (folder / "params").mkdir()
    (folder / "meta.yaml").write_text(f"run_id: {ID}\n")
    for key in ("reward", "kl", "loss"):
        lines = "".join(f"{1700000000000 + int(r['step'])} {r[key]} {int(r['step'])}\n" for r in rows())
        (folder / "metrics" / key).write_text(lines)
    with sqlite3.connect(database) as db:
        db.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, experiment_id INTEGER, start_time INTEGER, lifecycle_stage TEXT);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan BOOLEAN);"
            f"INSERT INTO experiments VALUES (1, 'grpo'); INSERT INTO runs VALUES ('{ID}', 'my-run', 1, 0, 'active');"
        )
        for key in ("reward", "kl", "loss"):
            db.executemany(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, 0)",
                [(key, r[key], int(r["step"]), ID, int(r["step"])) for r in rows()],
            )
    db.close()


def write_notebook(path: Path) -> None:
    head = "<tr><th>Step</th><th>Training Loss</th><th>reward</th><th>kl</th></tr>"
    body = "".join(
        f"<tr><td>{int(r['step'])}</td><td>{r['loss']}</td><td>{r['reward']}</td><td>{r['kl']}</td></tr>"
        for r in rows()
    )
    output = {"output_type": "display_data", "data": {"text/html": [f"<table>{head}{body}</table>"]}}
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["trainer.train()"], "outputs": [output]}]}))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the page names."""
    home = tmp_path_factory.mktemp("home")
    lines = "".join(json.dumps(r) + "\n" for r in rows())
    (home / "metrics.jsonl").write_text(lines)
    (home / "metrics.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("lr-1e-6", "lr-2e-6"):
        (home / "sweep" / name).mkdir(parents=True)
        (home / "sweep" / name / "metrics.jsonl").write_text(lines)
    state = json.dumps({"global_step": STEPS, "log_history": rows(), "is_world_process_zero": True})
    (home / "outputs/my-run/checkpoint-60").mkdir(parents=True)
    (home / "outputs/my-run/checkpoint-60/trainer_state.json").write_text(state)
    (home / "history.json").write_text(json.dumps(rows()))
    columns = ("step", "reward", "kl", "loss")
    (home / "history.csv").write_text(
        ",".join(columns) + "\n" + "".join(",".join(str(r[c]) for c in columns) + "\n" for r in rows())
    )
    printed = "".join(f"{r}\n" for r in rows())
    (home / "train.log").write_text(f"Loading the model ...\n{printed}Done.\n")
    zstandard = pytest.importorskip("zstandard")
    (home / "train.log.zst").write_bytes(zstandard.ZstdCompressor().compress((home / "train.log").read_bytes()))
    polars = pytest.importorskip("polars")
    polars.DataFrame(rows()).write_parquet(home / "history.parquet")
    write_tensorboard(home / "tb/my-run")
    write_wandb(home / "wandb/offline-run-20260105_101500-ab12cd34/run-ab12cd34.wandb")
    write_trackio(home / "trackio/my-project.db", "my-run")
    write_trackio(home / "trackio/two-runs.db", "another", "my-run")
    write_mlflow(home / "mlruns/1" / ID, home / "mlflow.db")
    write_notebook(home / "train.ipynb")
    loop = "".join(json.dumps({"step": r["step"], "my_reward": r["reward"], "drift": r["kl"]}) + "\n" for r in rows())
    (home / "my-loop.jsonl").write_text(loop)
    (home / "settings").mkdir()
    (home / "settings/config.yaml").write_text(
        "learning_rate: 1.0e-6\nbeta: 0.04\nnum_generations: 8\nper_device_train_batch_size: 4\n"
    )
    shutil.copytree(home / "outputs", home / "bucket")
    return home


# what answers at addresses


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(made: Path) -> Iterator[str]:
    """A file server, which also answers where a tracker is knocked at; its host and port."""
    pytest.importorskip("aiohttp")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=made)) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def stores(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores that lie in the folder: `s3://bucket/…` and `hf://…` answer as fsspec's own file systems do."""
    pytest.importorskip("fsspec")
    from fsspec.implementations.local import LocalFileSystem
    from fsspec.registry import _registry

    class Store(LocalFileSystem):
        protocol = ("s3", "hf")
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:  # type: ignore[override]
            name = re.sub(r"^(s3|hf)://", "", str(path))
            name = {"me/my-model": "bucket/my-run"}.get(name, name)
            return str(made / name)

    monkeypatch.setitem(_registry, "s3", Store)
    monkeypatch.setitem(_registry, "hf", Store)


@pytest.fixture
def trackers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """W&B's and MLflow's clients, as far as vario speaks to them; what was asked of them."""
    said: list[str] = []

    class Api:
        def run(self, path: str) -> SimpleNamespace:
            said.append(path)

            def scan_history(*, page_size: int) -> Iterator[Row]:
                assert page_size > 0
                yield from ({"_step": i, **r, "_timestamp": 1.7e9} for i, r in enumerate(rows()))

            return SimpleNamespace(
                name="my-run", id="ab12cd34", path=path.split("/"), config={}, scan_history=scan_history
            )

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            said.append(tracking_uri)

        def get_run(self, wanted: str) -> SimpleNamespace:
            said.append(wanted)
            info = SimpleNamespace(run_name="my-run", run_id=wanted)
            return SimpleNamespace(info=info, data=SimpleNamespace(params={}, metrics={"reward": 0.0, "kl": 0.0}))

        def get_metric_history(self, _run: str, key: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(step=int(r["step"]), value=r[key], timestamp=int(r["step"])) for r in rows()]

    wandb, mlflow, errors = ModuleType("wandb"), ModuleType("mlflow"), ModuleType("mlflow.exceptions")
    wandb.Api, mlflow.MlflowClient, errors.MlflowException = Api, Client, type("MlflowException", (Exception,), {})  # type: ignore[attr-defined]
    for module in (wandb, mlflow, errors):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return said


# the commands


@pytest.fixture
def run_command(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str, str]]:
    """Run a line of the page; its exit code and what it said."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("TRACKIO_DIR", str(made / "trackio"))

    def run(line: str) -> tuple[int, str, str]:
        *before, words = (shlex.split(part, comments=True) for part in line.split(" | "))
        if before:
            piped = subprocess.run(before[0], capture_output=True, check=True).stdout
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(piped)))
        assert words[0] == "vario"
        code = main(words[1:])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def reads(command: str) -> bool:
    """Whether it reads a run: `vario diagnose` and `vario metrics` alone stand in sentences."""
    return not command.endswith("--known") and len(command.split()) > 2


def test_the_page_has_a_command_for_every_reader() -> None:
    assert len(COMMANDS) > 25
    suffixes = " ".join(COMMANDS)
    for word in (
        "trainer_state",
        "tb/",
        "wandb/",
        "trackio/",
        "mlruns",
        "mlflow.db",
        ".jsonl",
        ".json",
        ".csv",
        ".parquet",
        ".ipynb",
        ".log",
        ".gz",
        ".zst",
    ):
        assert word in suffixes, word
    for address in ("s3://", "hf://", "http://", "wandb://", "mlflow+http://", "trackio://", " -"):
        assert address in suffixes, address


def test_the_files_of_the_page_meet_every_reader(made: Path) -> None:
    """A reader that is added needs a line on the page and a file here, or a sample of its own at the least."""
    from vario.sources.places import reader_of

    files = [p for p in made.rglob("*") if p.is_file() and p.suffix != ".yaml" and "mlruns" not in p.parts]
    met = {reader_of(p)[0].__name__ for p in [*files, *(ROOT / "tests/readers").glob("*/sample.*")]}
    assert met == {r.__name__ for r in READERS}


@pytest.mark.usefixtures("stores", "trackers")
@pytest.mark.parametrize("command", [c for c in COMMANDS if reads(c)])
def test_command_reads_the_run(command: str, server: str, run_command: Callable[[str], tuple[int, str, str]]) -> None:
    line = re.sub(r"localhost:\d+", server, command)
    code, out, err = run_command(line)
    assert code in (0, 1), err
    assert "internal error" not in err
    assert out.strip()
    # the same again as a document: what it read is what was written
    code, out, err = run_command(f"{line} --json" if "--format json" not in line else line)
    documents = [json.loads(part) for part in out.splitlines()]
    expected = 2 if "--all" in line or line.count("sweep/") + line.count("outputs/") == 2 else 1
    assert len(documents) == expected
    by_hand = "my-loop" in line and "--map" not in line
    for document in documents:
        metrics = document["run"]["metrics"] if "run" in document else document["metrics"]
        if by_hand:
            assert "reward/mean" not in metrics
            assert "drift" in (document.get("run") or document)["unmapped"]
        else:
            assert metrics["reward/mean"]["points"] == STEPS
            assert metrics["kl/reference"]["points"] == STEPS


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if reads(c) and "://" not in c and "|" not in c and "--all" not in c and "my-loop" not in c],
)
def test_every_value_is_the_one_that_was_written(command: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    words = shlex.split(command)
    name = words[words.index("--run") + 1] if "--run" in words else None
    run = vario.read(words[2], run=name)
    series = run.series["reward/mean"]
    assert series.steps.tolist() == list(range(1, STEPS + 1))
    assert series.values.tolist() == pytest.approx([reward(s) for s in range(1, STEPS + 1)], abs=1e-6)


def test_what_was_asked_of_the_trackers(
    trackers: list[str], server: str, run_command: Callable[[str], tuple[int, str, str]]
) -> None:
    for command in COMMANDS:
        if "wandb://" in command or "mlflow+http://" in command:
            run_command(re.sub(r"localhost:\d+", server, command))
    assert trackers == ["me/my-project/ab12cd34", f"http://{server}", ID]


def test_known_metrics_are_listed(run_command: Callable[[str], tuple[int, str, str]]) -> None:
    code, out, _ = run_command("vario metrics --known")
    assert code == 0
    assert "kl/reference (nats/token)" in out


def test_several_runs_stop_with_their_names(run_command: Callable[[str], tuple[int, str, str]]) -> None:
    code, out, err = run_command("vario diagnose sweep")
    assert code == 2
    assert out == ""
    assert "lr-1e-6" in err
    assert "lr-2e-6" in err


def test_a_loop_of_your_own_is_understood(tmp_path: Path) -> None:
    """The row of the page, repeated, gives what the page says it gives."""
    row = json.loads(next(body for kind, body in BLOCKS if kind == "json"))
    log = tmp_path / "loop.jsonl"
    log.write_text("".join(json.dumps(row | {"step": s}) + "\n" for s in range(1, 31)))
    run = vario.read(log)
    assert set(run.series) == {"reward/mean", "kl/reference", "entropy/mean", "length/mean"}
    assert run.unmapped == ()


def test_what_the_project_file_says_holds(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = next(body for kind, body in BLOCKS if kind == "toml")
    (tmp_path / "runs").mkdir()
    shutil.copy(made / "my-loop.jsonl", tmp_path / "runs/my-loop.jsonl")
    (tmp_path / "vario.toml").write_text(said)
    assert main(["metrics", str(tmp_path / "runs/my-loop.jsonl"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert {name: m["key"] for name, m in metrics.items()} == {"reward/mean": "my_reward", "kl/reference": "drift"}


def test_what_pyproject_says_holds(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "[tool.vario.map]" in TEXT
    (tmp_path / "pyproject.toml").write_text('[tool.vario.map]\n"reward/mean" = "my_reward"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["metrics", str(made / "my-loop.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["reward/mean"]["key"] == "my_reward"


def test_the_configuration_that_is_given_is_read(run_command: Callable[[str], tuple[int, str, str]]) -> None:
    """It tells the framework, and what the knobs are set to."""
    command = next(c for c in COMMANDS if "--config" in c).replace("diagnose", "metrics")
    document = json.loads(run_command(f"{command} --json")[1])
    assert document["framework"] == "trl"
    assert document["knobs"]["kl-coef"] == {"key": "beta", "current": 0.04, "is_default": False}
    without = json.loads(run_command(f"{command.split(' --config')[0]} --json")[1])
    assert without["framework"] == "generic"


def test_python_of_the_page_runs(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    for kind, body in BLOCKS:
        if kind == "python":
            exec(compile(body, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == str(reward(STEPS))
    assert vario.runs("sweep") == ["lr-1e-6", "lr-2e-6"]
    assert [name for name, run in vario.read_all("sweep") if isinstance(run, vario.Run)] == ["lr-1e-6", "lr-2e-6"]
    assert vario.read("my-loop.jsonl", mapping={"reward/mean": "my_reward"}).series["reward/mean"].key == "my_reward"


# what the page promises


def test_extras_of_the_page_are_those_of_the_project() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    said = re.findall(r"pip install 'vario\[(\w+)\]'", TEXT)
    assert sorted(said) == sorted(set(declared) - {"test", "docs"})


def test_arguments_are_never_executed(tmp_path: Path) -> None:
    """A pickle that would write a file when it is loaded leaves none."""

    class Mine:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "executed",))

    import pickle

    (tmp_path / "training_args.bin").write_bytes(pickle.dumps(Mine()))
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows()))
    run = vario.read(tmp_path)
    assert len(run.series["reward/mean"]) == STEPS
    assert not (tmp_path / "executed").exists()


def test_nothing_is_written_beside_a_log(made: Path, run_command: Callable[[str], tuple[int, str, str]]) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in made.rglob("*")}
    for command in COMMANDS:
        if reads(command) and "://" not in command:
            run_command(command)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in made.rglob("*")} == before
