"""A dashboard of runs that trackers keep: a real MLflow server and its database, trackio's own files, TensorBoard's."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.annotations.told import rows_of
from tests.conftest import GOLDEN
from tests.dashboard.serving import Dashboard, served, until
from tests.mlflow_server import tracking_server
from tests.sources.writers import scalar_event, write_events
from vario.surfaces.live.followed import REMOTE_SECONDS

pytest.importorskip("mlflow")
pytest.importorskip("trackio")

TRACKIO = """
import json, sys
import trackio

trackio.init(project="grpo", name="drifting")
for row in json.load(open(sys.argv[1])):
    trackio.log({f"train/{k}": v for k, v in row.items() if k != "step"} | {"train/global_step": row["step"]})
trackio.finish()
"""
BROKEN, FINE, END = "grpo-drift", "grpo-healthy-kl", 140


@dataclass
class Tracker:
    """An MLflow server, asked as its own client asks it."""

    url: str

    def call(self, path: str, **body: object) -> Any:
        request = Request(f"{self.url}/api/2.0/mlflow/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def begin(self, experiment: str, name: str) -> str:
        return str(self.call("runs/create", experiment_id=experiment, run_name=name, start_time=_now())["run"]["info"]["run_id"])

    def log(self, run: str, rows: list[dict[str, float]]) -> None:
        points = [{"key": f"train/{k}", "value": v, "timestamp": _now(), "step": row["step"]} for row in rows for k, v in row.items() if k != "step"]
        for i in range(0, len(points), 1000):
            self.call("runs/log-batch", run_id=run, metrics=points[i : i + 1000])


def _now() -> int:
    return int(time.time() * 1000)


@dataclass
class Shown:
    """What the tests look at: the dashboard, the server that it follows, and what stops that server."""

    dashboard: Dashboard
    tracker: Tracker
    ids: dict[str, str]
    broken: str
    stop: contextlib.ExitStack

    def diagnosis(self, name: str) -> Any:
        (found,) = [run for known, run in self.ids.items() if name in known]
        return json.loads(self.dashboard.ask(f"/runs/{found}/diagnosis.json").text)

    def alarms(self, name: str) -> list[str]:
        return [f["name"] for f in self.diagnosis(name)["findings"] if f["severity"] != "info"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("trackers")
    rows = rows_of(GOLDEN / BROKEN)[:END]
    (home / "rows.json").write_text(json.dumps(rows))
    environment = {**os.environ, "TRACKIO_DIR": str(home / "trackio"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", TRACKIO, str(home / "rows.json")], env=environment, check=True, capture_output=True)
    events = [scalar_event(int(row["step"]), {f"train/{k}": v for k, v in row.items() if k != "step"}) for row in rows]
    (home / "tensorboard").mkdir()
    write_events(home / "tensorboard/events.out.tfevents.1700000000.host", events)
    (home / "mlflow").mkdir()
    with contextlib.ExitStack() as stop:
        tracker = Tracker(stop.enter_context(tracking_server(home / "mlflow")))
        experiment = tracker.call("experiments/create", name="grpo")["experiment_id"]
        broken, fine = (tracker.begin(experiment, name) for name in (BROKEN, FINE))
        tracker.log(broken, rows[:60])
        tracker.log(fine, rows_of(GOLDEN / FINE))
        with served(f"mlflow+{tracker.url}", "trackio", "tensorboard", cwd=home) as dashboard:
            ids = until(lambda: found if len(found := dashboard.ids()) == 4 else None)
            yield Shown(dashboard, tracker, dashboard.judged(*ids), broken, stop)


def test_runs_of_a_server_and_of_files_stand_side_by_side(shown: Shown) -> None:
    assert sorted(name.split("@")[0] for name in shown.ids) == sorted([BROKEN, FINE, "drifting", "tensorboard"])
    assert shown.alarms(FINE) == []
    for kept in ("drifting", "tensorboard"):
        assert shown.alarms(kept) == ["kl-rises-while-reward-falls"], kept


def test_a_row_on_the_server_comes_to_the_page(shown: Shown) -> None:
    assert shown.diagnosis(BROKEN)["run"]["last_step"] == 60
    assert shown.alarms(BROKEN) == []
    shown.tracker.log(shown.broken, rows_of(GOLDEN / BROKEN)[60:END])
    assert until(lambda: shown.alarms(BROKEN), 2 * REMOTE_SECONDS) == ["kl-rises-while-reward-falls"]
    (page,) = [shown.dashboard.ask(f"/runs/{run}").text for name, run in shown.ids.items() if BROKEN in name]
    assert "KL" in page
    assert f"steps 1 to {END}" in page


def test_a_server_that_goes_away_takes_no_page_with_it(shown: Shown) -> None:
    shown.stop.close()
    time.sleep(3.0)  # one look at a server that is not there
    for run in shown.ids.values():
        assert shown.dashboard.ask(f"/runs/{run}").status == 200
    assert "3 critical" in shown.dashboard.ask("/?part=list").text
