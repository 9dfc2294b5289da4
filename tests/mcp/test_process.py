"""The process itself: its output is the protocol and nothing else, and no client can bring it down."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.cli.dumps import KEY
from tests.conftest import GOLDEN, ROOT
from tests.mcp.runs import grow
from tests.mcp.talking import HELLO, PATIENCE, READY, Talk, call, environment, lines, over_stdio, raw
from vario.surfaces.cli import _parser, main
from vario.surfaces.cli.mcp_command import skill
from vario.surfaces.mcp.shown import BRIEF, FULL, STRING, fitted, short, size


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    grow(tmp_path / "run/log.jsonl", 1, 60)
    return tmp_path


def messages(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_output_carries_nothing_but_the_protocol(runs: Path) -> None:
    """Neither what a user's rule prints nor what cannot be understood; the end of input ends it."""
    rule = 'import sys\nprint("printed by a rule")\nsys.stdout.flush()\n'
    (runs / "mine.py").write_text(rule)
    (runs / "vario.toml").write_text('[rules]\nload = ["mine.py"]\n')
    process = raw(["."], runs)
    said = lines(HELLO, READY, "no JSON at all", "[1, 2", '{"jsonrpc": "2.0"}', call(2, "diagnose", run="run"))
    assert process.stdin is not None
    process.stdin.write(said)
    process.stdin.flush()
    assert process.stdout is not None
    got: dict[object, dict] = {}
    while 2 not in got:
        message = json.loads(process.stdout.readline())
        got[message.get("id")] = message
    out, errors = process.communicate(timeout=PATIENCE)
    assert all(message["jsonrpc"] == "2.0" for message in messages(out))
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "printed by a rule" in errors, "it went where people look"


def test_a_client_that_goes_away(runs: Path) -> None:
    """Killed in the middle of a call: the server ends by itself, and says nothing."""
    process = raw(["."], runs)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(HELLO, READY))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.stdin.write(lines(*(call(n, "diagnose", run="run", step=n) for n in range(2, 30))))
    process.stdin.flush()
    process.stdout.close()
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in errors, errors


def test_a_client_that_cancels(runs: Path) -> None:
    process = raw(["."], runs)
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(HELLO, READY, call(2, "list_runs"), gone, call(3, "diagnose", run="run")))
    process.stdin.flush()
    while json.loads(process.stdout.readline()).get("id") != 3:
        pass
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """A run with more of everything than an answer holds."""
    home = tmp_path_factory.mktemp("wide")
    log = home / "wide/log.jsonl"
    log.parent.mkdir()
    names = [f"odd/{n}/{'key' * 12}" for n in range(900)] + [f"rewards/part{n}/mean" for n in range(120)]
    with log.open("w") as stream:
        for step in range(1, 41):
            row = {"step": step, "reward": step / 50, "kl": 0.01 * step} | {n: float(step) for n in names}
            stream.write(json.dumps(row) + "\n")
    (log.parent / "config.json").write_text(json.dumps({"num_generations": 8, "learning_rate": 1e-6, "output_dir": "x"}))
    with over_stdio(home, cwd=home, errors=home / "errors") as talk:
        yield talk


def test_answers_are_bounded_and_say_what_is_left_out(wide: Talk) -> None:
    answer, _ = wide.ask("diagnose", run="wide", detail="full")
    assert size(answer) <= FULL
    assert any(line.startswith("document.") for line in answer["left_out"])
    jsonschema.validate(answer, wide.schemas["diagnose"])
    series, _ = wide.ask("series_around", run="wide", metrics=[f"reward/component/part{n}/mean" for n in range(12)])
    assert size(series) <= BRIEF
    assert series["series"][0]["points"]


