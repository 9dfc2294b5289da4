"""What rLLM's keys mean on its back ends, and in its older trainers on verl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.rllm import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
ROW = {
    "reward/default/mean": 0.5,
    "reward/default/std": 0.4,
    "batch/default/fractions/effective": 0.6,
    "batch/default/fractions/too_easy": 0.3,
    "batch/default/fractions/too_hard": 0.1,
    "batch/default/group_reward_std/p50": 0.2,
}
OF_VERL = {"critic/score/mean": 0.1, "critic/rewards/mean": 0.1, "actor/pg_loss": 0.1, "timing_s/step": 60.0}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows, start=1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None) -> Run:
    return run_of([row] * 12, config)


def keys_of(run: Run) -> dict[str, str]:
    return {name: series.key for name, series in run.series.items()}


@pytest.mark.parametrize("log", ["rllm", "rllm-tinker", "rllm-fireworks"])
def test_every_key_is_known(log: str) -> None:
    run = vario.read(LOGS / f"{log}-synthetic.jsonl")
    assert (run.framework, run.framework_version, run.unmapped) == ("rllm", None, ())


def test_two_spreads() -> None:
    run = made(ROW)
    assert run.series["reward/std/batch"].values == pytest.approx(0.4)
    assert run.series["reward/std/within-group"].values == pytest.approx(0.2)


def test_groups() -> None:
    run = made(ROW)
    assert run.series["signal/zero-variance-share"].values == pytest.approx(0.4)
    assert run.series["signal/solved-share"].values == pytest.approx(0.3)
    assert run.series["signal/unsolved-share"].values == pytest.approx(0.1)


def test_the_reward_is_of_trajectories_not_of_merged_steps() -> None:
    run = made(ROW | OF_VERL)
    assert run.series["reward/mean"].values == pytest.approx(0.5)
    assert "reward/penalised/mean" not in run.series


def test_several_roles_are_not_averaged() -> None:
    run = vario.read(LOGS / "rllm-fireworks-synthetic.jsonl")
    assert not any(name.startswith(("reward/", "signal/")) for name in run.series)
    assert "--map" in run.unsettled["reward/solver/mean"]
    assert "reward/judge/mean" in run.unsettled


@pytest.mark.parametrize("counts", [(12.0, 32.0, 20.0), (0.1875, 0.5, 0.3125)])
def test_older_trainers_count_tasks_or_share_them(counts: tuple[float, float, float]) -> None:
    none, some, every = counts
    run = made(OF_VERL | {"batch/solve_none": none, "batch/solve_partial": some, "batch/solve_all": every})
    assert run.framework == "rllm"
    assert run.series["reward/mean"].key == "critic/score/mean"
    assert run.series["signal/unsolved-share"].values == pytest.approx(0.1875)
    assert run.series["signal/solved-share"].values == pytest.approx(0.3125)


def test_mismatch_on_the_verl_back_end() -> None:
    run = vario.read(LOGS / "rllm-synthetic.jsonl")
    found = keys_of(run)
    assert found["engine/kl"] == "offpolicy/kl"
    assert "engine/logprob-gap/mean" not in found, "log_ppl_abs_diff compares means of sequences: signs cancel inside"
    token = made(ROW | {"offpolicy/logprob_abs_diff/mean": 0.02, "offpolicy/log_ppl_abs_diff": 0.003})
    assert token.series["engine/logprob-gap/mean"].values == pytest.approx(0.02)
    assert found["behaviour-weight/mean"] == "rollout_correction/rollout_is_mean"
    assert found["behaviour-weight/capped-share"] == "rollout_correction/rollout_is_ratio_fraction_high"
    assert "kl/reference" not in found


@pytest.mark.parametrize("config", [{}, {"rllm": {"algorithm": {"rollout_correction": {"bypass_mode": True}}}}])
def test_bypass_measures_nothing(config: Mapping[str, object]) -> None:
    run = made(ROW | {"offpolicy/kl": 0.0, "offpolicy/log_ppl_abs_diff": 0.0}, config)
    assert not any(name.startswith("engine/") for name in run.series)
    assert "bypass" in run.unsettled["offpolicy/kl"]
    assert "engine/kl" in made(ROW | {"offpolicy/kl": 0.001}).series


def test_tinker_back_end_logs_an_absolute_gap_under_a_kl_name() -> None:
    found = keys_of(vario.read(LOGS / "rllm-tinker-synthetic.jsonl"))
    assert found["engine/logprob-gap/mean"] == "train/kl_sample_train_v1"
    assert "engine/kl" not in found
    assert found["entropy/mean"] == "train/entropy"
    assert found["length/mean"] == "episode/response_tokens"
    assert found["turns/mean"] == "episode/num_turns"
    assert found["staleness/mean"] == "async/staleness_mean"
    assert found["signal/groups-dropped"] == "groups/dropped_zero_adv"
    assert found["systems/wait-time"] == "time/buffer_wait"


def test_measured_ratios_are_not_weights_as_applied() -> None:
    run = vario.read(LOGS / "rllm-fireworks-synthetic.jsonl")
    assert not any(name.startswith(("behaviour-weight/", "ratio/")) for name in run.series)
    assert run.series["engine/correlation"].key == "offpolicy/prob_pearson_corr"
    assert run.series["engine/probability-gap/mean"].key == "offpolicy/prob_abs_diff/mean"


def test_truncation_is_a_termination_reason() -> None:
    run = vario.read(LOGS / "rllm-synthetic.jsonl")
    assert run.series["length/truncated-share"].key == "batch/termination_reason/max_response_length_exceeded"
    assert run.series["length/mean"].key == "batch/step_response_length/mean"
    assert made(ROW | {"batch/max_response_length_exceeded": 0.2}).series[
        "length/truncated-share"
    ].values == pytest.approx(0.2)
    assert "length/truncated-share" not in made(ROW | {"response_length/clip_ratio": 0.5}).series


def test_validation() -> None:
    run = vario.read(LOGS / "rllm-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "val/gsm8k/pass@1"
    assert [n for n in run.series if n.startswith("eval/set/")] == ["eval/set/gsm8k/mean"], "pass@4 is no mean score"
    old = made(OF_VERL | {"groups/num_groups": 4, "val/test_score/aime": 0.2, "val/test_score/pass@k/aime": 0.6})
    assert old.series["eval/score/mean"].key == "val/test_score/aime"


CONFIG: dict[str, object] = {
    "rllm": {
        "algorithm": {"adv_estimator": "rloo", "kl_beta": 0.0, "eps_clip": 0.2},
        "rollout": {"n": 8, "train": {"temperature": 0.7}},
        "data": {"train_batch_size": 64, "max_response_length": 8192},
        "rejection_sample": {"filter_uniform_groups": False, "enable": False},
    },
    "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 16, "optim": {"lr": 1e-6}}},
    "trainer": {"save_freq": 50},
}


def test_configuration() -> None:
    run = made(ROW | OF_VERL, CONFIG)
    assert run.algorithm == "rloo"
    declared = run.declared
    assert (declared.group_size, declared.batch_completions, declared.max_length) == (8.0, 512.0, 8192.0)
    assert (declared.kl_by_design, declared.group_centred, declared.step_unit) == (False, True, "rollout")
    assert declared.reward_filtered is None
    knobs = run.knobs
    assert (knobs["kl-coef"].key, knobs["kl-coef"].current, knobs["kl-coef"].is_default) == (
        "rllm.algorithm.kl_beta",
        0.0,
        False,
    )
    assert (knobs["temperature"].key, knobs["temperature"].current) == ("rllm.rollout.train.temperature", 0.7)
    assert (knobs["save-steps"].key, knobs["save-steps"].current) == ("trainer.save_freq", 50)
    assert (knobs["behaviour-weight-cap"].current, knobs["behaviour-weight-cap"].is_default) == (2.0, True)
    assert (knobs["learning-rate"].key, knobs["learning-rate"].current) == ("actor_rollout_ref.actor.optim.lr", 1e-6)
    assert "learning-rate" not in made(ROW).knobs, "no back end is known"
    assert made({"reward": 1.0}, CONFIG).framework == "rllm", "by the configuration alone"


def test_updates_as_logged() -> None:
    assert vario.read(LOGS / "rllm-synthetic.jsonl").declared.updates_per_rollout == 4.0


def test_what_filters_the_reward() -> None:
    assert made(ROW, {"rllm": {"rejection_sample": {"filter_uniform_groups": True}}}).declared.reward_filtered is True
    assert made(ROW, {"rllm": {"algorithm": {"kl_beta": 0.01}}}).declared.kl_by_design is True


@pytest.mark.parametrize(
    "keys",
    [
        {"critic/score/mean", "timing_s/step", "rollout_corr/kl", "training/rollout_probs_diff_mean"},
        {"rollout/in_group_std", "critic/score/mean"},
        {"episode/reward/mean", "critic/score/mean"},
        {"rollout_correction/kl", "reward", "frac_reward_zero_std"},
        {"env/all/reward/total", "optim/kl_sample_train_v1", "progress/done_frac"},
        {"reward/avg_raw_reward", "policy/final_loss"},
        {"ppo_actor/task_reward/avg"},
    ],
)
def test_the_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


def test_extremes_of_advantages_of_a_single_role() -> None:
    several = vario.read(LOGS / "rllm-fireworks-synthetic.jsonl")
    assert "advantage/max" not in several.series
    assert "several roles" in several.unsettled["advantage/solver/max"]
    assert vario.read(LOGS / "rllm-synthetic.jsonl").series["advantage/max"].key == "advantage/default/max"
