"""The example alerting rules: valid YAML, only metrics that the exporter makes, and Prometheus itself agrees."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.exporters.promql import check, labels_of
from vario.surfaces.exporters.alert_rules import RULES, alert_rules_file
from vario.surfaces.fleet.row import ACTIONS
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES
from vario.surfaces.live.watched import Status

FILE = ROOT / "docs/grafana/alerts.yml"
WORDS = {"action": ACTIONS, "confidence": CONFIDENCES, "severity": SEVERITIES, "status": tuple(Status)}


def rules() -> list[dict[str, Any]]:
    made = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert list(made) == ["groups"]
    (group,) = made["groups"]
    assert group["name"] == "vario"
    return group["rules"]


each_rule = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])


def test_the_file_is_the_generated_one() -> None:
    assert FILE.read_text(encoding="utf-8") == alert_rules_file()
    assert [(r["alert"], r["expr"], r["annotations"]["summary"]) for r in rules()] == [
        (r.name, r.expr, r.summary) for r in RULES
    ]


@each_rule
def test_a_rule_is_whole(rule: dict[str, Any]) -> None:
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Vario[A-Za-z]+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["labels"]["severity"] in SEVERITIES
    assert set(rule["annotations"]) == {"summary", "description"}


@each_rule
def test_a_rule_refers_to_what_the_exporter_makes(rule: dict[str, Any]) -> None:
    expression = check(rule["expr"])
    for _, label, operator, value in expression.matchers:
        assert operator in ("=", "=~")
        assert set(value.split("|")) <= set(WORDS[label]), f"{label} is never {value}"
    told = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert told <= labels_of(expression)


@pytest.mark.usefixtures("prometheus")
def test_promtool_accepts_them() -> None:
    done = subprocess.run(["promtool", "check", "rules", FILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout
