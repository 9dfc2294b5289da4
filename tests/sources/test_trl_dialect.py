"""What TRL's keys mean, version by version (shared/frameworks/trl.md, sections 2.2 and 10)."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.conftest import GOLDEN
from vario.run import Run
from vario.sources import interpret
from vario.sources.rows import Table
from vario.sources.settings import is_trainer_config, read_training_args

MODERN = {"reward": 0.5, "reward_std": 0.2, "frac_reward_zero_std": 0.25, "completions/mean_length": 80.0, "num_tokens": 9.0}
OLD = {"reward": 0.5, "reward_std": 0.2, "completion_length": 80.0, "kl": 0.01}
ARGS = {"per_device_train_batch_size": 8, "num_generations": 8, "gradient_accumulation_steps": 1}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows, start=1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    return run_of([row] * n, config)


# reward_std by version


def spread(run: Run) -> str | None:
    names = [n for n in run.series if n.startswith("reward/std/")]
    assert len(names) <= 1
    return names[0] if names else None


def test_logs_with_completion_length_have_the_spread_within_groups() -> None:
    run = made(OLD)
    assert (run.framework, run.algorithm, run.framework_version) == ("trl", "grpo", "<=0.16")
    assert spread(run) == "reward/std/within-group"


def test_without_zero_std_share_it_is_before_018() -> None:
    row = {k: v for k, v in MODERN.items() if k != "frac_reward_zero_std"}
    run = made(row)
    assert run.framework_version == "0.17"
    assert spread(run) == "reward/std/within-group"


@pytest.mark.parametrize(
    ("version", "scale", "expected"),
    [
        ("0.21.0", None, "within-group"),
        ("0.22.0", "group", "within-group"),
        ("0.22.0", True, "within-group"),
        ("0.22.0", "none", "within-group"),
        ("0.26.2", False, "within-group"),
        ("0.22.0", "batch", "batch"),
        ("0.26.2", "batch", "batch"),
        ("0.27.0", "group", "batch"),
        ("1.0.0", "none", "batch"),
        ("1.16.0", None, "batch"),
        ("1.16.0", "batch", "batch"),
    ],
)
def test_spread_by_version_and_scaling(version: str, scale: object, expected: str) -> None:
    config = {"trl_version": version} | ({} if scale is None else {"scale_rewards": scale})
    run = made(MODERN, config)
    assert spread(run) == f"reward/std/{expected}"
    assert "reward_std" not in run.unsettled


@pytest.mark.parametrize("config", [{}, {"trl_version": "0.24.0"}, {"trl_version": "soon"}, {"scale_rewards": "group"}, {"max_prompt_length": 5}])
def test_unknown_version_gives_no_spread_and_says_why(config: Mapping[str, object]) -> None:
    run = made(MODERN, config)
    assert spread(run) is None
    assert "reward_std" in run.unsettled
    assert "0.27" in run.unsettled["reward_std"]
    assert "reward_std" not in run.unmapped


@pytest.mark.parametrize("key", ["multi_objective_aggregation", "off_policy_mask_threshold", "use_adaptive_entropy", "vespo_k_pos", "vllm_importance_sampling_clip_max"])
def test_settings_that_came_with_027_or_later_settle_it(key: str) -> None:
    assert spread(made(MODERN, {key: None})) == "reward/std/batch"


def test_parquet_of_completions_settles_it(tmp_path: Path) -> None:
    rows = [{"step": i} | MODERN for i in range(1, 13)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    assert spread(vario.read(tmp_path)) is None
    (tmp_path / "completions").mkdir()
    (tmp_path / "completions" / "completions_00012.parquet").write_bytes(b"PAR1")
    run = vario.read(tmp_path)
    assert run.framework_version == ">=0.28"
    assert spread(run) == "reward/std/batch"


def test_contradicting_hints_settle_nothing() -> None:
    run = made(MODERN, {"max_prompt_length": 5, "use_adaptive_entropy": False})
    assert run.framework_version is None
    assert spread(run) is None


# frac_reward_zero_std


def signal(run: Run) -> bool:
    return "signal/zero-variance-share" in run.series


def test_share_of_groups_without_spread() -> None:
    assert signal(made(MODERN))
    assert signal(made(MODERN | {"frac_reward_zero_std": 1.0}, {"scale_rewards": "group"}))
    undecided = made(MODERN | {"frac_reward_zero_std": 0.0})
    assert not signal(undecided)
    assert signal(made(MODERN | {"frac_reward_zero_std": 1.0})), "no spread in the batch leaves none in its groups"
    assert "scale_rewards" in undecided.unsettled["frac_reward_zero_std"]


@pytest.mark.parametrize("config", [{"scale_rewards": "batch"}, {"scale_rewards": "group", "multi_objective_aggregation": "normalize_then_sum"}])
def test_batch_scaling_counts_no_groups(config: Mapping[str, object]) -> None:
    run = made(MODERN, config)
    assert not signal(run)
    assert "batch" in run.unsettled["frac_reward_zero_std"]


@pytest.mark.parametrize(("beta", "expected"), [(None, False), (0.05, False), (0.0, True)])
def test_rloo_counts_penalised_rewards(beta: float | None, expected: bool) -> None:
    config: dict[str, object] = {"normalize_advantages": False} | ({} if beta is None else {"beta": beta})
    run = made(MODERN | {"kl": -0.01}, config)
    assert run.algorithm == "rloo"
    assert signal(run) is expected
    assert spread(run) == "reward/std/batch"
    assert ("kl/reference" in run.series) is not expected
    if not expected:
        assert run.series["kl/reference"].values.min() < 0.0


# kl


def test_kl_absent_or_switched_off() -> None:
    assert made(MODERN, {"beta": 0.0}).declared.kl_by_design is False
    assert made(MODERN | {"entropy": 1.0}).declared.kl_by_design is False, "0.20 or later, and no kl: the default beta is 0"
    assert made(MODERN).declared.kl_by_design is None
    off = made(MODERN | {"kl": 0.0}, {"beta": 0.0})
    assert "kl/reference" not in off.series
    assert "beta is 0" in off.unsettled["kl"]
    on = made(MODERN | {"kl": 0.01}, {"beta": 0.04})
    assert on.declared.kl_by_design is True
    assert "kl/reference" in on.series
    assert made(MODERN | {"kl": 0.01}).declared.kl_by_design is True


def test_async_grpo_measures_kl_to_the_behaviour_policy() -> None:
    row = MODERN | {"kl": 0.01, "ratio": 1.01, "sample/staleness_mean": 1.5, "rollout/inflight": 3, "rewards/acc": 0.5}
    run = made(row)
    assert run.algorithm == "async-grpo"
    assert "kl/reference" not in run.series
    assert {"kl/update", "ratio/mean", "staleness/mean", "reward/component/acc/mean"} <= set(run.series)
    assert spread(run) == "reward/std/within-group"


# which trainer

PAIR = {"rewards/chosen": 0.1, "rewards/rejected": -0.1, "rewards/margins": 0.2, "rewards/accuracies": 0.6, "logps/chosen": -9.0, "logps/rejected": -9.5}
PPO = {"objective/kl": 10.0, "objective/entropy": 99.0, "objective/non_score_reward": -0.5, "objective/rlhf_reward": 1.1, "objective/scores": 1.6,
       "policy/approxkl_avg": 0.002, "policy/clipfrac_avg": 0.006, "loss/policy_avg": 0.001, "val/clipfrac_avg": 0.0,
       "policy/entropy_avg": 0.98, "val/ratio": 0.97, "val/ratio_var": 7e-5, "val/num_eos_tokens": 0, "lr": 2e-6, "episode": 816}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "config", "algorithm"),
    [
        (PAIR, {}, "dpo"),
        ({"eval_rewards/chosen": 1.0, "eval_rewards/margins": 1.0}, {}, "dpo"),
        (PAIR | {"kl": 1.0}, {}, "kto"),
        (PAIR, {"desirable_weight": 1.0}, "kto"),
        (PAIR | {"nll_loss": 1.0, "log_odds_ratio": -1.0, "log_odds_chosen": 1.0}, {}, "orpo"),
        (PAIR | {"nll_loss": 1.0}, {"cpo_alpha": 1.0}, "cpo"),
        (PAIR | {"objective/kl": 1.0, "objective/scores_margin": 1.0}, {}, "online-dpo"),
        (PAIR | {"objective/kl": 1.0}, {}, "online-dpo"),
        (PPO | {"loss/value_avg": 0.15}, {}, "ppo"),
        (PPO, {}, "rloo-legacy"),
        (MODERN, {}, "grpo"),
        (MODERN, {"normalize_advantages": False}, "rloo"),
        (OLD, {}, "grpo"),
    ],
)  # fmt: skip
def test_which_trainer(row: Mapping[str, object], config: Mapping[str, object], algorithm: str) -> None:
    run = made(row, config)
    assert (run.framework, run.algorithm) == ("trl", algorithm)


def test_pairs() -> None:
    run = made(PAIR)
    assert {f"preference/{n}" for n in ("chosen-reward", "rejected-reward", "margin", "accuracy", "chosen-logp", "rejected-logp")} <= set(run.series)
    kto = made(PAIR | {"kl": 3.0})
    assert "kl/reference/sequence" in kto.series, "summed over the sequence, no mean per token"
    assert "kl/reference" not in kto.series


def test_ppo_sums_over_sequences() -> None:
    run = made(PPO | {"loss/value_avg": 0.15})
    assert {"reward/mean": "objective/scores", "reward/penalised/mean": "objective/rlhf_reward", "kl/reference/sequence": "objective/kl",
            "entropy/sequence": "objective/entropy", "kl/update": "policy/approxkl_avg", "value/clip-fraction": "val/clipfrac_avg",
            "loss/value": "loss/value_avg", "ratio/mean": "val/ratio"}.items() <= {n: s.key for n, s in run.series.items()}.items()  # fmt: skip
    assert run.unmapped == ()
    assert run.knobs["kl-coef"].key == "kl_coef"


def test_online_dpo_keeps_sequence_kl() -> None:
    run = made(PAIR | {"objective/kl": -1.0, "objective/scores_margin": 1.0})
    assert "kl/reference/sequence" in run.series
    assert "preference/margin" in run.series


# spelling


def test_prefixes_and_spaces() -> None:
    row = {"train/reward": 0.5, "train/completions / mean_length": 80.0, "train / reward_std": 0.1, "train/rewards / acc / mean": 0.4, "train/frac_reward_zero_std": 0.1}
    table = Table("run", "test")
    for i in range(1, 13):
        table.add({"train/global_step": i, "_step": 40 * i} | row)
    run = interpret(table)
    assert run.last_step == 12, "W&B's _step is inflated by profiling calls"
    assert {"reward/mean", "length/mean", "reward/component/acc/mean", "signal/zero-variance-share"} <= set(run.series)
    assert run.series["length/mean"].key == "train/completions / mean_length", "the trainer's own spelling is kept"


def test_numbers_as_text() -> None:
    """Since transformers 5 the console prints values as strings."""
    run = made({k: f"{v:.4g}" for k, v in MODERN.items()})
    assert run.series["reward/mean"].values[0] == 0.5


@pytest.mark.parametrize("evaluation", [{"eval_reward": 0.6, "eval_loss": 0.1, "eval_rewards/acc/mean": 0.6, "eval_kl": 0.1, "eval_runtime": 3.0}, {"eval/reward": 0.6, "eval/loss": 0.1}])
def test_eval_rows_are_apart(evaluation: Mapping[str, object]) -> None:
    table = Table("run", "test")
    for i in range(1, 41):
        table.add({"step": i, "epoch": 0.1} | MODERN)
        if i % 10 == 0:
            table.add({"step": i, "epoch": 0.1} | dict(evaluation))
    run = interpret(table)
    assert run.series["eval/score/mean"].steps.tolist() == [10, 20, 30, 40]
    assert "eval/loss" in run.series
    assert len(run.series["reward/mean"]) == run.logged_steps.size == 40
    assert run.warnings == ()
    assert run.unmapped == ()


def test_clipped_share_of_the_users_own() -> None:
    run = made(MODERN | {"reward/clipped-share": 0.25})
    assert run.series["reward/clipped-share"].values[0] == 0.25
    assert "log_metric" in run.enable["reward/clipped-share"]


def test_metric_of_the_user_stays_unmapped() -> None:
    run = made(MODERN | {"my_metric": 3.0})
    assert run.unmapped == ("my_metric",)


def test_region_mean_is_the_fraction_clipped() -> None:
    run = made(MODERN | {"clip_ratio/region_mean": 0.1, "clip_ratio/low_mean": 0.04, "clip_ratio/high_mean": 0.06, "clip_ratio/low_min": 0.0, "clip_ratio/high_max": 0.3})
    assert {n: s.key for n, s in run.series.items() if n.startswith("clip/")} == {
        "clip/fraction/total": "clip_ratio/region_mean",
        "clip/fraction/low": "clip_ratio/low_mean",
        "clip/fraction/high": "clip_ratio/high_mean",
        "clip/fraction/high-max": "clip_ratio/high_max",
    }
    assert run.unmapped == ()


def test_terminated_length_zero_means_none_terminated() -> None:
    rows = [MODERN | {"completions/mean_terminated_length": 0.0 if i % 3 == 0 else 70.0} for i in range(30)]
    run = run_of(rows)
    terminated = run.series["length/terminated/mean"]
    assert len(terminated) == 20
    assert terminated.values.min() == 70.0
    assert "length/terminated/mean" not in made(MODERN | {"completions/mean_terminated_length": 0.0}).series


def test_reused_rollouts_have_reward_on_generation_rows_only() -> None:
    loss = {"loss": 0.1, "grad_norm": 0.5, "clip_ratio/region_mean": 0.1}
    run = run_of([loss | (MODERN if i % 4 == 0 else {}) for i in range(80)], ARGS | {"num_iterations": 2, "steps_per_generation": 2})
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 81, 4))
    assert len(run.series["loss/total"]) == run.logged_steps.size == 80
    assert run.declared.updates_per_rollout == 4.0
    assert not vario.diagnose(run).broken


def test_null_is_not_a_number() -> None:
    run = run_of([MODERN | {"rewards/a/mean": None if i % 2 else 1.0} for i in range(20)])
    assert int(np.isnan(run.series["reward/component/a/mean"].values).sum()) == 10


# weights


def weighted(weights: Mapping[str, float], *, noise: float = 0.0, scale: float = 1.0, n: int = 30) -> dict[str, float]:
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(n):
        parts = {k: float(np.float32(rng.uniform() * scale)) for k in weights}
        total = float(np.float32(sum(w * parts[k] for k, w in weights.items()))) + noise * rng.normal()
        rows.append(MODERN | {f"rewards/{k}/mean": v for k, v in parts.items()} | {"reward": total})
    return dict(run_of(rows).declared.component_weights)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_weights_follow_from_the_identity(scale: float) -> None:
    assert weighted({"a": 1.0, "b": 0.25, "truth": 0.0}, scale=scale) == {"a": 1.0, "b": 0.25, "truth": 0.0}
    assert weighted({"a": 2.0, "length/penalty": -0.5}, scale=scale) == {"a": 2.0, "length/penalty": -0.5}


def test_weights_are_not_guessed() -> None:
    assert weighted({"a": 1.0, "b": 0.5}, noise=0.05) == {}
    assert weighted({"a": 1.0, "b": 0.5}, scale=1e-5, noise=1e-5) == {}, "small rewards are explained no better"
    assert weighted({"a": 1.0, "b": 0.5}, n=4) == {}
    assert made(MODERN | {"rewards/a/mean": 0.5}).declared.component_weights == {"a": 1.0}
    assert made(MODERN | {"rewards/a/mean": 0.5, "rewards/b/mean": 0.1}).declared.component_weights == {}, "constants"
    assert made(MODERN).declared.component_weights == {}


def test_weights_of_the_real_runs() -> None:
    found = {p.name: dict(vario.read(p).declared.component_weights) for p in GOLDEN.glob("grpo-*")}
    assert found["grpo-proxy-hack"] == {"correctness": 0.0, "steps_shown": 1.0}
    assert found["grpo-drift"] == {"correctness": 1.0, "answer_format": 0.3}


# resumed runs


def state(rows: Iterable[Mapping[str, object]]) -> str:
    return json.dumps({"log_history": list(rows)})


def checkpoint(folder: Path, rows: list[Mapping[str, object]], written: int) -> None:
    step = int(str(rows[-1]["step"]))
    where = folder / f"checkpoint-{step}"
    where.mkdir(parents=True, exist_ok=True)
    (where / "trainer_state.json").write_text(state(rows))
    os.utime(where / "trainer_state.json", (written, written))


def history(first: int, last: int, seed: int) -> list[Mapping[str, object]]:
    rng = np.random.default_rng(seed)
    return [MODERN | {"step": i, "reward": float(rng.uniform()), "loss": float(rng.normal())} for i in range(first, last + 1)]


def test_the_real_resumed_run() -> None:
    run = vario.read(GOLDEN / "grpo-resumed")
    assert [(e.kind, e.step) for e in run.events] == [("resume", 61)]
    assert "50 steps were run again" in run.events[0].text
    assert run.logged_steps.tolist() == list(range(1, 151))
    assert [c.step for c in run.checkpoints] == [30, 60, 90, 110, 120, 150]
    final = vario.read(GOLDEN / "grpo-resumed" / "trainer_state.json")
    for name, series in final.series.items():
        np.testing.assert_array_equal(series.values, run.series[name].values)


def test_the_abandoned_branch_alone_is_one_history() -> None:
    run = vario.read(GOLDEN / "grpo-resumed" / "checkpoint-110")
    assert run.last_step == 110
    assert run.events == ()
    assert run.config["beta"] == vario.read(GOLDEN / "grpo-resumed").config["beta"]


def test_checkpoints_without_a_final_state(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "grpo-resumed", tmp_path / "run")
    (tmp_path / "run" / "trainer_state.json").unlink()
    run = vario.read(tmp_path / "run")
    assert run.last_step == 150
    assert [(e.kind, e.step) for e in run.events] == [("resume", 61)]


def test_consistent_checkpoints_are_no_resume(tmp_path: Path) -> None:
    rows = history(1, 90, 0)
    for at, step in enumerate((30, 60, 90)):
        checkpoint(tmp_path, rows[:step], 1000 + at)
    run = vario.read(tmp_path)
    assert run.events == ()
    assert run.logged_steps.size == 90
    assert run.warnings == ()


def test_two_resumes(tmp_path: Path) -> None:
    first, second, third = history(1, 40, 0), history(1, 60, 1), history(1, 90, 2)
    a = first
    b = first[:30] + second[30:60]
    c = b[:50] + third[50:90]
    for at, rows in enumerate((a, b, c)):
        checkpoint(tmp_path, rows, 1000 + at)
    run = vario.read(tmp_path)
    assert [e.step for e in run.events if e.kind == "resume"] == [31, 51]
    assert run.series["reward/mean"].values.tolist() == [r["reward"] for r in c]


def test_a_history_that_starts_again_keeps_the_rows_before(tmp_path: Path) -> None:
    checkpoint(tmp_path, history(1, 40, 0), 1000)
    checkpoint(tmp_path, history(41, 90, 1), 2000)
    run = vario.read(tmp_path)
    assert run.logged_steps.tolist() == list(range(1, 91))
    assert len(run.series["reward/mean"]) == 90
    assert [e.step for e in run.events] == [41]
    assert not any("more than once" in w for w in run.warnings)


def test_steps_repeated_in_one_log() -> None:
    table = Table("run", "test")
    for row in [*history(1, 40, 0), *history(31, 60, 1)]:
        table.add(row)
    run = interpret(table)
    assert [(e.kind, e.step) for e in run.events] == [("resume", 31)]
    assert run.logged_steps.size == 60
    assert any("10 steps were logged more than once" in w for w in run.warnings)
    assert run.series["reward/mean"].values[30] == history(31, 60, 1)[0]["reward"]


# training_args.bin and config.json


def test_real_training_arguments() -> None:
    args = read_training_args(GOLDEN / "grpo-drift" / "checkpoint-140" / "training_args.bin")
    config = json.loads((GOLDEN / "grpo-drift" / "config.json").read_text())
    for key in ("learning_rate", "beta", "num_generations", "max_completion_length", "per_device_train_batch_size", "epsilon", "loss_type", "scale_rewards"):
        assert args[key] == config[key], key


def test_training_arguments_replace_a_missing_config(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "grpo-drift", tmp_path / "run")
    with_config = vario.read(tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    without = vario.read(tmp_path / "run")
    for key in ("learning_rate", "beta", "num_generations", "gradient_accumulation_steps"):
        assert without.config[key] == with_config.config[key]
    assert without.knobs["kl-coef"] == with_config.knobs["kl-coef"]


class Evil:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (self.target, 0o700)


class Holder:
    def __init__(self, **state: object) -> None:
        self.__dict__.update(state)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("zipped", [True, False])
def test_a_malicious_pickle_is_not_run(tmp_path: Path, protocol: int, zipped: bool) -> None:
    target = tmp_path / "owned"
    data = pickle.dumps(Holder(beta=0.25, evil=Evil(str(target)), more=[Evil(str(target))]), protocol=protocol)
    path = tmp_path / "training_args.bin"
    if zipped:
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w") as archive:
            archive.writestr("archive/data.pkl", data)
        data = raw.getvalue()
    path.write_bytes(data)
    args = read_training_args(path)
    assert not target.exists()
    if protocol >= 2:
        assert args["beta"] == 0.25


def test_config_of_a_model_is_not_the_trainers(tmp_path: Path) -> None:
    model = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 99, "beta": 9.0}
    trainer = json.loads((GOLDEN / "grpo-healthy" / "config.json").read_text())
    assert not is_trainer_config(model)
    assert is_trainer_config(trainer)
    assert is_trainer_config({"learning_rate": 1e-6, "beta": 0.1})
    assert not is_trainer_config({"name": "package", "version": "1"})
    rows = [{"step": i} | MODERN for i in range(1, 13)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    (tmp_path / "config.json").write_text(json.dumps(model))
    assert "beta" not in vario.read(tmp_path).config
    (tmp_path / "config.json").write_text(json.dumps(trainer))
    assert vario.read(tmp_path).config["num_generations"] == trainer["num_generations"]


def test_a_given_config_wins(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": [{"step": i} | MODERN for i in range(1, 13)]}))
    (tmp_path / "config.json").write_text(json.dumps(ARGS | {"beta": 0.1}))
    (tmp_path / "mine.json").write_text(json.dumps({"beta": 0.7}))
    assert vario.read(tmp_path, config=tmp_path / "mine.json").config["beta"] == 0.7
    with pytest.raises(vario.errors.ConfigError, match=r"none\.json"):
        vario.read(tmp_path, config=tmp_path / "none.json")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/label.json")), ids=lambda p: p.parent.name)
def test_everything_in_the_real_logs_is_known(path: Path) -> None:
    run = vario.read(path.parent)
    assert run.unmapped == ()
    assert run.framework == "trl"
    assert run.ignored_lines == 0


def test_memory_of_the_sampling_engine() -> None:
    run = made({"reward": 0.5, "reward_std": 0.1, "frac_reward_zero_std": 0.1}, {"vllm_gpu_memory_utilization": 0.4})
    assert (run.knobs["engine-memory"].key, run.knobs["engine-memory"].current) == ("vllm_gpu_memory_utilization", 0.4)
