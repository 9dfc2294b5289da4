"""`vario diagnose --format github`: what a workflow shows, and that no name of a log can speak to the runner."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import vario
from tests.conftest import GOLDEN, golden_runs
from vario.surfaces.cli import github, main
from vario.surfaces.cli.github import CUT, LARGEST_SUMMARY, add_to_summary, fitting, workflow_commands
from vario.surfaces.sentences import headline

COMMAND = re.compile(r"::(notice|warning|error) title=([^:,\r\n]*)::([^\r\n]*)")
"""A workflow command as the runner reads it: properties end at the first `::`, and a comma begins another."""
HOSTILE = "a\n::error title=x::y\r\n%0A::set-output name=z::100%, b:c\x1b[31m\u2028::stop-commands::t"


@pytest.fixture(autouse=True)
def in_no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(github.SUMMARY, raising=False)


def unescaped(text: str) -> str:
    """As the runner does it; the percent sign last."""
    for code, sign in (("%2C", ","), ("%3A", ":"), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def commands(lines: list[str]) -> list[tuple[str, str, str]]:
    found = [COMMAND.fullmatch(line) for line in lines]
    assert all(found), lines
    return [(f[1], unescaped(f[2]), unescaped(f[3])) for f in found if f is not None]


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_each_finding_at_its_level(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diagnose", str(path), "--format", "github", "--no-replay"])
    diagnosis = vario.diagnose(vario.read(path), replay=False)
    first, *others = commands(capsys.readouterr().out.splitlines())
    assert first[0] == "notice"
    assert first[2] == headline(diagnosis.verdict)
    shown = [f for f in diagnosis.findings if f.audience == "default"]
    levels = {"info": "notice", "warning": "warning", "critical": "error"}
    assert [(level, title) for level, title, _ in others] == [(levels[f.severity], f"{f.name}: {path}") for f in shown]
    for finding, (_, _, text) in zip(shown, others, strict=True):
        assert all(line in text.splitlines() for line in finding.evidence)
        assert text.splitlines()[-1] == f"more: vario rule {finding.code}"
    assert code == int(any(f.severity != "info" for f in shown))


def test_no_name_of_a_log_ends_a_command_or_begins_one() -> None:
    diagnosis = vario.diagnose(vario.read(GOLDEN / "grpo-drift"), replay=False)
    found = tuple(replace(f, evidence=(HOSTILE,)) for f in diagnosis.findings)
    hostile = replace(diagnosis, findings=found, run=replace(diagnosis.run, path=HOSTILE))
    lines = list(workflow_commands(hostile, pedantic=True))
    assert len(lines) == 1 + len(found)
    for line in lines:
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line
    for _, title, text in commands(lines):
        assert "%0A::set-output name=z::100%, b:c?[31m" in title, "what it says is shown as it is"
        assert "\n" not in title
        assert "::error title=x::y" in text or "STOP" in text


def test_secrets_are_masked() -> None:
    secret = "hf_" + "a1B2" * 6
    diagnosis = vario.diagnose(vario.read(GOLDEN / "grpo-drift"), replay=False)
    lines = list(workflow_commands(replace(diagnosis, run=replace(diagnosis.run, path=secret)), pedantic=False))
    assert not any(secret in line for line in lines)


def test_exit_codes_are_those_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--format", "github", "--no-replay"]
    run = str(GOLDEN / "grpo-drift")
    assert main(["diagnose", run, *how]) == 1
    assert main(["diagnose", run, *how, "--fail-on", "never"]) == 0
    assert main(["diagnose", run, *how, "--exit-zero"]) == 0
    assert main(["diagnose", str(GOLDEN / "grpo-healthy"), *how]) == 0
    assert main(["diagnose", str(tmp_path), *how]) == 3
    capsys.readouterr()


# the page of the job


def test_the_summary_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    monkeypatch.setenv(github.SUMMARY, str(file))
    runs = [str(GOLDEN / "grpo-drift"), str(GOLDEN / "grpo-healthy")]
    assert main(["diagnose", *runs, "--format", "github", "--no-replay"]) == 1
    text = file.read_text()
    assert text.startswith("before\n## STOP: ")
    assert text.count("\n## ") == 2
    assert "kl-rises-while-reward-falls" in text
    main(["diagnose", runs[0], "--no-replay"])
    assert file.read_text() == text, "only where it was asked for"
    assert "## STOP" not in capsys.readouterr().out


def test_a_summary_is_never_larger_than_github_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    monkeypatch.setenv(github.SUMMARY, str(file))
    diagnosis = vario.diagnose(vario.read(GOLDEN / "grpo-drift"), replay=False)
    for already in (LARGEST_SUMMARY - 700, LARGEST_SUMMARY - 10, LARGEST_SUMMARY, LARGEST_SUMMARY + 5):
        file.write_text("x" * already)
        add_to_summary(diagnosis, pedantic=False)
        assert file.stat().st_size <= max(already, LARGEST_SUMMARY)
        added = file.read_text()[already:]
        assert added.endswith(CUT) if already == LARGEST_SUMMARY - 700 else added == ""


def test_a_cut_ends_at_a_line_and_within_no_letter() -> None:
    text = "é€\n".encode() * 50
    for room in range(len(CUT) + 1, len(text)):
        made = fitting(text, room)
        assert len(made) <= room
        assert made.decode().removesuffix(CUT) in ("", "é€\n" * (len(made.decode().removesuffix(CUT)) // 3))
    assert fitting(text, len(text)) == text


def test_a_summary_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(github.SUMMARY, str(tmp_path / "none" / "summary.md"))
    assert main(["diagnose", str(GOLDEN / "grpo-drift"), "--format", "github", "--no-replay"]) == 2
    assert "cannot be written to (No such file or directory)" in capsys.readouterr().err
