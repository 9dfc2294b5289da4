"""One bad run never stops the rest; exit codes say what came of it all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.logs import noisy, trl_log
from tests.conftest import recorded
from tests.fleet.trees import FAST, by_name, fleet, lines
from vario.surfaces.cli import fleet_command
from vario.surfaces.fleet.judging import judged
from vario.work import Serial

FATE = '''
from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from vario.instruments import Look
from vario.rules.base import Evidence, Severity, Sign, raise_, rule


@dataclass(frozen=True)
class Fate:
    """What the log says of its own end."""

    level: float

    @classmethod
    def read(cls, look: Look) -> Fate:
        return cls(round(look.need("reward/mean").level))


@rule("MY901", "meets-its-fate", Severity.WARNING, turns=(raise_("group-size", "higher"),))
def meets_its_fate(fate: Fate) -> Iterator[Sign]:
    """It ends as its log says.

    What it shows:
        What a fleet does with it.
    """
    if fate.level == -10.0:
        os._exit(7)
    if fate.level == -20.0:
        time.sleep(60)
    if fate.level == -30.0:
        sys.exit("a library gives up")
    return
    yield Evidence("never", ("reward/mean",), 7)
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_that_end_their_process_or_never_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, level in (("good0", 0.5), ("dies", -10.0), ("good1", 0.5), ("hangs", -20.0), ("exits", -30.0), ("good2", 0.5)):
        trl_log(here / "runs" / name / "rows.jsonl", reward=noisy(level))
    (here / "fate.py").write_text(FATE)
    code = fleet("runs", "-o", "out.jsonl", "--rules", "fate.py", "--timeout", "4", "--workers", "2", *FAST)
    assert code == 2
    made = by_name(lines(here / "out.jsonl"))
    assert {n: d["fleet"]["status"] for n, d in made.items()} == {"good0": "ok", "good1": "ok", "good2": "ok", "dies": "failed", "hangs": "failed", "exits": "failed"}
    assert "exit code 7" in made["dies"]["fleet"]["reason"]
    assert "longer than 4 s" in made["hangs"]["fleet"]["reason"]
    out = capsys.readouterr().out
    assert "6 runs" in out
    assert "3 failed" in out
    failed = out.partition("failed: not judged")[2]
    assert all(f"- {name}: " in failed for name in ("dies", "hangs", "exits"))


def test_what_failed_is_tried_again_and_what_is_well_is_kept(here: Path) -> None:
    trl_log(here / "runs" / "good" / "rows.jsonl")
    trl_log(here / "runs" / "bad" / "rows.jsonl")
    (here / "runs" / "bad" / "vario.toml").write_text("[declare]\nrewardfloor = 1\n")
    assert fleet("runs", "-o", "out.jsonl", *FAST) == 2
    first = by_name(lines(here / "out.jsonl"))
    assert first["bad"]["fleet"]["status"] == "failed"
    assert "rewardfloor" in first["bad"]["fleet"]["reason"]
    (here / "runs" / "bad" / "vario.toml").unlink()
    assert fleet("runs", "-o", "out.jsonl", *FAST) == 0
    second = by_name(lines(here / "out.jsonl"))
    assert second["bad"]["fleet"]["status"] == "ok"
    assert second["good"] == first["good"]


def test_an_error_of_ours_is_one_row(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that breaks on one run, as none should."""
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    for name in ("a", "b", "c"):
        trl_log(here / "runs" / name / "rows.jsonl")
    from vario.surfaces.fleet import judging

    honest = judging.diagnose

    def breaks(run, **more):
        if run.path.endswith("b"):
            raise ZeroDivisionError("of course")
        return honest(run, **more)

    monkeypatch.setattr(judging, "diagnose", breaks)
    assert fleet("runs", "-o", "out.jsonl", *FAST) == 2
    made = by_name(lines(here / "out.jsonl"))
    assert {n: d["fleet"]["status"] for n, d in made.items()} == {"a": "ok", "b": "failed", "c": "ok"}
    assert made["b"]["fleet"]["reason"] == "ZeroDivisionError: of course"


