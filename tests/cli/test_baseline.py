"""`vario baseline`: the model before RL, written to a file that a diagnosis reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.logs import N, noisy, trl_log, write_log
from vario.errors import ConfigError
from vario.surfaces.cli import main
from vario.verdict.profile import FIRST, read_baseline

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Lengths that double after the first rows."""
    grown = np.concatenate((np.full(10, 200.0), np.linspace(200.0, 420.0, N - 10))) + noisy(0.0, 3.0)
    return trl_log(tmp_path / "run" / "log.jsonl", **{"completions/mean_length": grown})


def document(capsys: Capture) -> dict[str, dict[str, float]]:
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == "baseline/v1"
    metrics: dict[str, dict[str, float]] = made["metrics"]
    return metrics


def test_the_first_rows_of_a_training_stand_for_the_model_before(log: Path, capsys: Capture) -> None:
    values = [json.loads(line)["completions/mean_length"] for line in log.read_text().splitlines()]
    assert main(["baseline", str(log)]) == 0
    length = document(capsys)["length/mean"]
    assert length["points"] == FIRST == 5
    assert length["level"] == pytest.approx(np.mean(values[:5]))
    assert length["spread"] == pytest.approx(np.std(values[:5], ddof=1))


def test_more_rows_or_all_of_them(log: Path, capsys: Capture) -> None:
    assert main(["baseline", str(log), "--rows", "10"]) == 0
    assert document(capsys)["length/mean"]["points"] == 10
    assert main(["baseline", str(log), "--all-rows"]) == 0
    assert document(capsys)["length/mean"]["points"] == N


def test_only_what_a_model_has_before_rl(log: Path, capsys: Capture) -> None:
    assert main(["baseline", str(log)]) == 0
    families = {name.split("/")[0] for name in document(capsys)}
    assert {"length", "entropy", "reward"} <= families
    assert not families & {"kl", "gradient", "clip", "loss", "systems", "learning-rate"}


def test_an_evaluation_counts_by_its_first_point(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"step": i, "reward": 0.3 + 0.001 * i, "completions/mean_length": 100.0} for i in range(1, 61)]
    rows += [{"step": i, "eval_reward": 0.2 + 0.01 * i} for i in (1, 20, 40, 60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda r: r["step"])))
    assert main(["baseline", str(path), "--map", "eval/score/mean=eval_reward"]) == 0
    made = document(capsys)
    assert made["eval/score/mean"] == {"level": pytest.approx(0.21), "spread": 0.0, "points": 1}
    assert made["reward/mean"]["points"] == 5


def test_it_is_written_read_and_used(log: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "before.json"
    assert main(["baseline", str(log), "-o", str(target)]) == 0
    out = capsys.readouterr().out
    assert str(target) in out
    assert "--baseline" in out
    levels = read_baseline(target)
    assert levels["length/mean"].points == 5
    arguments = ["diagnose", str(log), "--only", "length-off-baseline", "--json", "--exit-zero"]
    assert main(arguments) == 0
    assert [u["name"] for u in json.loads(capsys.readouterr().out)["unknown"]] == ["length-off-baseline"]
    assert main([*arguments, "--baseline", str(target)]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["unknown"] == []
    assert [f["name"] for f in made["findings"]] == ["length-off-baseline"]


def test_it_is_found_by_the_project_file_from_where_that_stands(
    log: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["baseline", str(log), "-o", str(tmp_path / "before.json")]) == 0
    (tmp_path / "vario.toml").write_text('[declare]\nbaseline = "before.json"\n')
    monkeypatch.chdir("/")
    capsys.readouterr()
    assert main(["diagnose", str(log), "--only", "length-off-baseline", "--json", "--exit-zero"]) == 0
    assert [f["name"] for f in json.loads(capsys.readouterr().out)["findings"]] == ["length-off-baseline"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no baseline can be read there"),
        ("[]", "not a baseline (baseline/v1)"),
        ('{"schema": "baseline/v1"}', "not a baseline"),
        ('{"schema": "diagnosis/v1", "metrics": {}}', "not a baseline"),
        ('{"schema": "baseline/v1", "metrics": {"length/mean": 3}}', "length/mean: level, spread and points are numbers"),
        ('{"schema": "baseline/v1", "metrics": {"length/mean": {"level": 1, "spread": 0}}}', "length/mean"),
        ('{"schema": "baseline/v1", "metrics": {"length/mean": {"level": NaN, "spread": 0, "points": 5}}}', "length/mean"),
        ('{"schema": "baseline/v1", "metrics": {"length/mean": {"level": "1", "spread": 0, "points": 5}}}', "length/mean"),
    ],
)
def test_what_is_no_baseline_is_said(
    log: Path, tmp_path: Path, capsys: Capture, text: str, words: str
) -> None:
    target = tmp_path / "before.json"
    target.write_text(text)
    with pytest.raises(ConfigError, match=r"before\.json"):
        read_baseline(target)
    assert main(["diagnose", str(log), "--baseline", str(target)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert str(target) in error


def test_wrong_use(log: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["diagnose", str(log), "--baseline", str(tmp_path / "none.json")]) == 2
    assert "`vario baseline PATH` makes one" in capsys.readouterr().err
    assert main(["baseline", str(tmp_path / "none")]) == 3
    assert main(["baseline", str(log), "--rows", "0"]) == 2
    assert "--rows: at least 1" in capsys.readouterr().err
    assert main(["baseline", str(log), "-o", str(tmp_path / "no" / "such" / "place.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    nothing = write_log(tmp_path / "lr.jsonl", {"learning_rate": noisy(1e-6, 0.0), "grad_norm": noisy(1.0)})
    assert main(["baseline", str(nothing)]) == 2
    assert "`vario metrics` says what is" in capsys.readouterr().err
