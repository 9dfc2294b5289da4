"""What OpenRLHF's keys mean, in W&B, on the console, and under old and new arguments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import vario
from tests.conftest import ROOT
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import openrlhf
from vario.sources.dialects.base import Context
from vario.sources.rows import Table

LOGS = ROOT / "tests" / "sources" / "logs"
ROW = {"policy_loss": 0.01, "actor_lr": 1e-6, "reward": 0.5, "kl": 0.01, "response_length": 200.0}


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for i in range(1, n + 1):
        table.add({"global_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


@pytest.mark.parametrize(
    ("name", "algorithm", "version"),
    [
        ("openrlhf-synthetic.jsonl", "unknown", ">=0.11"),
        ("openrlhf-ppo-console-synthetic.jsonl", "ppo", ">=0.9"),
        ("openrlhf-dpo-synthetic.jsonl", "dpo", None),
        ("openrlhf-0.6-bar-synthetic.jsonl", "ppo", "<=0.6"),
    ],
)
def test_every_key_is_known(name: str, algorithm: str, version: str | None) -> None:
    run = vario.read(LOGS / name)
    assert (run.framework, run.algorithm, run.framework_version) == ("openrlhf", algorithm, version)
    assert run.unmapped == ()
    assert run.warnings == ()


def test_kinds_of_divergence() -> None:
    run = vario.read(LOGS / "openrlhf-synthetic.jsonl")
    assert {m: run.series[m].key for m in ("kl/reference", "kl/update", "engine/kl")} == {
        "kl/reference": "train/kl",
        "kl/update": "train/ppo_kl",
        "engine/kl": "train/vllm_kl",
    }


def test_zero_divergence_means_no_reference() -> None:
    run = made(ROW | {"kl": 0.0, "logprobs_diff": 0.0})
    assert "kl/reference" not in run.series
    assert "no reference" in run.unsettled["kl"]
    assert run.declared.kl_by_design is False
    some = made(ROW | {"kl": -0.002})
    assert some.series["kl/reference"].values[0] == -0.002, "k1 may be negative"
    assert some.declared.kl_by_design is True


def test_two_spreads() -> None:
    run = vario.read(LOGS / "openrlhf-synthetic.jsonl")
    assert run.series["reward/std/within-group"].key == "train/group_reward_std"
    assert run.series["reward/std/batch"].key == "train/rollout/reward_std"


def test_the_whole_batch_goes_before_the_split_one() -> None:
    run = vario.read(LOGS / "openrlhf-synthetic.jsonl")
    assert {m: run.series[m].key for m in ("reward/mean", "length/mean", "length/truncated-share")} == {
        "reward/mean": "train/rollout/reward_mean",
        "length/mean": "train/rollout/response_length_mean",
        "length/truncated-share": "train/rollout/truncated_rate",
    }
    assert "train/return" not in {s.key for s in run.series.values()}, "about 0 with a baseline"
    assert run.series["reward/component/score/mean"].key == "train/score"


def test_truncation_of_the_ratio_and_of_the_length() -> None:
    row = ROW | {"ppo_clip_ratio": 0.01, "response_clip_ratio": 0.3}
    run = made(row)
    assert run.series["clip/fraction/total"].values[0] == 0.01
    assert run.series["length/truncated-share"].values[0] == 0.3
    assert made(row | {"truncated": 0.1}).series["length/truncated-share"].values[0] == 0.1, "the engine's own word"


def test_entropy_loss_is_the_entropy() -> None:
    assert made(ROW | {"entropy_loss": 0.7}).series["entropy/mean"].values[0] == 0.7


def test_held_out_sets() -> None:
    run = vario.read(LOGS / "openrlhf-synthetic.jsonl")
    assert run.series["eval/score/mean"].key == "eval/eval_math_pass1"
    assert run.series["eval/score/mean"].steps.tolist() == [10, 20, 30], "counted by eval/global_step, not by W&B's own"
    two = vario.read(LOGS / "openrlhf-ppo-console-synthetic.jsonl")
    assert {"eval/set/aime/mean", "eval/set/math/mean"} <= two.series.keys()
    assert "eval/score/mean" not in two.series
    assert "eval/set/math_pass4/mean" not in two.series, "best of four is no mean"


def test_generation_beside_training_is_no_part_of_the_step() -> None:
    assert "systems/rollout-time" in vario.read(LOGS / "openrlhf-synthetic.jsonl").series, "the parts add up"
    beside = vario.read(LOGS / "openrlhf-ppo-console-synthetic.jsonl")
    assert "systems/rollout-time" not in beside.series
    assert beside.series["systems/step-time"].key == "timing/step_total"
    assert "timing/generation" in made(ROW | {"timing/generation": 3.0}).unsettled
    stated = made(ROW | {"timing/generation": 3.0}, {"train": {"async_enable": False}})
    assert stated.series["systems/rollout-time"].values[0] == 3.0
    assert (
        "systems/rollout-time" not in made(ROW | {"timing/generation": 3.0}, {"train": {"async_enable": True}}).series
    )


def test_pass_rate_is_no_share_but_proof_of_filtering() -> None:
    run = vario.read(LOGS / "openrlhf-synthetic.jsonl")
    assert "train/dynamic_filtering_pass_rate" not in {s.key for s in run.series.values()}
    assert run.declared.reward_filtered is True
    assert made(ROW).declared.reward_filtered is None
    assert made(ROW, {"algo": {"dynamic_filtering_enable": False}}).declared.reward_filtered is False


DOTTED = {
    "algo": {"kl": {"init_coef": 0.02}, "advantage": {"estimator": "group_norm"}},
    "rollout": {"batch_size": 64, "n_samples_per_prompt": 8, "max_new_tokens": 900},
    "train": {"batch_size": 128, "max_epochs": 2},
    "actor": {"eps_clip": 0.3, "adam": {"lr": 5e-7}},
}
FLAT = {"init_kl_coef": 0.02, "advantage_estimator": "group_norm", "rollout_batch_size": 64, "n_samples_per_prompt": 8, "generate_max_len": 900, "train_batch_size": 128, "max_epochs": 2, "eps_clip": 0.3, "actor_learning_rate": 5e-7}  # fmt: skip
NAMESPACES = {
    "algo": "Namespace(kl=Namespace(init_coef=0.02), advantage=Namespace(estimator='group_norm', is_correction_threshold=[0.5, 5.0]))",
    "rollout": "Namespace(batch_size=64, n_samples_per_prompt=8, max_new_tokens=900)",
    "train": "Namespace(batch_size=128, max_epochs=2)",
    "actor": "Namespace(eps_clip=0.3, adam=Namespace(lr=5e-07))",
}


@pytest.mark.parametrize(
    ("config", "dotted"), [(DOTTED, True), (NAMESPACES, True), (FLAT, False)]
)
def test_arguments_in_each_spelling(config: Mapping[str, object], dotted: bool) -> None:
    run = made({"my_reward": 1.0}, config)
    assert (run.framework, run.algorithm) == ("openrlhf", "grpo"), "by the arguments alone"
    d = run.declared
    assert (
        d.updates_per_rollout,
        d.max_length,
        d.kl_by_design,
        d.group_size,
        d.batch_completions,
        d.group_centred,
    ) == (8.0, 900.0, True, 8.0, 512.0, True)
    assert (d.step_unit, run.framework_version) == ("rollout", ">=0.10" if dotted else "<=0.9")
    expected = {"kl-coef": ("algo.kl.init_coef", "init_kl_coef", 0.02), "learning-rate": ("actor.adam.lr", "actor_learning_rate", 5e-7), "clip-low": ("actor.eps_clip", "eps_clip", 0.3), "entropy-bonus": ("actor.entropy_coef", "entropy_loss_coef", None)}  # fmt: skip
    for knob, (new, old, value) in expected.items():
        assert (run.knobs[knob].key, run.knobs[knob].current) == (new if dotted else old, value)
    assert run.knobs["entropy-bonus"].is_default
    assert not run.knobs["kl-coef"].is_default


def test_flat_arguments_are_recognised_and_named() -> None:
    assert openrlhf.recognises(frozenset({"my_reward"}), FLAT)  # type: ignore[arg-type]
    context = Context(
        frozenset(ROW),
        FLAT,
        openrlhf.algorithm(frozenset(ROW), FLAT),
        {},
        *openrlhf.versions(Context(frozenset(ROW), FLAT, "", {})),
    )  # type: ignore[arg-type]
    assert context.algorithm == "grpo"
    assert openrlhf.declare(context, {}).updates_per_rollout == 8.0
    knobs = openrlhf.knobs(context)
    assert (knobs["kl-coef"].key, knobs["kl-coef"].current, knobs["kl-coef"].is_default) == (
        "init_kl_coef",
        0.02,
        False,
    )
    assert (knobs["entropy-bonus"].key, knobs["entropy-bonus"].is_default) == ("entropy_loss_coef", True)


def test_hostile_text_in_the_arguments_is_only_text() -> None:
    config = {
        "algo": "Namespace(kl=Namespace(init_coef=__import__('os').getpid()), x=open('/etc/passwd'))",
        "train": "Namespace(" * 5000,
    }
    run = made(ROW, config)
    assert run.knobs["kl-coef"].current == 0.01
    assert run.knobs["kl-coef"].is_default


@pytest.mark.parametrize(
    ("estimator", "name", "centred"),
    [("gae", "ppo", False), ("reinforce", "reinforce++", False), ("rloo", "rloo", True), ("reinforce_baseline", "reinforce++-baseline", True), ("dr_grpo", "dr-grpo", True)],
)  # fmt: skip
def test_estimators(estimator: str, name: str, centred: bool) -> None:
    run = made(ROW, {"algo": {"advantage": {"estimator": estimator}}})
    assert (run.algorithm, run.declared.group_centred) == (name, centred)
    assert ("value-clip" in run.knobs) is (name == "ppo")


def test_keys_do_not_tell_the_estimator() -> None:
    run = made(ROW)
    assert run.algorithm == "unknown"
    assert run.declared.group_centred is None


def test_pairs() -> None:
    run = vario.read(LOGS / "openrlhf-dpo-synthetic.jsonl")
    chosen, rejected = run.series["preference/chosen-reward"], run.series["preference/rejected-reward"]
    np.testing.assert_allclose(run.series["preference/margin"].values, chosen.values - rejected.values)
    assert run.series["preference/accuracy"].key == "train/acc_mean"
    assert run.series["eval/preference/accuracy"].steps.tolist() == [24]
    assert run.declared.step_unit == "optimiser"
    assert run.knobs["preference-beta"].key == "model.beta"


@pytest.mark.parametrize(
    "keys",
    [{"actor/pg_loss", "actor/ppo_kl"}, {"train/gen_kl_error", "train/loss"}, {"policy/final_loss"}, {"pg_loss", "pg_clipfrac", "ppo_kl", "rollout/raw_reward"}, {"reward", "reward_std", "kl", "completion_length"}, {"policy_loss", "kl", "reward"}, {"ppo_actor/task_reward/avg"}, {"losses/policy_loss", "kl_ctl_value"}],
)  # fmt: skip
def test_others_are_not_taken(keys: set[str]) -> None:
    assert not openrlhf.recognises(
        frozenset(keys), {"init_kl_coef": 0.2, "n_samples_per_prompt": 8, "advantage_estimator": "grpo"}
    )


DYNAMIC = {"train": {"dynamic_batch_enable": True}, "algo": {"kl": {"init_coef": 0.01, "use_loss": True}}}


@pytest.mark.parametrize("key", ["entropy_loss", "ent_loss"])
def test_dynamic_batches_divide_losses(key: str) -> None:
    """From 0.10.4 on by the number of micro-batches in a step, which is not logged."""
    row = ROW | {key: 0.1, "logprobs_diff": 0.012}
    recent = made(row | {"is_filter_ratio": 0.0}, DYNAMIC)
    assert "entropy/mean" not in recent.series
    assert "micro-batches" in recent.unsettled[key]
    assert recent.series["kl/reference"].values == pytest.approx(0.012), "a plain mean over tokens, not the loss's"
    open_version = made(row, DYNAMIC)
    assert "entropy/mean" not in open_version.series, "0.10.3 and before were not affected, but which it is is not known"
    for config in (DYNAMIC | {"train": {"dynamic_batch_enable": False}}, {"use_dynamic_batch": True, "actor_learning_rate": 1e-6}, {}):
        assert made(row, config).series["entropy/mean"].values == pytest.approx(0.1)


def test_dynamic_batches_leave_the_divergence_of_the_reward_alone() -> None:
    """Outside the loss it is averaged over samples."""
    config = DYNAMIC | {"algo": {"kl": {"init_coef": 0.01, "use_loss": False}}}
    run = made(ROW | {"kl": 0.01, "is_filter_ratio": 0.0}, config)
    assert run.series["kl/reference"].values == pytest.approx(0.01)
    assert "kl" in made(ROW | {"is_filter_ratio": 0.0}, DYNAMIC).unsettled
