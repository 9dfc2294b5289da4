"""Folders: several sources of one run, several runs, and how a user chooses among them."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from tensorboardX import SummaryWriter

import vario
from vario.errors import ConfigError, NothingReadable, SeveralRuns
from vario.surfaces.cli import main

Rows = list[dict[str, object]]


def rows_of(run: Path) -> Rows:
    return json.loads((run / "trainer_state.json").read_text())["log_history"]


def write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_events(folder: Path, rows: Rows, name: Callable[[str], str] = "train/{}".format) -> None:
    """What the Trainer's TensorBoard callback writes: `train/` and `eval/` in front of the keys."""
    with SummaryWriter(str(folder)) as writer:
        for row in rows:
            for key, value in row.items():
                if key not in ("step", "train_runtime") and isinstance(value, int | float):
                    tag = f"eval/{key[5:]}" if key.startswith("eval_") else name(key)
                    writer.add_scalar(tag, value, row["step"])


def loop(seed: int, steps: Iterable[int] = range(1, 61), **more: float) -> Rows:
    noise = np.random.default_rng(seed)
    return [{"step": s, "reward": round(0.01 * s + noise.normal(0, 0.03), 4), "loss": round(noise.normal(), 4), **more} for s in steps]


@pytest.fixture
def healthy(golden: Path) -> Path:
    return golden / "grpo-healthy-kl"


def test_an_output_folder_with_its_tensorboard_is_one_run(healthy: Path, tmp_path: Path) -> None:
    rows = rows_of(healthy)
    (tmp_path / "trainer_state.json").write_text((healthy / "trainer_state.json").read_text())
    (tmp_path / "config.json").write_text((healthy / "config.json").read_text())
    write_events(tmp_path / "runs" / "Jan05_10-00-00_host", [r | {"only_here": 0.5} for r in rows])
    alone, both = vario.read(healthy), vario.read(tmp_path)
    assert both.config["beta"] == alone.config["beta"]
    assert set(both.series) == set(alone.series)
    for name, series in alone.series.items():
        assert np.array_equal(both.series[name].steps, series.steps), name
        np.testing.assert_allclose(both.series[name].values, series.values, rtol=1e-6)
    assert "only_here" in both.unmapped
    assert any("Jan05_10-00-00_host" in w for w in both.warnings), "where the extra one is from is said"


def test_the_same_run_says_the_same_from_its_events(healthy: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "runs" / "Jan05_10-00-00_host", rows_of(healthy))
    a = vario.diagnose(vario.read(healthy))
    b = vario.diagnose(vario.read(tmp_path, config=healthy / "config.json"))
    assert (a.verdict.trajectory, a.verdict.regime, a.verdict.action) == (b.verdict.trajectory, b.verdict.regime, b.verdict.action)
    assert {f.name for f in a.findings} == {f.name for f in b.findings}


