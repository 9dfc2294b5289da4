"""Numbers of runs under watch, scraped over real HTTP and read by the strict parser of OpenMetrics."""

from __future__ import annotations

import json
import math
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import vario
from tests.cli.dumps import KEY, broken_at, trl_run
from tests.conftest import ROOT
from tests.exporters.watching import (
    PLAIN,
    Growing,
    answer,
    changed,
    recorded,
    samples_of,
    scraped,
    seen,
    value_of,
    watching,
    words_that_hold,
)
from vario.errors import ConfigError
from vario.run import Series
from vario.surfaces.exporters.families import FAMILIES, REGIMES, TRAJECTORIES, Kind
from vario.surfaces.exporters.prometheus import LOOPBACK, Exporter
from vario.surfaces.exporters.snapshot import MOST_CHARACTERS, MOST_METRICS, distinct, label_of
from vario.surfaces.fleet.row import ACTIONS
from vario.surfaces.live.watched import Polled, Status, WatchedRun
from vario.surfaces.panels import panels
from vario.verdict.serial import VERSION

BROKEN = "grpo-reward-bug"
EVIL = 'evil"} 1 \\ vario_looks_total{run="forged'


@pytest.fixture(scope="module")
def broken() -> WatchedRun:
    """Watched to its end; tests that change it make one of their own."""
    return seen(watching(BROKEN))


def test_a_scrape_says_what_the_last_look_found(broken: WatchedRun) -> None:
    watched = broken
    diagnosis, run = watched.diagnosis, watched.run
    assert diagnosis is not None and run is not None
    with Exporter([watched]).serve(port=0) as server:
        samples = scraped(server)
    verdict = diagnosis.verdict
    assert verdict.action == "stop"
    assert words_that_hold(samples, "vario_verdict_state", "action", BROKEN) == ["stop"]
    assert words_that_hold(samples, "vario_verdict_confidence_state", "confidence", BROKEN) == [verdict.confidence]
    assert words_that_hold(samples, "vario_trajectory_state", "trajectory", BROKEN) == [verdict.trajectory]
    assert words_that_hold(samples, "vario_regime_state", "regime", BROKEN) == [verdict.regime]
    assert words_that_hold(samples, "vario_run_status", "status", BROKEN) == ["ended"]
    assert verdict.best_checkpoint is not None
    assert value_of(samples, "vario_best_checkpoint_step", run=BROKEN) == verdict.best_checkpoint.step
    assert value_of(samples, "vario_run_step", run=BROKEN) == run.last_step == 150
    assert value_of(samples, "vario_verdict_step", run=BROKEN) == diagnosis.run.last_step
    assert value_of(samples, "vario_run_rows_total", run=BROKEN) == 150
    assert value_of(samples, "vario_looks_total", run=BROKEN) == watched.looks
    assert value_of(samples, "vario_judging_seconds_total", run=BROKEN) == pytest.approx(watched.judging_seconds)
    assert value_of(samples, "vario_troubles_total", run=BROKEN) == 0
    assert value_of(samples, "vario_run_last_row_timestamp_seconds", run=BROKEN) == pytest.approx(watched.last_row_at)
    assert value_of(samples, "vario_build_info", version=VERSION) == 1
    broke = {"run": BROKEN, "finding": "reward-function-broke"}
    assert value_of(samples, "vario_finding_active", severity="critical", **broke) == 1
    finding = next(f for f in diagnosis.findings if f.name == "reward-function-broke")
    assert value_of(samples, "vario_finding_since_step", **broke) == finding.since


def test_metrics_are_those_of_the_panels_with_last_value_and_level(broken: WatchedRun) -> None:
    watched = broken
    diagnosis, run = watched.diagnosis, watched.run
    assert diagnosis is not None and run is not None
    samples = samples_of(exposition(watched))
    names = {name for _, shown in panels(diagnosis) for name in shown}
    assert {dict(k)["metric"] for k in samples["vario_metric_level"]} == names
    assert {"reward/mean", "kl/reference", "signal/zero-variance-share"} <= names
    for name in names:
        assert value_of(samples, "vario_metric_last", metric=name) == run.series[name].values[-1]
        assert value_of(samples, "vario_metric_level", metric=name) == pytest.approx(diagnosis.readings[name].level)
    assert value_of(samples, "vario_metrics_left_out", run=BROKEN) == 0


def exposition(*watched: WatchedRun) -> str:
    from prometheus_client.openmetrics import exposition as openmetrics

    registry = CollectorRegistry()
    registry.register(Exporter(watched))
    return openmetrics.generate_latest(registry).decode()


def test_before_the_first_row_nothing_is_invented() -> None:
    samples = samples_of(exposition(watching("grpo-healthy", "fresh")))
    assert words_that_hold(samples, "vario_run_status", "status", "fresh") == ["waiting"]
    assert value_of(samples, "vario_run_rows_total", run="fresh") == 0
    for name in ("vario_verdict_state", "vario_run_step", "vario_metric_last", "vario_run_last_row_timestamp_seconds"):
        assert name not in samples


def test_missing_values_are_left_out_and_never_zero() -> None:
    """A reward that broke leaves no forecast; a NaN in the last row is no value of it."""
    run = recorded(BROKEN).until(120)
    reward = run.series["reward/mean"]
    values = reward.values.copy()
    values[-1] = math.nan
    watched = seen(
        watching(replace(run, series={**run.series, "reward/mean": Series("reward", reward.steps, values)}), "x")
    )
    samples = samples_of(exposition(watched))
    assert watched.diagnosis is not None and watched.diagnosis.verdict.upside.expected is None
    for name in ("vario_upside_expected", "vario_upside_low", "vario_upside_high", "vario_unread_steps"):
        assert name not in samples
    assert value_of(samples, "vario_metric_last", run="x", metric="reward/mean") is None
    assert value_of(samples, "vario_metric_last", run="x", metric="kl/reference") is not None
    level = value_of(samples, "vario_metric_level", run="x", metric="reward/mean")
    assert level is not None and math.isfinite(level)


def test_a_forecast_is_given_with_its_interval() -> None:
    watched = seen(watching("dpo-overtrain"))
    assert watched.diagnosis is not None
    upside = watched.diagnosis.verdict.upside
    assert upside.interval80 is not None
    samples = samples_of(exposition(watched))
    assert value_of(samples, "vario_upside_expected", run="dpo-overtrain") == upside.expected
    assert value_of(samples, "vario_upside_low", run="dpo-overtrain") == upside.interval80[0]
    assert value_of(samples, "vario_upside_high", run="dpo-overtrain") == upside.interval80[1]


def test_a_finding_that_passes_goes_to_zero(tmp_path: Path) -> None:
    def late_start(row: dict[str, float]) -> None:
        if "learning_rate" in row and row["step"] <= 60:
            row["learning_rate"] = 0.0

    watched = seen(watching(changed("grpo-healthy", tmp_path, late_start), "late"), 50)
    finding = {"run": "late", "finding": "learning-rate-zero"}
    assert watched.diagnosis is not None
    severity = next(f.severity for f in watched.diagnosis.findings if f.name == "learning-rate-zero")
    assert severity != "info"
    assert value_of(samples_of(exposition(watched)), "vario_finding_active", severity=severity, **finding) == 1
    seen(watched, 90)
    samples = samples_of(exposition(watched))
    assert value_of(samples, "vario_finding_active", **finding) == 0, "one series, which says that it has passed"


def test_completions_unread_are_counted_and_due(tmp_path: Path) -> None:
    watched = watching(vario.read(trl_run(tmp_path / "run", broken_at(60), steps=100)), "read")
    seen(watched)
    samples = samples_of(exposition(watched))
    assert value_of(samples, "vario_unread_steps", run="read") == 99
    assert value_of(samples, "vario_review_due", run="read") == 1
    watched.reviewed(90, 0.0)
    samples = samples_of(exposition(watched))
    assert value_of(samples, "vario_unread_steps", run="read") == 10
    assert value_of(samples, "vario_review_due", run="read") == 0


