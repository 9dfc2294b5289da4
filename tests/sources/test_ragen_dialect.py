"""Where RAGEN differs from the verl below it, in its forms of 2025 and 2026."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.ragen import DIALECT
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
METRIC = "actor_rollout_ref.rollout.rollout_filter_metric"
BASE = {
    "critic/score/mean": 0.0,
    "critic/rewards/mean": 0.0,
    "response_length/mean": 900.0,
    "response_length/clip_ratio": 0.1,
    "timing_s/step": 60.0,
    "actor/pg_loss": 0.1,
    "rollout/in_group_std": 0.4,
    "rollout/in_group_mean": 0.6,
}
SECOND = {"rollout/filter_kept_count": 6.0, "rollout/filter_kept_ratio": 0.75, "rollout/filter_zero_count": 2.0}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows, start=1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None) -> Run:
    return run_of([row] * 12, config)


@pytest.mark.parametrize("log", ["ragen", "ragen-2025", "ragen-length"])
def test_every_key_is_known(log: str) -> None:
    run = vario.read(LOGS / f"{log}-synthetic.jsonl")
    assert (run.framework, run.framework_version, run.unmapped) == ("ragen", None, ())


@pytest.mark.parametrize(("log", "key"), [("ragen", "rollout/in_group_reward"), ("ragen-2025", "rollout/in_group")])
def test_the_reward_is_the_episodes_own(log: str, key: str) -> None:
    """critic/score is normalised inside the group: about 0, whatever is learnt."""
    run = vario.read(LOGS / f"{log}-synthetic.jsonl")
    assert run.series["reward/mean"].key == f"{key}_mean"
    assert run.series["reward/mean"].values[-1] > 0.7
    assert run.series["reward/std/within-group"].key == f"{key}_std"
    assert run.series["reward/kept/mean"].key == key.replace("/", "/chosen_") + "_mean"
    assert "reward/penalised/mean" not in run.series
    assert not any(series.key.startswith("critic/score") for series in run.series.values())
    assert run.declared.reward_filtered is None, "it is taken before the filter"


def test_without_the_rollouts_own_reward_there_is_none() -> None:
    row = {k: v for k, v in BASE.items() if not k.startswith("rollout/")} | {"val-env/Bandit/success": 0.5}
    assert "reward/mean" not in made(row).series


def test_statistics_of_what_the_filter_ranks_by() -> None:
    by_length = vario.read(LOGS / "ragen-length-synthetic.jsonl")
    assert not any(name.startswith("reward/") for name in by_length.series)
    assert "length" in by_length.unsettled["rollout/in_group_mean"]
    assert made(BASE).series["reward/mean"].values == pytest.approx(0.6), "in 2025 they are of the reward"
    unknown = made(BASE | SECOND)
    assert "reward/mean" not in unknown.series
    assert "rollout_filter_metric" in unknown.unsettled["rollout/in_group_mean"]
    assert "reward/mean" in made(BASE | SECOND, {METRIC: "reward_variance"}).series
    assert "reward/mean" not in made(BASE | SECOND, {METRIC: "entropy_variance"}).series


def test_tied_groups_are_counted_only_where_the_filter_ranks_by_spread() -> None:
    by_spread = made(BASE | SECOND, {METRIC: "reward_variance"})
    assert by_spread.series["signal/zero-variance-share"].values == pytest.approx(2.0 / 8.0)
    assert "rollout/filter_zero_count" not in by_spread.unsettled
    configured = made(BASE | SECOND, {METRIC: "reward_variance", "es_manager": {"train": {"env_groups": 16}}})
    assert configured.series["signal/zero-variance-share"].values == pytest.approx(2.0 / 16.0)
    by_mean = made(BASE | SECOND, {METRIC: "reward"})
    assert "signal/zero-variance-share" not in by_mean.series
    assert "rollout/filter_zero_count" in by_mean.unsettled
    assert "signal/zero-variance-share" not in made(BASE | SECOND).series


def test_empty_steps_have_no_kept_reward() -> None:
    run = vario.read(LOGS / "ragen-synthetic.jsonl")
    assert 17 in run.series["reward/mean"].steps
    assert 17 not in run.series["reward/kept/mean"].steps
    assert run.series["reward/kept/mean"].values.min() > 0.0


def test_reference_kl_from_two_log_probabilities() -> None:
    run = made(BASE | {"rollout/old_log_prob": -0.5, "rollout/ref_log_prob": -0.52})
    assert run.series["kl/reference"].values == pytest.approx(0.02)
    both = made(BASE | {"rollout/old_log_prob": -0.5, "rollout/ref_log_prob": -0.52, "actor/kl_loss": 0.03})
    assert both.series["kl/reference"].key == "actor/kl_loss"
    assert "kl/reference" not in made(BASE | {"rollout/old_log_prob": -0.5}).series


def test_a_response_of_verl_is_the_whole_trajectory() -> None:
    run = vario.read(LOGS / "ragen-synthetic.jsonl")
    assert run.series["length/mean"].key == "train/response_length"
    assert not {"length/truncated-share", "length/max", "length/prompt/mean"} & run.series.keys()
    assert "length/mean" not in made(BASE).series


def test_validation_by_environment() -> None:
    assert vario.read(LOGS / "ragen-synthetic.jsonl").series["eval/score/mean"].key == "val-env/CoordSokoban/success"
    row = BASE | {"val-env/A/success": 0.5, "val-env/A/num_actions": 4.0, "val-core/x/reward/mean@1": 0.1}
    assert [n for n in made(row).series if n.startswith("eval/set/")] == ["eval/set/A/mean"]


def test_a_rate_printed_as_zero() -> None:
    run = vario.read(LOGS / "ragen-2025-synthetic.jsonl")
    assert "learning-rate" not in run.series
    assert "three decimals" in run.unsettled["actor/lr"]
    assert vario.read(LOGS / "ragen-synthetic.jsonl").series["learning-rate"].values == pytest.approx(1e-6)


CONFIG: dict[str, object] = {
    "es_manager": {"train": {"env_groups": 8, "group_size": 16}},
    "agent_proxy": {"max_turn": 5},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 32, "use_kl_loss": False},
        "rollout": {"response_length": 400, "rollout_filter_ratio": 0.5},
    },
    "algorithm": {"adv_estimator": "gae"},
}


def test_configuration() -> None:
    run = made(BASE, CONFIG)
    assert run.algorithm == "ppo"
    declared = run.declared
    assert (declared.group_size, declared.batch_completions, declared.updates_per_rollout) == (16.0, 128.0, 2.0)
    assert declared.max_length is None, "the cap is on one turn of five"
    assert (declared.kl_by_design, declared.group_centred, declared.step_unit) == (False, False, "rollout")
    single = made(BASE, CONFIG | {"agent_proxy": {"max_turn": 1}})
    assert single.declared.max_length == 400.0
    assert vario.read(LOGS / "ragen-synthetic.jsonl").declared.updates_per_rollout == 3.0, "as logged"
    assert (run.knobs["group-size"].key, run.knobs["group-size"].current) == ("es_manager.train.group_size", 16)
    assert (run.knobs["clip-high"].current, run.knobs["clip-high"].is_default) == (0.28, True)
    assert run.knobs["max-completion-length"].key == "actor_rollout_ref.rollout.response_length"
    assert run.knobs["learning-rate"].key == "actor_rollout_ref.actor.optim.lr"
    assert "dynamic-filter" not in run.knobs
    assert made({"reward": 1.0}, CONFIG).framework == "ragen", "by the configuration alone"


def test_how_to_enable() -> None:
    missing = made(BASE | SECOND).missing()
    assert "rollout_filter_metric" in missing["reward/mean"]
    assert "val-env" in missing["eval/score/mean"]


@pytest.mark.parametrize(
    "keys",
    [
        {"critic/score/mean", "timing_s/step", "actor/pg_loss", "actor/ppo_kl"},
        {"episode/reward/mean", "critic/score/mean", "episode/success_rate"},
        {"train/reward", "train/success", "train/exception_rate"},
        {"rollout/raw_reward", "rollout/zero_std/count_0", "train/pg_clipfrac"},
        {"batch/default/fractions/effective", "reward/default/mean", "actor/pg_loss"},
    ],
)
def test_the_logs_of_others_are_left_alone(keys: set[str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), {})


def test_verl_itself_is_not_taken() -> None:
    plain = {k: v for k, v in BASE.items() if not k.startswith("rollout/")}
    run = made(plain)
    assert run.framework == "verl"
    assert np.array_equal(run.series["reward/mean"].values, np.zeros(12))


def test_spread_of_lengths_inside_groups() -> None:
    run = vario.read(LOGS / "ragen-length-synthetic.jsonl")
    assert run.series["length/std/within-group"].key == "rollout/in_group_length_std"