def test_runs_side_by_side_are_listed_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(tmp_path / "lr-1e-6", loop(1))
    write_events(tmp_path / "lr-2e-6", loop(2))
    with pytest.raises(SeveralRuns) as raised:
        vario.read(tmp_path)
    assert raised.value.names == ["lr-1e-6", "lr-2e-6"] == vario.runs(tmp_path)
    assert vario.read(tmp_path, run="lr-2e-6").series["reward/mean"].values[0] == pytest.approx(loop(2)[0]["reward"])
    assert main(["diagnose", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "lr-1e-6" in said.err
    assert "--all" in said.err
    assert main(["diagnose", str(tmp_path), "--all", "--json", "--exit-zero"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [Path(d["run"]["path"]).name for d in documents] == ["lr-1e-6", "lr-2e-6"]
    assert main(["diagnose", str(tmp_path), "--run", "lr-2e-6", "--exit-zero"]) == 0
    assert main(["diagnose", str(tmp_path), "--run", "lr-3e-6"]) == 3
    assert "lr-1e-6" in capsys.readouterr().err, "an unknown name is answered with those that there are"


def test_one_bad_run_does_not_stop_the_others(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "metrics.jsonl", loop(1))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "metrics.jsonl").write_text('{"step": ')
    write_jsonl(tmp_path / "c" / "metrics.jsonl", loop(3))
    found = dict(vario.read_all(tmp_path))
    assert isinstance(found["a"], vario.Run)
    assert isinstance(found["c"], vario.Run)
    assert len(found["c"].series["reward/mean"]) == 60


def test_a_folder_s_own_run_stands_for_it(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", loop(1))
    write_jsonl(tmp_path / "old" / "metrics.jsonl", loop(2))
    run = vario.read(tmp_path)
    assert run.series["reward/mean"].values[0] == pytest.approx(loop(1)[0]["reward"])
    assert any("old" in w for w in run.warnings)
    assert vario.runs(tmp_path) == [".", "old"]
    assert vario.read(tmp_path, run="old").series["reward/mean"].values[0] == pytest.approx(loop(2)[0]["reward"])


def test_two_processes_of_one_run_are_put_together(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "orchestrator" / "metrics.jsonl", [{"step": s, "reward": 0.01 * s} for s in range(60)])
    write_jsonl(tmp_path / "trainer" / "metrics.jsonl", [{"step": s, "entropy": 1 - 0.01 * s, "grad_norm": 0.5} for s in range(58)])
    run = vario.read(tmp_path)
    assert len(run.series["reward/mean"]) == 60
    assert len(run.series["entropy/mean"]) == 58
    assert run.events == ()
    assert any("metrics.jsonl" in w for w in run.warnings)


def test_parts_of_one_run_are_put_in_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics-1.jsonl", loop(1, range(1, 41)))
    write_jsonl(tmp_path / "metrics-2.jsonl", loop(1, range(41, 61)))
    run = vario.read(tmp_path)
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 61))
    assert [(e.kind, e.step) for e in run.events] == [("resume", 41)]


def test_two_runs_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "seed1.jsonl", loop(1))
    write_jsonl(tmp_path / "seed2.jsonl", loop(2))
    with pytest.raises(SeveralRuns) as raised:
        vario.read(tmp_path)
    assert sorted(raised.value.names) == ["seed1.jsonl", "seed2.jsonl"]
    assert vario.read(tmp_path, run="seed2.jsonl").series["reward/mean"].values[0] == pytest.approx(loop(2)[0]["reward"])


def test_an_attempt_that_was_given_up_is_no_second_run(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", loop(1))
    write_jsonl(tmp_path / "aborted.jsonl", loop(9, range(1, 5)))
    run = vario.read(tmp_path)
    assert len(run.series["reward/mean"]) == 60
    assert any("aborted.jsonl" in w and "left out" in w for w in run.warnings)


def test_a_printed_log_agrees_although_it_is_rounded(tmp_path: Path) -> None:
    rows = loop(1, kl=0.01234567)
    write_jsonl(tmp_path / "metrics.jsonl", rows)
    lines = [f"{{'loss': {r['loss']:.3f}, 'reward': {r['reward']:.3f}, 'kl': {r['kl']:.3f}, 'step': {r['step']}}}" for r in rows]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    run = vario.read(tmp_path)
    assert run.series["kl/reference"].values[0] == 0.01234567, "the exact source serves the metric"
    assert not any("left out" in w for w in run.warnings)


def test_another_program_s_output_is_left_out(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", loop(1))
    (tmp_path / "vllm.log").write_text("".join(f"INFO step {s}: loss: {s * 7}.5, queue_len: {s % 5}\n" for s in range(1, 61)))
    run = vario.read(tmp_path)
    assert run.series["loss/total"].values[0] == pytest.approx(loop(1)[0]["loss"])
    assert "queue_len" not in run.unmapped


def test_samples_beside_the_log_are_no_metrics(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", loop(1))
    write_jsonl(tmp_path / "rollouts" / "1.jsonl", [{"input": "1+1=", "output": "3", "score": 0.0, "step": 1}] * 80)
    write_jsonl(tmp_path / "completions.jsonl", [{"prompt": "1+1=", "completion": "3", "reward": 9.0, "step": s} for s in range(80)])
    run = vario.read(tmp_path)
    assert len(run.series["reward/mean"]) == 60
    assert float(run.series["reward/mean"].values.max()) < 2.0


@pytest.mark.parametrize("name", ["label.json", "rewards.json", "env.json"])
def test_what_no_user_has_is_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps({"log_history": loop(1)}))
    with pytest.raises(NothingReadable):
        vario.read(tmp_path)


def test_checkpoints_of_other_trainers(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", loop(1))
    for name in ("global_step_20", "global_step_40"):
        (tmp_path / "checkpoints" / name / "actor").mkdir(parents=True)
    (tmp_path / "rollouts" / "step_30").mkdir(parents=True)
    assert [c.step for c in vario.read(tmp_path).checkpoints] == [20, 40]


def test_what_a_key_means_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_jsonl(tmp_path / "log.jsonl", [{"step": s, "my score": 0.01 * s, "drift": 0.001 * s} for s in range(60)])
    assert vario.read(log).series == {}
    run = vario.read(log, mapping={"reward/mean": "my score", "kl/reference": "drift"})
    assert run.series["reward/mean"].values[10] == pytest.approx(0.1)
    assert run.unmapped == ()
    assert main(["diagnose", str(log), "--map", "reward/mean=my score", "--json", "--exit-zero"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["trajectory"] == "rising"
    (tmp_path / "vario.toml").write_text('[map]\n"reward/mean" = "my score"\n')
    assert main(["diagnose", str(log), "--json", "--exit-zero"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["trajectory"] == "rising"


@pytest.mark.parametrize(
    ("mapping", "said"),
    [({"reward/mean": "no such key"}, "my score"), ({"reward/meen": "my score"}, "reward/meen")],
)
def test_a_wrong_mapping_is_explained(tmp_path: Path, mapping: dict[str, str], said: str) -> None:
    log = write_jsonl(tmp_path / "log.jsonl", [{"step": s, "my score": 0.01 * s} for s in range(60)])
    with pytest.raises(ConfigError, match=said):
        vario.read(log, mapping=mapping)


@pytest.mark.parametrize("text", ["[map", '[map]\n"reward/mean" = 3\n', "[mapp]\n"])
def test_a_wrong_project_file_is_explained(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_jsonl(tmp_path / "log.jsonl", loop(1))
    (tmp_path / "vario.toml").write_text(text)
    assert main(["diagnose", str(log)]) == 2
    assert "vario.toml" in capsys.readouterr().err


def test_a_rotated_log_is_one_log(tmp_path: Path) -> None:
    lines = [f"{{'loss': {0.5 + 0.001 * i}, 'reward': {0.01 * i}, 'epoch': 0.1}}\n" for i in range(90)]
    (tmp_path / "train.log.2").write_text("".join(lines[:30]))
    with gzip.open(tmp_path / "train.log.1.gz", "wt") as packed:
        packed.write("".join(lines[30:60]))
    (tmp_path / "train.log").write_text("".join(lines[60:]))
    run = vario.read(tmp_path)
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 91))
    np.testing.assert_allclose(run.series["reward/mean"].values, 0.01 * np.arange(90))


def test_wandb_s_settings_are_unwrapped(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "wandb-history.jsonl", [{"_step": s, "critic/score/mean": 0.01 * s} for s in range(60)])
    (tmp_path / "config.yaml").write_text(
        "wandb_version: 1\n_wandb:\n  value: {cli_version: 0.12}\nactor_rollout_ref:\n  desc: null\n  value:\n    rollout: {n: 5}\n"
        "data:\n  desc: null\n  value: {max_response_length: 768}\n"
    )
    run = vario.read(tmp_path)
    assert run.framework == "verl"
    assert (run.declared.group_size, run.declared.max_length) == (5.0, 768.0)
    assert (run.knobs["group-size"].current, run.knobs["group-size"].is_default) == (5, False)


def test_the_algorithm_may_stand_in_the_log_s_name(tmp_path: Path) -> None:
    assert vario.read(write_jsonl(tmp_path / "my_grpo_run.jsonl", loop(1))).algorithm == "grpo"
    assert vario.read(write_jsonl(tmp_path / "metrics.jsonl", loop(1))).algorithm == "unknown"


def test_a_damaged_second_source_is_told_of(healthy: Path, tmp_path: Path) -> None:
    rows = rows_of(healthy)
    state = json.loads((healthy / "trainer_state.json").read_text()) | {"log_history": rows[:60]}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    write_events(tmp_path / "runs" / "Jan05_10-00-00_host", rows)
    (events,) = (tmp_path / "runs").rglob("*tfevents*")
    events.write_bytes(events.read_bytes()[:-5])
    run = vario.read(tmp_path)
    assert any("ends inside a record" in w for w in run.warnings)


def test_a_resumed_wandb_run_is_one_run(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb")
    for begin, end, shift in ((0, 60, 0.0), (40, 90, 5.0)):
        run = wandb.init(project="p", id="abcd1234", dir=str(tmp_path), mode="offline", settings=wandb.Settings(silent=True))
        for s in range(begin, end):
            run.log({"reward": shift + s / 10, "train/global_step": s})
        run.finish()
        time.sleep(1.1)  # the folder is named by the second
    read = vario.read(tmp_path)
    steps = read.series["reward/mean"].steps.tolist()
    assert steps == list(range(90))
    np.testing.assert_allclose(read.series["reward/mean"].values, [s / 10 + 5.0 * (s >= 40) for s in range(90)])
    assert [(e.kind, e.step) for e in read.events] == [("resume", 40)]
    assert vario.runs(tmp_path) == ["."]
