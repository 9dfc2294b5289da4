"""`vario compare`: runs beside each other, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.logs import N, climb, noisy, trl_log, write_log
from vario.surfaces.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Two runs of TRL; the second one's length leaves the first one's at step 61, with another learning rate."""
    longer = noisy(np.where(np.arange(N) < 60, 200.0, 320.0), 4.0, seed=99)
    spent = np.linspace(0.001, 0.05, N)
    for name, rate, log in (("a", 1e-6, {"kl": spent}), ("b", 3e-6, {"kl": spent, "completions/mean_length": longer})):
        trl_log(tmp_path / name / "log.jsonl", seed=ord(name), **log)
        config = {"learning_rate": rate, "beta": 0.04, "num_generations": 8, "output_dir": name, "loss_type": "grpo"}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_text_says_what_differs_and_where_they_part(pair: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *pair]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert f"1. {pair[0]} (trl, steps 1 to {N})".replace(" ", "") in words.replace(" ", "")
    settings = words.split("settings that differ")[1].split("where metrics part")[0]
    assert settings.split() == ["-", "learning_rate:", "1e-06", "|", "3e-06"], "names of runs are no settings"
    parted = words.split("where metrics part, at equal steps")[1]
    assert "length/mean: 1 and 2 from step 6" in parted
    first, second = re.search(r"; (\d+) and (\d+) in the end", parted).groups()  # type: ignore[union-attr]
    assert abs(int(first) - 200) <= 5
    assert abs(int(second) - 320) <= 5
    assert "reward/mean at equal KL" in words
    assert "the run on the test set" not in words, "both rise: no ladder"


def test_json_is_one_document(pair: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *pair, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "compare/v1"
    assert [run["schema"] for run in document["runs"]] == ["diagnosis/v1"] * 2
    assert document["settings"] == {"learning_rate": [1e-6, 3e-6]}
    parted = [d for d in document["departures"] if d["axis"] == "steps"]
    assert [d["metric"] for d in parted] == ["length/mean"]
    assert parted[0]["runs"] == [0, 1]
    assert 55 <= parted[0]["at"] <= 66
    assert parted[0]["levels"] == [pytest.approx(200, abs=5), pytest.approx(320, abs=5)]
    assert len(document["equal_kl"]) == 5
    assert document["ladder"] is None
    assert all(isinstance(note, str) for note in document["notes"])


def test_a_run_beside_itself(pair: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", pair[0], pair[0], "--no-replay"]) == 0
    out = capsys.readouterr().out
    assert "settings: none that differ are known" in out
    assert "  - nowhere beyond their noise" in out


def test_runs_without_a_metric_in_common(tmp_path: Path, capsys: Capture) -> None:
    for name, key in (("one", "reward"), ("two", "rewards/margins")):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"step": {i}, "{key}": {i % 7}}}\n' for i in range(1, 60)))
    assert main(["compare", str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl"), "--no-replay"]) == 0
    out = capsys.readouterr().out
    assert "  - none is logged by both" in out
    assert "run 2 logs no metric that run 1 does" in " ".join(out.split())
    assert "nowhere beyond their noise" not in out


def test_three_runs(pair: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *pair, pair[1], "--json", "--no-replay"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 3
    assert {tuple(d["runs"]) for d in document["departures"]} == {(0, 1), (0, 2)}
    assert document["settings"]["learning_rate"] == [1e-6, 3e-6, 3e-6]


@pytest.mark.parametrize(
    ("test", "rung", "knobs"),
    [
        (climb(3), "data", ["dynamic-filter"]),
        (noisy(0.3, 0.05, seed=3), "setup", ["batch-size", "learning-rate"]),
        (climb(3)[:14], "too-early", []),
    ],
)
def test_train_against_test_names_the_branch(
    tmp_path: Path, capsys: Capture, test: np.ndarray, rung: str, knobs: list[str]
) -> None:
    runs = [write_log(tmp_path / f"{name}.jsonl", {"reward/mean": values}) for name, values in (("train", noisy(0.3, 0.05)), ("test", test))]  # fmt: skip
    arguments = ["compare", *map(str, runs), "--map", "reward/mean=reward/mean", "--no-replay"]
    assert main([*arguments, "--json"]) == 0
    ladder = json.loads(capsys.readouterr().out)["ladder"]
    assert (ladder["rung"], ladder["knobs"]) == (rung, knobs)
    assert ladder["next"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "the reward of 1 does not rise; with 2 as the run on the test set" in out
    assert f"  {rung}: " in out
    assert all(f"  - {knob}: " in out for knob in knobs)


def test_a_setting_that_json_has_no_number_for(pair: tuple[str, str], capsys: Capture) -> None:
    config = Path(pair[1]) / "config.json"
    config.write_text(json.dumps({"learning_rate": float("inf"), "num_generations": 8, "beta": 0.04, "loss_type": "grpo"}))
    assert main(["compare", *pair, "--json", "--no-replay"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["learning_rate"] == [1e-6, None]


def test_control_characters_of_a_log_do_not_reach_the_terminal(pair: tuple[str, str], capsys: Capture) -> None:
    config = Path(pair[1]) / "config.json"
    config.write_text(json.dumps({"learning_rate": "\x1b[31mred\u202e", "num_generations": 8, "beta": 0.04, "loss_type": "grpo"}))
    assert main(["compare", *pair, "--no-replay"]) == 0
    out = capsys.readouterr().out
    assert "learning_rate: 1e-06 | " in out
    assert not any(c in out for c in "\x1b\u202e")


def test_wrong_use(pair: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", pair[0]]) == 2
    assert "give two paths or more" in capsys.readouterr().err
    assert main(["compare", pair[0], str(tmp_path / "none")]) == 3
    assert "none" in capsys.readouterr().err
    assert main(["compare", *pair, "--only", "no-such-rule"]) == 2
    assert "no rule is called 'no-such-rule'" in capsys.readouterr().err


def test_only_chosen_rules_are_asked(pair: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *pair, "--only", "LN", "--json", "--no-replay"]) == 0
    for run in json.loads(capsys.readouterr().out)["runs"]:
        assert {f["code"][:2] for f in run["findings"]} <= {"LN"}
        assert {u["code"][:2] for u in run["unknown"]} <= {"LN"}