def test_symptoms_and_details_are_no_findings_of_their_own() -> None:
    watched = seen(watching("grpo-drift"))
    assert watched.diagnosis is not None
    told = {f.name for f in watched.diagnosis.findings if f.audience == "default"}
    beneath = {s.name for f in watched.diagnosis.findings for s in f.symptoms}
    exported = {dict(k)["finding"] for k in samples_of(exposition(watched))["vario_finding_active"]}
    assert exported == told
    assert beneath and not beneath & exported


class Held:
    """A source that hangs, as a dead file system does, until it is let go."""

    name = "held"

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()

    def poll(self) -> Polled:
        self.asked.set()
        self.let_go.wait(10)
        return Polled(None)


def test_a_scrape_waits_for_no_look_and_takes_none() -> None:
    source = Held()
    held, other = WatchedRun("held", source), watching("grpo-healthy", "other")
    seen(other, 30)
    looks = other.looks
    looking = threading.Thread(target=held.look)
    looking.start()
    try:
        assert source.asked.wait(10)
        with Exporter([held, other]).serve(port=0) as server:
            for _ in range(3):
                samples = scraped(server)
        assert looking.is_alive()
        assert words_that_hold(samples, "vario_run_status", "status", "held") == ["waiting"]
        assert value_of(samples, "vario_looks_total", run="other") == looks == other.looks
        assert isinstance(other.source, Growing) and other.source.polls == 3
    finally:
        source.let_go.set()
        looking.join(10)


LOOKS_A_SCRAPE = 4
"""Looks that may begin beside each scrape, so that the two meet however fast the machine is."""


def test_scrapes_while_another_thread_judges() -> None:
    """Every answer is whole: one word of each state, no series twice, and nothing that grows ever falls."""
    watched = [
        WatchedRun(name, Growing(recorded(name), 3, lambda poll: (f"trouble {poll}", "the same again")))
        for name in (BROKEN, "grpo-all-zero")
    ]
    runs: list[WatchedRun] = [watched[0]]
    went_wrong: list[BaseException] = []
    may_look = threading.Semaphore(0)

    def judge() -> None:
        try:
            while any(w.status is not Status.ENDED for w in watched):
                for w in watched:
                    assert may_look.acquire(timeout=10)
                    w.look()
                if watched[0].rows > 60 and len(runs) == 1:
                    runs.append(watched[1])  # a run that is found later
        except BaseException as error:
            went_wrong.append(error)
            raise

    before: dict[tuple[str, str], float] = {}
    answers, over = 0, False
    judging = threading.Thread(target=judge)
    with Exporter(runs).serve(port=0) as server:
        judging.start()
        while not over:
            over = not judging.is_alive()
            may_look.release(LOOKS_A_SCRAPE)
            samples = scraped(server)
            answers += 1
            for w in watched:
                for name in ("vario_looks_total", "vario_run_rows_total", "vario_troubles_total"):
                    value = value_of(samples, name, run=w.name)
                    assert (value or 0) >= before.get((name, w.name), 0)
                    before[name, w.name] = value or 0
                if value_of(samples, "vario_verdict_step", run=w.name) is not None:
                    assert len(words_that_hold(samples, "vario_verdict_state", "action", w.name)) == 1
                    assert len(words_that_hold(samples, "vario_regime_state", "regime", w.name)) == 1
        judging.join()
    assert not went_wrong
    assert answers >= 100 / LOOKS_A_SCRAPE, "each scrape had looks beside it"
    assert before["vario_run_rows_total", BROKEN] == 150
    assert before["vario_troubles_total", BROKEN] == sum(watched[0].troubles.values()) == 100
    assert words_that_hold(samples, "vario_verdict_state", "action", BROKEN) == ["stop"]


def test_a_run_that_was_replaced_is_no_longer_told_of() -> None:
    watched = seen(watching(BROKEN), 100)
    replacement = recorded("grpo-healthy")

    class Replaced:
        name = "replaced"

        def poll(self) -> Polled:
            return Polled(replacement.until(5), replaced=True)

    watched.source = Replaced()
    watched.look()
    samples = samples_of(exposition(watched))
    assert "vario_finding_active" not in samples
    assert "vario_verdict_state" not in samples
    assert value_of(samples, "vario_run_rows_total", run=BROKEN) == 5


