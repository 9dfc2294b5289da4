"""DeepSpeed-Chat: five tags, and settings that stand in its source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import vario
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import deepspeed_chat
from vario.sources.rows import Table

LOG = Path(__file__).parent / "logs" / "deepspeed-chat-synthetic.jsonl"
ROW = {"reward": 1.0, "actor_loss": 0.01, "actor_loss_sum": 0.04, "critic_loss": 0.2, "critic_loss_sum": 0.8}
ARGUMENTS = {
    "actor_model_name_or_path": "a", "critic_model_name_or_path": "c", "per_device_generation_batch_size": 16,
    "per_device_training_batch_size": 8, "generation_batches": 2, "ppo_epochs": 3, "gradient_accumulation_steps": 4,
    "max_answer_seq_len": 128, "actor_learning_rate": 5e-6,
}  # fmt: skip


def made(row: Mapping[str, float], config: Mapping[str, object] | None = None) -> Run:
    table = Table("run", "test")
    for i in range(8):
        table.add({"step": i} | dict(row))
    table.config.update(config or {})
    return interpret(table)


def test_the_log_is_known() -> None:
    run = vario.read(LOG)
    assert (run.framework, run.algorithm) == ("deepspeed-chat", "ppo")
    assert run.unmapped == ()
    assert {name: series.key for name, series in run.series.items()} == {
        "reward/mean": "reward",
        "loss/policy": "actor_loss",
        "loss/value": "critic_loss",
    }
    assert run.declared.step_unit == "rollout"
    assert run.declared.kl_by_design is True, "the coefficient is written in the source"


def test_arguments_alone() -> None:
    run = made({"loss": 1.0}, ARGUMENTS)
    assert run.framework == "deepspeed-chat"
    assert run.declared.updates_per_rollout == 3.0
    assert run.declared.max_length == 128.0
    assert (run.knobs["learning-rate"].key, run.knobs["learning-rate"].current) == ("actor_learning_rate", 5e-6)
    assert run.knobs["warmup"].current == 100
    assert run.knobs["warmup"].is_default
    assert made(ROW).declared.updates_per_rollout is None


def test_what_stands_in_the_source_is_named_with_its_file() -> None:
    knobs = made(ROW).knobs
    values = {"kl-coef": 0.1, "clip-low": 0.2, "clip-high": 0.2, "value-clip": 0.2, "reward-bounds": 5}
    for knob, value in values.items():
        assert knobs[knob].current == value
        assert knobs[knob].is_default
        assert "ppo_trainer.py" in knobs[knob].key


def test_what_is_missing_takes_an_edit() -> None:
    missing = made(ROW).missing()
    assert "compute_rewards" in missing["kl/reference"]
    assert "reward/mean" not in missing


@pytest.mark.parametrize(
    "foreign",
    [
        {"reward", "actor_loss", "critic_loss"},
        {"reward", "kl"},
        {"losses/policy_loss", "policy/sqrt_kl"},
        {"ppo/mean_scores"},
    ],
)
def test_hand_rolled_loops_are_not_taken(foreign: set[str]) -> None:
    assert not deepspeed_chat.recognises(frozenset(foreign), {})
