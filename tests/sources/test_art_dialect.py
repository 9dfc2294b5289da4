"""What ART's keys mean, in the taxonomy of today and under the names of 0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.art import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
ROW = {"train/reward": 0.5, "train/reward_std_dev": 0.3, "train/exception_rate": 0.0, "loss/train": -0.01}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows):
        table.add({"step": i, "training_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None) -> Run:
    return run_of([row] * 12, config)


@pytest.mark.parametrize(("log", "version"), [("art", ">=0.5"), ("art-old", "<=0.4")])
def test_every_key_is_known(log: str, version: str) -> None:
    run = vario.read(LOGS / f"{log}-synthetic.jsonl")
    assert (run.framework, run.framework_version, run.unmapped) == ("art", version, ())


@pytest.mark.parametrize("log", ["art", "art-old"])
def test_what_both_names_mean(log: str) -> None:
    found = vario.read(LOGS / f"{log}-synthetic.jsonl").series
    assert {
        "reward/mean",
        "reward/std/within-group",
        "loss/policy",
        "entropy/mean",
        "gradient/norm",
        "learning-rate",
        "kl/reference",
    } <= found.keys()
    assert found["kl/reference"].key.endswith("kl_policy_ref")
    assert found["reward/std/within-group"].key == "train/reward_std_dev"
    assert "reward/std/batch" not in found
    assert not any(name.startswith(("clip/", "ratio/", "length/")) for name in found), "ART logs none of them"


def test_share_of_groups_without_spread() -> None:
    run = made(ROW | {"data/step_num_groups_submitted": 20.0, "data/step_num_groups_trainable": 15.0})
    assert run.series["signal/zero-variance-share"].values == pytest.approx(0.25)
    old = vario.read(LOGS / "art-old-synthetic.jsonl").series["signal/zero-variance-share"]
    assert sorted(set(old.values.round(6).tolist())) == [0.2, 0.3, 0.4]
    none = run_of(
        [
            ROW | {"data/step_num_groups_submitted": float(i % 2), "data/step_num_groups_trainable": 0.0}
            for i in range(12)
        ]
    )
    assert len(none.series["signal/zero-variance-share"]) == 6, "steps without a group have no share"
    assert np.isfinite(none.series["signal/zero-variance-share"].values).all()


def test_held_out_splits() -> None:
    one = vario.read(LOGS / "art-synthetic.jsonl")
    assert one.series["eval/score/mean"].key == "val/reward"
    assert one.series["reward/mean"].key == "train/reward"
    assert one.series["eval/score/mean"].steps.tolist() == [0, 5, 10, 15, 20, 25]
    two = vario.read(LOGS / "art-old-synthetic.jsonl")
    assert "eval/score/mean" not in two.series
    assert {"eval/set/val/mean", "eval/set/test/mean"} <= two.series.keys()


def test_a_metric_of_the_user_is_no_loss() -> None:
    """With today's taxonomy `train/entropy` can only come from the user's trajectories."""
    run = made(ROW | {"train/entropy": 7.0, "train/kl_div": 7.0})
    assert not {"entropy/mean", "kl/reference"} & run.series.keys()
    assert run.framework_version is None, "both kinds of names: neither bound holds"
    old = made({"train/reward": 0.5, "train/reward_std_dev": 0.3, "train/entropy": 0.7})
    assert old.series["entropy/mean"].key == "train/entropy"


def test_running_totals_are_not_read() -> None:
    run = vario.read(LOGS / "art-synthetic.jsonl")
    assert not {"staleness/dropped", "systems/throughput"} & run.series.keys()
    assert run.series["staleness/mean"].key == "train/steps_off_policy"
    assert run.series["systems/wait-time"].key == "throughput/step_trainer_idle_s"


def test_reference() -> None:
    with_kl = ROW | {"loss/kl_policy_ref": -0.002}
    assert made(with_kl).series["kl/reference"].values.max() < 0.0, "k1 may be negative"
    assert made(with_kl).declared.kl_by_design is True
    off = made(with_kl, {"kl_penalty_coef": 0.0})
    assert "kl/reference" not in off.series
    assert off.declared.kl_by_design is False
    assert "kl_penalty_coef" in off.unsettled["loss/kl_policy_ref"]
    assert made(ROW).declared.kl_by_design is None


def test_batches_as_logged() -> None:
    declared = vario.read(LOGS / "art-synthetic.jsonl").declared
    assert (declared.updates_per_rollout, declared.group_size, declared.batch_completions) == (4.0, 8.0, 144.0)
    assert (declared.step_unit, declared.group_centred, declared.max_length) == ("rollout", True, None)


def test_knobs() -> None:
    knobs = made(ROW, {"learning_rate": 1e-5}).knobs
    assert (knobs["learning-rate"].current, knobs["learning-rate"].is_default) == (1e-5, False)
    assert (knobs["clip-low"].key, knobs["clip-low"].current, knobs["clip-high"].current) == ("epsilon", 1.0, 4.0)
    assert (knobs["kl-coef"].key, knobs["kl-coef"].current) == ("kl_penalty_coef", 0.0)
    assert "staleness-bound" not in knobs
    assert made(ROW, {"loss_fn": "ppo"}).knobs["clip-low"].current == 0.2
    assert made(ROW | {"train/steps_off_policy": 1.0}).knobs["staleness-bound"].current == 4


def test_algorithm_and_configuration_alone() -> None:
    assert made(ROW).algorithm == "grpo"
    assert made(ROW, {"loss_fn": "cispo"}).algorithm == "cispo"
    assert made({"reward": 1.0}, {"advantage_balance": 0.0}).framework == "art"


@pytest.mark.parametrize(
    "keys",
    [
        {"train/reward", "train/gen_kl_error", "train/probs_ratio"},
        {"train/reward", "train/reward_std", "train/kl"},
        {"train/pg_clipfrac", "rollout/raw_reward", "train/loss", "train/grad_norm"},
        {"train/policy_loss", "train/group_reward_std"},
        {"train/CoordSokoban/success", "rollout/in_group_std"},
        {"env/all/reward/total", "optim/lr"},
    ],
)
def test_the_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


# several splits in one step, PipelineTrainer, and the Megatron back end


GROUPS = {"data/step_num_groups_submitted": 20.0, "data/step_num_groups_trainable": 15.0, "data/step_num_trajectories": 160.0}  # fmt: skip


def splits(*, every: int, prefix: str = "") -> Run:
    """Training on 20 groups of 8, and an evaluation on 4 groups of 2 in some steps, written after it."""
    table = Table("run", "test")
    for step in range(12):
        table.add({"step": step, "training_step": step} | ROW | GROUPS)
        if step % every == 0:
            held_out = {f"{prefix}data/step_num_groups_submitted": 4.0, f"{prefix}data/step_num_trajectories": 8.0}
            table.add({"step": step, "training_step": step, "val/reward": 0.4, "val/reward_std_dev": 0.1} | held_out)
    return interpret(table)


def test_a_held_out_batch_is_not_taken_for_the_one_trained_on() -> None:
    """Up to 0.5.18 both write their size under one name, and the later row stands: 15 of 4 groups."""
    run = splits(every=3)
    share = run.series["signal/zero-variance-share"]
    assert share.steps.tolist() == [1, 2, 4, 5, 7, 8, 10, 11]
    assert share.values == pytest.approx(0.25)
    assert (run.declared.batch_completions, run.declared.group_size) == (160.0, 8.0)


def test_every_step_held_out_leaves_nothing_to_go_by() -> None:
    run = splits(every=1)
    assert "signal/zero-variance-share" not in run.series
    assert "same name" in run.unsettled["data/step_num_groups_submitted"]
    assert (run.declared.batch_completions, run.declared.group_size) == (None, None)


def test_held_out_batches_under_names_of_their_own() -> None:
    run = splits(every=1, prefix="val/")
    assert run.series["signal/zero-variance-share"].steps.tolist() == list(range(12))
    assert run.declared.batch_completions == 160.0


def test_the_pipeline_takes_groups_without_spread_out_before() -> None:
    """All groups of its batches have spread, so the sizes say nothing; from 0.5.23 on it counts what it took out."""
    kept = GROUPS | {"data/step_num_groups_trainable": 20.0}
    old = made(ROW | kept | {"train/discarded_stale_groups": 0.0})
    assert "signal/zero-variance-share" not in old.series
    assert "before" in old.unsettled["data/step_num_groups_submitted"]
    assert old.declared.reward_filtered is True
    counted = {"discarded/step/zero_variance_groups": 5.0, "discarded/step/stale_groups": 2.0}
    new = made(ROW | kept | counted)
    assert new.series["signal/zero-variance-share"].values == pytest.approx(0.2)
    assert new.series["signal/groups-dropped"].values == pytest.approx(5.0)
    assert new.series["staleness/dropped"].values == pytest.approx(2.0)
    assert new.unsettled == {}
    tracked = made(ROW | counted | {"sample_efficiency/accepted_groups_per_step": 15.0})
    assert tracked.series["signal/zero-variance-share"].values == pytest.approx(0.25)
    assert made(ROW | GROUPS).declared.reward_filtered is None


def test_megatron_writes_into_the_split() -> None:
    """Up to 0.5.18, beside the taxonomy: its own key tells these names from those of 0.4 and of the user."""
    reward = {k: v for k, v in ROW.items() if k != "loss/train"}
    row = reward | GROUPS | {"train/loss": 0.02, "train/grad_norm": 0.3, "train/probs_corr": 0.99}
    run = made(row)
    assert run.series["loss/policy"].key == "train/loss"
    assert run.series["gradient/norm"].values == pytest.approx(0.3)
    assert run.series["engine/correlation"].values == pytest.approx(0.99)
    assert run.framework_version == ">=0.5"
    own = made({k: v for k, v in row.items() if k != "train/probs_corr"})
    assert not {"loss/policy", "gradient/norm"} & own.series.keys()


def test_names_of_0_5_23() -> None:
    names = {
        "time/step_backend_train_s": "systems/train-time",
        "time/step_rollout_s": "systems/rollout-time",
        "time/step_trainer_idle_s": "systems/wait-time",
        "loss/probs_corr": "engine/correlation",
        "loss/importance_ratio_mean": "ratio/mean",
        "loss/clipped_token_fraction": "clip/fraction/total",
        "offpolicy/token_weighted_policy_age_steps": "staleness/mean",
    }
    run = made(ROW | dict.fromkeys(names, 0.5))
    assert {key: name for name, series in run.series.items() if (key := series.key) in names} == names
    assert run.knobs["staleness-bound"].current == 4
    rest = ("queue/occupancy", "vllm/world_size", "objective/score", "loss/importance_ratio_p99", "pipeline_settings/queue_maxsize")
    assert made(ROW | dict.fromkeys(rest, 0.5)).unmapped == ()
