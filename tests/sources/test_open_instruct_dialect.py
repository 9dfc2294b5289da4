"""What open-instruct's keys mean: two numberings of the KL estimators, batches without the groups that tie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.conftest import SHARED
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import open_instruct
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
NOW = LOGS / "open-instruct-synthetic.jsonl"
THEN = LOGS / "open-instruct-numbered-from-one-synthetic.jsonl"
DPO = LOGS / "open-instruct-dpo-synthetic.jsonl"
PPO = LOGS / "open-instruct-ppo-synthetic.jsonl"


def logged(path: Path, key: str) -> list[float]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def made(
    row: Mapping[str, object],
    config: Mapping[str, object] | None = None,
    n: int = 12,
    last: Mapping[str, object] | None = None,
) -> Run:
    table = Table("run", "test")
    for step in range(1, n + 1):
        table.add(
            {"training_step": step, "scores": 4.0, "val/sequence_lengths": 90.0}
            | dict(row)
            | dict(last or {} if step == n else {})
        )
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize(
    ("path", "algorithm", "unit"),
    [(NOW, "grpo", "rollout"), (THEN, "grpo", "rollout"), (DPO, "dpo", "optimiser"), (PPO, "ppo", "unknown")],
)
def test_every_key_is_known(path: Path, algorithm: str, unit: str) -> None:
    run = vario.read(path)
    assert (run.framework, run.algorithm, run.declared.step_unit) == ("open-instruct", algorithm, unit)
    assert run.unmapped == ()
    assert run.ignored_lines == 0
    assert not run.warnings


def test_settings_alone_are_recognised() -> None:
    assert open_instruct.recognises(frozenset(), {"num_unique_prompts_rollout": 32})
    assert open_instruct.recognises(frozenset(), {"dpo_loss_type": "dpo_norm", "dpo_beta": 5})
    assert not open_instruct.recognises(frozenset(), {"num_generations": 8, "beta": 0.05, "num_mini_batches": 1})


@pytest.mark.parametrize(
    "keys",
    [
        {
            "objective/kl",
            "objective/scores",
            "objective/rlhf_reward",
            "policy/approxkl_avg",
            "val/ratio",
            "lr",
            "episode",
        },
        {"rewards/margins", "rewards/accuracies", "rewards/chosen", "logps/chosen"},
        {"critic/score/mean", "timing_s/step"},
        {"rollout/raw_reward", "train/pg_clipfrac"},
        {"train/policy_loss", "train/group_reward_std"},
        {"env/all/reward/total", "progress/done_frac"},
        {"reward", "actor_loss", "critic_loss"},
    ],
)
def test_other_frameworks_are_left_alone(keys: set[str]) -> None:
    assert not open_instruct.recognises(frozenset(keys), {})


def test_the_third_estimator_in_both_numberings() -> None:
    now, then = vario.read(NOW), vario.read(THEN)
    assert now.series["kl/reference"].key == "objective/kl2_avg"
    assert now.series["kl/reference"].values.tolist() == logged(NOW, "objective/kl2_avg")
    assert then.series["kl/reference"].key == "objective/kl3_avg"
    assert then.series["kl/reference"].values.tolist() == logged(THEN, "objective/kl3_avg")
    assert made({"objective/kl_avg": 0.01}).series["kl/reference"].key == "objective/kl_avg"
    assert "loss/kl_avg" not in {s.key for s in now.series.values()}, "the divergence times beta"


@pytest.mark.parametrize(
    ("loaded", "value", "there"), [(None, 0.0, False), (False, 0.0, False), (True, 0.0, True), (None, 0.01, True)]
)
def test_without_a_reference_zeros_are_written(loaded: bool | None, value: float, there: bool) -> None:
    config = {} if loaded is None else {"load_ref_policy": loaded}
    run = made({"objective/kl0_avg": value, "objective/kl2_avg": value}, config)
    assert ("kl/reference" in run.series) is there
    assert ("objective/kl2_avg" in run.unsettled) is not there
    if loaded is not None:
        assert run.declared.kl_by_design is loaded
    else:
        assert run.declared.kl_by_design is (True if there else None)


def test_reward_of_all_groups_from_the_kept_ones() -> None:
    run = vario.read(NOW)
    assert run.series["reward/kept/mean"].values.tolist() == logged(NOW, "scores")
    kept, solved, zero = (
        np.array(logged(NOW, f"batch/{k}"))
        for k in ("total_prompts", "filtered_prompts_solved", "filtered_prompts_zero")
    )
    expected = (np.array(logged(NOW, "scores")) * kept + 10.0 * solved) / (kept + solved + zero)
    assert run.series["reward/mean"].values == pytest.approx(expected)
    assert run.series["signal/solved-share"].values == pytest.approx(solved / (kept + solved + zero))
    assert run.series["signal/unsolved-share"].values == pytest.approx(zero / (kept + solved + zero))
    assert run.series["signal/zero-variance-share"].values == pytest.approx((solved + zero) / (kept + solved + zero))
    assert run.series["signal/groups-dropped"].values.tolist() == logged(NOW, "batch/filtered_prompts")
    assert run.declared.reward_filtered is None


COUNTS = {
    "batch/total_prompts": 12, "batch/filtered_prompts": 4, "batch/filtered_prompts_zero": 3, "batch/filtered_prompts_solved": 1,
    "batch/filtered_prompts_nonzero": 0, "batch/filtered_prompts_pct": 0.25, "batch/percent_solved_mean": 0.4,
}  # fmt: skip


@pytest.mark.parametrize(
    "last",
    [
        {"batch/filtered_prompts_nonzero": 1},  # a dropped group whose reward is not logged
        {"scores": 5.0},  # scores are no longer the share of the full reward
    ],
)
def test_reward_of_the_kept_groups_where_the_others_are_not_known(last: Mapping[str, object]) -> None:
    assert made(COUNTS).series["reward/mean"].values[-1] == pytest.approx((4.0 * 12 + 10.0) / 16)
    run = made(COUNTS, last=last)
    assert run.series["reward/mean"].values[0] == 4.0
    assert "reward/kept/mean" not in run.series
    assert run.declared.reward_filtered is True


def test_counts_of_a_filter_that_is_off_say_nothing() -> None:
    none = dict.fromkeys(COUNTS, 0) | {"batch/total_prompts": 16}
    off = made(none, {"filter_zero_std_samples": False})
    open_ = made(none)
    on = made(none, {"filter_zero_std_samples": True})
    assert "signal/zero-variance-share" not in off.series
    assert "signal/zero-variance-share" not in open_.series
    assert on.series["signal/zero-variance-share"].values.tolist() == [0.0] * 12
    assert "off" in off.unsettled["batch/filtered_prompts_pct"]
    assert "not known" in open_.unsettled["batch/filtered_prompts_pct"]
    assert not {n for n in off.series if n.startswith("signal/")}
    assert off.declared.reward_filtered is None


def test_completions_that_were_masked_are_not_counted() -> None:
    row = {"val/stop_rate": 0.9, "val/sequence_lengths_min": 9.0, "val/sequence_lengths_max": 200.0}
    run = made(row)
    assert run.series["length/truncated-share"].values == pytest.approx(0.1)
    assert "length/terminated/mean" not in run.series
    masked = made(row | {"val/stop_rate": 1.0}, {"mask_truncated_completions": True})
    assert not {"length/truncated-share", "length/mean", "length/max"} & set(masked.series)
    assert masked.series["length/terminated/mean"].values[0] == 90.0
    assert "length/truncated-share" not in made(row | {"val/stop_rate": 1.0}).series
    assert (
        made(row | {"val/stop_rate": 1.0}, {"mask_truncated_completions": False})
        .series["length/truncated-share"]
        .values[0]
        == 0.0
    )


@pytest.mark.parametrize(
    ("weight", "clamped", "dropped", "expected"),
    [
        (0.0, 0.0, 0.0, None),  # switched off: all three are written as 0
        (0.99, 0.01, 0.0, 0.01),
        (0.99, 0.0, 0.02, 0.02),
        (0.99, 0.0, 0.0, 0.0),
        (0.99, 0.01, 0.02, None),  # they overlap
    ],
)
def test_weights_of_trainer_over_sampler(weight: float, clamped: float, dropped: float, expected: float | None) -> None:
    run = made({"val/rho_weight": weight, "val/rho_clipfrac": clamped, "val/rho_drop_frac": dropped})
    assert ("behaviour-weight/mean" in run.series) is (weight > 0.0)
    share = run.series.get("behaviour-weight/capped-share")
    assert (None if share is None else share.values[-1]) == expected
    if expected is None:
        assert "val/rho_clipfrac" in run.unsettled


def test_engine_gap_is_no_divergence() -> None:
    run = vario.read(NOW)
    assert run.series["engine/logprob-gap/mean"].values.tolist() == logged(NOW, "debug/vllm_vs_local_logprob_diff_mean")
    assert "engine/kl" not in run.series
    assert "kl/update" not in run.series


def test_ratio_and_clipping() -> None:
    row = {"val/ratio": 1.01, "val/ratio_var": 1e-4, "policy/clipfrac_avg": 0.02}
    assert {"ratio/mean", "ratio/variance", "clip/fraction/total"} <= set(made(row).series)
    cispo = made(row, {"loss_fn": "cispo"})
    assert "clip/fraction/high" in cispo.series
    assert "clip/fraction/total" not in cispo.series
    sampler = made(row, {"use_vllm_logprobs": True})
    assert not {"ratio/mean", "ratio/variance"} & set(sampler.series)
    assert "sampling engine" in sampler.unsettled["val/ratio"]


def test_age_of_samples() -> None:
    run = made({"num_steps_off_policy": 2.5, "model_step_mean": 7.5, "model_step_min": 6.0, "stale_results_dropped": 1})
    assert run.series["staleness/mean"].values[0] == 2.5
    assert run.series["staleness/max"].values[0] == 4.0
    assert run.series["staleness/dropped"].values[0] == 1.0


def test_held_out_score_and_training_data_called_val() -> None:
    run = vario.read(NOW)
    assert run.series["eval/score/mean"].values.tolist() == logged(NOW, "eval/scores")
    assert run.series["eval/component/verifiable/mean"].key == "eval/objective/verifiable_reward"
    assert {"verifiable", "math", "format"} == set(run.components())
    assert run.series["reward/component/math/mean"].key == "objective/math_reward"


def test_verifiable_reward_is_the_reward_only_where_no_total_is_logged() -> None:
    table = Table("run", "test")
    for step in range(1, 13):
        table.add({"step": 256 * step, "objective/verifiable_reward": 4.0, "objective/verifiable_correct_rate": 0.4})
    alone = interpret(table)
    assert alone.series["reward/mean"].key == "objective/verifiable_reward"
    assert alone.components() == ()
    assert alone.declared.step_unit == "unknown", "steps 256 apart count samples"
    beside = made({"objective/verifiable_reward": 3.0})
    assert beside.series["reward/mean"].key == "scores"
    assert beside.components() == ("verifiable",)


def test_steps_that_count_samples_are_no_rollouts() -> None:
    assert made({}).declared.step_unit == "rollout"
    assert made({"episode": 0}).declared.step_unit == "rollout"
    table = Table("run", "test")
    for step in range(1, 13):
        table.add({"step": step, "scores": 4.0, "val/sequence_lengths": 90.0, "episode": step})
    assert interpret(table).declared.step_unit == "unknown"


def test_the_older_ppo_sums_over_a_sequence() -> None:
    run = vario.read(PPO)
    assert run.series["kl/reference/sequence"].values.tolist() == logged(PPO, "objective/kl")
    assert "kl/reference" not in run.series
    assert run.series["kl/update"].key == "policy/approxkl_avg"
    assert run.series["reward/mean"].values.tolist() == logged(PPO, "objective/scores")
    assert run.series["reward/penalised/mean"].key == "objective/rlhf_reward"
    assert run.knobs == {}


def test_preference_keys() -> None:
    run = vario.read(DPO)
    assert run.series["preference/margin"].values.tolist() == logged(DPO, "rewards/margin")
    assert run.series["preference/accuracy"].key == "rewards/accuracy"
    assert run.series["loss/total"].key == "train_loss"
    assert run.knobs["preference-beta"].key == "dpo_beta"
    assert run.declared.kl_by_design is None


def test_settings() -> None:
    config = {"num_unique_prompts_rollout": 32, "num_samples_per_prompt_rollout": 8, "num_mini_batches": 4, "num_epochs": 1,
              "response_length": 2048, "beta": 0.01, "clip_higher": 0.28}  # fmt: skip
    run = made({}, config)
    assert (run.declared.batch_completions, run.declared.group_size, run.declared.updates_per_rollout) == (
        256.0,
        8.0,
        4.0,
    )
    assert (run.declared.max_length, run.declared.group_centred) == (2048.0, True)
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current, run.knobs["kl-coef"].is_default) == (
        "beta",
        0.01,
        False,
    )
    assert (run.knobs["clip-high"].key, run.knobs["clip-high"].current) == ("clip_higher", 0.28)
    assert (run.knobs["clip-low"].current, run.knobs["clip-low"].is_default) == (0.2, True)
    assert run.knobs["staleness-bound"].key == "async_steps"
    assert "record_entropy" in made({}).missing()["entropy/mean"]


REAL = SHARED / "corpus" / "runs" / "olmo3-rl0-7b" / "norm.jsonl"


@pytest.mark.skipif(not REAL.is_file(), reason=f"no labelled run at {REAL}")
def test_a_real_run() -> None:
    run = vario.read(REAL)
    assert (run.framework, run.algorithm) == ("open-instruct", "grpo")
    assert run.unmapped == ()
    assert run.series["reward/mean"].key == "objective/verifiable_reward"
    assert len(run.series["reward/mean"]) == 2000
    assert run.declared.step_unit == "unknown"


def test_lengths_by_outcome_and_extremes_of_advantages() -> None:
    run = vario.read(LOGS / "open-instruct-numbered-from-one-synthetic.jsonl")
    assert run.series["length/solved/mean"].key == "val/sequence_lengths_solved"
    assert run.series["length/unsolved/mean"].key == "val/sequence_lengths_unsolved"
    assert (run.series["length/solved/mean"].values > 0.0).all()  # 0 is written where nobody solved a prompt
    assert run.series["advantage/max"].key == "val/advantages_max"


def test_groups_are_timed_one_by_one_and_percent_is_a_share() -> None:
    series = made({"time/group_generation_mean": 8.0, "time/group_generation_max": 40.0, "learner_mfu": 25.0}).series
    assert series["systems/request-time/mean"].key == "time/group_generation_mean"
    assert series["systems/request-time/max"].key == "time/group_generation_max"
    assert series["systems/mfu"].values[0] == 0.25
