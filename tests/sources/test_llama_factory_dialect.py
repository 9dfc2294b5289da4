"""What LLaMA-Factory's keys mean: the few columns of trainer_log.jsonl, and KTO's summed KL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import vario
from tests.conftest import SHARED
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import llama_factory
from vario.sources.rows import Table

LOGS = Path(__file__).parent / "logs"
TRAINER_LOG = LOGS / "llama-factory-trainer-log-synthetic.jsonl"
ORPO = LOGS / "llama-factory-orpo-synthetic.jsonl"
KTO = LOGS / "llama-factory-kto-synthetic-needs-settings.jsonl"
PPO = LOGS / "llama-factory-ppo-synthetic-needs-settings.jsonl"
# the histories of KTO and PPO hold TRL's keys, or next to none: they need the settings to be recognised
ARGS = {"stage": "dpo", "finetuning_type": "lora", "learning_rate": 5e-6, "logging_steps": 10}
PAIR = {"rewards/chosen": 0.1, "rewards/rejected": -0.1, "rewards/margins": 0.2, "rewards/accuracies": 0.6,
        "logps/chosen": -90.0, "logps/rejected": -95.0, "logits/chosen": -2.0, "logits/rejected": -2.0}  # fmt: skip


def logged(path: Path, key: str) -> list[float]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def with_settings(path: Path, folder: Path, settings: Mapping[str, object]) -> Run:
    where = folder / "settings.json"
    where.write_text(json.dumps(dict(settings)))
    return vario.read(path, config=where)


def made(row: Mapping[str, object], config: Mapping[str, object], n: int = 12) -> Run:
    table = Table("run", "test")
    for step in range(1, n + 1):
        table.add({"step": step} | dict(row))
    table.config.update(config)
    return interpret(table)


@pytest.mark.parametrize(
    ("path", "settings", "algorithm", "unit"),
    [
        (TRAINER_LOG, {}, "dpo", "optimiser"),
        (ORPO, {}, "orpo", "optimiser"),
        (KTO, ARGS | {"stage": "kto"}, "kto", "optimiser"),
        (PPO, ARGS | {"stage": "ppo"}, "ppo", "rollout"),
    ],
)
def test_every_key_is_known(
    path: Path, settings: Mapping[str, object], algorithm: str, unit: str, tmp_path: Path
) -> None:
    run = with_settings(path, tmp_path, settings) if settings else vario.read(path)
    assert (run.framework, run.algorithm, run.declared.step_unit) == ("llama-factory", algorithm, unit)
    assert run.unmapped == ()
    assert run.ignored_lines == 0


def test_settings_alone_are_recognised() -> None:
    assert llama_factory.recognises(frozenset(PAIR), {"pref_beta": 0.1})
    assert llama_factory.recognises(frozenset(), {"finetuning_args.pref_loss": "sigmoid"})
    assert llama_factory.recognises(frozenset(), {"stage": "kto", "cutoff_len": 2048})
    assert not llama_factory.recognises(
        frozenset(), {"beta": 0.1, "loss_type": "sigmoid", "per_device_train_batch_size": 4}
    )


@pytest.mark.parametrize(
    "keys",
    [
        set(PAIR),
        {*PAIR, "nll_loss", "log_odds_ratio"},
        {"reward", "loss", "learning_rate"},
        {"train_speed(s/it)", "memory(GiB)", "rewards/margins"},
        {"objective/kl", "objective/rlhf_reward", "policy/approxkl_avg"},
        {"rewards/margin", "rewards/accuracy", "train_loss"},
    ],
)
def test_other_frameworks_are_left_alone(keys: set[str]) -> None:
    assert not llama_factory.recognises(frozenset(keys), {})


def test_columns_of_the_trainer_log() -> None:
    run = vario.read(TRAINER_LOG)
    assert run.logged_steps.tolist() == list(range(10, 301, 10))
    assert run.series["preference/accuracy"].values.tolist() == logged(TRAINER_LOG, "accuracy")
    assert run.series["preference/accuracy"].values[0] == 0.0, (
        "no pair is ranked before the first update: a measurement"
    )
    assert run.series["learning-rate"].key == "lr"
    assert run.series["eval/loss"].values.tolist() == logged(TRAINER_LOG, "eval_loss")
    assert run.series["systems/memory"].key == "vram_allocated"
    assert run.series["systems/tokens"].key == "total_tokens"
    assert "trainer_state.json" in run.missing()["preference/margin"]


def test_accuracy_of_other_stages_is_no_preference() -> None:
    run = made({"accuracy": 0.7, "loss": 1.0}, {"stage": "sft", "finetuning_type": "lora"})
    assert run.algorithm == "unknown"
    assert "preference/accuracy" not in run.series
    assert run.unmapped == ()


def test_kl_of_kto_is_a_sum_over_the_window(tmp_path: Path) -> None:
    run = with_settings(KTO, tmp_path, ARGS | {"stage": "kto"})
    assert not [n for n in run.series if n.startswith("kl/")]
    assert "summed" in run.unsettled["kl"]
    assert run.series["preference/margin"].values.tolist() == logged(KTO, "rewards/margins")
    assert run.series["eval/preference/margin"].key == "eval_rewards/margins"


def test_orpo_divides_by_the_length() -> None:
    run = vario.read(ORPO)
    assert run.series["preference/margin"].values.tolist() == logged(ORPO, "rewards/margins")
    assert run.series["eval/preference/accuracy"].key == "eval_rewards/accuracies"
    assert "preference/chosen-logp" not in run.series
    assert not {s.key for s in run.series.values()} & {"sft_loss", "odds_ratio_loss", "logits/chosen"}


@pytest.mark.parametrize(
    ("loss", "algorithm", "summed"),
    [("sigmoid", "dpo", True), ("ipo", "dpo", True), ("orpo", "orpo", False), ("simpo", "cpo", False)],
)
def test_preference_losses(loss: str, algorithm: str, summed: bool) -> None:
    run = made(PAIR, ARGS | {"pref_loss": loss})
    assert (run.framework, run.algorithm) == ("llama-factory", algorithm)
    assert ("preference/chosen-logp" in run.series) is summed
    assert (run.knobs["loss-type"].key, run.knobs["loss-type"].current) == ("pref_loss", loss)


def test_ppo_steps_count_batches_from_0(tmp_path: Path) -> None:
    run = with_settings(
        PPO, tmp_path, ARGS | {"stage": "ppo", "ppo_epochs": 4, "ppo_buffer_size": 2, "max_new_tokens": 256}
    )
    assert run.first_step == 0
    assert run.series["reward/mean"].values.tolist() == logged(PPO, "reward")
    assert (run.declared.updates_per_rollout, run.declared.max_length) == (8.0, 256.0)
    assert run.knobs["epochs"].key == "ppo_epochs"
    assert (run.knobs["temperature"].current, run.knobs["temperature"].is_default) == (0.95, True)
    assert "kl-coef" not in run.knobs, "only the target of its controller can be set"
    assert "tracker" in run.missing()["kl/reference/sequence"]


def test_ppo_in_a_tracker_sums_its_kl() -> None:
    row = {"objective/kl": 9.0, "ppo/policy/approxkl": 0.01, "ppo/mean_scores": 0.4, "ppo/std_scores": 0.1,
           "ppo/returns/mean": 0.2, "time/ppo/total": 3.0, "objective/kl_coef": 0.2}  # fmt: skip
    run = made(row, ARGS | {"stage": "ppo"})
    assert run.series["kl/reference/sequence"].values[0] == 9.0
    assert "kl/reference" not in run.series
    assert run.series["kl/update"].key == "ppo/policy/approxkl"
    assert run.unmapped == ()


def test_settings_with_and_without_sections() -> None:
    run = made(PAIR, ARGS | {"pref_beta": 0.2, "pref_ftx": 1.0})
    assert (run.knobs["preference-beta"].key, run.knobs["preference-beta"].current) == ("pref_beta", 0.2)
    assert run.knobs["sft-weight"].current == 1.0
    assert (run.knobs["learning-rate"].current, run.knobs["max-grad-norm"].is_default) == (5e-6, True)
    assert run.declared.steps_per_row == 10.0
    nested = made(PAIR, {"finetuning_args": {"stage": "dpo", "pref_beta": 0.3}})
    assert (nested.algorithm, nested.knobs["preference-beta"].current) == ("dpo", 0.3)


REAL = SHARED / "corpus" / "runs" / "recsys-dpo"


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no labelled run at {REAL}")
@pytest.mark.parametrize("name", ["raw/trainer_state.json", "norm.jsonl"])
def test_a_real_run(name: str) -> None:
    run = vario.read(REAL / name)
    assert (run.framework, run.algorithm) == ("llama-factory", "orpo")
    assert run.unmapped == ()
    assert len(run.series["preference/margin"]) == 33
    assert run.series["preference/margin"].values[-1] > run.series["preference/margin"].values[0]
