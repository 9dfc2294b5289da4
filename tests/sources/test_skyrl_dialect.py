"""What SkyRL's keys mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.skyrl import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
ALGORITHM = "trainer.algorithm."
CORE = {
    "policy/final_loss": 0.01,
    "policy/policy_entropy": 0.6,
    "policy/policy_kl": 0.02,
    "policy/response_length": 1024.0,
    "policy/loss_metrics/clip_ratio": 0.003,
    "reward/avg_raw_reward": 0.5,
    "reward/avg_pass_at_5": 0.8,
    "loss/avg_final_rewards": 0.45,
    "generate/avg_num_tokens": 400.0,
}


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for i in range(1, n + 1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize("name", ["skyrl-synthetic", "skyrl-async-synthetic"])
def test_recognised_from_keys_and_every_key_is_known(name: str) -> None:
    run = vario.read(LOGS / f"{name}.jsonl")
    assert run.framework == "skyrl"
    assert run.unmapped == ()
    assert run.unsettled == {}
    assert run.declared.step_unit == "rollout"


def test_recognised_from_the_configuration_alone() -> None:
    assert DIALECT.recognises(frozenset(), {ALGORITHM + "advantage_estimator": "grpo"})
    assert DIALECT.recognises(frozenset({"loss"}), {"generator.n_samples_per_prompt": 5})
    assert not DIALECT.recognises(frozenset({"loss", "reward"}), {"trainer.save_freq": 10})


@pytest.mark.parametrize(
    "keys",
    [
        {"critic/score/mean", "timing_s/step", "training/off_policy/trajectory_staleness/mean"},
        {"train/pg_clipfrac", "rollout/raw_reward", "train/lr-pg_0"},
        {"train/gen_kl_error", "timing/train/total_step_time"},
        {"env/all/reward/total", "optim/kl_sample_train_v1", "progress/done_frac"},
        {"policy/sqrt_kl", "kl_ctl_value", "losses/policy_loss"},
        {"policy/approxkl_avg", "objective/rlhf_reward", "loss/policy_avg"},
        {"train/policy_loss", "train/ppo_kl", "rollout/reward_std"},
        {"ppo_actor/task_reward/avg"},
        {"train/agg/all/agent/reward/mean", "mismatch_kl/all/mean"},
        {"batch/agent/fractions/effective", "groups/num_groups", "reward/default/mean"},
    ],
)
def test_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


def test_reward_is_the_raw_one() -> None:
    run = made(CORE)
    assert run.series["reward/mean"].key == "reward/avg_raw_reward"
    assert run.series["reward/penalised/mean"].values[0] == 0.45
    assert "reward/avg_pass_at_5" not in {s.key for s in run.series.values()}


def test_length_is_counted_not_the_padded_width() -> None:
    run = made(CORE)
    assert run.series["length/mean"].values[0] == 400.0
    assert "policy/response_length" not in {s.key for s in run.series.values()}
    assert "length/truncated-share" not in run.series
    several = made(CORE | {"generate/avg_assistant_tokens": 150.0, "generate/max_assistant_tokens": 600.0})
    assert several.series["length/mean"].values[0] == 150.0
    assert several.series["length/max"].values[0] == 600.0


def test_policy_kl_is_the_reference_and_nothing_measures_the_update() -> None:
    run = made(CORE)
    assert run.series["kl/reference"].key == "policy/policy_kl"
    assert "kl/update" not in run.series
    assert run.declared.kl_by_design is True


def test_zero_policy_kl_is_no_measurement() -> None:
    silent = CORE | {"policy/policy_kl": 0.0}
    unknown = made(silent)
    assert "kl/reference" not in unknown.series
    assert "Megatron" in unknown.unsettled["policy/policy_kl"]
    assert unknown.declared.kl_by_design is None
    off = made(silent, {ALGORITHM + "use_kl_loss": False})
    assert "kl/reference" not in off.series
    assert off.declared.kl_by_design is False
    on = made(silent, {ALGORITHM + "use_kl_loss": True})
    assert not on.series["kl/reference"].values.any()
    assert on.declared.kl_by_design is True


def test_absolute_estimator_is_no_divergence() -> None:
    run = made(CORE, {ALGORITHM + "use_kl_loss": True, ALGORITHM + "kl_estimator_type": "abs"})
    assert "kl/reference" not in run.series
    assert "abs" in run.unsettled["policy/policy_kl"]
    assert "kl/reference" in made(CORE, {ALGORITHM + "kl_estimator_type": "k1"}).series


def test_kl_in_the_reward() -> None:
    row = {k: v for k, v in CORE.items() if k != "policy/policy_kl"}
    run = made(row | {"loss/avg_kl": 0.01, "loss/avg_kl_max": 3.0, "loss/kl_loss_coef": 0.002})
    assert run.series["kl/reference"].values[0] == 0.01
    assert run.series["kl/coefficient"].values[0] == 0.002
    assert run.declared.kl_by_design is True


@pytest.mark.parametrize(
    ("loss", "read"),
    [("regular", True), ("dual_clip", True), ("gspo", True), ("cispo", True), ("sapo", False), ("clip_cov", False)],
)
def test_clip_ratio_is_a_clipped_share_where_the_loss_clips(loss: str, read: bool) -> None:
    run = made(CORE, {ALGORITHM + "policy_loss_type": loss})
    assert ("clip/fraction/total" in run.series) is read
    assert ("policy/loss_metrics/clip_ratio" in run.unsettled) is not read
    assert "length/truncated-share" not in run.series
    assert "clip/fraction/low" not in run.series


def test_ratio_of_cispo_by_its_anchor() -> None:
    row = CORE | {f"policy/loss_metrics/cispo/ratio_{p}": v for p, v in (("mean", 1.0), ("min", 0.4), ("max", 4.0))}
    assert made(row).series["ratio/min"].values[0] == 0.4
    run = made(row, {ALGORITHM + "cispo.cispo_anchor": "rollout"})
    assert "ratio/mean" not in run.series
    assert "mismatch" in run.unsettled["policy/loss_metrics/cispo/ratio_mean"]


def test_smallest_weight_counts_masked_places_and_is_left_out() -> None:
    run = vario.read(LOGS / "skyrl-async-synthetic.jsonl")
    assert "behaviour-weight/min" not in run.series
    assert run.series["behaviour-weight/mean"].key == "policy/loss_metrics/is_ratio_mean"
    assert run.series["behaviour-weight/capped-share"].key == "policy/loss_metrics/tis_token_clip_high_ratio"


def test_mismatch_is_not_mixed_with_the_drift_of_minibatches() -> None:
    run = vario.read(LOGS / "skyrl-synthetic.jsonl")
    assert run.series["engine/logprob-gap/mean"].key == "policy/rollout_train_logprobs_abs_diff_mean"
    assert run.series["engine/logprob-gap/max"].key == "policy/rollout_train_logprobs_abs_diff_max"


def test_pooled_score_is_the_held_out_one() -> None:
    run = vario.read(LOGS / "skyrl-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "eval/all/avg_score"
    assert run.series["eval/set/gsm8k/mean"].key == "eval/gsm8k/avg_score"
    assert "eval/set/all/mean" not in run.series
    alone = made(CORE | {"eval/gsm8k/avg_score": 0.6, "eval/gsm8k/pass_at_4": 0.9})
    assert alone.series["eval/score/mean"].values[0] == 0.6


def test_two_rows_of_a_step_are_one() -> None:
    run = vario.read(LOGS / "skyrl-async-synthetic.jsonl")
    assert run.series["systems/step-time"].steps.tolist() == run.series["reward/mean"].steps.tolist()
    assert run.series["staleness/mean"].key == "async/staleness_mean"
    assert run.algorithm == "ppo"
    assert run.series["loss/value"].key == "critic/critic_loss"


def test_share_of_tied_groups_needs_the_size_of_the_batch() -> None:
    row = CORE | {"reward/num_zero_variance_filtered": 32.0}
    assert "signal/zero-variance-share" not in made(row).series
    run = made(row, {"trainer.train_batch_size": 128})
    assert run.series["signal/zero-variance-share"].values[0] == 0.25
    assert run.series["signal/groups-dropped"].values[0] == 32.0
    assert "signal/zero-variance-share" not in made(row, {"trainer.train_batch_size": 16}).series
    resampled = {"trainer.train_batch_size": 128, ALGORITHM + "dynamic_sampling.type": "filter"}
    assert "signal/zero-variance-share" not in made(row, resampled).series
    assert made(row, resampled).declared.reward_filtered is True


def test_declared_from_the_configuration() -> None:
    config = {
        ALGORITHM + "advantage_estimator": "grpo",
        "trainer.train_batch_size": 1024,
        "trainer.policy_mini_batch_size": 256,
        "trainer.update_epochs_per_batch": 2,
        "generator.n_samples_per_prompt": 5,
        "generator.sampling_params.max_generate_length": 2048,
    }
    declared = made(CORE, config).declared
    assert declared.updates_per_rollout == declared.steps_per_row == 8.0
    assert made(CORE).declared.steps_per_row is None
    assert declared.batch_completions == 5120.0
    assert declared.group_size == 5.0
    assert declared.max_length == 2048.0
    assert declared.group_centred is True
    assert made(CORE | {"async/staleness_mean": 1.0}, config).declared.updates_per_rollout == 2.0


@pytest.mark.parametrize(
    ("config", "keys", "expected"),
    [
        ({ALGORITHM + "advantage_estimator": "gae"}, set(), "ppo"),
        ({ALGORITHM + "advantage_estimator": "reinforce++"}, set(), "reinforce++"),
        ({ALGORITHM + "advantage_estimator": "rloo"}, set(), "rloo"),
        ({ALGORITHM + "advantage_estimator": "grpo", ALGORITHM + "policy_loss_type": "gspo"}, set(), "gspo"),
        ({}, {"critic/critic_loss"}, "ppo"),
    ],
)
def test_algorithm(config: dict[str, str], keys: set[str], expected: str) -> None:
    assert DIALECT.algorithm(frozenset(keys), dict(config)) == expected


def test_knobs_hold_the_run_s_values_and_mark_defaults() -> None:
    run = made(CORE, {ALGORITHM + "kl_loss_coef": 0.01, ALGORITHM + "use_entropy_loss": True})
    assert (run.knobs["kl-coef"].current, run.knobs["kl-coef"].is_default) == (0.01, False)
    assert (run.knobs["learning-rate"].key, run.knobs["learning-rate"].current) == (
        "trainer.policy.optimizer_config.lr",
        1e-6,
    )
    assert run.knobs["learning-rate"].is_default
    assert run.knobs["entropy-bonus"].key == ALGORITHM + "entropy_loss_coef"
    off = made(CORE, {ALGORITHM + "use_entropy_loss": False, ALGORITHM + "use_kl_loss": False}).knobs
    assert (off["entropy-bonus"].current, off["kl-coef"].current) == (0.0, 0.0)
    assert run.knobs["entropy-bonus"].current == 0.01
    assert "staleness-bound" not in run.knobs
    assert made(CORE | {"async/staleness_mean": 1.0}).knobs["staleness-bound"].current == 4
    sequence = made(CORE, {ALGORITHM + "off_policy_correction.tis_ratio_type": "sequence"})
    assert sequence.knobs["behaviour-weight-cap"].current == 5.0
    assert made(CORE, {ALGORITHM + "advantage_estimator": "gae"}).knobs["value-clip"].current == 0.2


def test_missing_metrics_say_how_they_are_had() -> None:
    missing = made({k: v for k, v in CORE.items() if k != "policy/policy_kl"}).missing()
    assert "use_kl_loss" in missing["kl/reference"]
    assert "not logged" in missing["reward/std/within-group"]


def test_entropy_falls_as_logged() -> None:
    entropy = vario.read(LOGS / "skyrl-synthetic.jsonl").series["entropy/mean"]
    assert entropy.key == "policy/policy_entropy"
    assert np.isclose(entropy.values[0], 0.61, atol=0.05)


def test_lengths_by_outcome() -> None:
    run = vario.read(LOGS / "skyrl-synthetic.jsonl")
    assert run.series["length/solved/mean"].key == "generate/avg_tokens_non_zero_rewards"
    assert run.series["length/unsolved/mean"].key == "generate/avg_tokens_zero_rewards"
    assert (run.series["length/unsolved/mean"].values > 0.0).all()


@pytest.mark.parametrize("key", ["trajectory_time_completion", "group_completion_time"])
def test_trajectories_and_groups_are_timed_one_by_one(key: str) -> None:
    series = made(CORE | {f"generate/{key}_mean": 8.0, f"generate/{key}_p90": 20.0, f"generate/{key}_max": 40.0}).series
    assert series["systems/request-time/mean"].key == f"generate/{key}_mean"
    assert series["systems/request-time/max"].key == f"generate/{key}_max"
