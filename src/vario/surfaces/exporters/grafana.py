"""The Grafana dashboard, generated: the rows and the order of every other surface, over the exported metrics."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vario.catalogue import METRICS, Metric
from vario.surfaces.exporters.alert_rules import QUIET_SECONDS
from vario.surfaces.exporters.families import REGIMES, TRAJECTORIES, Row
from vario.surfaces.fleet.row import ACTIONS
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES
from vario.surfaces.live.watched import Status
from vario.surfaces.panels import HIDDEN, PANELS

Json = dict[str, object]

UID = "vario-runs"
SCHEMA_VERSION = 39
"""Of Grafana 11; later ones bring it up to date when they load it."""
COLUMNS = 24
THIRD, HALF, WHOLE = 8, 12, 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
MINE = 'run=~"$run"'
UNITS = {"share": "percentunit", "s": "s"}
"""Grafana's words for those units of the catalogue that it knows."""

GREY, GREEN, YELLOW, ORANGE, RED, BLUE = "#8e8e8e", "green", "yellow", "orange", "red", "blue"
COLOURS = {
    "continue": GREEN,
    "cannot-tell": GREY,
    "intervene": ORANGE,
    "stop": RED,
    "low": GREY,
    "medium": YELLOW,
    "high": GREEN,
    "passed": GREY,
    "info": BLUE,
    "warning": ORANGE,
    "critical": RED,
    "rising": GREEN,
    "slowing": YELLOW,
    "plateau": BLUE,
    "peaked": ORANGE,
    "declining": RED,
    "saturated": BLUE,
    "flat-low": ORANGE,
    "kl-up-reward-up": YELLOW,
    "kl-up-reward-flat": ORANGE,
    "kl-up-reward-down": RED,
    "kl-flat-reward-up": GREEN,
    "kl-flat-reward-flat": BLUE,
    "kl-flat-reward-down": ORANGE,
    "kl-down-reward-up": GREEN,
    "kl-down-reward-flat": BLUE,
    "kl-down-reward-down": ORANGE,
    "live": GREEN,
    "stalled": ORANGE,
    "lost": RED,
    "ended": BLUE,
}
"""By word; others are grey, for they judge nothing."""


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and how its series are called."""

    expr: str
    legend: str = "{{run}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel before it has its place; `kind`, `defaults`, `options` and the like are Grafana's own words."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    width: int
    height: int
    description: str
    options: Json
    defaults: Json = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()


def dashboard() -> Json:
    """The dashboard as Grafana imports it: a data source and runs to choose, then the rows of `Row`."""
    return {
        "annotations": {"list": []},
        "description": "RL post-training runs under watch by vario. Made by `python scripts/pages.py write`.",
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [],
        "panels": _placed({row: list(panels) for row, panels in _rows().items()}),
        "refresh": "1m",
        "schemaVersion": SCHEMA_VERSION,
        "tags": ["vario"],
        "templating": {"list": _variables()},
        "time": {"from": "now-24h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "title": "vario",
        "uid": UID,
        "version": 1,
        "weekStart": "",
    }


def dashboard_file() -> str:
    """The dashboard as it is written down: the same bytes for the same source."""
    return json.dumps(dashboard(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _rows() -> Mapping[Row, Iterator[Panel]]:
    return {
        Row.ANNUNCIATOR: _annunciator(),
        **{Row(title): _metrics(prefixes) for title, prefixes in PANELS},
        Row.AHEAD: _ahead(),
        Row.FRESHNESS: _freshness(),
        Row.REVIEW: _review(),
        Row.ITSELF: _itself(),
    }


def _annunciator() -> Iterator[Panel]:
    actions, severities = ACTIONS[::-1], ("passed", *SEVERITIES)
    yield _timeline("Verdict", _coded("vario_verdict_state", "action", actions), actions, HALF, 6, "What to do.")
    yield _open_findings()
    yield _timeline(
        "Confidence of the verdict",
        _coded("vario_verdict_confidence_state", "confidence", CONFIDENCES),
        CONFIDENCES,
        HALF,
        4,
        "How sure the verdict is.",
    )
    graded = " or ".join(
        f'vario_finding_active{{{MINE}, severity="{word}"}} * {code}' for code, word in enumerate(SEVERITIES, 1)
    )
    yield _timeline(
        "Findings",
        Query(f"max by (run, finding) ({graded})", "{{run}}: {{finding}}"),
        severities,
        WHOLE,
        8,
        "Each finding by its severity, and grey once it has passed; symptoms stand beneath their cause.",
        first=0,
    )
    yield _timeline(
        "Trajectory",
        _coded("vario_trajectory_state", "trajectory", TRAJECTORIES),
        TRAJECTORIES,
        HALF,
        5,
        "The shape of the score.",
    )
    yield _timeline(
        "Regime",
        _coded("vario_regime_state", "regime", REGIMES),
        REGIMES,
        HALF,
        5,
        "What KL pays and what reward gains.",
    )


def _coded(name: str, label: str, words: Sequence[str]) -> Query:
    """A state as one number for each run: 1 for its first word; of several instances the last word counts."""
    terms = " or ".join(f'{name}{{{MINE}, {label}="{word}"}} * {code}' for code, word in enumerate(words, 1))
    # a state of which no word holds is a gap: 0 is no word
    return Query(f"max by (run) ({terms}) > 0")


def _open_findings() -> Panel:
    # summed up by label, for the names of the two metrics would keep their rows apart
    held = f"vario_finding_active{{{MINE}}} == 1"
    since = f"vario_finding_since_step{{{MINE}}} and on (job, instance, run, finding) ({held})"
    grave = f"max by (run, finding, severity, confidence) ({held})"
    columns = ("run", "finding", "severity", "confidence", "Value #B")
    return Panel(
        "Open findings",
        "table",
        (Query(grave, ""), Query(f"max by (run, finding) ({since})", "")),
        HALF,
        10,
        "What holds at the last look, and the step since which it does.",
        {"cellHeight": "sm", "showHeader": True, "sortBy": [{"desc": False, "displayName": "run"}]},
        overrides=(
            _override(
                "severity",
                ("mappings", [{"type": "value", "options": _shown(SEVERITIES, SEVERITIES)}]),
                ("custom.cellOptions", {"type": "color-text"}),
            ),
        ),
        transformations=(
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: at for at, name in enumerate(columns)},
                    "renameByName": {"Value #B": "since step"},
                },
            },
        ),
    )


def _metrics(prefixes: Sequence[str]) -> Iterator[Panel]:
    """A panel for each prefix and each unit in it: shares and counts have no axis in common."""
    for prefix in prefixes:
        by_unit: dict[str, list[Metric]] = {}
        for metric in METRICS.values():
            if metric.name.startswith(prefix) and not metric.name.endswith(HIDDEN):
                by_unit.setdefault(metric.unit, []).append(metric)
        for unit, metrics in by_unit.items():
            yield _metric(prefix.rstrip("/") if len(by_unit) == 1 else f"{prefix.rstrip('/')} ({unit})", unit, metrics)


def _metric(title: str, unit: str, metrics: Sequence[Metric]) -> Panel:
    names = "|".join(m.name.replace("*", ".+") for m in metrics)
    chosen = f'{{{MINE}, metric=~"{names}"}}'
    return Panel(
        title,
        "timeseries",
        (
            Query(f"vario_metric_last{chosen}", "{{run}} {{metric}}"),
            Query(f"vario_metric_level{chosen}", "{{run}} {{metric}} level"),
        ),
        THIRD,
        7,
        "\n\n".join(f"{m.name}: {m.meaning}" for m in metrics) + f"\n\nIn {unit}; dashed: the level without noise.",
        _series_options(),
        _line(UNITS.get(unit, "short")),
        (
            {
                "matcher": {"id": "byRegexp", "options": "/ level$/"},
                "properties": [{"id": "custom.lineStyle", "value": {"dash": [8, 8], "fill": "dash"}}],
            },
        ),
    )


def _ahead() -> Iterator[Panel]:
    yield _series(
        "Best checkpoint",
        (
            Query(f"vario_best_checkpoint_step{{{MINE}}}", "{{run}} best"),
            Query(f"vario_run_step{{{MINE}}}", "{{run}} now"),
        ),
        HALF,
        "Step of the best checkpoint so far, beside the step of the last row.",
    )
    yield _series(
        "Upside",
        (
            Query(f"vario_upside_expected{{{MINE}}}", "{{run}} expected"),
            Query(f"vario_upside_low{{{MINE}}}", "{{run}} low"),
            Query(f"vario_upside_high{{{MINE}}}", "{{run}} high"),
        ),
        HALF,
        "Gain of the score if the run goes on, with its 80 % interval; empty where nothing can be told.",
    )


def _freshness() -> Iterator[Panel]:
    yield _stat(
        "Since the last row",
        Query(f"time() - vario_run_last_row_timestamp_seconds{{{MINE}}}"),
        "How long no row has come.",
        unit="s",
        steps=((None, GREEN), (QUIET_SECONDS, ORANGE)),
    )
    statuses = tuple(Status)
    yield _timeline(
        "Status",
        _coded("vario_run_status", "status", statuses),
        statuses,
        THIRD,
        6,
        "How the run is doing as a process.",
    )
    yield _series(
        "Rows a second",
        (Query(f"rate(vario_run_rows_total{{{MINE}}}[$__rate_interval])"),),
        THIRD,
        "How fast rows come.",
        height=6,
    )
    yield _series(
        "Steps",
        (
            Query(f"vario_run_step{{{MINE}}}", "{{run}} read"),
            Query(f"vario_verdict_step{{{MINE}}}", "{{run}} judged"),
        ),
        WHOLE,
        "Step of the last row, and of the last look: everything that is judged is as of the latter.",
        height=6,
    )


def _review() -> Iterator[Panel]:
    yield _series(
        "Steps unread",
        (Query(f"vario_unread_steps{{{MINE}}}"),),
        HALF,
        "Steps since somebody has read completions; empty for a run without any.",
        height=6,
    )
    yield _stat(
        "Review due",
        Query(f"vario_review_due{{{MINE}}}"),
        "Whether completions are due to be read: `vario samples RUN --review`.",
        width=HALF,
        words=("no", "due"),
        steps=((None, GREEN), (1, ORANGE)),
    )


def _itself() -> Iterator[Panel]:
    yield _series(
        "Time spent judging",
        (Query(f"rate(vario_judging_seconds_total{{{MINE}}}[$__rate_interval])"),),
        THIRD,
        "Share of one core that judging takes.",
        unit="percentunit",
        height=6,
    )
    yield _series(
        "Looks a second",
        (Query(f"rate(vario_looks_total{{{MINE}}}[$__rate_interval])"),),
        THIRD,
        "How often the runs are judged.",
        height=6,
    )
    yield _stat(
        "Troubles",
        Query(f"vario_troubles_total{{{MINE}}}"),
        "Times that something went wrong in following a run.",
        steps=((None, GREEN), (1, ORANGE)),
    )
    yield _stat(
        "Metrics left out",
        Query(f"vario_metrics_left_out{{{MINE}}}"),
        "Metrics of the panels that are not exported, for they are too many.",
        width=HALF,
        steps=((None, GREEN), (1, ORANGE)),
    )
    yield _stat(
        "Version",
        Query("vario_build_info", "{{version}}"),
        "The version of vario at work.",
        width=HALF,
        text="name",
        steps=((None, BLUE),),
    )


def _timeline(
    title: str, query: Query, words: Sequence[str], width: int, height: int, description: str, first: int = 1
) -> Panel:
    return Panel(
        title,
        "state-timeline",
        (query,),
        width,
        height,
        description,
        {
            "alignValue": "left",
            "legend": _legend(show=False),
            "mergeValues": True,
            "rowHeight": 0.9,
            "showValue": "auto",
            "tooltip": {"mode": "single", "sort": "none"},
        },
        {
            "color": {"mode": "thresholds"},
            "custom": {"fillOpacity": 80, "lineWidth": 0},
            "mappings": [{"type": "value", "options": _shown(words, range(first, first + len(words)))}],
            "thresholds": _thresholds(((None, GREY),)),
        },
    )


def _series(
    title: str, queries: tuple[Query, ...], width: int, description: str, unit: str = "short", height: int = 7
) -> Panel:
    return Panel(title, "timeseries", queries, width, height, description, _series_options(), _line(unit))


def _stat(
    title: str,
    query: Query,
    description: str,
    *,
    steps: Sequence[tuple[float | None, str]],
    unit: str = "short",
    width: int = THIRD,
    words: Sequence[str] = (),
    text: str = "value_and_name",
) -> Panel:
    return Panel(
        title,
        "stat",
        (query,),
        width,
        6,
        description,
        {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": text,
        },
        {
            "color": {"mode": "thresholds"},
            "mappings": [{"type": "value", "options": _shown(words, range(len(words)))}] if words else [],
            "thresholds": _thresholds(steps),
            "unit": unit,
        },
    )


def _series_options() -> Json:
    return {"legend": _legend(show=True), "tooltip": {"mode": "multi", "sort": "none"}}


def _legend(*, show: bool) -> Json:
    return {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": show}


def _line(unit: str) -> Json:
    return {
        "color": {"mode": "palette-classic"},
        "custom": {"drawStyle": "line", "fillOpacity": 0, "lineWidth": 1, "showPoints": "auto", "spanNulls": False},
        "unit": unit,
    }


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> Json:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


def _shown(words: Sequence[str], values: Sequence[object]) -> Json:
    """What each value is shown as: its word, in the word's colour."""
    return {
        str(value): {"color": COLOURS.get(word, GREY), "index": index, "text": word}
        for index, (word, value) in enumerate(zip(words, values, strict=True))
    }


