"""MLflow: its SQLite store, its file store and its server, all made and served by the real library."""

from __future__ import annotations

import json
import math
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vario
from tests.mlflow_server import QUIET, tracking_server
from tests.sources.writers import Points, assert_same, points_of, read_elsewhere, run_python
from vario.errors import Malformed, NothingReadable, SeveralRuns, SourceError, VarioError
from vario.sources.readers import mlflow_database, mlflow_folder
from vario.sources.readers.mlflow_values import setting

STORE = """
import json, math, sys
import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric

def fill(uri, ids):
    mlflow.set_tracking_uri(uri)
    client, made = MlflowClient(), {}
    mlflow.set_experiment("exp/one")
    with mlflow.start_run(run_name="good") as run:
        mlflow.log_params({"learning_rate": 1e-6, "actor/optim.lr": "1e-5", "flag": True, "none": None, "text": "0x12", "list": [1, 2]})
        points = [Metric("train/reward", s / 7, 1000 + s, s) for s in range(400)]
        points += [Metric("a b.c-d/e", s / 2, 1000 + s, s) for s in range(30)]
        points += [Metric("odd", v, 1000 + s, s) for s, v in enumerate([math.nan, math.inf, -math.inf, 1e90, 5e-324])]
        points += [Metric("back", v, 1000 + i, s) for i, (s, v) in enumerate([(5, 9.0), (3, 2.0), (5, 1.0), (-2, 0.5)])]
        points += [Metric("measured", 1.5, 1000, 2, dataset_name="a set", dataset_digest="abc")]
        client.log_batch(run.info.run_id, metrics=points)
        made["good"] = run.info.run_id
    for name in ("same", "same"):
        with mlflow.start_run(run_name=name) as run:
            mlflow.log_metric("train/reward", len(made), step=1)
            mlflow.log_param("number", len(made))
            made[name + str(len(made))] = run.info.run_id
    with mlflow.start_run(run_name="gone") as run:
        mlflow.log_metric("train/reward", 1.0, step=1)
        made["gone"] = run.info.run_id
    mlflow.delete_run(run.info.run_id)
    with mlflow.start_run(run_name="nothing") as run:
        mlflow.log_param("a", 1)
        made["nothing"] = run.info.run_id
    mlflow.set_experiment("two@home")
    with mlflow.start_run(run_name="we@night") as run:
        mlflow.log_metric("train/reward", 0.5, step=1)
        made["we@night"] = run.info.run_id
    made["experiment"] = run.info.experiment_id
    json.dump(made, open(ids, "w"))

for uri, ids in zip(sys.argv[1::2], sys.argv[2::2]):
    fill(uri, ids)
"""
GOOD: Points = {
    "train/reward": [(s, s / 7) for s in range(400)],
    "a b.c-d/e": [(s, s / 2) for s in range(30)],
    "odd": list(enumerate([math.nan, math.inf, -math.inf, 1e90, 5e-324])),
    "back": [(-2, 0.5), (3, 2.0), (5, 1.0)],
    "measured": [(2, 1.5)],
}
PARAMETERS = {"learning_rate": 1e-6, "actor.optim.lr": 1e-5, "flag": True, "none": None, "text": "0x12", "list": [1, 2]}
MANY = 25_101


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, a file store, and the ids of the runs in each."""
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    (folder / "mlruns").mkdir()
    where = [f"sqlite:///{folder / 'mlflow.db'}", str(folder / "db.json"), f"file://{folder / 'mlruns'}", str(folder / "files.json")]
    run_python(STORE, *where, **QUIET)
    return folder


def ids(stores: Path, which: str = "db.json") -> dict[str, str]:
    return dict(json.loads((stores / which).read_text()))


# the database


def test_the_database_value_by_value(stores: Path) -> None:
    path, made = stores / "mlflow.db", ids(stores)
    names = mlflow_database.runs(path)
    assert names[0] == f"exp/one/good@{made['good'][:8]}"
    assert [n.rpartition("@")[0] for n in names] == ["exp/one/good", "exp/one/same", "exp/one/same", "two@home/we@night"]
    for name in (names[0], "exp/one/good", made["good"], made["good"][:8]):
        table = mlflow_database.read(path, name)
        assert_same(points_of(table), GOOD)
        assert table.config == PARAMETERS
    for name, number in ((names[1], 1), (names[2], 2)):
        table = mlflow_database.read(path, name)
        assert (points_of(table), table.config) == ({"train/reward": [(1, float(number))]}, {"number": number})
    assert points_of(mlflow_database.read(path, names[3])) == {"train/reward": [(1, 0.5)]}


@pytest.mark.parametrize("name", ["gone", "nothing", "exp/one/same", "none", ""])
def test_what_names_no_run_or_more_than_one(stores: Path, name: str) -> None:
    made = ids(stores)
    with pytest.raises(Malformed, match=r"mlflow\.db"):
        mlflow_database.read(stores / "mlflow.db", made.get(name, name))


def test_the_database_through_the_front_door(stores: Path) -> None:
    path = stores / "mlflow.db"
    with pytest.raises(SeveralRuns) as raised:
        vario.read(path)
    assert len(set(raised.value.names)) == 4
    run = vario.read(path, run=raised.value.names[0])
    assert run.config["actor.optim.lr"] == 1e-5
    assert run.series["reward/mean"].values.tolist() == [s / 7 for s in range(400)]


@pytest.mark.parametrize(
    ("store", "which"), [("sqlite:///{}/mlflow.db", "db.json"), ("file://{}/mlruns", "files.json")]
)
def test_the_address_that_mlflow_itself_takes(stores: Path, store: str, which: str) -> None:
    address = f"mlflow+{store.format(stores)}"
    run = vario.read(f"{address}/{ids(stores, which)['good']}")
    assert run.series["reward/mean"].values.tolist() == [s / 7 for s in range(400)]
    with pytest.raises(SeveralRuns):
        vario.read(address)
    for wrong in (f"{address}/{'0' * 32}", address.replace("ml", "no-ml")):
        with pytest.raises(SourceError, match="no"):
            vario.read(wrong)
    assert not list(stores.glob("no-*")), "a store that is not there is not made"


def test_the_database_while_it_is_written(stores: Path, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    shutil.copyfile(stores / "mlflow.db", path)
    key = ids(stores)["we@night"]
    connection = sqlite3.connect(path)
    try:
        connection.execute("INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES ('train/reward', 7.0, 1, ?, 9, 0)", [key])
        assert points_of(mlflow_database.read(path, key)) == {"train/reward": [(1, 0.5)]}
        connection.commit()
        assert points_of(mlflow_database.read(path, key)) == {"train/reward": [(1, 0.5), (9, 7.0)]}
    finally:
        connection.close()
    assert [p.name for p in tmp_path.iterdir()] == ["mlflow.db"]


def test_two_ids_with_the_same_beginning_are_two_runs(stores: Path, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    shutil.copyfile(stores / "mlflow.db", path)
    made = ids(stores)
    twin = made["same1"][:8] + "f" * 24
    with sqlite3.connect(path) as connection:
        for table in ("runs", "metrics", "params", "latest_metrics", "tags"):
            connection.execute(f"UPDATE {table} SET run_uuid = ? WHERE run_uuid = ?", [twin, made["same2"]])
    connection.close()
    assert points_of(mlflow_database.read(path, made["same1"])) == {"train/reward": [(1, 1.0)]}
    assert points_of(mlflow_database.read(path, twin)) == {"train/reward": [(1, 2.0)]}


# the file store


def test_the_file_store_value_by_value(stores: Path) -> None:
    made = ids(stores, "files.json")
    (folder,) = (stores / "mlruns").glob(f"*/{made['good']}")
    table = mlflow_folder.read(folder)
    assert_same(points_of(table), GOOD)
    assert table.config == {**PARAMETERS, "list": [1, 2]}
    assert table.ignored == 0


def test_the_file_store_leaves_out_what_was_deleted_or_logged_nothing(stores: Path) -> None:
    made = ids(stores, "files.json")
    with pytest.raises(SeveralRuns) as raised:
        vario.read(stores / "mlruns")
    assert {n.rpartition("/")[2] for n in raised.value.names} == {made[k] for k in ("good", "same1", "same2", "we@night")}
    run = vario.read(stores / "mlruns", run=next(n for n in raised.value.names if made["good"] in n))
    assert run.series["reward/mean"].values.tolist() == [s / 7 for s in range(400)]
    assert run.config["learning_rate"] == 1e-6


def store_of(folder: Path, meta: str = "run_id: abc\nlifecycle_stage: active\n", **metrics: bytes) -> Path:
    (folder / "metrics").mkdir(parents=True)
    (folder / "meta.yaml").write_text(meta)
    for key, content in metrics.items():
        (folder / "metrics" / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / "metrics" / key).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("meta", "is_one"),
    [
        ("run_id: abc\nlifecycle_stage: active\n", True),
        ("run_uuid: abc\n", True),
        ("run_id: abc\nrun_name: 'lifecycle_stage: deleted'\nlifecycle_stage: active\n", True),
        ("lifecycle_stage: deleted\nrun_id: abc\n", False),
        ("model_id: m-1\nname: model\n", False),
        ("experiment_id: '0'\nlifecycle_stage: active\n", False),
    ],
)
def test_which_folders_are_runs(tmp_path: Path, meta: str, is_one: bool) -> None:
    assert mlflow_folder.is_run(store_of(tmp_path / "a", meta, x=b"1 2.0 3\n")) is is_one
    assert not mlflow_folder.is_run(store_of(tmp_path / "b", meta))


def test_a_metric_that_is_being_written(tmp_path: Path) -> None:
    whole = "".join(f"{1000 + s} {s / 7} {s}\n" for s in range(20)).encode()
    true = [(s, s / 7) for s in range(20)]
    for cut in range(1, len(whole), 3):
        folder = store_of(tmp_path / str(cut), x=whole[:cut], y=b"1 2.0 3\n")
        table = mlflow_folder.read(folder)
        read = points_of(table).get("x", [])
        assert read == true[: len(read)]
        assert table.ignored == int(whole[:cut][-1:] != b"\n")


def test_samples_of_the_machine_are_no_steps(tmp_path: Path) -> None:
    """MLflow samples the machine every ten seconds, and numbers the samples where a metric has its step."""
    reward = b"".join(b"%d %s %d\n" % (1000 * s, str(s / 100).encode(), s) for s in range(50))
    sampled = b"".join(b"%d 40.5 %d\n" % (10 * s, s) for s in range(401))
    run = vario.read(store_of(tmp_path, **{"train/reward": reward, "system/gpu_0_utilization_percentage": sampled}))
    assert run.logged_steps.tolist() == list(range(50))
    assert not run.events
    assert not run.warnings


def test_lines_of_every_age_and_broken_ones(tmp_path: Path) -> None:
    lines = [b"1 0.5 1", b"2 nan 2", b"3 1.5 3 set digest", b"4 2.5 4 a set digest", b"5 x 5", b"6", b"", b"7 3.5 x", b"\xff\xfe", b"8 4.5 8"]
    table = mlflow_folder.read(store_of(tmp_path / "a", x=b"\n".join(lines) + b"\n", old=b"1 0.5\n2 0.25\n"))
    assert_same(points_of(table), {"x": [(1, 0.5), (2, math.nan), (3, 1.5), (4, 2.5), (8, 4.5)], "old": [(0, 0.5), (1, 0.25)]})
    assert table.ignored == 5


def test_parameters_with_their_types() -> None:
    pairs = {"1e-6": 1e-6, "8": 8, "True": True, "None": None, "null": None, "[1, 2]": [1, 2], "{'a': 1}": "{'a': 1}", "1_000": "1_000", "": "", "[" * 100_000: "[" * 100_000}
    for text, value in pairs.items():
        assert setting("a/b", text) == ("a.b", value)


# the server


@pytest.fixture(scope="module")
def server(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A tracking server on a copy of the database, with one metric that is longer than a page of its API."""
    folder = tmp_path_factory.mktemp("server")
    path = folder / "mlflow.db"
    shutil.copyfile(stores / "mlflow.db", path)
    made = ids(stores)
    with sqlite3.connect(path) as connection:
        rows = [("train/reward", s / 7, 10 + s, made["we@night"], s, 0) for s in range(2, MANY)]
        connection.executemany("INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    with tracking_server(folder, "--artifacts-destination", str(folder / "artifacts")) as url:
        yield url, made


@pytest.fixture(scope="module")
def asked(server: tuple[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
    """What is read at each address, asked in one go."""
    url, made = server
    at = {
        "run": f"mlflow+{url}/{made['good']}",
        "page": f"{url}/#/experiments/1/runs/{made['good']}/model-metrics",
        "long": f"mlflow://{url.removeprefix('http://')}/{made['we@night']}",
        "experiment": f"mlflow+{url}/exp/one good",
        "page of an experiment": f"{url}/#/experiments/{made['experiment']}",
        "all": f"mlflow+{url}",
        "chosen": f"mlflow+{url} we@night",
        "unknown": f"mlflow+{url}/none",
        "unknown name": f"mlflow+{url} none",
        "experiment without runs": f"mlflow+{url}/Default",
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        at["refused"] = f"mlflow+http://127.0.0.1:{taken.getsockname()[1]}/abc"
        return dict(zip(at, read_elsewhere(*at.values(), **QUIET), strict=True))


def points(made: dict[str, Any]) -> Points:
    return {k: list(zip(steps, values, strict=True)) for k, (steps, values) in made["series"].items()}


def test_a_run_of_the_server_value_by_value(server: tuple[str, dict[str, str]], asked: dict[str, dict[str, Any]]) -> None:
    url, made = server
    for how in ("run", "page"):
        assert_same(points(asked[how]), GOOD)
        assert asked[how]["config"] == PARAMETERS
        assert asked[how]["names"] == [f"good@{made['good'][:8]}"]
        assert asked[how]["path"] == f"mlflow+{url}/{made['good']}"
        assert asked[how]["warnings"] == []


def test_a_metric_of_several_pages_is_whole(asked: dict[str, dict[str, Any]]) -> None:
    steps, values = asked["long"]["series"]["train/reward"]
    assert steps == list(range(1, MANY))
    assert values == [0.5, *(s / 7 for s in range(2, MANY))]


def test_runs_of_an_experiment_and_of_a_server(server: tuple[str, dict[str, str]], asked: dict[str, dict[str, Any]]) -> None:
    _, made = server
    assert asked["experiment"]["names"] == [f"good@{made['good'][:8]}"]
    assert len(asked["all"]["names"]) == 4  # neither what was deleted nor what logged nothing
    assert asked["page of an experiment"]["names"] == [f"we@night@{made['we@night'][:8]}"]
    names = {f"{k.rstrip('12')}@{made[k][:8]}" for k in ("good", "same1", "same2", "we@night")}
    assert names == set(asked["all"]["names"])
    assert asked["chosen"]["names"] == [f"we@night@{made['we@night'][:8]}"]


def test_what_the_server_does_not_have(asked: dict[str, dict[str, Any]]) -> None:
    for how in ("unknown", "unknown name", "experiment without runs"):
        assert asked[how]["error"] == "NothingReadable"
        assert "no such run" in asked[how]["text"]


def test_more_runs_than_a_page() -> None:
    from vario.sources.mlflow_server import _pages

    class Page(list[object]):
        token = ""

    def ask(token: str | None) -> Page:
        first = int(token or 0)
        page = Page(range(first, min(first + 1000, 2500)))
        page.token = str(first + 1000) if first + 1000 < 2500 else ""
        return page

    assert _pages(ask) == list(range(2500))


def test_a_server_that_does_not_answer_is_said_at_once(asked: dict[str, dict[str, Any]]) -> None:
    made = asked["refused"]
    assert made["error"] == "NothingReadable"
    assert "nothing answers" in made["text"]
    assert made["seconds"] < 15  # the client itself tries for minutes


def test_a_history_that_breaks_off() -> None:
    from types import SimpleNamespace

    from vario.sources.mlflow_server import _read

    pytest.importorskip("mlflow")

    class Client:
        def __init__(self, fails: str) -> None:
            self.fails = fails

        def get_metric_history(self, _run: str, key: str) -> list[SimpleNamespace]:
            if key >= self.fails:
                raise ConnectionError("gone")
            return [SimpleNamespace(step=s, value=s / 2, timestamp=s) for s in range(3)]

    run = SimpleNamespace(info=SimpleNamespace(run_id="abc"), data=SimpleNamespace(params={}, metrics={"a": 1, "b": 1, "c": 1}))
    table = _read(Client("b"), run, "http://x")
    assert points_of(table) == {"a": [(0, 0.0), (1, 0.5), (2, 1.0)]}
    assert "1 of 3 metrics were read" in table.warnings[0]
    with pytest.raises(NothingReadable, match="gone"):
        _read(Client("a"), run, "http://x")


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for address in ("mlflow+http://127.0.0.1:1/abc", "http://127.0.0.1:1/#/experiments/1/runs/abc"):
        with pytest.raises(VarioError, match=r"pip install 'vario\[mlflow\]'"):
            vario.read(address)
