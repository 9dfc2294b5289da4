"""The command line: exit codes, JSON, text at 80 columns."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from tests.conftest import golden_runs
from vario.rules import RULES
from vario.surfaces.cli import main


def schema() -> dict[str, object]:
    return json.loads((resources.files("vario") / "schemas" / "diagnosis-v1.json").read_text())


def test_schema_is_valid_and_strict_enough() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "diagnosis/v1"}, schema())


@pytest.mark.parametrize("run", golden_runs(), ids=lambda r: r.name)
def test_json_follows_the_schema(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diagnose", str(run), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema())
    loud = [f for f in document["findings"] if f["severity"] != "info" and f["audience"] == "default"]
    assert code == (1 if loud else 0)


@pytest.mark.parametrize("run", golden_runs(), ids=lambda r: r.name)
def test_text_fits_80_columns_and_has_no_control_codes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(run)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert not any(ord(c) < 32 for c in out.replace("\n", ""))


def test_exit_codes(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    healthy, broken = str(golden / "grpo-healthy"), str(golden / "grpo-reward-bug")
    assert main(["diagnose", healthy]) == 0
    assert main(["diagnose", broken]) == 1
    assert main(["diagnose", broken, "--exit-zero"]) == 0
    assert main(["diagnose", broken, "--fail-on", "never"]) == 0
    assert main(["diagnose", str(tmp_path)]) == 3
    assert main(["diagnose", healthy, "--config", str(tmp_path / "none.json")]) == 2
    assert main(["diagnose", healthy, broken, str(tmp_path)]) == 3
    assert main(["rule", "no-such-rule"]) == 2
    capsys.readouterr()


def test_wrong_use_is_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vario.surfaces.cli", "diagnose"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_several_paths_are_one_document_a_line(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diagnose", str(golden / "grpo-healthy"), str(golden / "grpo-reward-bug"), "--json"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert [json.loads(line)["schema"] for line in lines] == ["diagnosis/v1"] * 2


def test_a_checkpoint_and_a_bare_file_read_alike(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("grpo-drift/checkpoint-100", "grpo-drift/checkpoint-100/trainer_state.json"):
        main(["diagnose", str(golden / path), "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document["run"]["last_step"] == 100
        assert document["run"]["algorithm"] == "grpo"


def test_every_rule_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in RULES:
        assert main(["rule", rule.name]) == 0
        by_name = capsys.readouterr().out
        assert main(["rule", rule.code.lower()]) == 0
        assert capsys.readouterr().out == by_name
        assert "Looks like it but is not:" in by_name
    assert main(["rule"]) == 0
    assert all(rule.name in (out := capsys.readouterr().out) or rule.name in out for rule in RULES[:1])


def test_metrics_page_says_what_was_not_settled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(
            json.dumps(
                {
                    "step": i,
                    "reward": 0.5,
                    "reward_std": 0.1,
                    "kl": 0.01,
                    "completions/mean_length": 9,
                    "frac_reward_zero_std": 0.5,
                    "odd": 1,
                }
            )
            + "\n"
            for i in range(1, 40)
        )
    )
    assert main(["metrics", str(log)]) == 0
    out = capsys.readouterr().out
    assert "reward_std" in out.split("not settled")[1]
    assert "odd" in out.split("not recognised")[1]
    assert main(["metrics", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unmapped"] == ["odd"]


def test_hostile_text_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(
            json.dumps(
                {"step": i, "reward": 0.1 * (i % 3), "rewards/\x1b[31mred\u202e/mean": 1.0, "rewards/chosen\x07": 2}
            )
            + "\n"
            for i in range(1, 60)
        )
    )
    for arguments in (["diagnose", str(log)], ["metrics", str(log)]):
        main(arguments)
        out = capsys.readouterr().out
        assert not any(c in out for c in "\x1b\x07\u202e")


def test_the_readme_shows_what_the_demo_says(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(golden / "grpo-drift")])
    verdict = capsys.readouterr().out.split("\n\n")[1]
    assert verdict in (golden.parent.parent / "README.md").read_text()
