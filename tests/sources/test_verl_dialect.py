"""What verl's keys mean where its settings change what they measure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.ragen import DIALECT as RAGEN
from vario.sources.dialects.rllm import DIALECT as RLLM
from vario.sources.dialects.verl import DIALECT as VERL
from vario.sources.dialects.verl_agent import DIALECT as VERL_AGENT
from vario.sources.rows import Table

ROW = {"critic/score/mean": 0.5, "actor/pg_loss": 0.01, "timing_s/step": 60.0}
ACTOR = "actor_rollout_ref.actor."


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None, n: int = 12) -> Run:
    """A run whose figures move, in proportion to `row`."""
    table = Table("run", "test")
    for i in range(1, n + 1):
        table.add({"step": i} | {k: v * i if isinstance(v, float) else v for k, v in (ROW | dict(row)).items()})
    table.config.update(config or {})
    return interpret(table)


def of(run: Run, metric: str) -> str | None:
    return run.series[metric].key if metric in run.series else None


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean"])
def test_losses_are_means_over_tokens(mode: str) -> None:
    run = made({"actor/kl_loss": 0.002, "actor/entropy": 0.1}, {ACTOR + "loss_agg_mode": mode})
    assert (of(run, "kl/reference"), of(run, "entropy/mean")) == ("actor/kl_loss", "actor/entropy")
    assert "kl/reference/sequence" not in run.series


def test_sums_over_sequences_and_over_the_batch() -> None:
    summed = made({"actor/kl_loss": 0.5, "actor/entropy": 20.0}, {ACTOR + "loss_agg_mode": "seq-mean-token-sum"})
    assert (of(summed, "kl/reference/sequence"), of(summed, "entropy/sequence")) == ("actor/kl_loss", "actor/entropy")
    assert not {"kl/reference", "entropy/mean"} & summed.series.keys()
    whole = made({"actor/kl_loss": 900.0, "actor/entropy": 9000.0}, {ACTOR + "loss_agg_mode": "token-sum"})
    assert not any(name.startswith(("kl/reference", "entropy/")) for name in whole.series)
    assert "batch" in whole.unsettled["actor/kl_loss"]
    assert "batch" in whole.unsettled["actor/entropy"]


@pytest.mark.parametrize(
    ("key", "setting", "value", "there"),
    [
        ("actor/kl_loss", ACTOR + "kl_loss_type", "low_var_kl", True),
        ("actor/kl_loss", ACTOR + "kl_loss_type", "abs", False),
        ("actor/kl_loss", ACTOR + "kl_loss_type", "abs+", False),
        ("actor/reward_kl_penalty", "algorithm.kl_penalty", "kl", True),
        ("actor/reward_kl_penalty", "algorithm.kl_penalty", "abs", False),
    ],
)
def test_an_absolute_log_ratio_is_no_divergence(key: str, setting: str, value: str, there: bool) -> None:
    run = made({key: 0.01}, {setting: value})
    assert ("kl/reference" in run.series) is there
    assert (setting in run.unsettled.get(key, "")) is not there


@pytest.mark.parametrize(
    ("mode", "metric"), [("vanilla", "total"), ("cispo", "total"), ("geo_mean", "high"), ("sapo", ""), ("clip_cov", "")]
)
def test_what_counts_as_clipped(mode: str, metric: str) -> None:
    run = made({"actor/pg_clipfrac": 0.0002}, {ACTOR + "policy_loss.loss_mode": mode})
    found = {name for name in run.series if name.startswith("clip/")}
    assert found == ({f"clip/fraction/{metric}"} if metric else set())
    assert ("actor/pg_clipfrac" in run.unsettled) is (not metric)


@pytest.mark.parametrize("prefix", ["rollout_corr/", "actor/rollout_corr/", "mismatch/mismatch_"])
def test_a_gap_between_means_of_sequences_is_no_gap_a_token(prefix: str) -> None:
    """Differences of both signs cancel inside a sequence: it would hide the larger gap that is logged beside it."""
    run = made({prefix + "log_ppl_abs_diff": 0.001, prefix + "kl": 0.02, "training/rollout_probs_diff_mean": 0.03})
    assert "engine/logprob-gap/mean" not in run.series
    assert of(run, "engine/kl") == prefix + "kl"
    assert of(run, "engine/probability-gap/mean") == "training/rollout_probs_diff_mean"
    assert "cancel" in run.ignored[prefix + "log_ppl_abs_diff"]
    for dialect in (VERL, VERL_AGENT, RAGEN, RLLM):
        assert not any(a.match(prefix + "log_ppl_abs_diff") for a in dialect.aliases), dialect.name


def test_the_share_outside_both_bounds_goes_before_the_one_above() -> None:
    above = {"rollout_corr/rollout_is_ratio_fraction_high": 0.001}
    both = above | {"rollout_corr/rollout_is_oob_ratio": 0.003}
    rejected = both | {"rollout_corr/rollout_rs_masked_fraction": 0.005}
    for row, share in ((above, 0.001), (both, 0.003), (rejected, 0.005)):
        values = made(row).series["behaviour-weight/capped-share"].values
        assert values == pytest.approx(share * np.arange(1, 13))


@pytest.mark.parametrize("key", ["timing_s/timing_s/param_sync", "timing_s/param_sync", "timing_s/update_weights"])
def test_handing_over_weights(key: str) -> None:
    assert of(made({key: 2.0}), "systems/sync-time") == key


def test_rewards_of_one_function() -> None:
    run = made({"gdpo/format/mean": 0.3, "gdpo/format/std": 0.1, "gdpo/format/max": 1.0})
    assert of(run, "reward/component/format/mean") == "gdpo/format/mean"
    assert of(run, "reward/component/format/std") == "gdpo/format/std"
    assert "reward function" in run.ignored["gdpo/format/max"]


def test_extremes_of_advantages() -> None:
    run = made({"critic/advantages/max": 2.47, "critic/advantages/min": -1.2, "critic/advantages/mean": 0.0})
    assert (of(run, "advantage/max"), of(run, "advantage/min")) == ("critic/advantages/max", "critic/advantages/min")
    assert "normalised" in run.ignored["critic/advantages/mean"]


def test_times_of_single_requests_and_use_of_the_devices() -> None:
    loop = "timing_s/agent_loop/generate_sequences/"
    run = made({loop + "mean": 8.0, loop + "max": 40.0, loop + "min": 1.0, "perf/mfu/actor": 0.0})
    assert of(run, "systems/request-time/mean") == loop + "mean"
    assert of(run, "systems/request-time/max") == loop + "max"
    assert of(run, "systems/mfu") is None, "0 for a model that it does not know"
    assert of(made({"perf/mfu/actor": 0.03}), "systems/mfu") == "perf/mfu/actor"
    late = made({"fully_async/processing_time/avg": 8.0, "fully_async/processing_time/max": 40.0})
    assert of(late, "systems/request-time/max") == "fully_async/processing_time/max"


def test_a_line_of_timings_alone_is_verls() -> None:
    table = Table("run", "test")
    table.add({"step": 1, "timing_s/gen": 31.27, "timing_s/step": 43.64})
    run = interpret(table)
    assert (run.framework, run.series["systems/rollout-time"].values.tolist()) == ("verl", [31.27])


def test_memory_of_the_sampling_engine() -> None:
    key = "actor_rollout_ref.rollout.gpu_memory_utilization"
    assert made({}, {key: 0.4}).knobs["engine-memory"].current == 0.4
    assert made({}).knobs["engine-memory"].is_default


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"algorithm.adv_estimator": "grpo"}, True),
        ({"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False}, False),
        ({"algorithm.adv_estimator": "gae"}, False),
        ({}, False),
    ],
    ids=["in standard deviations", "in rewards", "of a critic", "not known"],
)
def test_the_largest_advantage_is_in_standard_deviations_of_the_group(config: dict[str, object], read: bool) -> None:
    run = made({"critic/advantages/max": 1.79}, config)
    assert of(run, "advantage/max/group-sds") == ("critic/advantages/max" if read else None)


def test_the_critic_has_its_own_settings() -> None:
    run = made({"critic/vf_loss": 0.1}, {"trainer.critic_warmup": 5, "critic.optim.lr": 1e-5})
    assert (run.knobs["critic-warmup"].key, run.knobs["critic-warmup"].current) == ("trainer.critic_warmup", 5)
    assert (run.knobs["critic-learning-rate"].key, run.knobs["critic-learning-rate"].current) == ("critic.optim.lr", 1e-5)
    assert "critic-warmup" not in made({}).knobs
