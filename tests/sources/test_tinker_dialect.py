"""What the Tinker cookbook's keys mean: the RL loops, DPO, and loops written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.conftest import SHARED
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.tinker import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
CORPUS = SHARED / "corpus" / "runs"
LOOP = {
    "env/all/reward/total": 0.5,
    "env/all/by_group/frac_mixed": 0.7,
    "env/all/by_group/frac_all_good": 0.2,
    "env/all/by_group/frac_all_bad": 0.1,
    "optim/lr": 4e-5,
    "progress/done_frac": 0.5,
}
CONFIG = {
    "learning_rate": 4e-5,
    "log_path": "out",
    "lora_rank": 32,
    "kl_penalty_coef": 0.0,
    "num_substeps": 2,
    "max_tokens": 512,
    "remove_constant_reward_groups": False,
    "dataset_builder": {"groups_per_batch": 64, "group_size": 16},
}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None) -> Run:
    return run_of([row] * 12, config)


def keys_of(run: Run) -> dict[str, str]:
    return {name: series.key for name, series in run.series.items()}


@pytest.mark.parametrize("log", ["tinker", "tinker-async", "tinker-dpo"])
def test_every_key_is_known(log: str) -> None:
    run = vario.read(LOGS / f"{log}-synthetic.jsonl")
    assert run.framework == "tinker"
    assert run.unmapped == ()


def test_three_kinds_of_kl() -> None:
    found = keys_of(vario.read(LOGS / "tinker-synthetic.jsonl"))
    assert found["kl/reference"] == "kl_policy_base"
    assert found["kl/update"] == "kl_pre_post_v1"
    assert found["engine/kl"] == "optim/kl_sample_train_v1"


def test_without_a_penalty_there_is_no_reference() -> None:
    run = made(LOOP | {"optim/kl_sample_train_v1": 0.01})
    assert "kl/reference" not in run.series
    assert run.declared.kl_by_design is False
    assert made(LOOP | {"kl_policy_base": 0.01}).declared.kl_by_design is True
    assert made(LOOP, {"kl_penalty_coef": 0.1}).declared.kl_by_design is True


def test_groups() -> None:
    run = made(LOOP)
    assert run.series["signal/zero-variance-share"].values == pytest.approx(0.3)
    assert run.series["signal/solved-share"].values == pytest.approx(0.2)
    assert run.series["signal/unsolved-share"].values == pytest.approx(0.1)
    assert run.declared.reward_filtered is None


def test_filtered_groups_say_nothing_of_the_signal() -> None:
    all_mixed = LOOP | {
        "env/all/by_group/frac_mixed": 1.0,
        "env/all/by_group/frac_all_good": 0.0,
        "env/all/by_group/frac_all_bad": 0.0,
    }
    filtered = made(all_mixed, {"remove_constant_reward_groups": True})
    assert not any(name.startswith("signal/") for name in filtered.series)
    assert filtered.declared.reward_filtered is True
    unknown = made(all_mixed)
    assert not any(name.startswith("signal/") for name in unknown.series)
    assert "remove_constant_reward_groups" in unknown.unsettled["env/all/by_group/frac_mixed"]
    known = made(all_mixed, {"remove_constant_reward_groups": False})
    assert known.series["signal/zero-variance-share"].values == pytest.approx(0.0)


def test_shaped_rewards_are_not_split_at_a_half() -> None:
    """Half the groups tied at 'good' and yet a mean of 0.3: the rewards are not 0 or 1."""
    run = made(
        LOOP | {"env/all/reward/total": 0.3, "env/all/by_group/frac_all_good": 0.5, "env/all/by_group/frac_mixed": 0.4}
    )
    assert "signal/solved-share" not in run.series
    assert "0.5" in run.unsettled["env/all/by_group/frac_all_good"]
    assert run.series["signal/zero-variance-share"].values == pytest.approx(0.6)


def test_a_one_hot_is_no_truncated_share() -> None:
    run = made(LOOP | {"env/all/stop/max_tokens": 1.0, "env/all/stop/completed": 1.0})
    assert "length/truncated-share" not in run.series
    assert run.unmapped == ()
    assert "rollout_summaries" in run.missing()["length/truncated-share"]


def test_held_out_rewards() -> None:
    run = vario.read(LOGS / "tinker-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "test/env/all/reward/total"
    assert len(run.series["eval/score/mean"]) == 6
    assert run.series["reward/mean"].key == "env/all/reward/total", "one tag's part is not the batch"
    asynchronous = vario.read(LOGS / "tinker-async-synthetic.jsonl")
    assert [n for n in asynchronous.series if n.startswith("eval/set/")] == ["eval/set/test/mean"], (
        "copies are no further sets"
    )
    two = made(LOOP | {"test/env/all/reward/total": 0.5, "hard/env/all/reward/total": 0.1})
    assert "eval/score/mean" not in two.series
    assert {"eval/set/test/mean", "eval/set/hard/mean"} <= two.series.keys()


def test_staleness_of_the_asynchronous_loop() -> None:
    run = vario.read(LOGS / "tinker-async-synthetic.jsonl")
    assert run.series["staleness/mean"].key == "async/staleness_mean"
    assert run.series["staleness/max"].values.max() == 4.0
    assert run.knobs["staleness-bound"].key == "async_config.max_steps_off_policy"
    assert "staleness-bound" not in vario.read(LOGS / "tinker-synthetic.jsonl").knobs


def test_pairs() -> None:
    run = vario.read(LOGS / "tinker-dpo-synthetic.jsonl")
    assert run.algorithm == "dpo"
    assert (
        keys_of(run).items()
        >= {
            "preference/margin": "margin",
            "preference/accuracy": "accuracy",
            "preference/chosen-reward": "chosen_reward",
            "preference/rejected-reward": "rejected_reward",
            "loss/total": "dpo_loss",
        }.items()
    )
    assert "systems/tokens" not in run.series, "num_tokens is of the batch, no running total"
    assert run.declared.step_unit == "optimiser"
    assert (run.knobs["preference-beta"].key, run.knobs["preference-beta"].current) == ("dpo_beta", 0.1)
    assert run.knobs["preference-beta"].is_default
    assert (
        made({"dpo_loss": 0.6, "chosen_reward": 0.1, "rejected_reward": 0.0}, {"dpo_beta": 0.3})
        .knobs["preference-beta"]
        .current
        == 0.3
    )


def test_configuration() -> None:
    run = made(LOOP, CONFIG)
    assert run.knobs["group-size"].key == "dataset_builder.group_size"
    assert (run.knobs["batch-size"].key, run.knobs["batch-size"].current) == ("dataset_builder.groups_per_batch", 64)
    assert (run.knobs["minibatches"].current, run.knobs["minibatches"].is_default) == (2, False)
    assert (run.knobs["temperature"].current, run.knobs["temperature"].is_default) == (1.0, True)
    assert run.knobs["max-completion-length"].current == 512
    declared = run.declared
    assert (declared.updates_per_rollout, declared.max_length, declared.group_size) == (2.0, 512.0, 16.0)
    assert (declared.batch_completions, declared.group_centred, declared.step_unit) == (1024.0, True, "rollout")
    other = made(LOOP, {"dataset_builder.batch_size": 32})
    assert (other.knobs["batch-size"].key, other.knobs["batch-size"].current) == ("dataset_builder.batch_size", 32)


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        ({}, "grpo"),
        ({"loss_fn": "importance_sampling"}, "grpo"),
        ({"loss_fn": "cispo"}, "cispo"),
        ({"loss_fn": "importance_sampling", "async_config": {"loss_fn": "stable_reinforce"}}, "reinforce"),
    ],
)
def test_algorithm(config: Mapping[str, object], algorithm: str) -> None:
    assert made(LOOP, config).algorithm == algorithm


def test_recognised_by_the_configuration_alone() -> None:
    assert made({"reward": 0.5}, CONFIG).framework == "tinker"
    assert made({"reward": 0.5}, {"log_path": "out"}).framework != "tinker"


@pytest.mark.parametrize(
    "keys",
    [
        {"train/reward", "train/reward_std_dev", "loss/train"},
        {"reward/default/mean", "groups/num_groups", "train/kl_sample_train_v1"},
        {"critic/score/mean", "timing_s/step"},
        {"reward", "reward_std", "kl", "learning_rate"},
        {"rewards/chosen", "rewards/margins", "rewards/accuracies"},
        {"train/agg/all/agent/reward/mean", "mismatch_kl", "progress/step"},
        {"loss/avg_final_rewards", "reward/avg_raw_reward"},
    ],
)
def test_the_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


def test_a_loop_written_by_hand() -> None:
    row = {
        "progress/step": 3,
        "progress/done_frac": 0.1,
        "optim/lr": 1e-5,
        "time/total": 300.0,
        "reward/mean": 0.2,
        "reward/g": 0.1,
        "policy/entropy": 2.3,
    }
    run = made(row)
    assert run.framework == "tinker"
    assert (
        keys_of(run).items()
        >= {"reward/mean": "reward/mean", "entropy/mean": "policy/entropy", "systems/step-time": "time/total"}.items()
    )
    assert run.unmapped == ("reward/g",), "what a loop calls so is its own affair"
    assert run.declared.kl_by_design is None
    assert made(LOOP | {"reward/mean": 9.0}).series["reward/mean"].values == pytest.approx(0.5)


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no labelled runs at {CORPUS} (set VARIO_SHARED)")
def test_real_runs() -> None:
    loops = sorted(CORPUS.glob("rhe-*"))
    assert len(loops) == 9
    for path in loops:
        run = vario.read(path / "norm.jsonl")
        assert run.framework == "tinker"
        assert {"reward/mean", "entropy/mean", "learning-rate", "systems/step-time"} <= run.series.keys()
    pairs = vario.read(CORPUS / "cse5525-tinker-dpo" / "norm.jsonl")
    assert (pairs.framework, pairs.algorithm) == ("tinker", "dpo")
    assert pairs.unmapped == ()
    margin = pairs.series["preference/margin"].values
    assert abs(float(margin[0])) < 0.01 < float(np.median(margin[-300:]))


def test_benchmarks_and_comparisons_are_held_out_scores() -> None:
    """The share of errors and the benchmark's own figures are not."""
    one = made(LOOP | {"eval/gsm8k/score": 0.4, "eval/gsm8k/num_errors": 1.0, "eval/gsm8k/gsm8k/loose": 0.5})
    assert one.series["eval/score/mean"].key == "eval/gsm8k/score"
    assert one.series["eval/score/mean"].values == pytest.approx(0.4)
    assert {"eval/gsm8k/num_errors", "eval/gsm8k/gsm8k/loose"} <= one.ignored.keys()
    two = made(LOOP | {"test/eval/gsm8k/score": 0.4, "win_rate": 0.6, "stderr": 0.02})
    assert {n: s.key for n, s in two.series.items() if n.startswith("eval/")} == {
        "eval/set/gsm8k/mean": "test/eval/gsm8k/score",
        "eval/set/win_rate/mean": "win_rate",
    }


