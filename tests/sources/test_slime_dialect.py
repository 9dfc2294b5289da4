"""What slime's keys mean, and how its two counters come onto one axis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.slime import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
TRAIN = {"train/pg_clipfrac": 0.01, "train/lr-pg_0": 1e-6, "train/entropy_loss": 0.4, "train/pg_loss": 0.0}
ROLLOUT = {"rollout/raw_reward": 0.5, "rollout/rewards": 1e-9, "rollout/response_lengths": 800.0}
SAMPLES = {"rollout/response_len/mean": 780.0, "rollout/truncated_ratio": 0.05}


def read_rows(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows):
        table.add({"_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def logged(
    rollouts: int,
    each: int,
    *,
    extra: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
    stretch: int = 1,
    unfinished: int = 0,
    first: int = 0,
) -> Run:
    """A log with `each` updates a rollout; the entropy of update u is u. `stretch` numbers the rollouts by updates."""
    rows: list[dict[str, object]] = []
    for r in range(first, first + rollouts):
        at = {"rollout/step": r * stretch}
        rows += [SAMPLES | (extra or {}) | at, ROLLOUT | {"rollout/raw_reward": r / 10} | at]
        updates = each - (unfinished if r == first + rollouts - 1 else 0)
        rows += [TRAIN | {"train/step": u, "train/entropy_loss": float(u)} for u in range(r * each, r * each + updates)]
    return read_rows(rows, config)


@pytest.mark.parametrize(("name", "algorithm"), [("slime-synthetic", "grpo"), ("slime-ppo-synthetic", "ppo")])
def test_recognised_from_keys_and_every_key_is_known(name: str, algorithm: str) -> None:
    run = vario.read(LOGS / f"{name}.jsonl")
    assert (run.framework, run.algorithm) == ("slime", algorithm)
    assert run.unmapped == ()


def test_recognised_from_the_configuration_alone() -> None:
    arguments = {"rollout_batch_size": 32, "n_samples_per_prompt": 8, "advantage_estimator": "grpo", "eps_clip": 0.2}
    assert DIALECT.recognises(frozenset(), dict(arguments))
    assert not DIALECT.recognises(frozenset(), {"eps_clip": 0.2, "n_samples_per_prompt": 8})  # OpenRLHF's too


@pytest.mark.parametrize(
    "keys",
    [
        {"train/policy_loss", "train/ppo_kl", "rollout/reward_std", "train/group_reward_std"},
        {"critic/score/mean", "timing_s/step"},
        {"rollout/in_group_std", "critic/score/mean"},
        {"train/gen_kl_error", "train/reward", "train/probs_ratio"},
        {"train/reward", "train/reward_std_dev", "train/grad_norm"},
        {"policy/final_loss", "reward/avg_raw_reward"},
        {"train/agg/all/agent/reward/mean", "entropy/all/mean"},
        {"rollout/inflight", "sample/staleness_mean"},
    ],
)
def test_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


# one axis


def test_one_update_a_rollout_needs_no_move() -> None:
    run = logged(6, 1)
    assert run.series["entropy/mean"].steps.tolist() == run.series["reward/mean"].steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.series["entropy/mean"].values.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.declared.updates_per_rollout == 1.0


@pytest.mark.parametrize("each", [2, 3, 4, 8])
def test_updates_are_averaged_over_their_rollout(each: int) -> None:
    run = logged(10, each)
    entropy = run.series["entropy/mean"]
    assert run.declared.updates_per_rollout == run.declared.steps_per_row == each
    assert run.declared.step_unit == "rollout"
    assert entropy.key == "train/entropy_loss"
    assert entropy.steps.tolist() == list(range(10)) == run.series["reward/mean"].steps.tolist()
    assert entropy.values.tolist() == [r * each + (each - 1) / 2 for r in range(10)]
    assert "train/entropy_loss" not in run.unsettled


def test_the_last_rollout_may_be_under_way() -> None:
    run = logged(9, 4, unfinished=3)
    assert run.declared.updates_per_rollout == 4.0
    assert run.series["entropy/mean"].values[-1] == 32.0


def test_a_resumed_run_does_not_start_at_zero() -> None:
    run = logged(8, 2, first=100)
    assert run.series["entropy/mean"].steps.tolist() == list(range(100, 108))


def test_configuration_decides_before_the_counters() -> None:
    config = {"rollout_batch_size": 32, "n_samples_per_prompt": 8, "global_batch_size": 64}
    run = logged(1, 4, config=config)
    assert run.declared.updates_per_rollout == 4.0
    assert run.series["entropy/mean"].values.tolist() == [1.5]


def test_two_rollouts_show_the_updates_by_their_order() -> None:
    run = logged(2, 8)
    assert run.declared.updates_per_rollout == 8.0
    assert run.series["entropy/mean"].values.tolist() == [3.5, 11.5]


def test_training_one_rollout_behind() -> None:
    rows: list[dict[str, object]] = [ROLLOUT | {"rollout/step": 0}]
    for r in range(9):
        rows.append(ROLLOUT | {"rollout/step": r + 1})
        rows += [TRAIN | {"train/step": u, "train/entropy_loss": float(u)} for u in range(3 * r, 3 * r + 3)]
    run = read_rows(rows)
    assert run.declared.updates_per_rollout == 3.0
    assert run.series["entropy/mean"].values.tolist() == [3.0 * r + 1.0 for r in range(9)]


def test_too_short_to_tell_leaves_the_updates_unread() -> None:
    run = logged(1, 2)
    assert "entropy/mean" not in run.series
    assert "num_steps_per_rollout" in run.unsettled["train/entropy_loss"]
    assert "reward/mean" in run.series
    assert run.declared.updates_per_rollout is None


@pytest.mark.parametrize("config", [{}, {"wandb_always_use_train_step": True}])
def test_rollouts_numbered_by_updates(config: dict[str, object]) -> None:
    run = logged(8, 4, stretch=4, config=config)
    assert run.declared.step_unit == "optimiser"
    assert run.declared.updates_per_rollout == 4.0
    assert (
        run.series["entropy/mean"].steps.tolist() == run.series["reward/mean"].steps.tolist() == list(range(0, 32, 4))
    )
    assert run.series["entropy/mean"].values.tolist() == [r * 4 + 1.5 for r in range(8)]


def test_scalars_without_counters_are_joined_too() -> None:
    # TensorBoard writes the counters as the steps of the tags, and not as tags
    table = Table("run", "test")
    for r in range(6):
        table.add({"step": r} | SAMPLES | ROLLOUT)
        for u in (2 * r, 2 * r + 1):
            table.add({"step": u} | TRAIN | {"train/entropy_loss": float(u)})
    run = interpret(table)
    assert run.series["entropy/mean"].steps.tolist() == list(range(6))
    assert run.series["entropy/mean"].values.tolist() == [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]


def test_the_trainer_s_folder_alone_is_counted_by_updates() -> None:
    run = read_rows([TRAIN | {"train/step": u} for u in range(8)])
    assert run.declared.step_unit == "optimiser"
    assert len(run.series["entropy/mean"]) == 8


def test_evaluations_stand_at_their_rollout() -> None:
    run = vario.read(LOGS / "slime-synthetic.jsonl")
    assert run.series["eval/set/aime/mean"].steps.tolist() == [4, 9]


# meanings


def test_reward_is_the_raw_one() -> None:
    run = vario.read(LOGS / "slime-synthetic.jsonl")
    assert run.series["reward/mean"].key == "rollout/raw_reward"
    assert "rollout/rewards" not in {s.key for s in run.series.values()}


def test_three_kinds_of_kl() -> None:
    run = vario.read(LOGS / "slime-synthetic.jsonl")
    assert run.series["kl/reference"].key == "train/kl_loss"
    assert run.series["kl/update"].key == "train/ppo_kl"
    assert run.series["engine/kl"].key == "rollout/rollout_log_probs - rollout/log_probs"
    assert run.declared.kl_by_design is True


def test_reference_from_the_log_probabilities_without_a_loss() -> None:
    run = logged(
        4, 1, extra={"rollout/log_probs": -0.4, "rollout/ref_log_probs": -0.43, "rollout/rollout_log_probs": -0.39}
    )
    assert run.series["kl/reference"].values == pytest.approx([0.03] * 4)
    assert run.series["engine/kl"].values == pytest.approx([0.01] * 4)


def test_first_update_of_a_rollout_is_averaged_in() -> None:
    raw = [json.loads(line) for line in (LOGS / "slime-synthetic.jsonl").read_text().splitlines()]
    logged_values = {r["train/step"]: r["train/pg_clipfrac"] for r in raw if "train/pg_clipfrac" in r}
    assert logged_values[0] == logged_values[2] == 0.0 < logged_values[1]
    clipped = vario.read(LOGS / "slime-synthetic.jsonl").series["clip/fraction/total"]
    assert clipped.values[0] == pytest.approx(logged_values[1] / 2)


def test_length_is_what_the_policy_wrote() -> None:
    run = vario.read(LOGS / "slime-synthetic.jsonl")
    assert run.series["length/mean"].key == "rollout/response_len/mean"
    assert run.series["length/truncated-share"].key == "rollout/truncated_ratio"
    assert run.series["length/prompt/mean"].values == pytest.approx(142.0, abs=12.0)
    older = read_rows([ROLLOUT | {"rollout/truncated": 0.1, "rollout/step": i} for i in range(4)])
    assert older.series["length/mean"].key == "rollout/response_lengths"
    assert older.series["length/truncated-share"].key == "rollout/truncated"


def test_tied_groups_as_a_share() -> None:
    rows: list[dict[str, object]] = []
    for i in range(5):
        row = SAMPLES | {"rollout/zero_std/count_0.0": 8, "rollout/step": i}
        rows += [row | ({"rollout/zero_std/count_1.0": 4} if i % 2 else {}), ROLLOUT | {"rollout/step": i}]
    assert "signal/zero-variance-share" not in read_rows(rows).series
    share = read_rows(rows, {"rollout_batch_size": 32}).series["signal/zero-variance-share"]
    assert share.values.tolist() == [0.25, 0.375, 0.25, 0.375, 0.25]
    assert "signal/zero-variance-share" not in read_rows(rows, {"rollout_batch_size": 4}).series


def test_dropped_groups_only_for_lack_of_spread() -> None:
    rows = [
        ROLLOUT
        | SAMPLES
        | {
            "rollout/step": i,
            "rollout/dynamic_filter/drop_zero_std_0.0": 5,
            "rollout/dynamic_filter/drop_zero_std_1.0": 2,
            "rollout/dynamic_filter/drop_too_long": 9,
        }
        for i in range(4)
    ]
    run = read_rows(rows)
    assert run.series["signal/groups-dropped"].values.tolist() == [7, 7, 7, 7]
    assert run.declared.reward_filtered is True
    assert run.unmapped == ()
    assert logged(4, 1).declared.reward_filtered is None


def test_mismatch_under_the_sampler_s_own_log_probabilities() -> None:
    gap = {"train/train_rollout_logprob_abs_diff": 0.01}
    rows: list[dict[str, object]] = []
    for r in range(6):
        rows.append(ROLLOUT | {"rollout/step": r})
        rows += [TRAIN | gap | {"train/step": u} for u in (2 * r, 2 * r + 1)]
    assert read_rows(rows).series["engine/logprob-gap/mean"].values == pytest.approx([0.01] * 6)
    mixed = read_rows(rows, {"use_rollout_logprobs": True})
    assert "engine/logprob-gap/mean" not in mixed.series
    assert "drift" in mixed.unsettled["train/train_rollout_logprob_abs_diff"]


def test_evaluation_names_are_told_from_what_stands_beside_them() -> None:
    run = read_rows(
        [
            ROLLOUT
            | {"rollout/step": i, "eval/step": i, "eval/aime-2024": 0.3, "eval/aime-2024-truncated_ratio": 0.2}
            | {"eval/aime-2024-pass@8": 0.7, "eval/aime-2024/response_len/mean": 900.0}
            for i in range(4)
        ]
    )
    assert run.series["eval/score/mean"].values.tolist() == [0.3] * 4
    assert [n for n in run.series if n.startswith("eval/set/")] == ["eval/set/aime-2024/mean"]
    assert run.unmapped == ()


def test_critic_and_repetition() -> None:
    run = vario.read(LOGS / "slime-ppo-synthetic.jsonl")
    assert run.series["loss/value"].key == "train/critic-value_loss"
    assert run.series["value/clip-fraction"].key == "train/critic-value_clipfrac"
    assert run.series["gradient/norm"].key == "train/grad_norm"
    assert "text/repetition-share" not in run.series
    assert run.declared.group_centred is False


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"advantage_estimator": "gspo"}, "gspo"),
        ({"advantage_estimator": "reinforce_plus_plus"}, "reinforce++"),
        ({"advantage_estimator": "reinforce_plus_plus_baseline"}, "reinforce++-baseline"),
        ({"advantage_estimator": "on_policy_distillation"}, "on-policy-distillation"),
        ({}, "grpo"),
    ],
)
def test_algorithm(config: dict[str, str], expected: str) -> None:
    assert DIALECT.algorithm(frozenset(ROLLOUT), dict(config)) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"use_kl_loss": True, "kl_loss_coef": 0.0}, True),
        ({"use_kl_loss": False, "kl_coef": 0.0}, False),
        ({"use_kl_loss": False, "kl_coef": 0.01}, True),
        ({"use_kl_loss": False}, None),
        ({}, None),
    ],
)
def test_kl_by_design(config: dict[str, object], expected: bool | None) -> None:
    assert logged(4, 1, config=config).declared.kl_by_design is expected


def test_declared_and_knobs() -> None:
    config = {
        "rollout_batch_size": 32,
        "n_samples_per_prompt": 8,
        "global_batch_size": 128,
        "rollout_max_response_len": 4096,
        "advantage_estimator": "grpo",
        "use_kl_loss": False,
        "kl_coef": 0.0,
        "kl_loss_coef": 0.01,
        "eps_clip_high": 0.28,
    }
    run = logged(6, 2, config=config)
    declared = run.declared
    assert (declared.max_length, declared.group_size, declared.batch_completions) == (4096.0, 8.0, 256.0)
    assert declared.group_centred is True
    assert run.knobs["kl-coef"].current == 0.0  # the coefficient has no effect while the loss is off
    assert (run.knobs["clip-high"].key, run.knobs["clip-high"].current) == ("eps_clip_high", 0.28)
    assert run.knobs["temperature"].is_default
    assert logged(4, 1, config={"kl_coef": 0.05}).knobs["kl-coef"].key == "kl_coef"
    plain = logged(4, 1, config={"advantage_estimator": "grpo", "rewards_normalization": False})
    assert plain.declared.group_centred is False


def test_missing_metrics_say_how_they_are_had() -> None:
    missing = logged(4, 1).missing()
    assert "--use-kl-loss" in missing["kl/reference"]
    assert "clip/fraction/total" not in missing


def test_loops_are_read_once_one_was_counted() -> None:
    """Only answers above 10 000 characters are looked at: 0 throughout would pass short loops for none."""
    rows = [ROLLOUT | {"rollout/step": i, "rollout/repetition_frac": 0.1 * (i > 2)} for i in range(6)]
    assert read_rows(rows).series["text/looping-share"].key == "rollout/repetition_frac"
    silent = read_rows([row | {"rollout/repetition_frac": 0.0} for row in rows])
    assert "text/looping-share" not in silent.series
    assert "10 000 characters" in silent.ignored["rollout/repetition_frac"]
