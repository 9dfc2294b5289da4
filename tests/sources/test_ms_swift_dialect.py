"""What ms-swift's keys mean where they differ from TRL's: the spread, the KL term in the reward, entropy, speed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import ms_swift
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
GRPO = LOGS / "ms-swift-synthetic.jsonl"
PENALISED = LOGS / "ms-swift-kl-in-reward-synthetic.jsonl"
MEGATRON = LOGS / "ms-swift-megatron-synthetic.jsonl"
DPO = LOGS / "ms-swift-dpo-synthetic.jsonl"
ARGS = {"rlhf_type": "grpo", "num_generations": 8, "beta": 0.04, "kl_in_reward": False, "scale_rewards": "group",
        "advantage_estimator": "grpo", "gradient_accumulation_steps": 2, "steps_per_generation": 8, "max_completion_length": 1024}  # fmt: skip


def logged(path: Path, key: str) -> list[float]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def made(row: Callable[[int], Mapping[str, object]], config: Mapping[str, object] | None = None, n: int = 20) -> Run:
    table = Table("run", "test")
    for step in range(1, n + 1):
        table.add({"global_step/max_steps": f"{step}/{n}", "train_speed(s/it)": 3.0} | dict(row(step)))
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize(("path", "algorithm"), [(GRPO, "grpo"), (PENALISED, "grpo"), (MEGATRON, "grpo"), (DPO, "dpo")])
def test_every_key_is_known(path: Path, algorithm: str) -> None:
    run = vario.read(path)
    assert (run.framework, run.algorithm, run.declared.step_unit) == ("ms-swift", algorithm, "optimiser")
    assert run.unmapped == ()
    assert run.ignored_lines == 0


def test_steps_are_read_from_fractions() -> None:
    assert vario.read(GRPO).logged_steps.tolist() == [1, *range(5, 151, 5)]
    assert vario.read(MEGATRON).last_step == 30
    assert vario.read(PENALISED).framework_version == "<=3.99"
    assert made(lambda _: {"loss": 0.1}, {"swift_version": "4.6.0"}).framework_version == "4.6"


def test_settings_alone_are_recognised() -> None:
    assert ms_swift.recognises(frozenset(), {"rlhf_type": "grpo"})
    assert ms_swift.recognises(frozenset({"reward", "kl"}), {"swift_version": "4.6.0"})
    assert not ms_swift.recognises(frozenset(), {"num_generations": 8, "per_device_train_batch_size": 4})


@pytest.mark.parametrize(
    "keys",
    [
        {"frac_reward_zero_std", "completions/mean_length", "entropy", "reward", "reward_std", "kl"},
        {"rollout_corr/kl", "critic/score/mean", "timing_s/step"},
        {"completion_length", "reward", "reward_std", "kl"},
        {"policy/entropy_avg", "objective/kl0_avg", "scores"},
        {"rewards/chosen", "rewards/margins", "logps/chosen"},
        {"memory/max_allocated (GiB)", "loss"},
    ],
)
def test_other_frameworks_are_left_alone(keys: set[str]) -> None:
    assert not ms_swift.recognises(frozenset(keys), {})


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        ({"rlhf_type": "grpo", "advantage_estimator": "reinforce_plus_plus"}, "reinforce++"),
        ({"rlhf_type": "grpo", "advantage_estimator": "rloo"}, "rloo"),
        ({"rlhf_type": "grpo"}, "grpo"),
        ({"rlhf_type": "simpo"}, "cpo"),
        ({"rlhf_type": "kto"}, "kto"),
        ({"swift_version": "4.6.0"}, "unknown"),
    ],
)
def test_algorithm(config: Mapping[str, object], algorithm: str) -> None:
    assert made(lambda _: {"loss": 0.1}, config).algorithm == algorithm


# the KL term in the reward


def test_kl_of_the_loss_is_a_token_mean() -> None:
    run = vario.read(GRPO)
    assert run.series["kl/reference"].values.tolist() == logged(GRPO, "kl")
    assert "kl/reference/sequence" not in run.series
    assert run.series["reward/mean"].values.tolist() == logged(GRPO, "reward")
    assert "reward/penalised/mean" not in run.series


def test_kl_of_the_reward_is_a_sum_over_the_sequence() -> None:
    run = vario.read(PENALISED)
    assert min(logged(PENALISED, "kl")) < 0.0
    assert run.series["kl/reference/sequence"].values.tolist() == logged(PENALISED, "kl")
    assert "kl/reference" not in run.series
    assert run.series["reward/penalised/mean"].values.tolist() == logged(PENALISED, "reward")
    assert "reward/mean" not in run.series
    assert "signal/zero-variance-share" not in run.series
    assert "penalised" in run.unsettled["frac_reward_zero_std"]


def noise(step: int) -> float:
    return 0.05 * float(np.sin(7.0 * step))


def rewarded(step: int, penalty: float = 0.0, error: float = 0.0, kl: float = 0.01) -> dict[str, object]:
    score, divergence = 0.5 + noise(step), kl * step
    total = 2.0 * score - penalty * divergence + error * noise(3 * step)
    return {"rewards/acc/mean": score, "rewards/acc/std": 0.4, "reward": total, "kl": divergence,
            "reward_std": 0.3, "frac_reward_zero_std": 0.25}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "config", "name"),
    [
        (rewarded, {}, "kl/reference"),
        (lambda s: rewarded(s, penalty=0.04), {}, "kl/reference/sequence"),
        (lambda s: rewarded(s, error=0.1), {}, None),
        (lambda s: rewarded(s, kl=1e-6), {}, None),  # too small to show in the reward
        (lambda s: rewarded(s, error=0.1), ARGS, "kl/reference"),
        (lambda s: rewarded(s, error=0.1), {"rlhf_type": "grpo"}, "kl/reference"),
        (rewarded, ARGS | {"kl_in_reward": True}, "kl/reference/sequence"),
        (rewarded, ARGS | {"kl_in_reward": None, "advantage_estimator": "rloo"}, "kl/reference/sequence"),
        (
            rewarded,
            ARGS | {"kl_in_reward": None, "advantage_estimator": "reinforce_plus_plus"},
            "kl/reference/sequence",
        ),
        (rewarded, ARGS | {"kl_in_reward": None}, "kl/reference"),
        (rewarded, ARGS | {"beta": 0.0}, None),
    ],
)
def test_where_the_kl_goes(
    row: Callable[[int], Mapping[str, object]], config: Mapping[str, object], name: str | None
) -> None:
    run = made(row, config)
    assert [n for n in run.series if n.startswith("kl/")] == ([] if name is None else [name])
    assert ("kl" in run.unsettled) is (name is None)
    reward = {"kl/reference": "reward/mean", "kl/reference/sequence": "reward/penalised/mean"}.get(name or "")
    if reward is not None:
        assert [n for n in run.series if n in {"reward/mean", "reward/penalised/mean"}] == [reward]
    elif config.get("beta") != 0.0:
        assert "not known" in run.unsettled["reward"]


def test_without_kl_the_reward_is_raw() -> None:
    run = made(lambda s: {k: v for k, v in rewarded(s, error=0.1).items() if k != "kl"})
    assert "reward/mean" in run.series
    assert "signal/zero-variance-share" in run.series


# spread


@pytest.mark.parametrize(
    ("config", "own", "expected"),
    [
        ({"rlhf_type": "grpo", "scale_rewards": "group"}, 0.3, "within-group"),
        ({"rlhf_type": "grpo", "scale_rewards": "none"}, 0.3, "within-group"),
        ({"rlhf_type": "grpo", "scale_rewards": "gdpo"}, 0.3, "within-group"),
        ({"rlhf_type": "grpo", "scale_rewards": "batch"}, 0.3, "batch"),
        ({"rlhf_type": "grpo", "scale_rewards": True}, 0.3, "within-group"),
        ({"rlhf_type": "grpo", "scale_rewards": None}, 0.3, "within-group"),
        ({"rlhf_type": "grpo", "advantage_estimator": "reinforce_plus_plus"}, 0.3, None),
        ({"rlhf_type": "grpo", "num_generations": 1}, 0.0, None),
        ({}, 0.3, "within-group"),  # smaller than the function's spread over the batch, times its weight
        ({}, 0.8, "batch"),  # equal to it
    ],
)
def test_spread(config: Mapping[str, object], own: float, expected: str | None) -> None:
    run = made(lambda s: rewarded(s) | {"reward_std": own}, config)
    assert [n for n in run.series if n.startswith("reward/std/")] == (
        [] if expected is None else [f"reward/std/{expected}"]
    )
    assert ("reward_std" in run.unsettled) is (expected is None)


def test_spread_of_several_functions_is_left_open_without_settings() -> None:
    run = vario.read(GRPO)
    assert "reward/std/within-group" not in run.series
    assert "scale_rewards" in run.unsettled["reward_std"]
    assert "reward/std/within-group" in made(rewarded, ARGS).series


@pytest.mark.parametrize(
    ("config", "there"),
    [
        (ARGS, True),
        (ARGS | {"scale_rewards": "batch"}, True),
        (ARGS | {"num_generations": 1}, False),
        (ARGS | {"kl_in_reward": True}, False),
    ],
)
def test_groups_without_spread_are_counted_under_every_scaling(config: Mapping[str, object], there: bool) -> None:
    run = made(rewarded, config)
    assert ("signal/zero-variance-share" in run.series) is there
    assert ("frac_reward_zero_std" in run.unsettled) is not there


# the rest


def test_clipping_of_ratios_and_of_lengths() -> None:
    run = vario.read(GRPO)
    assert run.series["clip/fraction/total"].key == "clip_ratio/region_mean"
    assert run.series["clip/fraction/low"].key == "clip_ratio/low_mean"
    assert run.series["clip/fraction/high"].key == "clip_ratio/high_mean"
    assert run.series["length/truncated-share"].values.tolist() == logged(GRPO, "completions/clipped_ratio")
    assert vario.read(MEGATRON).series["clip/fraction/total"].key == "clip_ratio"
    assert vario.read(PENALISED).series["clip/fraction/high"].key == "cispo_clip_ratio"


def test_engine_and_weights() -> None:
    run = vario.read(GRPO)
    assert run.series["engine/kl"].values.tolist() == logged(GRPO, "rollout_correction/kl")
    assert "engine/logprob-gap/mean" not in run.series, "log_ppl_abs_diff compares means of sequences"
    assert "cancel" in run.ignored["rollout_correction/log_ppl_abs_diff"]
    assert run.series["behaviour-weight/mean"].key == "rollout_correction/is_weight_mean"
    assert run.series["behaviour-weight/effective-share"].key == "rollout_correction/ess"
    assert run.series["behaviour-weight/capped-share"].key == "rollout_correction/clipped_frac"
    assert "kl/update" not in run.series


def test_entropy_of_both_back_ends_and_bare_functions() -> None:
    assert vario.read(GRPO).series["entropy/mean"].key == "entropy/mean"
    run = vario.read(MEGATRON)
    assert run.series["entropy/mean"].key == "entropy/entropy_mean"
    assert run.components() == ("Format", "MathAccuracy")
    other = made(lambda _: {"reward": 0.5, "MathAccuracy": 0.5})
    assert other.components() == ()
    assert "Ray" in other.unsettled["MathAccuracy"]


def test_time_of_a_step_out_of_the_running_mean() -> None:
    run = vario.read(GRPO)
    times = run.series["systems/step-time"]
    before, after = times.values[times.steps <= 100], times.values[times.steps > 105]
    assert 11.5 < float(np.median(before)) < 12.5
    assert 14.5 < float(np.median(after)) < 15.5, "the running mean hardly shows the change"
    assert vario.read(PENALISED).series["systems/step-time"].values.min() > 7.9


def test_no_time_of_a_step_where_the_origin_is_not_known() -> None:
    table = Table("run", "test")
    for step in range(100, 200, 5):
        table.add({"global_step/max_steps": f"{step}/200", "train_speed(s/it)": 3.0})
    assert "systems/step-time" not in interpret(table).series
    falling = made(lambda s: {"train_speed(s/it)": 3.0 if s < 10 else 1.0})
    assert "systems/step-time" not in falling.series


def test_held_out_score() -> None:
    run = vario.read(GRPO)
    assert run.series["eval/score/mean"].values.tolist() == logged(GRPO, "eval_reward")
    assert run.series["eval/component/MathAccuracy/mean"].key == "eval_rewards/MathAccuracy/mean"


def test_preference_keys() -> None:
    run = vario.read(DPO)
    assert run.series["preference/margin"].values.tolist() == logged(DPO, "rewards/margins")
    assert run.series["eval/preference/margin"].key == "eval_rewards/margins"
    assert run.knobs["preference-beta"].key == "beta"
    assert run.knobs["preference-beta"].current is None


def test_settings() -> None:
    run = made(rewarded, ARGS | {"dynamic_sample": True, "epsilon_high": 0.28})
    assert (run.declared.updates_per_rollout, run.declared.group_size, run.declared.max_length) == (4.0, 8.0, 1024.0)
    assert (run.declared.kl_by_design, run.declared.group_centred, run.declared.reward_filtered) == (True, True, True)
    assert made(rewarded, ARGS | {"beta": 0.0}).declared.kl_by_design is False
    assert made(lambda _: {"reward": 1.0}, {"rlhf_type": "grpo"}).declared.kl_by_design is True, (
        "on unless it is set to 0"
    )
    assert (run.knobs["clip-high"].key, run.knobs["clip-high"].current) == ("epsilon_high", 0.28)
    assert (run.knobs["temperature"].current, run.knobs["temperature"].is_default) == (0.9, True)
    assert run.knobs["overlong-filter"].key == "overlong_filter"
    assert "log_entropy" in run.missing()["entropy/mean"]
    assert made(rewarded, ARGS | {"advantage_estimator": "reinforce_plus_plus"}).algorithm == "reinforce++"
    assert made(rewarded, ARGS | {"advantage_estimator": "reinforce_plus_plus"}).declared.group_size == 8.0


@pytest.mark.parametrize(("mode", "there"), [("token_truncate", True), ("token_mask", False), ("sequence_mask", False)])
def test_masked_weights_are_counted_as_if_they_were_there(mode: str, there: bool) -> None:
    """The effective share clamps the weights from below, also those that a mask set to 0."""
    row = {"reward": 0.5, "entropy/mean": 0.4, "rollout_correction/ess": 0.9, "rollout_correction/clipped_frac": 0.3}
    run = made(lambda _: row, {"rollout_importance_sampling_mode": mode})
    assert ("behaviour-weight/effective-share" in run.series) is there
    assert ("1/threshold" in run.unsettled.get("rollout_correction/ess", "")) is not there
    assert run.series["behaviour-weight/capped-share"].values == pytest.approx(0.3)


def test_what_the_allocator_holds_is_no_memory_in_use() -> None:
    run = vario.read(GRPO)
    assert "systems/memory" not in run.series
    assert "allocator" in run.ignored["memory(GiB)"]


def test_use_of_hardware_is_no_reward_function() -> None:
    ray = {"reward": 0.5, "adv_nonzero": 0.4, "MathAccuracy": 0.5, "MFU": 0.31, "kl": 0.01, "loss": 0.1}
    run = made(lambda _: ray)
    assert run.components() == ("MathAccuracy",)
    assert "hardware" in run.ignored["MFU"]


@pytest.mark.parametrize(
    "key",
    ["eval_fipo/future_kl_mean", "eval_sdar/coef", "eval_rlsd_lambda", "eval_teacher_kl", "logps_mean/chosen",
     "eval_logps_mean/rejected", "center_rewards_loss", "loss_math"],
)  # fmt: skip
def test_keys_of_few_runs_have_a_reason(key: str) -> None:
    run = made(lambda _: {"loss": 0.1, "entropy/mean": 0.4, "frac_reward_zero_std": 0.1, key: 0.2})
    assert run.framework == "ms-swift"
    assert run.ignored[key]
    assert not any(s.key == key for s in run.series.values())