HOSTILE = (
    'quotes " and \\ back',
    'a"} 1\nvario_verdict_state{run="forged',
    "line\nbreak\r\x1b[31mred",
    "",
    "\ud800 half a character",
    "ключ 🚀",
    f"run --token {KEY}",
    "n" * 5_000,
    "n" * 4_999 + "m",
    "{{run}} $run %s",
)


def test_names_of_runs_can_do_no_harm() -> None:
    watched = [watching("grpo-healthy", name) for name in (*HOSTILE, "twice", "twice", "twice #2")]
    with Exporter(watched).serve(port=0) as server:
        text = answer(server)
        plain = answer(server, PLAIN)
    samples = samples_of(text)
    names = {dict(k)["run"] for k in samples["vario_run_rows_total"]}
    assert len(names) == len(watched), "each run has series of its own"
    assert all(0 < len(name) <= MOST_CHARACTERS for name in names)
    assert {'quotes " and \\ back', "unnamed", "ключ 🚀", "twice", "twice #2"} <= names
    assert "vario_verdict_state" not in samples, "nobody was judged: only a name could have forged it"
    assert KEY not in text and KEY not in plain
    assert not any(c in name for name in names for c in "\x1b\r\n")
    assert {line.split("{")[0].split(" ")[0] for line in plain.splitlines() if not line.startswith("#")} == set(samples)


def test_labels_are_as_stable_as_the_names() -> None:
    assert distinct(["a", "b", "a"]) == ["a", "b", "a #2"]
    long = label_of("n" * 5_000)
    assert long == label_of("n" * 5_000) != label_of("n" * 5_001)
    assert len(long) == MOST_CHARACTERS and label_of("n" * MOST_CHARACTERS) == "n" * MOST_CHARACTERS


def test_many_reward_functions_are_bounded_and_said(tmp_path: Path) -> None:
    def crowd(row: dict[str, float]) -> None:
        if "reward" in row:
            row |= {f"rewards/function {i}/mean": row["reward"] * i for i in range(100)}
            row[f"rewards/{EVIL}/mean"] = row["reward"]

    run = changed("grpo-healthy", tmp_path, crowd)
    assert len(run.components()) > 100
    watched = seen(watching(run, "crowd"), 20)
    samples = samples_of(exposition(watched))
    kept = {dict(k)["metric"] for k in samples["vario_metric_last"]}
    left_out = value_of(samples, "vario_metrics_left_out", run="crowd")
    assert watched.diagnosis is not None and left_out is not None
    assert len(kept) == MOST_METRICS
    assert len(kept) + left_out == sum(len(names) for _, names in panels(watched.diagnosis))
    assert {"reward/mean", "length/mean", "entropy/mean"} <= kept, "what matters most comes first"
    assert {dict(k)["run"] for k in samples["vario_looks_total"]} == {"crowd"}


def test_a_hostile_metric_name_can_do_no_harm(tmp_path: Path) -> None:
    def one_more(row: dict[str, float]) -> None:
        if "reward" in row:
            row[f"rewards/{EVIL}/mean"] = row["reward"]

    watched = seen(watching(changed("grpo-healthy", tmp_path, one_more), "evil"), 20)
    samples = samples_of(exposition(watched))
    assert [m for k in samples["vario_metric_last"] if "evil" in (m := dict(k)["metric"])]
    assert {dict(k)["run"] for k in samples["vario_looks_total"]} == {"evil"}


def test_it_listens_to_this_machine_alone_unless_told_otherwise() -> None:
    with Exporter([]).serve(port=0) as server:
        assert server.address == LOOPBACK == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        assert server._http.server_address[0] == LOOPBACK
        assert value_of(scraped(server), "vario_build_info") == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, server.port), timeout=5)
    with pytest.raises(ConfigError, match="needs an address"):
        Exporter([]).serve("", 0)


