"""The generated dashboard: what Grafana needs to load it, and only metrics that the exporter makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.exporters.promql import BY_NAME, check, labels_of
from vario.catalogue import METRICS
from vario.surfaces.exporters.alert_rules import QUIET_SECONDS
from vario.surfaces.exporters.families import FAMILIES, REGIMES, TRAJECTORIES, Row
from vario.surfaces.exporters.grafana import dashboard, dashboard_file
from vario.surfaces.fleet.row import ACTIONS
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES
from vario.surfaces.live.watched import Status
from vario.surfaces.panels import HIDDEN, PANELS

WORDS = {
    "action": set(ACTIONS),
    "confidence": set(CONFIDENCES),
    "trajectory": set(TRAJECTORIES),
    "regime": set(REGIMES),
    "severity": set(SEVERITIES),
    "status": set(Status),
}
OF_GRAFANA = {"__rate_interval", "__all"}
KINDS = {"row", "table", "timeseries", "state-timeline", "stat"}
MADE: dict[str, Any] = json.loads(dashboard_file())
PANELS_MADE: list[dict[str, Any]] = [p for p in MADE["panels"] if p["type"] != "row"]
each_panel = pytest.mark.parametrize("panel", PANELS_MADE, ids=lambda p: p["title"])


def expressions() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for panel in PANELS_MADE:
        for target in panel["targets"]:
            yield panel, target


def test_the_file_is_the_generated_one_and_always_the_same() -> None:
    assert (ROOT / "docs/grafana/vario.json").read_text(encoding="utf-8") == dashboard_file() == dashboard_file()
    assert dashboard() == MADE
    assert list(MADE) == sorted(MADE)


def test_grafana_can_load_it() -> None:
    assert MADE["id"] is None, "an id would overwrite whatever has it"
    assert MADE["schemaVersion"] >= 36, "data sources are named by type and uid since then"
    assert MADE["uid"] and len(MADE["uid"]) <= 40
    assert MADE["title"] and MADE["time"]["from"] and MADE["time"]["to"]
    ids = [p["id"] for p in MADE["panels"]]
    assert len(set(ids)) == len(ids) and all(isinstance(i, int) and i > 0 for i in ids)
    assert {p["type"] for p in MADE["panels"]} == KINDS
    for panel in MADE["panels"]:
        assert panel["title"]
        assert panel["type"] != "row" or (panel["panels"] == [] and panel["collapsed"] is False)


def test_panels_lie_side_by_side_in_24_columns() -> None:
    places = [(p["title"], p["gridPos"]) for p in MADE["panels"]]
    for title, g in places:
        assert g["x"] >= 0 and g["y"] >= 0 and g["w"] > 0 and g["h"] > 0, title
        assert g["x"] + g["w"] <= 24, title
    for (one, a), (other, b) in combinations(places, 2):
        apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart_y = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart_x or apart_y, f"{one} lies on {other}"


def test_rows_stand_in_the_order_of_every_surface() -> None:
    titles = [p["title"] for p in MADE["panels"] if p["type"] == "row"]
    assert titles == [row.capitalize() for row in Row]
    ys = [p["gridPos"]["y"] for p in MADE["panels"] if p["type"] == "row"]
    assert ys == sorted(ys)
    assert [t for t, _ in PANELS] == [t.lower() for t in titles][1:4]


@each_panel
def test_a_panel_says_what_it_shows_and_whence(panel: dict[str, Any]) -> None:
    assert panel["description"].strip()
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [t["refId"] for t in panel["targets"]] == list("ABC"[: len(panel["targets"])])
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert target["instant"] != target["range"]
        assert (target["format"] == "table") == (panel["type"] == "table")


@each_panel
def test_expressions_refer_to_what_the_exporter_makes(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression = check(target["expr"])
        wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert wanted <= labels_of(expression), f"{target['legendFormat']} of {target['expr']}"
        assert wanted or panel["type"] == "table"
        for name, label, operator, value in expression.matchers:
            if label == "run":
                assert (operator, value) == ("=~", "$run")
            elif label in WORDS:
                assert operator == "=" and value in WORDS[label], f"{name} is never {label}={value}"
        for name in expression.metrics:
            chosen = any(m[:2] == (name, "run") for m in expression.matchers)
            assert chosen == ("run" in BY_NAME[name].labels), f"{name} of runs that were not chosen"
            if name.endswith("_total") and panel["type"] == "timeseries":
                assert f"rate({name}" in target["expr"], "what only grows is shown as its rate"


def test_every_exported_metric_is_shown_in_its_rows() -> None:
    shown: dict[str, set[str]] = {f.name: set() for f in FAMILIES}
    row = ""
    for panel in MADE["panels"]:
        if panel["type"] == "row":
            row = panel["title"].lower()
        for target in panel.get("targets", ()):
            for name in check(target["expr"]).metrics:
                shown[name].add(row)
    assert shown == {f.name: set(f.rows) for f in FAMILIES}


def test_variables_that_are_used_are_declared_and_the_other_way_round() -> None:
    declared = {v["name"]: v for v in MADE["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", dashboard_file()))
    assert used - OF_GRAFANA == set(declared) == {"datasource", "run"}
    assert declared["datasource"]["type"] == "datasource" and declared["datasource"]["query"] == "prometheus"
    run = declared["run"]
    assert run["type"] == "query" and run["multi"] and run["includeAll"]
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", run["query"]["query"])
    assert asked and asked[2] in BY_NAME[asked[1]].labels


@pytest.mark.parametrize(
    "panel", [p for p in PANELS_MADE if p["type"] == "state-timeline"], ids=lambda panel: panel["title"]
)
def test_a_state_is_shown_as_the_word_that_its_number_stands_for(panel: dict[str, Any]) -> None:
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    said = {code: shown["text"] for code, shown in mapping["options"].items()}
    terms = re.findall(r'\b(\w+)="([\w-]+)"\} \* (\d+)', panel["targets"][0]["expr"])
    assert {code: word for _, word, code in terms} == {c: w for c, w in said.items() if c != "0"}
    assert {word for _, word, _ in terms} == WORDS[terms[0][0]]
    assert said.get("0", "passed") == "passed"
    assert sorted(shown["index"] for shown in mapping["options"].values()) == list(range(len(said)))


def test_every_metric_of_the_panels_has_its_panel_and_only_one() -> None:
    """Components, evaluation sets and the like by any name."""
    chosen = [
        (panel["title"], value)
        for panel, target in expressions()
        for name, label, operator, value in check(target["expr"]).matchers
        if name == "vario_metric_last" and label == "metric" and operator == "=~"
    ]
    prefixes = tuple(p for _, group in PANELS for p in group)
    wanted = [n for n in METRICS if n.startswith(prefixes) and not n.endswith(HIDDEN)]
    assert len(wanted) > 20
    for name in wanted:
        concrete = name.replace("*", 'a "name" (of any kind)')
        assert len([t for t, pattern in chosen if re.fullmatch(pattern, concrete)]) == 1, name
    for title, pattern in chosen:
        assert any(re.fullmatch(pattern, n.replace("*", "x")) for n in wanted), f"{title} stays empty for ever"


def test_metrics_of_one_panel_share_their_unit() -> None:
    for panel, target in expressions():
        for name, label, _, value in check(target["expr"]).matchers:
            if (name, label) == ("vario_metric_level", "metric"):
                units = {m.unit for m in METRICS.values() if re.fullmatch(value, m.name.replace("*", "x"))}
                assert len(units) == 1, panel["title"]
                grafanas = panel["fieldConfig"]["defaults"]["unit"]
                assert grafanas == {"share": "percentunit", "s": "s"}.get(units.pop(), "short")


def test_silence_is_a_warning_where_it_is_an_alert() -> None:
    panel = next(p for p in PANELS_MADE if p["title"] == "Since the last row")
    assert [s["value"] for s in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, QUIET_SECONDS]