def _override(name: str, *properties: tuple[str, object]) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties],
    }


def _variables() -> list[Json]:
    return [
        {
            "hide": 0,
            "includeAll": False,
            "label": "Data source",
            "multi": False,
            "name": "datasource",
            "options": [],
            "query": "prometheus",
            "refresh": 1,
            "regex": "",
            "type": "datasource",
        },
        {
            "allValue": ".+",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "datasource": SOURCE,
            "hide": 0,
            "includeAll": True,
            "label": "Run",
            "multi": True,
            "name": "run",
            "options": [],
            "query": {"query": "label_values(vario_run_status, run)", "refId": "run"},
            "refresh": 2,
            "regex": "",
            "sort": 1,
            "type": "query",
        },
    ]


def _placed(rows: Mapping[Row, Sequence[Panel]]) -> list[Json]:
    """The panels from left to right and from top to bottom, each row beneath its title."""
    made: list[Json] = []
    y = 0
    for row, panels in rows.items():
        made.append(
            {
                "collapsed": False,
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
                "id": _id(row),
                "panels": [],
                "title": row.capitalize(),
                "type": "row",
            }
        )
        y += 1
        x = tallest = 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            made.append(_panel(panel, row, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return made


def _panel(panel: Panel, row: Row, x: int, y: int) -> Json:
    table = panel.kind == "table"
    return {
        "datasource": SOURCE,
        "description": panel.description,
        "fieldConfig": {"defaults": panel.defaults, "overrides": list(panel.overrides)},
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "id": _id(f"{row}/{panel.title}"),
        "options": panel.options,
        "targets": [
            {
                "datasource": SOURCE,
                "editorMode": "code",
                "expr": query.expr,
                "format": "table" if table else "time_series",
                "instant": table,
                "legendFormat": query.legend,
                "range": not table,
                "refId": chr(ord("A") + at),
            }
            for at, query in enumerate(panel.queries)
        ],
        "title": panel.title,
        "transformations": list(panel.transformations),
        "type": panel.kind,
    }


def _id(name: str) -> int:
    """A panel's number from its name: a link to it survives when others come and go."""
    return zlib.crc32(name.encode()) % 1_000_000 + 1
