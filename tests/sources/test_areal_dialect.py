"""What AReaL's keys mean, with and without the decoupled loss, and across its layouts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

import vario
from tests.conftest import ROOT
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import areal
from vario.sources.rows import Table

LOGS = ROOT / "tests" / "sources" / "logs"
B, U = "ppo_actor/", "ppo_actor/update/"
ROW = {f"{B}task_reward/avg": 0.5, f"{U}importance_weight/avg": 1.01, f"{U}importance_weight/min": 0.7, f"{U}entropy/avg": 0.4, f"{B}seq_len/avg": 400.0, f"{B}prompt_len/avg": 100.0}  # fmt: skip
CONFIG = {
    "actor": {"kl_ctl": 0.01, "ppo_n_minibatches": 2, "use_decoupled_loss": True, "recompute_logprob": True, "reward_norm": {"mean_level": "group", "std_level": "group"}, "optimizer": {"lr": 1e-5}},
    "ref": {"path": "model"},
    "rollout": {"max_head_offpolicyness": 2},
    "gconfig": {"n_samples": 8, "max_new_tokens": 1024},
    "train_dataset": {"batch_size": 16},
}  # fmt: skip


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for i in range(n):
        table.add({"_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def configured(name: str, config: Mapping[str, object]) -> Run:
    table = Table("run", "test")
    source = vario.read(LOGS / name)
    assert source.framework == "areal"
    for line in (LOGS / name).read_text().splitlines():
        table.add(json.loads(line))
    table.config.update(config)
    return interpret(table)


@pytest.mark.parametrize(
    ("name", "algorithm", "version"),
    [
        ("areal-synthetic.jsonl", "grpo", ">=1.0"),
        ("areal-ppo-synthetic.jsonl", "ppo", ">=1.0"),
        ("areal-0.3-synthetic.jsonl", "grpo", "<=0.4"),
        ("areal-dpo-synthetic.jsonl", "dpo", None),
    ],
)
def test_every_key_is_known(name: str, algorithm: str, version: str | None) -> None:
    run = vario.read(LOGS / name)
    assert (run.framework, run.algorithm, run.framework_version) == ("areal", algorithm, version)
    assert run.unmapped == ()
    assert run.warnings == ()
    assert run.events == ()


def test_three_rewards_are_kept_apart() -> None:
    run = vario.read(LOGS / "areal-synthetic.jsonl")
    assert run.series["reward/mean"].key == "rollout/reward"
    assert run.series["reward/kept/mean"].key == "ppo_actor/task_reward/avg"
    assert run.series["eval/score/mean"].key == "eval-rollout/reward"
    assert run.series["eval/score/mean"].steps.tolist() == [4, 9, 14]
    assert run.declared.reward_filtered is False
    alone = made(ROW)
    assert alone.series["reward/mean"].key == "ppo_actor/task_reward/avg"
    assert "reward/kept/mean" not in alone.series
    assert alone.declared.reward_filtered is None, "a filter is an argument in code: nothing tells"
    assert "ppo_actor/final_reward/avg" not in {s.key for s in run.series.values()}, "spread over tokens"


@pytest.mark.parametrize("key", ["ppo/actor/task_reward", "ppo_actor/task_reward/avg", "grpo_actor/task_reward/avg"])
def test_spellings_of_the_reward(key: str) -> None:
    run = made({key: 0.25, "ppo_actor/no_eos_ratio": 0.25})
    assert run.framework == "areal"
    assert run.series["reward/mean"].values[0] == 0.25
    assert run.series["length/truncated-share"].values[0] == 0.25


def test_lengths_without_the_prompt() -> None:
    run = made(ROW)
    assert run.series["length/mean"].values.tolist() == [300.0] * 12
    assert run.series["length/mean"].key == f"{B}seq_len/avg"
    alone = made({k: v for k, v in ROW.items() if "prompt_len" not in k})
    assert "length/mean" not in alone.series
    assert "prompt" in alone.unsettled[f"{B}seq_len/avg"]


def cut(
    share: float,
    *,
    longest: float | None = None,
    count: float | None = None,
    config: Mapping[str, object] | None = None,
) -> float:
    row = ROW | {f"{B}no_eos_ratios/avg": share}
    row |= {} if longest is None else {f"{B}seq_len/max": longest}
    row |= {} if count is None else {f"{B}n_seqs": count}
    return float(made(row, config).series["length/truncated-share"].values[-1])


def test_the_longest_sequence_alone_is_no_cut() -> None:
    assert cut(1 / 16, count=16) == 0.0
    assert cut(3 / 16, count=16) == 3 / 16
    assert cut(0.25) == 0.25, "nothing is known against it"


def test_sequences_below_every_limit_were_not_cut() -> None:
    assert cut(0.25, longest=900, config={"gconfig": {"max_new_tokens": 1024}}) == 0.0
    assert cut(0.25, longest=1100, config={"gconfig": {"max_new_tokens": 1024}}) == 0.25
    assert cut(0.25, longest=900, config={"gconfig": {"max_new_tokens": 1024, "max_tokens": 800}}) == 0.25
    assert (
        cut(0.25, longest=900, config={"sglang": {"context_length": 800}, "gconfig": {"max_new_tokens": 1024}}) == 0.25
    )
    assert cut(0.25, longest=900, config={"vllm": {"max_model_len": 2048}}) == 0.25, "the cap itself is not known"


def test_cuts_of_the_log() -> None:
    share = vario.read(LOGS / "areal-synthetic.jsonl").series["length/truncated-share"].values
    assert share[:8].tolist() == [0.0] * 8, "one of 64: the longest"
    np.testing.assert_allclose(share[8:], 5 / 64, rtol=1e-3)


def test_rejected_tokens_are_taken_out_of_the_mean_weight() -> None:
    run = vario.read(LOGS / "areal-synthetic.jsonl")
    weight = run.series["importance-weight/mean"]
    assert weight.key == f"{U}importance_weight/avg"
    np.testing.assert_allclose(weight.values, 1.0, atol=0.005)
    assert "importance-weight/min" not in run.series, "0 stands for a rejected token"
    assert run.series["importance-weight/max"].values[0] == 1.6
    np.testing.assert_allclose(run.series["behaviour-weight/capped-share"].values, 0.03, atol=0.015)
    counts = {f"{U}n_valid_tokens": 100.0, f"{U}unclipped_behave_tokens": 80.0}
    assert made(ROW | counts).series["importance-weight/mean"].values[0] == 1.01, (
        "no token was masked: the smallest is 0.7"
    )
    masked = ROW | counts | {f"{U}importance_weight/avg": 0.8, f"{U}importance_weight/min": 0.0}
    assert made(masked).series["importance-weight/mean"].values[0] == pytest.approx(1.0)


BEHAVIOUR = {f"{U}behave_imp_weight/avg": 0.98, f"{U}behave_approx_kl/avg": -0.002}


def test_behaviour_weight_needs_the_decoupled_loss() -> None:
    run = made(ROW | BEHAVIOUR, {"actor": {"use_decoupled_loss": True}})
    assert run.series["behaviour-weight/mean"].values[0] == 0.98
    assert run.series["engine/kl"].values[0] == 0.002, "new minus old is minus the divergence"
    off = made(ROW | BEHAVIOUR, {"actor": {"use_decoupled_loss": False}})
    assert not {"behaviour-weight/mean", "engine/kl"} & off.series.keys()
    assert "use_decoupled_loss" in off.unsettled[f"{U}behave_imp_weight/avg"]
    fixed = made(ROW | {f"{U}behave_imp_weight/avg": 1.0, f"{U}behave_approx_kl/avg": 0.0})
    assert not {"behaviour-weight/mean", "engine/kl"} & fixed.series.keys()


@pytest.mark.parametrize(
    ("decoupled", "recompute", "timer", "expected"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (False, False, False, True),
        (False, True, True, False),
        (None, None, False, True),
        (None, None, True, None),
        (None, False, True, True),
    ],
)
def test_when_old_log_probabilities_are_the_samplers(
    decoupled: bool | None, recompute: bool | None, timer: bool, expected: bool | None
) -> None:
    key = f"{U}compute_logp/kl_div_dual/avg"
    row = ROW | {key: 0.003, "timeperf/train_step": 4.0} | ({"timeperf/recompute_logp": 1.0} if timer else {})
    settings = {"use_decoupled_loss": decoupled, "recompute_logprob": recompute}
    run = made(row, {"actor": {k: v for k, v in settings.items() if v is not None}})
    assert ("engine/kl" in run.series) is (expected is True)
    assert (key in run.unsettled) is (expected is not True)
    if expected is None:
        assert "not known" in run.unsettled[key]


def test_update_divergence_is_minus_the_log_ratio() -> None:
    run = made(ROW | {f"{U}approx_kl/avg": -0.01})
    assert run.series["kl/update"].values[0] == 0.01
    assert "kl/reference" not in run.series


PENALTY = {f"{B}kl_rewards/avg": -0.002}


def test_reference_divergence_from_the_penalty() -> None:
    run = made(ROW | PENALTY, CONFIG)
    np.testing.assert_allclose(run.series["kl/reference"].values, 0.2)
    assert run.declared.kl_by_design is True
    assert made(ROW | PENALTY | {"timeperf/ref_logp": 1.0}, {"actor": {"kl_ctl": 0.1}}).series["kl/reference"].values[
        0
    ] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("row", "config", "why", "by_design"),
    [
        (PENALTY, {}, "not known", None),
        (PENALTY, {"actor": {"kl_ctl": 0.1}}, "no reference", False),
        ({f"{B}kl_rewards/avg": 0.0}, {"actor": {"kl_ctl": 0.0}}, "kl_ctl is 0", False),
    ],
)
def test_no_divergence_without_coefficient_or_reference(
    row: Mapping[str, object], config: Mapping[str, object], why: str, by_design: bool | None
) -> None:
    run = made(ROW | row, config)
    assert "kl/reference" not in run.series
    assert why in run.unsettled[f"{B}kl_rewards/avg"]
    assert run.declared.kl_by_design is by_design


def test_sapo_does_not_clip() -> None:
    clip = {f"{U}clip_ratio/avg": 0.0}
    assert "clip/fraction/total" in made(ROW | clip).series
    sapo = made(ROW | clip | {f"{U}sapo_soft_gate/avg": 2.0})
    assert sapo.algorithm == "sapo"
    assert "clip/fraction/total" not in sapo.series
    assert "clip/fraction/low" not in made(ROW | {f"{U}dual_clip_ratio/avg": 0.1}).series, "dual clip is no lower side"


def test_rollout_timer_is_a_wait_when_sampling_runs_beside() -> None:
    row = ROW | {"timeperf/rollout": 5.0, "timeperf/train_step": 8.0, "timeperf/save": 1.0}
    sync = made(row, {"rollout": {"max_head_offpolicyness": 0}})
    assert sync.series["systems/rollout-time"].values[0] == 5.0
    late = made(row, {"rollout": {"max_head_offpolicyness": 4}})
    assert late.series["systems/wait-time"].values[0] == 5.0
    assert "systems/rollout-time" not in late.series
    stale = made(row | {f"{U}version_stats/sample_staleness_theta_max": 2.0})
    assert "systems/wait-time" in stale.series
    unknown = made(row)
    assert "timeperf/rollout" in unknown.unsettled
    assert unknown.series["systems/step-time"].values[0] == 14.0, "the phases follow each other"


def test_staleness_is_that_of_the_current_policy() -> None:
    run = vario.read(LOGS / "areal-synthetic.jsonl")
    assert run.series["staleness/mean"].key.endswith("sample_staleness_theta_avg")
    assert set(run.series["staleness/max"].values) == {3.0}


def test_steps_and_groups() -> None:
    run = configured("areal-synthetic.jsonl", CONFIG)
    d = run.declared
    assert (d.step_unit, d.updates_per_rollout, d.max_length, d.group_size, d.batch_completions, d.group_centred) == (
        "rollout",
        2.0,
        1024.0,
        8.0,
        128.0,
        True,
    )
    assert vario.read(LOGS / "areal-0.3-synthetic.jsonl").declared.step_unit == "optimiser", "every minibatch was a row"
    assert made(ROW).declared.group_centred is None
    batch = made(ROW, {"actor": {"adv_norm": {"mean_level": "batch"}}})
    assert batch.declared.group_centred is False


def test_knobs() -> None:
    run = made(ROW, CONFIG)
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current) == ("actor.kl_ctl", 0.01)
    assert (run.knobs["staleness-bound"].key, run.knobs["staleness-bound"].current) == (
        "rollout.max_head_offpolicyness",
        2,
    )
    assert (run.knobs["decoupled-loss"].current, run.knobs["recompute-logprob"].current) == (True, True)
    assert run.knobs["deterministic-kernels"].key == "actor.megatron.use_deterministic_algorithms"
    assert (run.knobs["minibatches"].key, run.knobs["minibatches"].current) == ("actor.ppo_n_minibatches", 2)
    assert run.knobs["temperature"].is_default
    assert "value-clip" not in run.knobs
    assert vario.read(LOGS / "areal-ppo-synthetic.jsonl").knobs["value-clip"].key == "critic.eps_clip"


@pytest.mark.parametrize(
    ("actor", "key", "current", "version"),
    [
        ({"behave_imp_weight_cap": 5.0}, "actor.behave_imp_weight_cap", 5.0, "<=1.0"),
        ({"rejection_sampling": {"upper": 3.0, "level": "token"}}, "actor.rejection_sampling.upper", 3.0, ">=1.0"),
        ({"rejection_sampling": None}, "actor.rejection_sampling.upper", None, ">=1.0"),
    ],
)
def test_the_cap_changed_its_name(actor: Mapping[str, object], key: str, current: float | None, version: str) -> None:
    run = made({f"{B}task_reward/avg": 0.5}, {"actor": actor, "rollout": {"max_head_offpolicyness": 1}})
    assert (run.knobs["behaviour-weight-cap"].key, run.knobs["behaviour-weight-cap"].current) == (key, current)
    assert run.framework_version == version
    assert key.rsplit(".upper", 1)[0] in run.enable["behaviour-weight/mean"]


def test_old_logs_have_the_old_cap() -> None:
    assert (
        vario.read(LOGS / "areal-0.3-synthetic.jsonl").knobs["behaviour-weight-cap"].key
        == "actor.behave_imp_weight_cap"
    )
    assert (
        vario.read(LOGS / "areal-synthetic.jsonl").knobs["behaviour-weight-cap"].key == "actor.rejection_sampling.upper"
    )


def test_stated_version() -> None:
    assert made(ROW, {"version_info": {"version": "0.5.2-abc"}}).framework_version == "0.5"


def test_preference_runs() -> None:
    run = vario.read(LOGS / "areal-dpo-synthetic.jsonl")
    assert run.declared.step_unit == "optimiser"
    assert {
        "preference/margin",
        "preference/accuracy",
        "preference/chosen-reward",
        "preference/rejected-reward",
        "eval/preference/margin",
    } <= run.series.keys()
    assert "kl-coef" not in run.knobs


def test_recognised_by_configuration_alone() -> None:
    for config in (
        {"rollout.max_head_offpolicyness": 0},
        {"actor.ppo_n_minibatches": 4},
        {"gconfig.n_samples": 1, "gconfig.max_new_tokens": 9},
    ):
        assert areal.recognises(frozenset({"loss"}), config)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "keys",
    [{"actor/pg_loss", "critic/score/mean"}, {"train/gen_kl_error"}, {"policy/final_loss"}, {"train/pg_clipfrac", "rollout/raw_reward"}, {"rollout/reward_std", "rollout/reward_mean"}, {"objective/rlhf_reward"}, {"reward", "frac_reward_zero_std"}, {"val-core/x/acc/mean@1"}],
)  # fmt: skip
def test_others_are_not_taken(keys: set[str]) -> None:
    assert not areal.recognises(frozenset(keys), {"actor_rollout_ref.actor.optim.lr": 1.0, "algo.kl.init_coef": 0.1})


def test_a_figure_of_the_users_own_stays_unmapped() -> None:
    run = made(ROW | {f"{B}tool_calls/avg": 2.0})
    assert run.unmapped == (f"{B}tool_calls/avg",)


def test_turns_of_an_episode() -> None:
    run = made(ROW | {"rollout/reward": 0.5, "rollout/num_turns": 2.5, "eval-rollout/num_turns": 3.0})
    assert run.series["turns/mean"].values == pytest.approx(2.5)
    assert "held-out" in run.ignored["eval-rollout/num_turns"]


@pytest.mark.parametrize(
    "key",
    ["ppo_actor/update/num_micro_batches", "ppo_actor/update/tree_token_ratio", "ppo_critic/num_micro_batches",
     "ckpt/async_save_queue_depth", "timeperf/load_bcast", "sft-eval/prompt_tokens", "sft/vocab_max_logits/avg",
     "dpo/update_successful"],
)  # fmt: skip
def test_how_a_batch_was_packed_carries_no_metric(key: str) -> None:
    run = made(ROW | {key: 3.0})
    assert run.ignored[key]
    assert not any(s.key == key for s in run.series.values())


def test_extremes_of_advantages() -> None:
    run = vario.read(LOGS / "areal-synthetic.jsonl")
    assert run.series["advantage/max"].key == "ppo_actor/advantages/max"
    assert run.series["advantage/min"].key == "ppo_actor/advantages/min"
