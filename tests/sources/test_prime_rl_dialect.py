"""What the keys of prime-rl's trainer and orchestrator mean, version by version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.prime_rl import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
ALL = "train/agg/all/agent/"
ORCHESTRATOR = {
    ALL + "reward/mean": 0.5,
    ALL + "reward/max": 1.0,
    ALL + "reward/min": 0.0,
    "train/agg/effective/agent/reward/mean": 0.45,
    ALL + "num_output_tokens/mean": 700.0,
    "train/agg/all/num_output_tokens/mean": 1400.0,
    ALL + "solved_none": 0.25,
    ALL + "solved_all": 0.125,
    ALL + "is_trainable/mean": 0.5,
    "progress/tokens": 1e5,
    "time/step": 50.0,
    "time/save_ckpt": 0.0,
}
TRAINER = {
    "mismatch_kl/all/mean": 0.001,
    "entropy/all/mean": 0.4,
    "loss/mean": 1e-6,
    "is_masked/mean": 0.01,
    "optim/lr": 1e-6,
    "time/step": 40.0,
    "time/forward_backward": 30.0,
}


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for i in range(1, n + 1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("prime-rl-synthetic", ">=0.7"),
        ("prime-rl-0.6-synthetic", ">=0.5,<=0.6"),
        ("prime-rl-trainer-0.6-synthetic", ">=0.5,<=0.6"),
        ("prime-rl-0.3-synthetic", "<=0.4"),
    ],
)
def test_recognised_from_keys_and_every_key_is_known(name: str, version: str) -> None:
    run = vario.read(LOGS / f"{name}.jsonl")
    assert (run.framework, run.framework_version) == ("prime-rl", version)
    assert run.unmapped == ()
    assert run.declared.step_unit == "rollout"


@pytest.mark.parametrize(
    "config",
    [
        {"orchestrator.batch_size": 128},
        {"trainer.loss.dppo_mask_low": 0.2},
        {"loss.dppo_mask_low": 0.2},
        {"max_off_policy_steps": 8, "rollouts_per_example": 8},
    ],
)
def test_recognised_from_the_configuration_alone(config: dict[str, object]) -> None:
    assert DIALECT.recognises(frozenset(), config)


@pytest.mark.parametrize(
    "keys",
    [
        {"batch/solve_none", "batch/solve_all", "batch/solve_partial"},
        {"batch/agent/fractions/effective", "groups/num_groups", "offpolicy/kl"},
        {"env/all/reward/total", "optim/kl_sample_train_v1", "progress/done_frac", "optim/lr"},
        {"train/reward", "train/gen_kl_error", "train/token_mult_prob_error"},
        {"train/reward", "train/reward_std_dev", "data/step_num_groups_trainable"},
        {"train/pg_clipfrac", "rollout/raw_reward", "train/lr-pg_0"},
        {"reward/mean", "entropy/mean", "length/mean"},
        {"policy/final_loss", "reward/avg_raw_reward"},
        {"reward", "reward/std", "mismatch_kl", "entropy"},
    ],
)
def test_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})
    assert not DIALECT.recognises(frozenset(), {"rollouts_per_example": 8, "batch_size": 64})


def test_both_processes_in_one_file_are_one_run() -> None:
    run = vario.read(LOGS / "prime-rl-synthetic.jsonl")
    assert run.series["reward/mean"].steps.tolist() == run.series["entropy/mean"].steps.tolist() == list(range(1, 15))


def test_what_both_write_under_one_name_is_left_unread() -> None:
    both = made(ORCHESTRATOR | TRAINER)
    assert "systems/step-time" not in both.series
    assert "orchestrator" in both.unsettled["time/step"]
    assert made(TRAINER).series["systems/step-time"].values[0] == 40.0
    assert made(ORCHESTRATOR).series["systems/step-time"].values[0] == 50.0
    assert "systems/checkpoint-time" not in made(TRAINER | {"time/save_ckpt": 0.0}).series  # nothing was saved


def test_no_checkpoint_takes_no_time() -> None:
    saved = vario.read(LOGS / "prime-rl-trainer-0.6-synthetic.jsonl").series["systems/checkpoint-time"]
    assert saved.steps.tolist() == [10, 20, 30]


def test_mismatch_is_no_reference_and_masks_are_no_clipping() -> None:
    run = made(ORCHESTRATOR | TRAINER | {"ref_kl/mean": -0.2, "teacher_kl/mean": 0.2})
    assert run.series["engine/kl"].key == "mismatch_kl/all/mean"
    assert not [n for n in run.series if n.startswith(("kl/", "clip/", "loss/"))]
    assert run.declared.kl_by_design is False
    assert run.unmapped == ()
    assert made(ORCHESTRATOR).declared.kl_by_design is None
    assert "no reference" in run.missing()["kl/reference"]


def test_curves_are_of_all_answers_not_of_the_kept_ones() -> None:
    run = made(ORCHESTRATOR)
    assert run.series["reward/mean"].key == ALL + "reward/mean"
    assert run.series["reward/kept/mean"].key == "train/agg/effective/agent/reward/mean"
    assert run.declared.reward_filtered is None


def test_lengths_are_of_one_answer_not_of_the_episode() -> None:
    assert made(ORCHESTRATOR).series["length/mean"].values[0] == 700.0


def renamed(row: Mapping[str, float], old: str, new: str) -> dict[str, float]:
    return {k.replace(old, new): v for k, v in row.items()}


def test_any_name_of_the_agent_and_of_the_only_environment() -> None:
    solver = made(renamed(ORCHESTRATOR, "/agent/", "/solver/"))
    assert solver.series["reward/mean"].key == "train/agg/all/solver/reward/mean"
    alone = made(renamed(ORCHESTRATOR, "train/agg/", "train/gsm8k/"))
    assert alone.series["reward/mean"].key == "train/gsm8k/all/agent/reward/mean"
    with_one = made(ORCHESTRATOR | renamed({k: v * 2 for k, v in ORCHESTRATOR.items()}, "train/agg/", "train/aime/"))
    assert with_one.series["reward/mean"].key == ALL + "reward/mean"


def test_several_agents_are_not_averaged() -> None:
    run = made(ORCHESTRATOR | renamed(ORCHESTRATOR, "/agent/", "/judge/"))
    assert "reward/mean" not in run.series
    assert "--map" in run.unsettled[ALL + "reward/mean"]


def test_several_environments_without_an_aggregate_are_not_averaged() -> None:
    run = made(renamed(ORCHESTRATOR, "train/agg/", "train/gsm8k/") | renamed(ORCHESTRATOR, "train/agg/", "train/aime/"))
    assert "reward/mean" not in run.series
    assert [k for k in run.unsettled if k.endswith("agent/reward/mean")]


def test_groups_solved_and_not() -> None:
    run = made(ORCHESTRATOR)
    assert run.series["signal/solved-share"].values[0] == 0.125
    assert run.series["signal/unsolved-share"].values[0] == 0.25
    assert run.series["signal/zero-variance-share"].values[0] == 0.5


def test_solved_counts_nothing_where_one_is_not_the_full_reward() -> None:
    shaped = made(ORCHESTRATOR | {ALL + "reward/max": 2.5, ALL + "solved_all": 0.0})
    assert "signal/solved-share" not in shaped.series
    assert "2.5" in shaped.unsettled[ALL + "solved_all"]
    signed = made(ORCHESTRATOR | {ALL + "reward/min": -1.0})
    assert "signal/unsolved-share" not in signed.series
    unknown = {k: v for k, v in ORCHESTRATOR.items() if not k.endswith("reward/max")}
    assert "signal/solved-share" in made(unknown).series  # some groups were counted
    assert "signal/solved-share" not in made(unknown | {ALL + "solved_all": 0.0}).series


def test_untrainable_is_tied_only_while_few_answers_are_lost() -> None:
    errors = made(ORCHESTRATOR | {"train/agg/all/has_error/mean": 0.2})
    assert "signal/zero-variance-share" not in errors.series
    assert "errors" in errors.unsettled[ALL + "is_trainable/mean"]
    distilled = made(ORCHESTRATOR, {"orchestrator.algo.type": "opd"})
    assert "signal/zero-variance-share" not in distilled.series


def test_components_hold_their_weight_already() -> None:
    run = vario.read(LOGS / "prime-rl-synthetic.jsonl")
    assert run.components() == ("correct", "format")
    assert dict(run.declared.component_weights) == {"correct": 1.0, "format": 1.0}
    total = sum(run.series[f"reward/component/{name}/mean"].values for name in run.components())
    assert total == pytest.approx(run.series["reward/mean"].values, rel=1e-2)


def test_held_out_score() -> None:
    run = vario.read(LOGS / "prime-rl-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "eval/gsm8k/all/agent/avg@4"
    assert vario.read(LOGS / "prime-rl-0.6-synthetic.jsonl").series["eval/set/aime/mean"].key == "eval/aime/avg@8"
    assert vario.read(LOGS / "prime-rl-0.3-synthetic.jsonl").series["eval/score/mean"].key == "val_reward/mean"


def test_older_names() -> None:
    middle = vario.read(LOGS / "prime-rl-0.6-synthetic.jsonl").series
    assert middle["reward/mean"].key == "reward/all/mean"
    assert middle["length/mean"].key == "decode_len/all/mean"
    assert middle["signal/unsolved-share"].key == "solve_none/all"
    assert "signal/zero-variance-share" not in middle  # groups tied in between are not counted
    assert "reward/max" not in middle  # the largest mean of a group
    oldest = vario.read(LOGS / "prime-rl-0.3-synthetic.jsonl").series
    assert oldest["length/mean"].key == "completion_len/mean"
    assert oldest["systems/rollout-time"].key == "time/generate_completions"
    trainer = vario.read(LOGS / "prime-rl-trainer-0.6-synthetic.jsonl").series
    assert (trainer["engine/kl"].key, trainer["entropy/mean"].key) == ("mismatch_kl/mean", "entropy/mean")


def test_solved_groups_of_older_versions() -> None:
    row = {"reward/all/mean": 0.5, "solve_none/all": 0.2, "solve_all/all": 0.0}
    assert "signal/solved-share" not in made(row).series
    assert made(row | {"solve_all/all": 0.1}).series["signal/solved-share"].values[0] == 0.1


def test_knobs_under_the_names_of_the_run() -> None:
    new = made(ORCHESTRATOR, {"orchestrator.group_size": 8, "orchestrator.batch_size": 128, "trainer.optim.lr": 3e-6})
    assert (new.knobs["group-size"].key, new.knobs["group-size"].current) == ("orchestrator.group_size", 8)
    assert (new.knobs["learning-rate"].current, new.knobs["learning-rate"].is_default) == (3e-6, False)
    assert (new.knobs["staleness-bound"].current, new.knobs["staleness-bound"].is_default) == (8, True)
    assert (new.declared.group_size, new.declared.batch_completions) == (8.0, 128.0)
    old = made(ORCHESTRATOR, {"rollouts_per_example": 16, "oversampling_factor": 2.0, "sampling.max_tokens": 2048})
    assert (old.knobs["group-size"].key, old.knobs["group-size"].current) == ("rollouts_per_example", 16)
    assert old.declared.max_length == 2048.0
    assert old.declared.group_size == 16.0


@pytest.mark.parametrize(
    ("keys", "config", "expected"),
    [
        (set(), {"orchestrator.algo.type": "GRPO"}, "grpo"),
        ({"ref_kl/mean"}, {}, "opd"),
        ({"ref_kl/mean"}, {"orchestrator.algo": "opsd"}, "opsd"),
    ],
)
def test_algorithm(keys: set[str], config: dict[str, str], expected: str) -> None:
    assert DIALECT.algorithm(frozenset(keys), dict(config)) == expected


def test_rows_of_gauges_without_a_step_are_left_out(tmp_path: Path) -> None:
    rows = [{"step": i, "time": float(i)} | ORCHESTRATOR for i in range(1, 9)]
    rows.insert(4, {"step": None, "time": 4.5, "inference/agg/kv_cache_usage_perc/mean": 0.5})
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = vario.read(path)
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 9))
    assert run.unmapped == ()


def test_answers_are_timed_one_by_one_and_percent_is_a_share() -> None:
    timed = made(ORCHESTRATOR | {f"train/agg/all/agent/timing/total/{k}": v for k, v in (("mean", 8.0), ("max", 40.0))})
    assert timed.series["systems/request-time/max"].values[0] == 40.0
    assert made(TRAINER | {"perf/mfu": 30.0}).series["systems/mfu"].values[0] == 0.3