def loopback_of_version_6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not loopback_of_version_6(), reason="this machine has no IPv6")
def test_it_can_listen_at_an_address_of_version_6() -> None:
    with Exporter([]).serve("::1", 0) as server:
        assert server.url == f"http://[::1]:{server.port}/metrics"
        assert value_of(scraped(server), "vario_build_info") == 1


def test_a_port_that_is_taken_is_said() -> None:
    with (
        Exporter([]).serve(port=0) as server,
        pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{server.port}: cannot listen there: .*; try another port"),
    ):
        Exporter([]).serve(port=server.port)
    with pytest.raises(ConfigError, match="port 70000: there is none"):
        Exporter([]).serve(port=70_000)


def test_a_client_that_breaks_off_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    """The terminal belongs to the training, or to the panels."""
    with Exporter([]).serve(port=0) as server:
        for sent in (
            b"",
            b"GET /metr",
            b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n",
            b"\x16\x03\x01\x00",
            b"X" * 100_000,
        ):
            client = socket.create_connection((LOOPBACK, server.port), timeout=5)
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )  # close at once, with a reset
            client.sendall(sent)
            client.close()
        assert value_of(scraped(server), "vario_build_info") == 1
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import vario.surfaces.exporters.families, vario.surfaces.exporters.grafana\n"
        "from vario.errors import ConfigError\n"
        "try: import vario.surfaces.exporters.prometheus\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'vario[prometheus]'" in done.stdout


def test_a_registry_learns_the_names_without_asking_the_runs() -> None:
    class Unasked(list[WatchedRun]):
        def __iter__(self):
            raise AssertionError("the runs were asked")

    registry = CollectorRegistry()
    exporter = Exporter(Unasked())
    registry.register(exporter)
    with pytest.raises(ValueError, match="vario_verdict_state"):
        registry.register(Exporter(Unasked()))
    with pytest.raises(AssertionError, match="the runs were asked"):
        generate_latest(registry)


def test_the_table_is_the_exposition(broken: WatchedRun) -> None:
    """Every family's type, unit and labels are what the parser sees; every name follows the conventions."""
    text = exposition(seen(watching("dpo-overtrain"), 200), broken)
    by_name = {}
    for parsed in text_string_to_metric_families(text):
        suffix = {"counter": "_total", "info": "_info"}.get(parsed.type, "")
        by_name[parsed.name + suffix] = parsed
    assert set(by_name) == {f.name for f in FAMILIES}
    assert len(FAMILIES) == len(by_name)
    for family in FAMILIES:
        parsed = by_name[family.name]
        assert (parsed.type, parsed.documentation, parsed.unit) == (family.kind, family.help, family.unit)
        assert family.name.startswith("vario_") and family.help.endswith(".")
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total")
        assert family.unit == "" or family.unit in family.name.removesuffix("_total").split("_")[-1]
        assert not {"seconds", "bytes", "ratio", "step", "unit"} & set(family.labels)
        assert family.read is None or family.labels[0] == "run"
        for sample in parsed.samples:
            assert sample.name == family.name
            assert set(sample.labels) == set(family.labels)


def test_words_of_states_are_those_of_the_diagnosis() -> None:
    schema = json.loads((ROOT / "src/vario/schemas/diagnosis-v1.json").read_text())

    def enums(node: object) -> list[set[str]]:
        if isinstance(node, dict):
            return ([set(node["enum"])] if "enum" in node else []) + [e for v in node.values() for e in enums(v)]
        return [e for v in node for e in enums(v)] if isinstance(node, list) else []

    for words in (ACTIONS, TRAJECTORIES, REGIMES):
        assert set(words) in enums(schema)
        assert len(set(words)) == len(words)


@pytest.mark.usefixtures("prometheus")
def test_promtool_finds_nothing_to_say(broken: WatchedRun) -> None:
    watched = [seen(watching("dpo-overtrain"), 100), broken]
    with Exporter(watched).serve(port=0) as server:
        text = answer(server, PLAIN)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
