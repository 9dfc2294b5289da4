"""Where verl-agent differs from the verl below it: rows are steps of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects.verl_agent import DIALECT
from vario.sources.rows import Table

LOG = Path(__file__).parent / "logs" / "verl-agent-synthetic.jsonl"
ROW = {
    "episode/reward/mean": 5.0,
    "episode/length/mean": 30.0,
    "critic/score/mean": 0.2,
    "critic/rewards/mean": 0.2,
    "actor/pg_loss": 0.1,
    "timing_s/step": 60.0,
}


def run_of(rows: Iterable[Mapping[str, object]], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i, row in enumerate(rows, start=1):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def made(row: Mapping[str, object], config: Mapping[str, object] | None = None) -> Run:
    return run_of([row] * 12, config)


def test_every_key_is_known() -> None:
    run = vario.read(LOG)
    assert (run.framework, run.framework_version, run.unmapped) == ("verl-agent", None, ())


def test_the_reward_is_the_episodes() -> None:
    """critic/score is of single steps, less the penalty on invalid actions."""
    run = made(ROW)
    assert run.series["reward/mean"].values == pytest.approx(5.0)
    assert "reward/penalised/mean" not in run.series
    read = vario.read(LOG)
    assert {n: read.series[f"reward/{n}"].key for n in ("min", "max")} == {
        n: f"episode/reward/{n}" for n in ("min", "max")
    }
    assert (
        "reward/mean"
        not in made(
            {k: v for k, v in ROW.items() if k != "episode/reward/mean"}, {"algorithm.adv_estimator": "gigpo"}
        ).series
    )


def test_the_length_of_an_episode_is_in_steps() -> None:
    run = vario.read(LOG)
    assert run.series["turns/mean"].key == "episode/length/mean"
    assert run.series["length/mean"].key == "response_length/mean"
    assert run.series["length/truncated-share"].key == "response_length/clip_ratio"


def test_validation() -> None:
    assert vario.read(LOG).series["eval/score/mean"].key == "val/text/test_score"
    alone = made(ROW | {"val/success_rate": 0.4, "val/look_success_rate": 0.1})
    assert alone.series["eval/score/mean"].key == "val/success_rate"
    assert alone.unmapped == ()


def test_reference_and_update_are_verls() -> None:
    run = vario.read(LOG)
    assert run.series["kl/reference"].key == "actor/kl_loss"
    assert run.series["kl/update"].key == "actor/ppo_kl"
    assert run.series["entropy/mean"].key == "actor/entropy_loss"
    assert "clip/fraction/low" not in run.series
    assert "dual clip" in run.unsettled["actor/pg_clipfrac_lower"]


def test_a_rate_printed_as_zero() -> None:
    run = vario.read(LOG)
    assert "learning-rate" not in run.series
    assert "three decimals" in run.unsettled["actor/lr"]
    assert made(ROW | {"actor/lr": 1e-6}).series["learning-rate"].values == pytest.approx(1e-6)


CONFIG: dict[str, object] = {
    "algorithm": {"adv_estimator": "gigpo", "gigpo": {"mode": "mean_norm"}},
    "env": {"env_name": "alfworld/AlfredTWEnv", "rollout": {"n": 8}},
    "data": {"train_batch_size": 16, "max_response_length": 512},
    "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 256, "use_kl_loss": True}, "rollout": {"n": 1}},
}


def test_configuration() -> None:
    run = made(ROW, CONFIG)
    assert run.algorithm == "gigpo"
    declared = run.declared
    assert (declared.group_size, declared.batch_completions) == (8.0, 128.0), "the group is env.rollout.n"
    assert declared.updates_per_rollout is None, "the number of rows changes with the episodes"
    assert (declared.max_length, declared.kl_by_design, declared.group_centred) == (512.0, True, True)
    assert declared.step_unit == "rollout"
    assert (run.knobs["group-size"].key, run.knobs["group-size"].current) == ("env.rollout.n", 8)
    assert (run.knobs["kl-coef"].key, run.knobs["kl-coef"].current) == ("actor_rollout_ref.actor.kl_loss_coef", 0.001)
    assert "dynamic-filter" not in run.knobs
    assert made({"reward": 1.0}, CONFIG).framework == "verl-agent", "by the configuration alone"
    assert made(ROW).declared.group_size is None


def test_how_to_enable() -> None:
    missing = vario.read(LOG).missing()
    assert "reward/std/within-group" in missing
    assert "engine/kl" not in missing, "the verl below is too old for it"


@pytest.mark.parametrize(
    ("keys", "config"),
    [
        ({"critic/score/mean", "timing_s/step", "actor/pg_loss"}, {}),
        ({"rollout/in_group_std", "actor/pg_loss", "critic/score/mean"}, {}),
        ({"episode/num_turns", "episode/correct", "reward/default/mean", "actor/pg_loss"}, {}),
        ({"reward"}, {"actor_rollout_ref.rollout.n": 8, "algorithm.adv_estimator": "grpo"}),
    ],
)
def test_the_logs_of_others_are_left_alone(keys: set[str], config: Mapping[str, int | str]) -> None:
    assert not DIALECT.recognises(frozenset(keys), config)
