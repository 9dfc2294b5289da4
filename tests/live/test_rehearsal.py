"""A recorded run gone through as if it were live: it is told when something would have been done, and nothing is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vario.surfaces.cli import main

GOLDEN = Path(__file__).parents[1] / "golden"
TOML = """
[alerts]
to = ["file:{folder}/ALERT.json"]
[act]
stop = {{ severity = "warning", confidence = "medium" }}
sentinel = {{ severity = "warning", confidence = "medium", file = "{folder}/STOP" }}
"""


def test_what_would_have_been_done_is_told_and_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vario.toml").write_text(TOML.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    before = sorted(p.name for p in (GOLDEN / "grpo-reward-bug").rglob("*"))
    assert main(["watch", "--rehearse", str(GOLDEN / "grpo-reward-bug")]) == 0
    said = capsys.readouterr().out
    assert "would be alerted" in said
    assert "would be done: stop" in said
    assert "would be done: sentinel" in said
    assert not said.startswith("1970")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["vario.toml"]
    assert sorted(p.name for p in (GOLDEN / "grpo-reward-bug").rglob("*")) == before


def test_a_folder_of_several_runs_is_gone_through_run_by_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("grpo-drift", "grpo-healthy"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    assert main(["watch", "--rehearse", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.endswith(" acts")] == [
        f"{tmp_path}/grpo-drift: 2 alerts, 0 acts", f"{tmp_path}/grpo-healthy: 0 alerts, 0 acts",
    ]  # fmt: skip
    assert said.err == ""


def test_a_path_without_a_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--rehearse", str(tmp_path / "none")]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_a_file_beside_somebodys_log_sends_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "theirs"
    run.mkdir()
    (run / "log.jsonl").write_text('{"step": 1, "reward": 0.1}\n{"step": 2, "reward": 0.2}\n')
    (run / "vario.toml").write_text('[act]\ncommand = { severity = "info", confidence = "low", run = "evil" }\n')
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    assert main(["watch", "--once", str(run)]) == 2
    assert "lies beside the log, not where you stand" in capsys.readouterr().err