def test_likelihood_of_held_out_pairs() -> None:
    pairs = {"dpo_loss": 0.6, "chosen_reward": 0.1, "rejected_reward": -0.1, "margin": 0.2, "accuracy": 0.6}
    run = made(pairs | {"test/nll": 1.8, "test/bpb": 0.7})
    assert run.series["eval/loss"].values == pytest.approx(1.8)
    assert "bytes" in run.ignored["test/bpb"]


def test_the_distance_to_a_teacher_is_no_reference() -> None:
    run = made(LOOP | {"teacher_kl": 0.3, "teacher_kl/dataset_0": 0.3, "sdft/reverse_kl_mean": 0.2})
    assert "kl/reference" not in run.series
    assert {"teacher_kl", "teacher_kl/dataset_0", "sdft/reverse_kl_mean"} <= run.ignored.keys()


def test_keys_of_a_loop_by_hand_still_stand_out() -> None:
    run = made(LOOP | {"train/reward": 0.5, "test/exactness": 0.5, "eval/mine/exactness": 0.5})
    assert set(run.unmapped) == {"train/reward", "test/exactness", "eval/mine/exactness"}


def test_groups_are_timed_one_by_one() -> None:
    keys = keys_of(made(LOOP | {"time/sampling_time_mean": 8.0, "time/sampling_time_max": 40.0}))
    assert keys["systems/request-time/mean"] == "time/sampling_time_mean"
    assert keys["systems/request-time/max"] == "time/sampling_time_max"
