"""`--json` is `--format json`, on every command that can answer a program."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tests.conftest import GOLDEN
from vario.surfaces.cli import _parser, main

Capture = pytest.CaptureFixture[str]
RUN = str(GOLDEN / "grpo-drift")
COMMANDS = {
    "diagnose": [RUN, "--no-replay", "--exit-zero"],
    "compare": [RUN, str(GOLDEN / "grpo-healthy-kl"), "--no-replay"],
    "metrics": [RUN],
    "fleet": [RUN, "--no-replay", "--exit-zero", "--quiet", "--workers", "1"],
}


def commands() -> dict[str, argparse.ArgumentParser]:
    (made,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(made.choices)


def offered(parser: argparse.ArgumentParser) -> tuple[bool, bool]:
    """Whether it takes --json, and whether it takes --format json."""
    options = {o: a for a in parser._actions for o in a.option_strings}
    form = options.get("--format")
    return "--json" in options, form is not None and "json" in (form.choices or ())


def test_no_command_has_one_without_the_other() -> None:
    found = {name: offered(parser) for name, parser in commands().items()}
    assert {name for name, pair in found.items() if all(pair)} >= {*COMMANDS, "samples", "rule", "watch", "annotate"}
    assert [name for name, pair in found.items() if len(set(pair)) == 2] == ["baseline"], "which knows no other format"


def said(capsys: Capture, *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_both_give_the_same(command: str, capsys: Capture) -> None:
    rest = COMMANDS[command]
    short, long = said(capsys, command, *rest, "--json"), said(capsys, command, *rest, "--format", "json")
    for one, other in zip(short.splitlines(), long.splitlines(), strict=True):
        first, second = json.loads(one), json.loads(other)
        for document in (first, second):
            document.get("fleet", {}).pop("seconds", None)
        assert first == second
    text = said(capsys, command, *rest)
    assert text == said(capsys, command, *rest, "--json", "--format", "text"), "the last one counts"
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.splitlines()[0])


def test_samples_have_both(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("polars")
    from tests.cli.dumps import trl_run

    run = str(trl_run(tmp_path / "run", steps=20))
    short = said(capsys, "samples", run, "--step", "10", "--json")
    assert short == said(capsys, "samples", run, "--step", "10", "--format", "json")
    assert [json.loads(line)["step"] for line in short.splitlines()] == [10] * 8
    assert said(capsys, "samples", run, "--json") == said(capsys, "samples", run, "--format", "json")
    assert "completion" in said(capsys, "samples", run, "--step", "10")


def test_a_format_that_is_not_there(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["metrics", RUN, "--format", "yaml"])
    assert "invalid choice: 'yaml'" in capsys.readouterr().err
