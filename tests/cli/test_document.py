"""`diagnosis/v1`: every key that the contract names is there, with the type that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cli.logs import N, noisy, trl_log, write_log
from tests.conftest import golden_runs
from vario.surfaces.cli import main
from vario.verdict.trajectory import WORDS

Capture = pytest.CaptureFixture[str]

NUMBER = (int, float)
OPTIONAL = type(None)
KEYS: dict[str, dict[str, object]] = {
    "": {
        "schema": str, "vario": str, "run": dict, "verdict": dict, "findings": list, "notes": list, "unknown": list,
        "readings": dict, "suppressed": list, "broken": list,
    },
    "run": {
        "path": str, "framework": str, "framework_version": (str, OPTIONAL), "algorithm": str, "first_step": int,
        "last_step": int, "logged_steps": int, "metrics": dict, "unmapped": list, "ignored_lines": int, "warnings": list,
        "unsettled": dict, "events": list,
    },
    "run.metrics.*": {"key": str, "points": int},
    "verdict": {
        "action": str, "confidence": str, "trajectory": str, "regime": str, "best_checkpoint": (dict, OPTIONAL),
        "upside": dict, "risk": dict, "narrative": str, "would_change_it": list, "phases": list, "rate": (dict, OPTIONAL),
        "tensions": list, "ladder": (dict, OPTIONAL), "experiments": list,
    },
    "verdict.best_checkpoint": {
        "step": int, "by": str, "value": NUMBER, "saved": (bool, OPTIONAL), "interval": [int, int], "nearest_saved": (int, OPTIONAL),
    },
    "verdict.upside": {
        "expected": (*NUMBER, OPTIONAL), "interval80": (list, OPTIONAL), "method": str, "by": (str, OPTIONAL),
        "steps": (int, OPTIONAL), "level": (*NUMBER, OPTIONAL), "chance": (*NUMBER, OPTIONAL), "laws": list,
    },
    "verdict.risk": {
        "text": str, "kl_since_best": (*NUMBER, OPTIONAL), "steps_since_best": (int, OPTIONAL),
        "reward_lost": (*NUMBER, OPTIONAL), "budgets": list, "cost": dict,
    },
    "verdict.risk.budgets.*": {"name": str, "used": NUMBER, "arrives": (int, OPTIONAL), "interval": (list, OPTIONAL)},
    "verdict.risk.cost": {
        "hours": (*NUMBER, OPTIONAL), "hours_since_best": (*NUMBER, OPTIONAL), "hours_since_first_finding": (*NUMBER, OPTIONAL),
        "devices": (*NUMBER, OPTIONAL), "device_hours": (*NUMBER, OPTIONAL),
    },
    "verdict.phases.*": {"first": int, "last": int, "regime": str, "kl": [NUMBER, NUMBER], "reward": [NUMBER, NUMBER]},
    "verdict.rate": {
        "since": int, "per_100_steps_before": [NUMBER, NUMBER, NUMBER], "per_100_steps_now": [NUMBER, NUMBER, NUMBER], "change": str,
    },
    "verdict.ladder": {"rung": str, "means": str, "next": list},
    "verdict.experiments.*": {"name": str, "why": str, "tells": dict, "settings": dict, "patch": str, "steps": list},
    "findings.*": {
        "code": str, "name": str, "severity": str, "confidence": str, "audience": str, "since": (int, OPTIONAL),
        "detected_at": (int, OPTIONAL), "until": (int, OPTIONAL), "evidence": list, "metrics": list, "excluded": list,
        "causes": list, "changes": list, "references": list,
    },
    "findings.*.changes.*": {
        "knob": str, "key": (str, OPTIONAL), "current": object, "suggested": object, "why": str,
    },
    "notes.*": {"name": str, "text": str},
    "unknown.*": {"code": str, "name": str, "missing": list, "enable": str, "reason": str},
    "readings.*": {
        "level": NUMBER, "spread": NUMBER, "direction": str, "shape": str, "changes": list,
        "noise_share": (*NUMBER, OPTIONAL), "from": list, "points": int,
    },
}  # fmt: skip
KEYS["findings.*.symptoms.*"] = KEYS["suppressed.*"] = KEYS["findings.*"]
ENOUGH = ("run.metrics.*", "verdict.best_checkpoint", "verdict.risk.budgets.*", "verdict.phases.*", "verdict.rate",
          "verdict.ladder", "verdict.experiments.*", "findings.*", "findings.*.changes.*", "findings.*.symptoms.*", "notes.*",
          "unknown.*", "readings.*", "suppressed.*")  # fmt: skip
"""Places that are empty on many runs: the runs below must fill each of them at least once."""


def at(document: object, path: str) -> Iterator[dict]:
    """Every object at a dotted path; `*` goes through lists and dictionaries."""
    if document is None:
        return
    first, _, rest = path.partition(".")
    if not path:
        assert isinstance(document, dict)
        yield document
    elif first == "*":
        assert isinstance(document, dict | list)
        for value in document.values() if isinstance(document, dict) else document:
            yield from at(value, rest)
    elif first in document:  # type: ignore[operator]
        yield from at(document[first], rest)  # type: ignore[index]


def holds(value: object, wanted: object) -> bool:
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(holds, value, wanted))
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    return isinstance(value, kinds)


def check(document: dict) -> set[str]:
    """The places that this document fills."""
    seen = set()
    for path, keys in KEYS.items():
        for found in at(document, path):
            seen.add(path)
            for key, wanted in keys.items():
                assert key in found, f"{path}.{key}"
                assert holds(found[key], wanted), f"{path}.{key} is {found[key]!r}"
    return seen


def documents(tmp: Path, capsys: Capture) -> Iterator[dict]:
    for run in golden_runs():
        if run.name in ("grpo-drift", "grpo-reward-bug", "dpo-healthy", "grpo-length-hack"):
            main(["diagnose", str(run), "--json"])
            yield json.loads(capsys.readouterr().out)
    (tmp / "vario.toml").write_text(
        '[declare]\ndevices = 4\n[budgets]\n"length/mean" = 100\n"kl/reference" = { most = 500, unit = "nats/sequence" }\n'
        '[suppress]\nmetric-over-budget = "so it is"\n'
    )
    flat = noisy(0.3, 0.05)
    kl = np.linspace(0.001, 0.08, N)
    trl_log(tmp / "log.jsonl", reward=flat, kl=kl, step_time=np.full(N, 30.0))
    main(["diagnose", str(tmp / "log.jsonl"), "--json"])
    yield json.loads(capsys.readouterr().out)


def test_every_key_of_the_contract_has_its_type(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    filled: set[str] = set()
    for document in documents(tmp_path, capsys):
        filled |= check(document)
        verdict = document["verdict"]
        assert document["schema"] == "diagnosis/v1"
        assert verdict["action"] in ("continue", "intervene", "stop", "cannot-tell")
        assert verdict["trajectory"] in WORDS
        assert verdict["confidence"] in ("low", "medium", "high")
        for texts in ("would_change_it", "tensions"):
            assert all(isinstance(text, str) for text in verdict[texts])
        for finding in at(document, "findings.*"):
            assert finding["severity"] in ("info", "warning", "critical")
            assert finding["confidence"] in ("low", "medium", "high")
            assert finding["evidence"]
            for texts in ("evidence", "metrics", "excluded", "causes", "references"):
                assert all(isinstance(text, str) for text in finding[texts])
        upside = verdict["upside"]
        assert (upside["expected"] is None) == (upside["interval80"] is None)
        if upside["interval80"] is not None:
            low, high = upside["interval80"]
            assert low <= upside["expected"] <= high
            assert 0.0 <= upside["chance"] <= 1.0
        for budget in verdict["risk"]["budgets"]:
            assert (budget["arrives"] is None) == (budget["interval"] is None)
            if budget["interval"] is not None:
                earliest, latest = budget["interval"]
                assert isinstance(earliest, int)
                assert earliest <= budget["arrives"]
                assert latest is None or latest >= budget["arrives"]
        for reading in at(document, "readings.*"):
            assert reading["from"] and all(isinstance(key, str) for key in reading["from"])
            assert all(isinstance(step, int) for step in reading["changes"])
    assert set(ENOUGH) <= filled


def test_an_upside_is_told_where_it_can_be(tmp_path: Path, capsys: Capture) -> None:
    log = trl_log(tmp_path / "log.jsonl")
    main(["diagnose", str(log), "--json"])
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    upside = verdict["upside"]
    assert (upside["by"], upside["steps"]) == ("reward/mean", 30)
    assert upside["expected"] == pytest.approx(0.125, abs=0.05), "a quarter more of a rise of 0.5"
    assert upside["interval80"][0] < upside["expected"] < upside["interval80"][1]
    assert verdict["rate"]["per_100_steps_now"][1] == pytest.approx(0.5 / 1.2, abs=0.15)


@pytest.mark.parametrize("bad", [0.15, np.nan, np.inf])
def test_a_run_of_three_rows_has_the_same_keys(tmp_path: Path, capsys: Capture, bad: float) -> None:
    log = write_log(tmp_path / "log.jsonl", {"reward": np.array([0.1, bad, 0.2]), "kl": np.array([0.0, 0.05, 0.1])})
    main(["diagnose", str(log), "--json"])
    document = json.loads(capsys.readouterr().out)
    check(document)
    verdict = document["verdict"]
    assert (verdict["trajectory"], verdict["action"], verdict["regime"]) == ("too-short", "cannot-tell", "unknown")
    assert (verdict["upside"]["expected"], verdict["rate"], verdict["phases"]) == (None, None, [])
