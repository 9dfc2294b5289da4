"""Every trainer of TRL is told by its keys, and each key means there what that trainer makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.sources.test_trl_dialect import ARGS, MODERN, OLD, PAIR, made, run_of, spread
from vario.run import Run
from vario.sources.dialects import trl

LOGS = Path(__file__).parent / "logs"
TRAINERS = {
    "trl": ("grpo", ">=1.8"),
    "trl-grpo-old": ("grpo", "0.16"),
    "trl-async-grpo": ("async-grpo", ">=1.7"),
    "trl-dpo": ("dpo", None),
    "trl-dpo-old": ("dpo", None),
    "trl-kto": ("kto", None),
    "trl-orpo": ("orpo", None),
    "trl-online-dpo": ("online-dpo", None),
    "trl-nash-md": ("nash-md", ">=0.11,<=1.13"),
    "trl-xpo": ("xpo", ">=0.11,<=1.13"),
    "trl-sdpo": ("sdpo", None),
    "trl-iw-opd": ("iw-opd", None),
    "trl-a2po": ("a2po", None),
    "trl-gold": ("gold", None),
    "trl-async-distillation": ("async-distillation", None),
    "trl-distillation": ("distillation", None),
    "trl-sft": ("sft", None),
    "trl-reward": ("reward-model", None),
    "trl-ppo": ("ppo", ">=0.9,<=1.12"),
    "trl-rloo-old": ("rloo-legacy", ">=0.9,<=0.21"),
    "trl-ppo-legacy": ("ppo", "<=0.11"),
}


def log(name: str) -> Run:
    return vario.read(LOGS / f"{name}-synthetic.jsonl")


def keys(run: Run) -> dict[str, str]:
    return {name: series.key for name, series in run.series.items()}


@pytest.mark.parametrize("name", TRAINERS)
def test_each_trainer_is_told_by_its_keys_alone(name: str) -> None:
    run = log(name)
    assert run.config == {}
    assert (run.framework, run.algorithm, run.framework_version) == ("trl", *TRAINERS[name])
    assert run.unmapped == ()


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        (ARGS, "grpo"),
        (ARGS | {"reward_clip_range": None}, "rloo"),
        ({"per_device_train_batch_size": 1, "beta": 0.1, "loss_type": "sigmoid", "precompute_ref_log_probs": False}, "dpo"),
        ({"per_device_train_batch_size": 1, "beta": 0.1, "desirable_weight": 1.0}, "kto"),
        ({"per_device_train_batch_size": 1, "beta": 0.01, "loss_type": "sigmoid", "tpo_alpha": 1.0}, "tpo"),
        ({"per_device_train_batch_size": 1, "beta": 0.1, "loss_type": "simpo", "cpo_alpha": 1.0}, "cpo"),
        ({"per_device_train_batch_size": 1, "num_ppo_epochs": 4, "cliprange_value": 0.2}, "ppo"),
        ({"init_kl_coef": 0.2, "adap_kl_ctrl": True, "ppo_epochs": 4}, "ppo"),
        ({"per_device_train_batch_size": 1, "num_generations": 8, "success_reward_threshold": 1.0}, "sdpo"),
        ({"per_device_train_batch_size": 1, "iw_opd_gamma": 1.0}, "iw-opd"),
        ({"per_device_train_batch_size": 1, "num_value_samples": 8, "beta2": 0.001}, "a2po"),
        ({"per_device_train_batch_size": 1, "teacher_model_name_or_path": "t", "use_uld_loss": False}, "gold"),
        ({"per_device_train_batch_size": 1, "teacher_model_name_or_path": "t", "seq_kd": False}, "gkd"),
        ({"per_device_train_batch_size": 1, "teacher_model_name_or_path": "t"}, "distillation"),
        ({"per_device_train_batch_size": 1, "max_staleness": 4, "weight_sync_steps": 1, "max_inflight_tasks": -1}, "async-grpo"),
        ({"per_device_train_batch_size": 1, "teacher_server_urls": "u"}, "async-distillation"),
        ({"per_device_train_batch_size": 1, "assistant_only_loss": False}, "sft"),
        ({"per_device_train_batch_size": 1, "center_rewards_coefficient": None}, "reward-model"),
    ],
)  # fmt: skip
def test_each_trainer_is_told_by_its_arguments_alone(config: Mapping[str, object], algorithm: str) -> None:
    run = made({"loss": 0.1}, config)
    assert (run.framework, run.algorithm) == ("trl", algorithm)


@pytest.mark.parametrize(
    "foreign",
    [
        {"critic/score/mean", "timing_s/step"},
        {"actor/pg_loss", "actor/ppo_kl"},
        {"rollout/in_group_std", "train/Sokoban/success"},
        {"episode/reward/mean", "critic/score/mean"},
        {"groups/num_groups", "reward/default/mean"},
        {"train/gen_kl_error", "train/probs_ratio"},
        {"policy/final_loss", "reward/avg_raw_reward", "generate/avg_num_tokens"},
        {"train/pg_clipfrac", "rollout/raw_reward", "train/lr-pg_0"},
        {"train/reward_std_dev", "data/step_num_groups_trainable"},
        {"env/all/reward/total", "optim/kl_sample_train_v1", "progress/done_frac"},
        {"policy/sqrt_kl", "kl_ctl_value", "losses/policy_loss"},
        {"policy_loss", "group_reward_std", "ppo_kl"},
        {"ppo_actor/task_reward/avg", "ppo_actor/no_eos_ratios/avg"},
        {"train/agg/all/agent/reward/mean", "mismatch_kl"},
        {"scores", "objective/kl0_avg", "batch/filtered_prompts_zero"},
        {"reward", "actor_loss", "actor_loss_sum", "critic_loss", "critic_loss_sum"},
        {"reward", "loss", "kl", "entropy", "lr"},
    ],
)
def test_other_frameworks_are_not_taken(foreign: set[str]) -> None:
    assert not trl.recognises(frozenset(foreign), {})


# which kind of KL


def test_kl_by_trainer() -> None:
    kinds = {
        name: {m for m in log(name).series if m.startswith("kl/")} for name in ("trl", "trl-async-grpo", "trl-kto", "trl-ppo", "trl-ppo-legacy", "trl-async-distillation", "trl-a2po")
    }  # fmt: skip
    assert kinds == {
        "trl": {"kl/reference"},
        "trl-async-grpo": {"kl/update"},
        "trl-kto": {"kl/reference/sequence"},
        "trl-ppo": {"kl/reference/sequence", "kl/update"},
        "trl-ppo-legacy": {"kl/reference/sequence", "kl/update", "kl/coefficient"},
        "trl-async-distillation": set(),
        "trl-a2po": set(),
    }
    assert log("trl-async-grpo").declared.kl_by_design is False
    zero = made(PAIR | {"kl": 0.0}, {"desirable_weight": 1.0, "loss_type": "apo_zero_unpaired"})
    assert "kl/reference/sequence" not in zero.series
    assert "apo_zero_unpaired" in zero.unsettled["kl"]


def test_legacy_ppo_reads_the_policy_and_not_the_histograms() -> None:
    found = keys(log("trl-ppo-legacy"))
    assert found["kl/update"] == "ppo/policy/approxkl", "policykl is the estimate that may be negative"
    assert found["reward/mean"] == "ppo/mean_scores"
    assert found["reward/std/batch"] == "ppo/std_scores"
    assert found["value/explained-variance"] == "ppo/val/var_explained"
    assert found["length/prompt/mean"] == "tokens/queries_len_mean"
    assert found["systems/train-time"] == "time/ppo/optimize_step"
    assert "systems/step-time" not in found, "its total leaves generation out"
    assert log("trl-ppo-legacy").knobs["kl-coef"].key == "init_kl_coef"


# completions, rewards and teachers


def test_completions_with_an_end_are_not_truncated() -> None:
    for name, key in (("trl-online-dpo", "val/contain_eos_token"), ("trl-xpo", "val/model_contain_eos_token")):
        run = log(name)
        series = run.series["length/truncated-share"]
        assert series.key == key
        assert series.values[0] > series.values[-1], "more answers end, so fewer are cut"
        assert 0.0 <= series.values.min() < 0.2


def test_only_the_policys_own_answers_are_measured() -> None:
    found = keys(log("trl-iw-opd"))
    assert found["length/mean"] == "completions/on_policy_mean_length"
    assert found["length/truncated-share"] == "completions/truncated_fraction"
    assert not any("weight" in name for name in found), "weights by position are no probability ratios"
    assert keys(log("trl-xpo"))["reward/mean"] == "objective/model_scores"


def test_self_distillation_has_both_spreads() -> None:
    found = keys(log("trl-sdpo"))
    assert found["reward/std/within-group"] == "self_distillation/group_reward_std_mean"
    assert found["reward/std/batch"] == "self_distillation/reward_std"
    assert found["signal/zero-variance-share"] == "self_distillation/flat_group_fraction"
    assert found["eval/score/mean"] == "eval_self_distillation/reward_mean"
    assert "signal/unsolved-share" not in found, "a success is set by a threshold of its own"


def test_no_reward_where_there_is_no_policy_to_reward() -> None:
    for name in ("trl-sft", "trl-reward", "trl-gold", "trl-distillation"):
        assert not [m for m in log(name).series if m.startswith(("reward/", "preference/margin"))], name
    assert keys(log("trl-reward"))["preference/accuracy"] == "accuracy"
    assert keys(log("trl-sft"))["text/token-accuracy"] == "mean_token_accuracy"


def test_orpo_means_per_token_are_no_sums() -> None:
    assert "logps/chosen" in log("trl-orpo").unsettled
    assert keys(log("trl-dpo"))["preference/chosen-logp"] == "logps/chosen"
    simpo = made(PAIR | {"nll_loss": 1.0}, {"cpo_alpha": 0.0, "loss_type": "simpo"})
    plain = made(PAIR | {"nll_loss": 1.0}, {"cpo_alpha": 1.0, "loss_type": "sigmoid"})
    assert simpo.algorithm == plain.algorithm == "cpo"
    assert "preference/chosen-logp" not in simpo.series
    assert "preference/chosen-logp" in plain.series


def test_old_names_of_held_out_pairs() -> None:
    assert keys(log("trl-dpo-old"))["eval/preference/margin"] == "rewards_test/margins"
    assert keys(log("trl-dpo"))["eval/preference/margin"] == "eval_rewards/margins"


# weights that were left out of the log


@pytest.mark.parametrize(
    ("version", "weights", "read"),
    [
        ("0.28.0", [1.0, 0.5], False),
        ("0.27.2", [0.0, 1.0], False),
        ("0.28.0", [1.0, 1.0], True),
        ("0.28.0", None, True),
        ("0.26.0", [1.0, 0.5], True),
        ("1.16.0", [1.0, 0.5], True),
    ],
)
def test_reward_without_its_weights(version: str, weights: list[float] | None, read: bool) -> None:
    run = made(MODERN | {"eval_reward": 0.4}, {"trl_version": version, "reward_weights": weights})
    assert ("reward/mean" in run.series) is read
    assert ("eval/score/mean" in run.series) is read
    if not read:
        assert spread(run) is None
        assert "reward_weights" in run.unsettled["reward"]
        assert "reward_weights" in run.unsettled["reward_std"]


# time


def test_update_is_passes_and_optimiser() -> None:
    run = made(
        {
            "sample/staleness_mean": 1.0,
            "perf/step_s": 6.0,
            "perf/fwd_bwd_s": 3.0,
            "perf/optimizer_s": 0.5,
            "perf/rollout_wait_s": 2.0,
        }
    )
    assert run.series["systems/train-time"].values.tolist() == [3.5] * 12
    assert run.series["systems/step-time"].values[0] == 6.0
    assert run.series["systems/wait-time"].values[0] == 2.0
    assert (
        "systems/train-time"
        not in made({"sample/staleness_mean": 1.0, "perf/step_s": 6.0, "perf/fwd_bwd_s": 3.0}).series
    )


def test_profiler_keys_of_wandb() -> None:
    named = "profiling/Time taken: GRPOTrainer."
    run = made(
        MODERN
        | {
            named + "vLLM.generate": 4.0,
            named + "_calculate_rewards": 1.0,
            named + "sync_weights": 0.3,
            named + "compute_loss": 0.2,
            named + "my_reward": 0.1,
        }
    )
    assert {m: s.values[0] for m, s in run.series.items() if m.startswith("systems/") and m != "systems/tokens"} == {
        "systems/rollout-time": 4.0,
        "systems/reward-time": 1.0,
        "systems/sync-time": 0.3,
    }
    assert run.unmapped == ()


# notebooks


def test_a_notebooks_table_hides_keys_and_proves_no_version() -> None:
    """`frac_reward_zero_std` is hidden there: its absence once passed for TRL 0.17."""
    row = {"Training Loss": 0.1, "reward": 0.5, "reward_std": 0.2, "kl": 0.01, "rewards / acc / mean": 0.5}
    run = made(row)
    assert run.framework_version == ">=0.17"
    assert spread(run) is None
    assert "0.27" in run.unsettled["reward_std"]
    assert run.series["loss/total"].key == "Training Loss"
    assert run.unmapped == ()
    assert made(OLD | {"Training Loss": 0.1}).framework_version == "<=0.16"


def test_zero_variance_share_before_batch_scaling_existed() -> None:
    always = MODERN | {"frac_reward_zero_std": 0.0}
    assert "signal/zero-variance-share" in made(always, {"trl_version": "0.21.0"}).series
    assert "signal/zero-variance-share" not in made(always, {"trl_version": "0.24.0"}).series


# what the configuration says


def test_steps_of_ppo_are_batches_of_rollouts() -> None:
    run = log("trl-ppo")
    assert run.declared.step_unit == "rollout"
    assert run.logged_steps.tolist() == list(range(1, 31))
    assert log("trl").declared.step_unit == "optimiser"
    configured = made(
        MODERN,
        {
            "num_ppo_epochs": 4,
            "num_mini_batches": 2,
            "cliprange_value": 0.2,
            "kl_coef": 0.0,
            "per_device_train_batch_size": 1,
        },
    )
    assert configured.declared.updates_per_rollout == 8.0
    assert configured.declared.kl_by_design is False


@pytest.mark.parametrize(
    ("name", "knob", "key", "default"),
    [
        ("trl", "clip-high", "epsilon_high", None),
        ("trl", "max-completion-length", "max_completion_length", 512),
        ("trl-async-grpo", "staleness-bound", "max_staleness", 4),
        ("trl-async-grpo", "max-completion-length", "max_completion_length", 2048),
        ("trl-dpo", "preference-beta", "beta", 0.1),
        ("trl-online-dpo", "max-completion-length", "max_new_tokens", 64),
        ("trl-sdpo", "max-completion-length", "max_completion_length", 256),
        ("trl-a2po", "kl-coef", "beta2", 0.001),
        ("trl-sft", "learning-rate", "learning_rate", 2e-5),
        ("trl-reward", "learning-rate", "learning_rate", 1e-4),
        ("trl-ppo", "kl-coef", "kl_coef", 0.05),
        ("trl-ppo-legacy", "learning-rate", "learning_rate", 1.41e-5),
    ],
)
def test_knobs_by_trainer(name: str, knob: str, key: str, default: object) -> None:
    setting = log(name).knobs[knob]
    assert (setting.key, setting.current, setting.is_default) == (key, default, True)


def test_knobs_that_a_trainer_lacks() -> None:
    assert "kl-coef" not in log("trl-async-grpo").knobs, "it has no reference"
    assert "loss-type" not in log("trl-orpo").knobs
    assert "group-size" not in log("trl-sft").knobs
    rloo = made(MODERN, ARGS | {"normalize_advantages": False, "beta": 0.05})
    assert rloo.knobs["kl-coef"].current == 0.05
    assert "loss-type" not in rloo.knobs


def test_advice_speaks_of_the_trainer_at_hand() -> None:
    assert "kl/reference" not in log("trl-async-grpo").enable
    assert "engine/logprob-gap/mean" in log("trl").enable
    assert "engine/logprob-gap/mean" not in made(MODERN, ARGS | {"normalize_advantages": False}).enable
    assert log("trl-ppo").enable == {}


def test_reused_rollouts_keep_their_rows() -> None:
    rows = [{"loss": 0.1} | (dict(PAIR) if i % 2 else {}) for i in range(20)]
    run = run_of(rows)
    assert len(run.series["preference/margin"]) == 10
    assert np.isfinite(run.series["loss/total"].values).all()
