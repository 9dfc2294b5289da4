"""Unsloth: TRL's keys, with a KL that is always there and an entropy that never is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import vario
from tests.sources.test_trl_dialect import MODERN, made, run_of, spread
from vario.sources.dialects import unsloth

LOG = Path(__file__).parent / "logs" / "unsloth-synthetic.jsonl"
ROW = MODERN | {"completion_length": 80.0, "kl": 0.01}


def test_the_log_is_known() -> None:
    run = vario.read(LOG)
    assert (run.framework, run.algorithm) == ("unsloth", "grpo")
    assert run.unmapped == ()
    assert "entropy/mean" not in run.series
    found = {name: series.key for name, series in run.series.items()}
    assert found["kl/reference"] == "kl"
    assert found["engine/kl"] == "sampling/rollout_kl_k3/mean"
    assert found["behaviour-weight/effective-share"] == "sampling/importance_sampling_ess"
    assert found["behaviour-weight/capped-share"] == "sampling/importance_sampling_rejected_frac"
    assert found["length/mean"] == "completions/mean_length"
    assert found["signal/zero-variance-share"] == "frac_reward_zero_std", "not the samples left out of the loss"


@pytest.mark.parametrize(
    ("row", "config", "name"),
    [
        (ROW, {}, "unsloth"),
        (MODERN, {}, "trl"),
        (MODERN, {"unsloth_num_chunks": -1}, "unsloth"),
        (MODERN | {"sampling/importance_sampling_ess": 0.9}, {}, "unsloth"),
        ({"reward": 0.5, "reward_std": 0.2, "completion_length": 80.0, "kl": 0.01}, {}, "trl"),
    ],
)
def test_told_from_trl(row: Mapping[str, float], config: Mapping[str, object], name: str) -> None:
    assert made(row, config).framework == name


def test_completion_length_proves_no_old_version() -> None:
    run = made(ROW)
    assert run.framework_version == ">=0.18", "frac_reward_zero_std is there since 0.18"
    assert spread(run) is None
    assert spread(made(ROW, {"trl_version": "1.15.0"})) == "reward/std/batch"
    assert spread(made(ROW, {"trl_version": "0.21.0"})) == "reward/std/within-group"


def test_kl_of_zero_is_no_measurement() -> None:
    still = made(ROW | {"kl": 0.0})
    assert "kl/reference" not in still.series
    assert "beta" in still.unsettled["kl"]
    assert still.declared.kl_by_design is None
    off = made(ROW | {"kl": 0.0}, {"beta": 0.0})
    assert "kl/reference" not in off.series
    assert off.declared.kl_by_design is False
    on = made(ROW | {"kl": 0.0}, {"beta": 0.001})
    assert "kl/reference" in on.series, "with a penalty, 0 is a reading"
    assert on.declared.kl_by_design is True
    starts = run_of([ROW | {"kl": 0.0 if i == 0 else 0.01} for i in range(12)])
    assert starts.series["kl/reference"].values[0] == 0.0
    assert starts.declared.kl_by_design is True


def test_defaults_are_unsloths_own() -> None:
    run = made(ROW)
    assert run.knobs["learning-rate"].current == 5e-5
    assert run.knobs["learning-rate"].is_default
    assert run.knobs["kl-coef"].current is None, "0 or 0.001, by the loss type"
    assert run.knobs["max-completion-length"].current == 512
    assert made(ROW, {"learning_rate": 1e-5}).knobs["learning-rate"].current == 1e-5


def test_advice_on_what_is_hidden() -> None:
    missing = made(ROW).missing()
    assert "without Unsloth" in missing["entropy/mean"]
    assert "UNSLOTH_GRPO_ROLLOUT_METRICS" in missing["behaviour-weight/effective-share"]


def test_other_logs_are_left_alone() -> None:
    for keys in (
        {"completion_length", "reward_std", "reward"},
        {"reward", "kl"},
        {"rollout/raw_reward", "completion_length"},
    ):
        assert not unsloth.recognises(frozenset(keys), {})
