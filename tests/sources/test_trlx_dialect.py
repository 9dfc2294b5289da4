"""trlX: roots of divergences, an evaluation called reward, and means over padding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import trlx
from vario.sources.rows import Table

LOG = Path(__file__).parent / "logs" / "trlx-synthetic.jsonl"
CONFIG = {
    "method": {"name": "PPOConfig", "init_kl_coef": 0.05, "num_rollouts": 128, "ppo_epochs": 4, "cliprange": 0.1, "gen_kwargs": {"max_new_tokens": 40}},
    "train": {"batch_size": 32},
    "optimizer": {"kwargs": {"lr": 1e-5}},
}  # fmt: skip
ROW = {"losses/policy_loss": 0.1, "losses/value_loss": 0.2, "policy/approx_kl": 0.003, "padding_percentage": 0.25}


def made(row: Mapping[str, float], config: Mapping[str, object] | None = None, n: int = 8) -> Run:
    table = Table("run", "test")
    for i in range(n):
        table.add({"_step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def test_the_log_is_known() -> None:
    run = vario.read(LOG)
    assert (run.framework, run.algorithm) == ("trlx", "ppo")
    assert run.unmapped == ()
    assert run.declared.step_unit == "optimiser"


def test_reward_mean_is_the_evaluation() -> None:
    run = vario.read(LOG)
    assert run.series["reward/mean"].key == "rollout_scores/mean"
    assert run.series["reward/std/batch"].key == "rollout_scores/std"
    assert run.series["eval/score/mean"].key == "reward/mean"
    assert run.series["eval/set/temperature=0.5/mean"].key == "reward/mean@temperature=0.5"
    assert run.series["eval/score/mean"].steps.tolist() == [0, 10, 20, 30, 40]


def test_divergence_is_squared() -> None:
    run = vario.read(LOG)
    rows = [json.loads(line) for line in LOG.read_text().splitlines()]
    roots = [row["policy/sqrt_kl"] for row in rows if "policy/sqrt_kl" in row]
    np.testing.assert_allclose(run.series["kl/reference/sequence"].values, np.square(roots))
    assert "kl/reference" not in run.series
    assert "padding" in run.unsettled["policy/kl_per_token"]


def test_padding_is_taken_out_of_the_updates_divergence() -> None:
    run = made(ROW)
    np.testing.assert_allclose(run.series["kl/update"].values, 0.004)
    blind = made({k: v for k, v in ROW.items() if k != "padding_percentage"})
    assert "kl/update" not in blind.series
    assert "padding" in blind.unsettled["policy/approx_kl"]
    empty = made(ROW | {"padding_percentage": 1.0})
    assert "kl/update" not in empty.series, "nothing but padding"


def test_explained_variance_from_error_and_spread() -> None:
    run = made(ROW | {"values/values_error": 0.1, "returns/std": 0.5})
    np.testing.assert_allclose(run.series["value/explained-variance"].values, 0.6)
    assert "value/explained-variance" not in made(ROW | {"values/values_error": 0.1, "returns/std": 0.0}).series
    assert "value/explained-variance" not in made(ROW | {"values/values_error": 0.1}).series


def test_configuration_alone() -> None:
    run = made({"loss": 1.0}, CONFIG)
    assert (run.framework, run.algorithm) == ("trlx", "ppo")
    assert run.declared.updates_per_rollout == 16.0
    assert run.declared.max_length == 40.0
    assert run.declared.kl_by_design is True
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current) == ("method.init_kl_coef", 0.05)
    assert run.knobs["clip-low"].current == 0.1
    assert (run.knobs["learning-rate"].key, run.knobs["learning-rate"].current) == ("optimizer.kwargs.lr", 1e-5)
    assert run.knobs["reward-bounds"].current == 10
    assert run.knobs["reward-bounds"].is_default
    off = made(ROW, {"method": {"init_kl_coef": 0, "num_rollouts": 64}})
    assert off.declared.kl_by_design is False
    assert made(ROW, {"method": {"name": "ILQLConfig"}}).algorithm == "ilql"


def test_nothing_is_promised_that_trlx_cannot_log() -> None:
    missing = made(ROW).missing()
    assert "entropy/mean" not in missing
    assert "rollout_logging_dir" in missing["length/mean"]


@pytest.mark.parametrize(
    "foreign",
    [
        {"policy/approxkl_avg", "policy/clipfrac_avg", "objective/kl"},
        {"critic/score/mean", "actor/pg_loss"},
        {"reward/mean", "ratio"},
        {"policy/final_loss", "reward/avg_raw_reward"},
        {"reward/default/mean", "groups/num_groups"},
        {"actor_loss_sum", "critic_loss_sum"},
    ],
)
def test_other_frameworks_are_not_taken(foreign: set[str]) -> None:
    assert not trlx.recognises(frozenset(foreign), {})
