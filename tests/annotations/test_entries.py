"""What is written back, whatever the tracker."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

import vario
from tests.conftest import GOLDEN, golden_runs
from tests.notebook.hostile import hostile_run
from vario.errors import ConfigError
from vario.surfaces.annotations.entries import OURS, annotation_of
from vario.surfaces.annotations.targets import target_at
from vario.surfaces.cli import main

TODAY = date(2026, 1, 2)


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_every_name_is_ours_and_every_serious_finding_is_there(path) -> None:
    diagnosis = vario.diagnose(vario.read(path), replay=False)
    made = {entry.name: entry for entry in annotation_of(diagnosis, TODAY).entries}
    assert all(name.startswith(OURS) for name in made)
    assert diagnosis.verdict.narrative in made["vario/verdict"].text
    assert made["vario/verdict"].step == diagnosis.run.last_step
    serious = [f for f in diagnosis.findings if f.severity != "info" and f.audience == "default"]
    assert [n for n in made if n.startswith("vario/findings/")] == [f"vario/findings/{f.name}" for f in serious]
    for finding in serious:
        entry = made[f"vario/findings/{finding.name}"]
        assert (entry.step, entry.severity) == (finding.since, finding.severity)
        assert finding.evidence[0] in entry.text


def test_secrets_and_control_characters_are_not_written() -> None:
    run = hostile_run()
    diagnosis = vario.diagnose(run, replay=False)
    secret = "hf_" + "a1B2" * 6
    told = tuple(replace(f, evidence=(f"{secret} \x1b[31m\nnext",)) for f in diagnosis.findings)
    made = annotation_of(replace(diagnosis, findings=told, run=replace(run, path=f"runs/{secret}")), TODAY)
    for text in (*(entry.text for entry in made.entries), made.report):
        assert secret not in text
        assert "\x1b" not in text
    assert all("\n" not in entry.text for entry in made.entries)
    assert any("[masked]" in entry.text for entry in made.entries)


@pytest.mark.parametrize(
    "address",
    ["x", "wandb://me/proj", "wandb://me//run", "trackio://p", "trackio:///r", "mlflow+http://host", "mlflow+http://host/", "mlflow+/a/b",
     "mlflow+http://host/a.b", "tensorboard:/no/such/folder", "http://host/run"],
)  # fmt: skip
def test_an_address_that_names_no_run_is_said_in_a_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError):
        target_at(address)
    assert main(["annotate", str(GOLDEN / "grpo-drift"), "--to", address]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vario: --to {address}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mlflow+http://127.0.0.1:1/abc", "nothing answers there"),
        ("mlflow+sqlite:////none/mlflow.db/abc", "there is no /none/mlflow.db"),
        ("mlflow+file:///none/mlruns/abc", "there is no /none/mlruns"),
    ],
)
def test_a_store_that_is_not_there_is_not_made(address: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlflow")
    assert main(["annotate", str(GOLDEN / "grpo-drift"), "--no-replay", "--to", address]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_cannot_be_read_or_has_no_row(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    to = ["--to", f"tensorboard:{tmp_path}"]
    assert main(["annotate", str(tmp_path / "none"), *to]) == 3
    assert main(["annotate", str(GOLDEN / "grpo-drift"), "--until", "-1", *to]) == 2
    assert "no row to judge" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_dry_run_needs_no_client_and_writes_nothing(
    tmp_path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in ("wandb", "mlflow", "trackio", "tensorboardX"):
        monkeypatch.setitem(sys.modules, name, None)
    run = [str(GOLDEN / "grpo-drift"), "--no-replay", "--dry-run", "--to"]
    for address, place in (
        ("wandb://me/proj/a1", "me/proj/a1: summary vario/verdict: STOP"),
        ("trackio://p/r", "p/r: error alert vario/findings/kl-rises-while-reward-falls at step 43: critical"),
        ("mlflow+http://127.0.0.1:1/abc", "run abc: tag vario.findings.kl-rises-while-reward-falls: critical"),
        (f"tensorboard:{tmp_path}", "text vario/findings/kl-rises-while-reward-falls at step 43: critical"),
    ):
        assert main(["annotate", *run, address]) == 0
        assert place in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("wandb://me/proj/a1", "wandb", "wandb"), ("trackio://p/r", "trackio", "trackio"),
     ("mlflow+http://127.0.0.1:1/abc", "mlflow", "mlflow"), ("tensorboard:", "tensorboardX", "tensorboard")],
)  # fmt: skip
def test_without_the_client_it_says_what_to_install(
    address: str, package: str, extra: str, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    assert main(["annotate", str(GOLDEN / "grpo-drift"), "--no-replay", "--to", address]) == 2
    assert f"pip install 'vario[{extra}]'" in capsys.readouterr().err
