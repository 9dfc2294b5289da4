"""What axolotl's keys mean: TRL's, but for the spread and the reward of its own GRPO trainers, and EBFT."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import axolotl
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
ASYNC = LOGS / "axolotl-async-synthetic.jsonl"
EBFT = LOGS / "axolotl-ebft-synthetic.jsonl"
SFT = LOGS / "axolotl-sft-synthetic.jsonl"
ROW = {"reward": 0.5, "reward_std": 0.2, "frac_reward_zero_std": 0.25, "kl": 0.01, "step_time": 9.0,
       "completions/mean_length": 80.0, "completions/clipped_ratio": 0.1, "clip_ratio/region_mean": 0.01,
       "rewards/acc/mean": 0.3, "rewards/fmt/mean": 0.2}  # fmt: skip
BUFFER = {"replay_buffer_size": 20.0}
RECENT = {"off_policy_mask_threshold": 0.5}
PAIR = {"rewards/chosen": 0.1, "rewards/rejected": -0.1, "rewards/margins": 0.2, "rewards/accuracies": 0.6,
        "logps/chosen": -90.0, "logps/rejected": -95.0}  # fmt: skip


def logged(path: Path, key: str) -> list[float]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    table = Table("run", "test")
    for step in range(1, n + 1):
        table.add({"step": step} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def grpo(block: Mapping[str, object] | None = None, **top: object) -> dict[str, object]:
    return {"rl": "grpo", "base_model": "some/model", "trl": {"beta": 0.01} | dict(block or {})} | top


@pytest.mark.parametrize(("path", "algorithm"), [(ASYNC, "grpo"), (EBFT, "ebft"), (SFT, "unknown")])
def test_every_key_is_known(path: Path, algorithm: str) -> None:
    run = vario.read(path)
    assert (run.framework, run.algorithm, run.declared.step_unit) == ("axolotl", algorithm, "optimiser")
    assert run.unmapped == ()
    assert run.ignored_lines == 0
    assert not run.warnings


@pytest.mark.parametrize(
    "config",
    [{"trl.beta": 0.1}, {"rl": "dpo", "base_model": "some/model"}, {"rl_beta": 0.1}, {"axolotl_config_path": "x.yml"}],
)
def test_settings_alone_are_recognised(config: Mapping[str, str | float]) -> None:
    assert axolotl.recognises(frozenset(PAIR), config)


@pytest.mark.parametrize(
    "keys",
    [
        set(ROW),
        set(PAIR),
        {"train_speed(s/it)", "memory(GiB)", "reward"},
        {"completion_length", "reward", "reward_std", "kl"},
        {"sft_loss", "odds_ratio_loss"},
        {"data/step_num_groups_trainable", "train/reward_std_dev"},
    ],
)
def test_other_frameworks_are_left_alone(keys: set[str]) -> None:
    assert not axolotl.recognises(frozenset(keys), {"base_model": "some/model", "beta": 0.1})


@pytest.mark.parametrize(
    ("rl", "row", "algorithm"),
    [
        ("grpo", ROW, "grpo"),
        ("gdpo", ROW, "grpo"),
        ("dpo", PAIR, "dpo"),
        ("ipo", PAIR, "dpo"),
        ("simpo", PAIR, "cpo"),
        ("kto", PAIR, "kto"),
        ("orpo", PAIR, "orpo"),
    ],
)
def test_algorithm(rl: str, row: Mapping[str, object], algorithm: str) -> None:
    run = made(row, {"rl": rl, "base_model": "some/model"})
    assert (run.framework, run.algorithm) == ("axolotl", algorithm)
    assert run.unmapped == ()
    assert ("preference/margin" in run.series) is (row is PAIR)
    assert ("preference/chosen-logp" in run.series) is (rl in ("dpo", "ipo", "kto"))


@pytest.mark.parametrize(
    ("row", "config", "expected"),
    [
        (ROW, grpo(RECENT, context_parallel_size=4), "within-group"),
        (ROW, grpo(RECENT, context_parallel_size=1), "batch"),
        (ROW, grpo(RECENT), "batch"),
        (ROW, grpo(), None),  # which TRL is pinned is not known
        (ROW | BUFFER, {}, "batch"),
        (ROW, grpo({"async_prefetch": True}), "batch"),
        (ROW, grpo({"async_prefetch": False}), None),
        (ROW | {"memory/max_active (GiB)": 20.0}, {}, None),
    ],
)
def test_spread(row: Mapping[str, object], config: Mapping[str, object], expected: str | None) -> None:
    run = made(row, config)
    assert run.framework == "axolotl"
    assert [n for n in run.series if n.startswith("reward/std/")] == (
        [] if expected is None else [f"reward/std/{expected}"]
    )
    assert ("reward_std" in run.unsettled) is (expected is None)


@pytest.mark.parametrize(
    ("row", "config", "there"),
    [
        (ROW, grpo({"reward_weights": [1.0, 0.5]}), True),
        (ROW | BUFFER, grpo({"reward_weights": [1.0, 0.5]}), False),
        (ROW | BUFFER, grpo({"reward_weights": [1.0, 1.0]}), True),
        (ROW | BUFFER, grpo(), True),
        (ROW | BUFFER, {}, False),
        ({k: v for k, v in (ROW | BUFFER).items() if k != "rewards/fmt/mean"}, {}, True),
    ],
)
def test_asynchronous_reward_leaves_the_weights_out(
    row: Mapping[str, object], config: Mapping[str, object], there: bool
) -> None:
    run = made(row | {"eval_reward": 0.6}, config)
    assert ("reward/mean" in run.series) is there
    assert ("eval/score/mean" in run.series) is there
    assert ("reward" in run.unsettled) is not there
    assert run.declared.component_weights == {}


def test_conditions_of_trl_are_asked_with_the_block_of_settings() -> None:
    off = made(ROW, grpo({"beta": 0.0}))
    assert "kl/reference" not in off.series
    assert off.declared.kl_by_design is False
    on = made(ROW, grpo())
    assert on.series["kl/reference"].key == "kl"
    assert on.declared.kl_by_design is True
    assert "signal/zero-variance-share" in on.series
    assert "signal/zero-variance-share" not in made(ROW, grpo({"scale_rewards": "batch"})).series
    ties = made(ROW | {"frac_reward_zero_std": 1.0}, grpo())
    assert "signal/zero-variance-share" in ties.series, "scaled by the group unless told otherwise"


def test_asynchronous_log() -> None:
    run = vario.read(ASYNC)
    assert run.series["length/truncated-share"].key == "completions/clipped_ratio"
    assert run.series["clip/fraction/total"].key == "clip_ratio/region_mean"
    assert run.series["behaviour-weight/mean"].values.tolist() == logged(
        ASYNC, "sampling/importance_sampling_ratio/mean"
    )
    assert run.series["kl/reference"].values.tolist() == logged(ASYNC, "kl")
    assert not {n for n in run.series if n.startswith("staleness/")}
    assert set(logged(ASYNC, "skipped_zero_adv_batches")) == {1.0}
    assert "skipped_zero_adv_batches" not in {s.key for s in run.series.values()}
    assert made(ROW | BUFFER | {"clip_ratio": 0.02}).series["clip/fraction/total"].key in {
        "clip_ratio",
        "clip_ratio/region_mean",
    }


def test_ebft() -> None:
    run = vario.read(EBFT)
    assert run.components() == ("alignment", "diversity")
    assert run.series["reward/mean"].key == "ebft/reward"
    assert made({"ebft/mean_reward": 0.2, "ebft/rl_loss": 0.1}).series["reward/mean"].key == "ebft/mean_reward"
    assert run.series["loss/policy"].key == "ebft/rl_loss"
    assert run.declared.group_centred is None


def test_memory_has_its_unit_in_the_name() -> None:
    run = vario.read(SFT)
    assert run.series["systems/memory"].values.tolist() == logged(SFT, "memory/max_active (GiB)")
    assert run.series["systems/throughput"].key == "tokens/train_per_sec_per_gpu"
    assert "reward/mean" not in run.series


def test_settings() -> None:
    config = grpo(
        {"num_generations": 16, "max_completion_length": 2048, "epsilon_high": 0.28},
        gradient_accumulation_steps=4,
        learning_rate=1e-6,
    )
    run = made(ROW, config)
    assert (run.declared.group_size, run.declared.max_length, run.declared.updates_per_rollout) == (16.0, 2048.0, 1.0)
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current) == ("trl.beta", 0.01)
    assert (run.knobs["clip-high"].key, run.knobs["clip-high"].current) == ("trl.epsilon_high", 0.28)
    assert run.knobs["learning-rate"].key == "learning_rate"
    assert (
        run.knobs["reward-scaling"].key,
        run.knobs["reward-scaling"].current,
        run.knobs["reward-scaling"].is_default,
    ) == ("trl.scale_rewards", True, True)
    assert "staleness-bound" not in run.knobs
    assert made(ROW | BUFFER, config).knobs["staleness-bound"].key == "trl.prefetch_depth"
    pairs = made(PAIR, {"rl": "dpo", "base_model": "some/model", "rl_beta": 0.2})
    assert (pairs.knobs["preference-beta"].key, pairs.knobs["preference-beta"].current) == ("rl_beta", 0.2)
    assert "trl.beta" in made({k: v for k, v in ROW.items() if k != "kl"}, config).missing()["kl/reference"]


def test_log_probabilities_a_token_are_no_sums() -> None:
    row = {"loss": 1.0, "chosen_geometric_mean": -1.2, "rejected_geometric_mean": -1.5, "log_odds": 0.3, "ppl": 2.7}
    run = made(row, {"rl": "orpo", "base_model": "m"})
    assert run.framework == "axolotl"
    assert not any(name.startswith("preference/") for name in run.series)
    assert {"chosen_geometric_mean", "rejected_geometric_mean", "log_odds"} <= run.ignored.keys()


def test_grpo_on_a_remote_service() -> None:
    """Its accuracy is the share of positive rewards, no share of pairs."""
    row = {"loss": 1.0, "reward": 0.4, "accuracy": 0.4, "mean_abs_advantage": 0.8, "learning_rate": 1e-5}
    run = made(row, {"rl": "grpo", "base_model": "m", "trl": {"num_generations": 8}})
    assert run.algorithm == "grpo"
    assert run.series["reward/mean"].values == pytest.approx(0.4)
    assert "preference/accuracy" not in run.series
    assert {"accuracy", "mean_abs_advantage"} <= run.ignored.keys()
