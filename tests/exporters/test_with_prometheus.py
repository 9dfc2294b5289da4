"""A real Prometheus scrapes the exporter: every query of the dashboard finds something, and the alerts fire.

Skipped where no Prometheus is on the machine (Debian's package: prometheus).
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

import vario
from tests.cli.dumps import broken_at, trl_run
from tests.conftest import ROOT
from tests.exporters.watching import seen, watching
from vario.surfaces.exporters.alert_rules import QUIET_SECONDS
from vario.surfaces.exporters.grafana import dashboard_file
from vario.surfaces.exporters.prometheus import Exporter

pytestmark = pytest.mark.usefixtures("prometheus")
SECONDS = 30.0
"""Longest time that Prometheus may take to be there and to have seen enough."""
SILENT = 'silent "run"'


@dataclass
class Asked:
    """A Prometheus that has scraped the runs some times."""

    port: int

    def get(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def find(self, expression: str) -> list[dict[str, Any]]:
        return self.get("query", query=expression)["result"]


def until(there: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            if there():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("Prometheus has not seen the runs in time")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("prometheus")
    silent = seen(watching("grpo-healthy-kl", SILENT), 60)
    silent.last_row_at = time.time() - QUIET_SECONDS - 60
    read = vario.read(trl_run(folder / "read", broken_at(60)))
    watched = [seen(watching(read, "read")), seen(watching("dpo-overtrain")), seen(watching("grpo-drift")), silent]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Exporter(watched).serve(port=0) as server:
        shutil.copy(ROOT / "docs/grafana/alerts.yml", folder / "alerts.yml")
        (folder / "prometheus.yml").write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                    "rule_files": ["alerts.yml"],
                    "scrape_configs": [
                        {"job_name": "vario", "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}
                    ],
                }
            )
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
            asked = Asked(port)
            try:
                until(lambda: asked.find("rate(vario_looks_total[10s])") and asked.find("ALERTS"))
                yield asked
            finally:
                process.terminate()
                process.wait(10)


def test_the_scrape_is_whole(prometheus: Asked) -> None:
    (target,) = prometheus.get("targets")["activeTargets"]
    assert target["health"] == "up", target["lastError"]
    runs = {found["metric"]["run"] for found in prometheus.find("vario_run_status")}
    assert runs == {"read", "dpo-overtrain", "grpo-drift", SILENT}


def test_every_query_of_the_dashboard_finds_what_was_exported(prometheus: Asked) -> None:
    logged = {found["metric"]["metric"] for found in prometheus.find("vario_metric_last")}
    found, expected = {}, {}
    for panel in json.loads(dashboard_file())["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$run", ".+").replace("$__rate_interval", "10s")
            chosen = re.search(r'metric=~"([^"]*)"', expression)
            found[expression] = bool(prometheus.find(expression))
            expected[expression] = chosen is None or any(re.fullmatch(chosen[1], name) for name in logged)
    assert found == expected
    assert sum(expected.values()) > 40


def test_states_are_told_as_the_numbers_of_their_words(prometheus: Asked) -> None:
    panels = {p["title"]: p for p in json.loads(dashboard_file())["panels"]}

    def told(title: str, *labels: str) -> dict[tuple[str, ...], str]:
        panel = panels[title]
        (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
        return {
            tuple(found["metric"][label] for label in labels): mapping["options"][found["value"][1]]["text"]
            for found in prometheus.find(panel["targets"][0]["expr"].replace("$run", ".+"))
        }

    assert told("Verdict", "run")["grpo-drift",] == "stop"
    assert told("Status", "run") == {
        ("read",): "ended", ("dpo-overtrain",): "ended", ("grpo-drift",): "ended", (SILENT,): "live"
    }  # fmt: skip
    assert told("Findings", "run", "finding")["grpo-drift", "kl-rises-while-reward-falls"] == "critical"
    assert len(told("Regime", "run")) == len(told("Trajectory", "run")) == 4


def test_the_alerts_fire_for_the_runs_that_they_are_about(prometheus: Asked) -> None:
    (group,) = prometheus.get("rules")["groups"]
    found = {}
    for rule in group["rules"]:
        assert rule["health"] == "ok", rule.get("lastError")
        found[rule["name"]] = {
            (alert["labels"].get("run"), alert["state"]): alert["annotations"]["summary"] for alert in rule["alerts"]
        }
    assert ("grpo-drift", "firing") in found["VarioVerdictStop"]
    assert ("dpo-overtrain", "firing") not in found["VarioVerdictStop"]
    assert "kl-" in found["VarioCriticalFinding"]["grpo-drift", "firing"]
    assert set(found["VarioNoRowForLong"]) == {(SILENT, "pending")}, (
        "it waits a minute, and leaves what has ended alone"
    )
    assert found["VarioNoRowForLong"][SILENT, "pending"].startswith(f"no row from {SILENT} for 31m")
    assert found["VarioGone"] == {}
