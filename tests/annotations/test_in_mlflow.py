"""MLflow: tags and the report of a run, on a real server and in a database, read back by its own client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import vario
from tests.annotations.told import driven, rows_of
from tests.conftest import GOLDEN
from tests.mlflow_server import QUIET, tracking_server
from vario.surfaces.annotations.entries import annotation_of
from vario.surfaces.annotations.in_mlflow import InMlflow
from vario.surfaces.outward import NotDelivered

pytest.importorskip("mlflow")

CODE = """
from mlflow import MlflowClient
from mlflow.entities import Metric

rows = json.load(open("{rows}"))
points = [Metric(f"train/{{k}}", v, 1000 + r["step"], r["step"]) for r in rows for k, v in r.items() if k not in ("step", "epoch")]
experiment = MlflowClient(tracking_uri="{url}").create_experiment("grpo", artifact_location="{folder}/artifacts")

def written(store):
    client = MlflowClient(tracking_uri=store)
    info = client.create_run(experiment).info
    run = info.run_id
    for i in range(0, len(points), 1000):
        client.log_batch(run, metrics=points[i : i + 1000])
    client.set_tag(run, "mine", "stays")
    client.set_tag(run, "various", "stays too")
    tags = lambda: dict(client.get_run(run).data.tags)
    made = {{"before": tags()}}
    where = ("mlflow+{url}/" + run,) if store == "{url}" else ("{folder}/mlflow.db", "--run", f"grpo/{{info.run_name}}@{{run[:8]}}")
    first = judged(*where)
    begun = len(told)
    command("annotate", "{golden}", "--to", f"mlflow+{{store}}/{{run}}")
    made["first"] = tags()
    made["report"] = open(client.download_artifacts(run, "vario/report.md")).read()
    command("annotate", "{golden}", "--to", f"mlflow+{{store}}/{{run}}", "--until", "30")
    made["second"] = tags()
    command("annotate", "{golden}", "--to", f"mlflow+{{store}}/none", "--no-replay")
    made["told"] = told[begun:]
    made["same"] = judged(*where) == first
    made["files"] = [f.path for f in client.list_artifacts(run, "vario")]
    return made

found["server"] = written("{url}")
found["database"] = written("sqlite:///{folder}/mlflow.db")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A tracking server, and the folder with its database."""
    folder = tmp_path_factory.mktemp("mlflow")
    with tracking_server(folder) as url:
        yield folder, url


@pytest.fixture(scope="module")
def found(server: tuple[Path, str]) -> dict[str, Any]:
    """What was there after each command, on the server and in its database, asked in one go."""
    folder, url = server
    (folder / "rows.json").write_text(json.dumps(rows_of(GOLDEN / "grpo-drift")))
    code = CODE.format(rows=folder / "rows.json", folder=folder, url=url, golden=GOLDEN / "grpo-drift")
    return driven(code, **QUIET)[1]


def ours(tags: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in tags.items() if key.startswith("vario.")}


each_store = pytest.mark.parametrize("store", ["server", "database"])


@each_store
def test_tags_and_the_report(found: dict[str, Any], store: str) -> None:
    made = found[store]
    assert [done["code"] for done in made["told"]] == [0, 0, 2], made["told"]
    tags = ours(made["first"])
    assert tags["vario.verdict"].startswith("STOP")
    assert tags["vario.findings.kl-rises-while-reward-falls"].startswith("critical, since step 43")
    assert tags["vario.findings"] == "kl-rises-while-reward-falls"
    assert made["report"].startswith("## STOP")
    assert made["files"] == ["vario/report.md"]


@each_store
def test_what_holds_no_more_goes_and_what_is_not_ours_stays(found: dict[str, Any], store: str) -> None:
    made = found[store]
    assert "vario.findings.kl-rises-while-reward-falls" not in made["second"], "it does not hold at step 30"
    assert made["second"]["vario.trajectory"] != made["first"]["vario.trajectory"]
    assert made["before"]["various"] == "stays too"
    for tags in (made["first"], made["second"]):
        assert tags.items() - ours(tags).items() == made["before"].items()


@each_store
def test_what_was_written_is_no_metric(found: dict[str, Any], store: str) -> None:
    assert found[store]["same"]


@each_store
def test_a_run_that_is_not_there(found: dict[str, Any], store: str) -> None:
    said = found[store]["told"][-1]["err"]
    assert said.count("\n") == 1
    assert "does not take it" in said


def test_a_client_without_databases_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`vario[mlflow]` brings a client for servers; what it lacks for a database is said before one is opened."""
    monkeypatch.setitem(sys.modules, "alembic", None)
    store = tmp_path / "mlflow.db"
    store.touch()
    annotation = annotation_of(vario.diagnose(vario.read(GOLDEN / "grpo-drift")), date(2026, 1, 2))
    with pytest.raises(NotDelivered, match=r"`pip install mlflow` \(there is no alembic\)"):
        InMlflow.at(f"mlflow+sqlite:///{store}/9f2c41d07be84c13a5e6d8f0b1c2a3d4").write(annotation)
