"""What NeMo-RL's keys mean: four KL figures, percentages beside shares, and sentinels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import vario
from tests.conftest import ROOT
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import nemo_rl
from vario.sources.rows import Table

LOGS = ROOT / "tests" / "sources" / "logs"
ROW = {"train/probs_ratio": 1.001, "train/reward": 0.5, "train/kl_penalty": 0.02, "train/gen_kl_error": 0.001, "train/policy_kl_error": 0.003, "timing/train/total_step_time": 60.0}  # fmt: skip
CONFIG = {
    "grpo": {"num_prompts_per_step": 32, "num_generations_per_prompt": 16},
    "policy": {
        "train_global_batch_size": 128,
        "max_total_sequence_length": 1024,
        "generation": {"max_new_tokens": 512},
    },
    "loss_fn": {"reference_policy_kl_penalty": 0.01},
}


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for i in range(1, n + 1):
        table.add({"_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize(
    ("name", "algorithm", "version"),
    [
        ("nemo-rl-synthetic.jsonl", "grpo", ">=0.5"),
        ("nemo-rl-async-synthetic.jsonl", "grpo", ">=0.5"),
        ("nemo-rl-gym-ppo-synthetic.jsonl", "ppo", ">=0.4"),
        ("nemo-rl-dpo-synthetic.jsonl", "dpo", None),
    ],
)
def test_every_key_is_known(name: str, algorithm: str, version: str | None) -> None:
    run = vario.read(LOGS / name)
    assert (run.framework, run.algorithm, run.framework_version) == ("nemo-rl", algorithm, version)
    assert run.unmapped == ()
    assert run.warnings == ()
    assert run.events == ()


def test_kinds_of_divergence() -> None:
    run = made(ROW)
    assert {m: s.key for m, s in run.series.items() if "kl" in m} == {
        "kl/reference": "train/kl_penalty",
        "engine/kl": "train/gen_kl_error",
    }
    assert "kl/update" in run.missing()


@pytest.mark.parametrize(
    ("row", "config", "by_design"),
    [
        ({"train/kl_penalty": 0.0}, {}, None),
        ({}, {"loss_fn": {"reference_policy_kl_penalty": 0.0}}, False),
        ({}, {"loss_fn": {"use_kl_in_reward": True, "reference_policy_kl_penalty": 0.01}}, True),
    ],
)
def test_reference_divergence_that_is_none(
    row: Mapping[str, object], config: Mapping[str, object], by_design: bool | None
) -> None:
    run = made(ROW | row, config)
    assert "kl/reference" not in run.series
    assert "train/kl_penalty" in run.unsettled
    assert run.declared.kl_by_design is by_design


SHARES = {
    "train/baseline_reward/pct_0": 30.0,
    "train/baseline_reward/pct_1": 20.0,
    "train/baseline_reward/pct_mixed": 50.0,
}


def test_percentages_become_shares() -> None:
    run = made(ROW | SHARES | {"train/truncation_rate": 0.04})
    assert [run.series[f"signal/{k}"].values[0] for k in ("zero-variance-share", "solved-share", "unsolved-share")] == [
        0.5,
        0.2,
        0.3,
    ]
    assert run.series["length/truncated-share"].values[0] == 0.04, "a share already"


def test_shares_of_other_rewards_mean_nothing() -> None:
    negative = made(ROW | SHARES | {"train/reward": -0.5})
    assert not any(n.startswith("signal/") for n in negative.series)
    assert "not 0 or 1" in negative.unsettled["train/baseline_reward/pct_mixed"]
    full = made(
        ROW
        | {
            "train/baseline_reward/pct_0": 0.0,
            "train/baseline_reward/pct_1": 0.0,
            "train/baseline_reward/pct_mixed": 100.0,
        }
    )
    assert not any(n.startswith("signal/") for n in full.series)
    assert "mixed" in full.unsettled["train/baseline_reward/pct_mixed"]


def test_rewards_before_and_after_shaping_and_filtering() -> None:
    run = vario.read(LOGS / "nemo-rl-async-synthetic.jsonl")
    assert run.series["reward/mean"].key == "train/mean_total_reward"
    assert run.series["reward/kept/mean"].key == "train/filtered_reward"
    assert run.declared.reward_filtered is False, "the reward of all rollouts is logged"
    assert made(ROW).series["reward/mean"].key == "train/reward"
    gym = vario.read(LOGS / "nemo-rl-gym-ppo-synthetic.jsonl")
    assert gym.series["reward/mean"].key == "train/total_reward/mean", "not that of one agent"
    assert gym.series["reward/std/batch"].key == "train/total_reward/stddev"
    assert "reward/std/within-group" not in gym.series


def test_sentinels_are_no_ratios() -> None:
    table = Table("run", "test")
    for i in range(1, 21):
        gap = i % 4 == 0
        table.add(
            {"_step": i}
            | ROW
            | {"train/probs_ratio_min": -1.0 if gap else 0.7, "train/probs_ratio_max": -1.0 if gap else 1.5}
        )
    run = interpret(table)
    assert len(run.series["ratio/min"]) == len(run.series["ratio/max"]) == 15
    assert run.series["ratio/min"].values.min() == 0.7


def test_extremes_divided_by_the_updates_are_not_read() -> None:
    run = made(ROW | {"train/probs_ratio_min": 0.2, "train/probs_ratio_max": 0.4})
    assert not {"ratio/min", "ratio/max"} & run.series.keys()
    assert "below the mean" in run.unsettled["train/probs_ratio_max"]
    assert run.series["ratio/mean"].values[0] == 1.001


def test_no_clipped_share_is_made_up() -> None:
    run = made(ROW | {"train/probs_ratio_clamped": 0.99})
    assert not any(n.startswith("clip/") for n in run.series)
    assert "probs_ratio_clamped" in run.missing()["clip/fraction/total"]


def test_engine_weight_and_error() -> None:
    run = made(
        ROW | {"train/sampling_importance_ratio": 0.97, "train/is_oob_ratio": 0.02, "train/token_mult_prob_error": 1.05}
    )
    assert run.series["behaviour-weight/mean"].values[0] == 0.97
    assert run.series["behaviour-weight/capped-share"].values[0] == 0.02
    assert "engine/logprob-gap/mean" not in run.series, "a mean of exp|gap| is no mean gap"


def test_accuracy_is_mean_reward() -> None:
    run = vario.read(LOGS / "nemo-rl-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "validation/accuracy"
    assert run.series["eval/score/mean"].steps.tolist() == [0, 10]
    sets = made(ROW | {"validation-aime/accuracy": 0.2, "validation-math/accuracy": 0.6})
    assert {"eval/set/aime/mean", "eval/set/math/mean"} <= sets.series.keys()
    assert "eval/score/mean" not in sets.series


def test_waiting_is_not_generating() -> None:
    sync, late = (vario.read(LOGS / f"nemo-rl-{k}synthetic.jsonl").series for k in ("", "async-"))
    assert sync["systems/rollout-time"].key == "timing/train/generation"
    assert "systems/wait-time" not in sync
    assert late["systems/wait-time"].key == "timing/train/exposed_generation"
    assert "systems/rollout-time" not in late
    assert late["systems/sync-time"].key == "timing/train/weight_sync"
    assert sync["systems/sync-time"].key.endswith("transfer_and_update_weights")


def test_declared() -> None:
    d = made(ROW, CONFIG).declared
    assert (
        d.updates_per_rollout,
        d.max_length,
        d.kl_by_design,
        d.group_size,
        d.batch_completions,
        d.group_centred,
        d.step_unit,
    ) == (4.0, 512.0, True, 16.0, 512.0, True, "rollout")
    whole = made(ROW, {"policy": {"max_total_sequence_length": 512, "generation": {"max_new_tokens": 512}}}).declared
    assert whole.max_length is None, "prompt and completion share it: no completion reaches it"


def test_knobs() -> None:
    run = made(ROW, CONFIG | {"policy": {"optimizer": {"kwargs": {"lr": 3e-6}}}})
    assert (run.knobs["learning-rate"].key, run.knobs["learning-rate"].current) == ("policy.optimizer.kwargs.lr", 3e-6)
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current, run.knobs["kl-coef"].is_default) == (
        "loss_fn.reference_policy_kl_penalty",
        0.01,
        False,
    )
    assert (run.knobs["clip-high"].current, run.knobs["clip-high"].is_default) == (0.2, True)
    assert "staleness-bound" not in run.knobs
    assert "entropy-bonus" not in run.knobs, "there is none"
    megatron = made(ROW, {"policy": {"megatron_cfg": {"enabled": True, "optimizer": {"lr": 1e-6}}}})
    assert (megatron.knobs["learning-rate"].key, megatron.knobs["learning-rate"].current) == (
        "policy.megatron_cfg.optimizer.lr",
        1e-6,
    )
    late = made(ROW, {"grpo": {"async_grpo": {"enabled": True, "max_trajectory_age_steps": 3}}})
    assert late.knobs["staleness-bound"].current == 3
    assert made(ROW, {"ppo": {"num_prompts_per_step": 8}}).knobs["group-size"].key == "ppo.num_generations_per_prompt"


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"loss_fn": {"sequence_level_importance_ratios": True}}, "gspo"),
        ({"loss_fn": {"use_cispo": True}}, "cispo"),
        ({"grpo": {"adv_estimator": {"name": "reinforce_plus_plus"}}}, "reinforce++"),
        ({"grpo": {"adv_estimator": {"name": "grpo"}}}, "grpo"),
        ({"dpo": {"sft_loss_weight": 0.1}}, "dpo"),
    ],
)
def test_algorithms(config: Mapping[str, object], name: str) -> None:
    assert made(ROW, config).algorithm == name


def test_pairs() -> None:
    run = vario.read(LOGS / "nemo-rl-dpo-synthetic.jsonl")
    chosen, rejected = run.series["preference/chosen-reward"], run.series["preference/rejected-reward"]
    np.testing.assert_allclose(run.series["preference/margin"].values, chosen.values - rejected.values)
    assert run.series["eval/preference/accuracy"].steps.tolist() == [12, 24]
    assert len(run.series["eval/preference/margin"]) == 2
    assert "eval/score/mean" not in run.series, "accuracy is that of the pairs here"
    assert run.declared.step_unit == "optimiser"
    several = made(
        {
            "train/preference_loss": 0.6,
            "train/rewards_chosen_mean": 0.1,
            "validation-a/accuracy": 0.5,
            "validation-b/accuracy": 0.6,
        }
    )
    assert "eval/preference/accuracy" not in several.series
    assert "several" in several.unsettled["validation-a/accuracy"]


def test_recognised_by_configuration_alone() -> None:
    assert made({"my_reward": 1.0}, CONFIG).framework == "nemo-rl"


@pytest.mark.parametrize(
    "keys",
    [{"train/policy_loss", "train/kl", "train/reward"}, {"train/pg_clipfrac", "train/ppo_kl"}, {"train/agg/all/agent/reward/mean"}, {"train/reward", "train/reward_std_dev"}, {"train/loss", "train/grad_norm"}, {"ppo_actor/task_reward/avg"}, {"timing_s/step", "critic/rewards/mean"}, {"train/reward", "train/reward_std", "train/kl"}],
)  # fmt: skip
def test_others_are_not_taken(keys: set[str]) -> None:
    assert not nemo_rl.recognises(frozenset(keys), {"algorithm.adv_estimator": "grpo", "actor.ppo_n_minibatches": 4})


def test_extremes_of_advantages() -> None:
    run = vario.read(LOGS / "nemo-rl-synthetic.jsonl")
    assert run.series["advantage/max"].key == "train/advantages/max"
    assert run.series["advantage/min"].key == "train/advantages/min"


def test_use_of_the_devices() -> None:
    assert made(ROW | {"performance/train_fp_utilization": 0.02}).series["systems/mfu"].key == "performance/train_fp_utilization"