def test_exit_codes(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    well, ill, empty = here / "well", here / "ill", here / "empty"
    trl_log(well / "a" / "rows.jsonl")
    recorded("grpo-reward-bug", ill / "a")
    empty.mkdir()
    assert fleet(well, *FAST) == 0
    assert fleet(ill, *FAST) == 1
    assert fleet(ill, "--exit-zero", *FAST) == 0
    assert fleet(ill, "--fail-on", "never", *FAST) == 0
    assert fleet(ill, "--fail-on", "critical", *FAST) == 1
    assert fleet(empty, *FAST) == 3
    assert fleet(here / "none", *FAST) == 3
    assert fleet(well, empty, *FAST) == 1, "something is unreadable, and not everything"
    assert fleet(well, here / "none", "--fail-on", "never", *FAST) == 0
    capsys.readouterr()
    assert fleet(well, "--only", "no-such-rule") == 2
    assert fleet(well, "-o", "out.txt") == 2
    assert fleet(well, "-o", here / "no" / "folder.jsonl") == 2
    assert fleet(well, "--timeout", "0") == 2
    assert fleet(well, "--workers", "1", "--ray", "auto", "--timeout", "1") == 2
    err = capsys.readouterr().err
    assert "no-such-rule" in err
    assert "out.txt" in err
    assert "folder.jsonl" in err
    assert "Traceback" not in err


def test_a_run_is_judged_once_however_often_it_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    trl_log(here / "runs" / "alice" / "a" / "rows.jsonl")
    trl_log(here / "runs" / "alice" / "copy of a" / "rows.jsonl")
    fleet("runs", "runs/alice", here / "runs" / "alice" / "a", "-o", "out.jsonl", *FAST)
    made = by_name(lines(here / "out.jsonl"))
    assert sorted(made) == ["alice/a", "alice/copy of a"], "a copy is a run of its own; a second way to the same one is not"


def test_several_runs_in_one_folder_are_told_apart(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    for name, reward in (("up", np.linspace(0.1, 0.9, 120)), ("down", np.linspace(0.9, 0.1, 120))):
        trl_log(here / "runs" / "u" / f"{name}.jsonl", reward=reward)
    trl_log(here / "runs" / "v" / "rows.jsonl")
    fleet("runs", "-o", "out.jsonl", "--json", *FAST)
    assert sorted(by_name(lines(here / "out.jsonl"))) == ["u#down.jsonl", "u#up.jsonl", "v"]
    capsys.readouterr()
    before = (here / "out.jsonl").read_bytes()
    fleet("runs", "-o", "out.jsonl", "--json", *FAST)
    assert (here / "out.jsonl").read_bytes() == before, "both were known"
    whole = [line for line in before.splitlines() if json.loads(line)["fleet"]["name"] != "u#up.jsonl"]
    (here / "out.jsonl").write_bytes(b"\n".join(whole) + b"\n")
    fleet("runs", "-o", "out.jsonl", "--json", *FAST)
    assert sorted(by_name(lines(here / "out.jsonl"))) == ["u#down.jsonl", "u#up.jsonl", "v"]


def test_a_job_that_ends_in_the_middle_keeps_what_came_before(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    from vario.surfaces.fleet import judging
    from vario.surfaces.fleet.jobs import Job

    trl_log(here / "rows.jsonl")
    good = next(iter(judging.runs_at(argparse.Namespace(map=[], run=None, all=False), "rows.jsonl")))

    def half(*_):
        yield good
        raise RecursionError("deep")

    monkeypatch.setattr(judging, "runs_at", half)
    made = judged(Job("rows.jsonl", "rows", ".", argparse.Namespace(replay=False), run="x"))
    assert [d["fleet"]["status"] for d in made] == ["ok", "failed"]
    assert [d["fleet"]["of"] for d in made] == [2, 2]