def test_names_in_a_log_are_hostile_too(wide: Talk) -> None:
    """Keys, settings and folders come from strangers as completions do."""
    home = wide.errors.parent if wide.errors is not None else Path()
    evil = f"rewards/\x1b[2J {KEY}\u202e/mean"
    log = home / "evil\x1b[2J/log.jsonl"
    grow(log, 1, 60)
    rows = [json.loads(line) | {evil: 0.5, "odd\x07": 1.0} for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    word = next(run["id"] for run in wide.ask("list_runs")[0]["runs"] if run["id"].startswith("evil"))
    for tool, more in (
        ("list_runs", {}), ("diagnose", {"run": word, "detail": "full"}), ("what_would_change", {"run": word}),
        ("series_around", {"run": word, "metrics": ["reward/mean", evil]}), ("compare", {"runs": [word, word]}),
    ):  # fmt: skip
        answer, text = wide.ask(tool, **more)
        for whole in (json.dumps(answer, ensure_ascii=False), text):
            assert KEY not in whole
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]|\\\\u001b|\\\\u0007", whole), tool
    said = wide.refused("series_around", run=word, metrics=[f"{evil}\x1b[2J"])
    assert KEY not in said
    assert "\x1b" not in said


def test_an_answer_loses_what_matters_least_first() -> None:
    answer = {"notes": ["n" * 50] * 100, "findings": ["f" * 50] * 20, "text": "t" * 3_000}
    fitted(answer, 6_000, ("notes", "findings"))
    assert size(answer) < 6_000 + 200
    assert len(answer["findings"]) == 20
    assert len(answer["notes"]) < 100
    assert answer["left_out"] == [f"notes: {100 - len(answer['notes'])} of 100 entries"]
    fitted(answer, 2_000, ("notes", "findings"))
    assert (answer["notes"], answer["findings"], len(answer["text"])) == ([], [], STRING)
    assert "texts beyond" in answer["left_out"][-1]
    assert len(short("word " * 5_000)) < 4_100


# the command


def test_the_skill(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--skill"]) == 0
    out = capsys.readouterr().out
    assert out == skill()
    _, front, body = out.split("---\n", 2)
    told = dict(line.split(": ", 1) for line in front.splitlines())
    assert set(told) == {"name", "description"}
    assert len(told["name"]) <= 64
    assert told["name"].replace("-", "").isalnum()
    assert len(told["description"]) <= 1024
    assert "Never stop a run" in body
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "surfaces/mcp/SKILL.md" in project["tool"]["setuptools"]["package-data"]["vario"]


def test_the_commands_of_the_skill_are_commands() -> None:
    lines = re.findall(r"`vario ([^`]+)`", skill().replace("\n", " "))
    assert lines
    for line in lines:
        assert _parser().parse_args(line.split()).format == "json"


def test_the_skill_names_every_tool_and_no_other(wide: Talk) -> None:
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", skill()))
    assert set(wide.schemas) <= words
    fields = json.dumps(list(wide.schemas.values()))
    others = {"since", "as_of", "step", "finding", "high", "medium", "low"}
    for word in words - set(wide.schemas) - others:
        assert f'"{word}"' in fields, word


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no/such/place"], "nothing lies there"),
        (["--transport", "http", "--host", "0.0.0.0"], "only with a token"),
        (["--transport", "http", "--host", "::"], "only with a token"),
        (["--transport", "http", "--host", "no such host"], "no such address"),
        (["--transport", "http", "--port", "70000"], "there is none"),
    ],
)
def test_wrong_use(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VARIO_TOKEN", raising=False)
    assert main(["mcp", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error
    assert error.count("\n") == 1


def test_the_root_of_all_files_is_no_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir("/")
    assert main(["mcp"]) == 2
    assert "name the folder of the runs" in capsys.readouterr().err


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from vario.surfaces.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'vario[mcp]'" in done.stderr


def test_other_commands_load_nothing_of_it() -> None:
    code = (
        "import sys; from vario.surfaces.cli import main; "
        f"main(['diagnose', {str(GOLDEN / 'grpo-drift')!r}, '--no-replay']); "
        "print([m for m in ('mcp', 'starlette', 'uvicorn', 'pydantic', 'anyio') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.stderr.strip().endswith("[]"), done.stderr
