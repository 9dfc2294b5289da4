"""The project's own recorded runs: each says what its label says, and nothing that it forbids."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import vario
from tests.conftest import golden_runs
from vario.verdict import Diagnosis

RUNS = golden_runs()
IDS = [r.name for r in RUNS]


@cache
def diagnosed(run: Path) -> Diagnosis:
    return vario.diagnose(vario.read(run))


def label(run: Path) -> dict[str, object]:
    return json.loads((run / "label.json").read_text())


def named(findings: tuple[vario.Finding, ...]) -> dict[str, vario.Finding]:
    """Findings and their symptoms by name."""
    found: dict[str, vario.Finding] = {}
    for finding in findings:
        found[finding.name] = finding
        found.update(named(finding.symptoms))
    return found


def test_there_are_runs_of_both_kinds() -> None:
    healthy = [r for r in RUNS if label(r)["healthy"]]
    assert len(RUNS) >= 8
    assert 3 <= len(healthy) < len(RUNS)


@pytest.mark.parametrize("run", RUNS, ids=IDS)
def test_expected_findings_are_named(run: Path) -> None:
    names = named(diagnosed(run).findings)
    for alternatives in label(run)["expected_any"]:
        assert set(alternatives) & names.keys(), f"none of {alternatives} in {sorted(names)}"


@pytest.mark.parametrize("run", RUNS, ids=IDS)
def test_nothing_forbidden_is_said(run: Path) -> None:
    truth = label(run)
    expected = {n for group in truth["expected_any"] for n in group}
    loud = {n for n, f in named(diagnosed(run).findings).items() if f.severity != "info"}
    assert not loud & (set(truth["forbidden"]) - expected)


@pytest.mark.parametrize("run", [r for r in RUNS if label(r)["healthy"]], ids=lambda r: r.name)
def test_healthy_runs_raise_no_warning(run: Path) -> None:
    assert not [f.name for f in diagnosed(run).findings if f.severity != "info" and f.audience == "default"]


@pytest.mark.parametrize("run", [r for r in RUNS if (label(r)["onset_step"] or 0) > 0], ids=lambda r: r.name)
def test_onset_is_detected_after_it_happened_and_soon(run: Path) -> None:
    diagnosis, onset = diagnosed(run), label(run)["onset_step"]
    expected = {n for group in label(run)["expected_any"] for n in group}
    seen = [f for n, f in named(diagnosis.findings).items() if n in expected and f.detected_at is not None]
    assert seen
    assert all(f.detected_at >= onset for f in seen if f.since is not None and f.since >= onset)
    assert min(f.detected_at for f in seen) - onset <= 0.4 * diagnosis.run.last_step


@pytest.mark.parametrize("run", RUNS, ids=IDS)
def test_no_rule_breaks(run: Path) -> None:
    assert diagnosed(run).broken == ()


def test_an_earlier_moment_sees_nothing_later(golden: Path) -> None:
    run = vario.read(golden / "grpo-reward-bug")
    early = vario.diagnose(run.until(85))
    assert "reward-function-broke" not in named(early.findings)
    assert early.run.last_step == 85


def test_resume_is_stitched_and_said(golden: Path) -> None:
    run = vario.read(golden / "grpo-resumed")
    assert [e.kind for e in run.events] == ["resume"]
    assert list(run.logged_steps) == list(range(1, 151))
    assert {c.step for c in run.checkpoints} >= {110, 120}
