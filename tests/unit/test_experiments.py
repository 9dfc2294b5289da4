"""Which experiment is proposed for what is open, what its outcomes mean, and which settings make it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import RULES
from vario.run import Declared, KnobSetting, Run, Setting
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Context, with_part_sizes
from vario.verdict.experiments import ENGINE, OFF_POLICY, ONE_SEED, REUSE, Experiment, experiments
from vario.verdict.ladder import BRANCHES, Branch, Evidence, Rung, branch_of

KNOBS = {
    "staleness-bound": KnobSetting("staleness-bound", "async.bound", 4),
    "recompute-logprob": KnobSetting("recompute-logprob", "async.recompute", True),
    "decoupled-loss": KnobSetting("decoupled-loss", "loss.decoupled", True),
    "learning-rate": KnobSetting("learning-rate", "optim.lr", 1e-6),
    "batch-size": KnobSetting("batch-size", "data.batch", 64),
    "minibatches": KnobSetting("minibatches", "ppo.parts", 4),
    "epochs": KnobSetting("epochs", "ppo.epochs", 2),
    "dynamic-filter": KnobSetting("dynamic-filter", "data.filter", False),
}


def run_of(
    knobs: Mapping[str, KnobSetting] = KNOBS, config: Mapping[str, Setting] | None = None, updates: float | None = None
) -> Run:
    steps = np.arange(1, 3, dtype=np.int64)
    return Run(
        "r", "areal", "grpo", {}, steps, config=config or {}, declared=Declared(updates_per_rollout=updates), knobs=MappingProxyType(dict(knobs)), patch="overrides",
    )  # fmt: skip


def made(run: Run, *named: str, branch: Branch | None = None) -> dict[str, Experiment]:
    found = experiments(run, frozenset(named), branch)
    assert len({e.name for e in found}) == len(found)
    return {e.name: e for e in found}


def test_nothing_open_nothing_to_try() -> None:
    assert experiments(run_of(), frozenset(), None) == ()
    assert experiments(run_of(), frozenset({"length-growing"}), BRANCHES[Rung.RISES]) == ()
    assert experiments(run_of(), frozenset(), BRANCHES[Rung.MEND_FIRST]) == ()
    assert experiments(run_of(), frozenset(), BRANCHES[Rung.TOO_EARLY]) == ()


def test_every_named_finding_is_a_rule() -> None:
    assert {r.name for r in RULES} >= OFF_POLICY | REUSE | ENGINE | ONE_SEED


@pytest.mark.parametrize("name", sorted(OFF_POLICY))
def test_off_policy_goes_synchronous(name: str) -> None:
    found = made(run_of(), name)["synchronous"]
    assert found.settings == {"async.bound": 0, "async.recompute": False, "loss.decoupled": False}
    assert found.patch == "async.bound=0 async.recompute=false loss.decoupled=false"
    assert set(found.tells) == {"the trouble goes", "it stays"}


def test_what_cannot_be_asynchronous_is_not_made_synchronous() -> None:
    without = {k: v for k, v in KNOBS.items() if k != "staleness-bound"}
    assert "synchronous" not in made(run_of(without), "rollouts-too-stale")


def test_a_bypass_is_put_on_where_the_decoupled_loss_is_to_go() -> None:
    bypass = KnobSetting("decoupled-loss", "rollout_correction.bypass_mode", False, inverse=True)
    found = made(run_of({**KNOBS, "decoupled-loss": bypass}), "rollouts-too-stale")["synchronous"]
    assert found.settings["rollout_correction.bypass_mode"] is True


@pytest.mark.parametrize("current", [None, "token", 0.5])
def test_a_key_that_is_no_switch_is_left_alone(current: Setting) -> None:
    odd = KnobSetting("decoupled-loss", "sampling_mode", current)
    found = made(run_of({**KNOBS, "decoupled-loss": odd}), "rollouts-too-stale")["synchronous"]
    assert found.settings == {"async.bound": 0, "async.recompute": False}


@pytest.mark.parametrize("name", sorted(REUSE))
def test_reuse_goes_to_one_update(name: str) -> None:
    found = made(run_of(), name)["one-minibatch"]
    assert found.settings == {"ppo.epochs": 1, "ppo.parts": 1}
    assert found.words == ("take the whole rollout batch in one update",)


def test_one_update_already_is_not_tried_again() -> None:
    assert "one-minibatch" not in made(run_of(updates=1.0), "ratio-far-from-one")
    assert "one-minibatch" in made(run_of(updates=8.0), "ratio-far-from-one")


def size(key: str, current: Setting, *, inverse: bool) -> dict[str, KnobSetting]:
    return {**KNOBS, "minibatches": KnobSetting("minibatches", key, current, inverse=inverse)}


def test_a_size_of_parts_becomes_that_of_the_whole_whatever_it_counts() -> None:
    # 512 prompts of 16 in parts of 2,048 completions, twice: 8 updates
    found = made(run_of(size("train_batch_size", 2048, inverse=True), updates=8.0), "clip-fraction-high")["one-minibatch"]
    assert found.settings == {"ppo.epochs": 1, "train_batch_size": 8192}


def test_a_size_of_the_whole_becomes_that_of_one_part() -> None:
    found = made(run_of(size("method.num_rollouts", 128, inverse=False), updates=8.0), "clip-fraction-high")["one-minibatch"]
    assert found.settings == {"ppo.epochs": 1, "method.num_rollouts": 32}


def test_a_size_is_not_guessed() -> None:
    found = made(run_of(size("train_batch_size", 2048, inverse=True)), "clip-fraction-high")["one-minibatch"]
    assert found.settings == {"ppo.epochs": 1}
    assert made(run_of(size("b", None, inverse=True), updates=8.0), "clip-fraction-high")["one-minibatch"].settings == {"ppo.epochs": 1}  # fmt: skip
    assert made(run_of({}), "clip-fraction-high")["one-minibatch"].patch == ""


@pytest.mark.parametrize("name", sorted(ENGINE))
def test_the_engine_is_tried_without_learning(name: str) -> None:
    found = made(run_of(), name)["zero-learning-rate"]
    assert found.settings == {"optim.lr": 0.0}
    assert found.words == ("stop after ten steps",)
    assert set(found.tells) == {"the gap stays flat", "the gap grows, or the reward falls"}


@pytest.mark.parametrize("name", sorted(ONE_SEED))
@pytest.mark.parametrize(
    ("config", "settings"),
    [({"seed": 42}, {"seed": 43}), ({"data.seed": 0}, {"data.seed": 1}), ({"seed": None}, {"seed": 1}), ({"seed": True}, {"seed": 1}), ({}, {})],
)  # fmt: skip
def test_luck_is_told_from_the_recipe_by_another_seed(
    name: str, config: dict[str, Setting], settings: dict[str, Setting]
) -> None:
    found = made(run_of(config=config), name)["second-seed"]
    assert found.settings == settings
    assert bool(found.patch) == bool(settings)
    assert found.words == ("run it again with another seed",)


def test_the_ladder_without_a_baseline_asks_for_both_runs() -> None:
    found = made(run_of(), branch=branch_of(Evidence(False)))
    assert list(found) == ["measure-baseline", "train-on-test"]
    assert "vario baseline" in found["measure-baseline"].words[0]
    assert "vario compare" in found["train-on-test"].words[0]
    assert found["measure-baseline"].patch == found["train-on-test"].patch == ""


def test_the_ladder_with_a_baseline_trains_on_the_test_set() -> None:
    config: dict[str, Setting] = {"data.train_files": "train.parquet", "data.val_files": "test.parquet"}
    found = made(run_of(config=config), branch=branch_of(Evidence(False, baseline=True)))
    assert list(found) == ["train-on-test"]
    assert found["train-on-test"].settings == {"data.train_files": "test.parquet"}
    assert len(found["train-on-test"].tells) == 2


@pytest.mark.parametrize("missing", [None, ""])
def test_a_test_set_that_is_not_named_is_not_put_in(missing: Setting) -> None:
    config: dict[str, Setting] = {"data.train_files": "train.parquet", "data.val_files": missing}
    assert made(run_of(config=config), branch=BRANCHES[Rung.TRAIN_ON_TEST])["train-on-test"].settings == {}


def test_both_runs_known_the_branch_says_what_to_turn() -> None:
    setup = made(run_of(), branch=branch_of(Evidence(False, baseline=True, test_rises=False)))["setup"]
    assert setup.settings == {"data.batch": 128, "optim.lr": 2e-6}
    assert setup.words == BRANCHES[Rung.SETUP].words
    data = made(run_of(), branch=branch_of(Evidence(False, baseline=True, test_rises=True)))["data"]
    assert data.settings == {"data.filter": True}
    assert data.words == BRANCHES[Rung.DATA].words


def test_the_most_decisive_comes_first() -> None:
    found = made(run_of(config={"seed": 1}), "importance-weight-off-one", "engine-mismatch", "reward-is-noise", branch=BRANCHES[Rung.TRAIN_ON_TEST])  # fmt: skip
    assert list(found) == ["synchronous", "one-minibatch", "zero-learning-rate", "train-on-test", "second-seed"]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_no_framework_gets_a_setting_of_another_kind(dialect: object) -> None:
    context = Context(frozenset(), {}, "grpo", {})
    knobs = with_part_sizes(dialect.knobs(context))  # type: ignore[attr-defined]
    run = run_of(knobs, updates=4.0)
    known = {k.key: k.current for k in knobs.values()}
    every = frozenset(OFF_POLICY | REUSE | ENGINE)
    for branch in (None, BRANCHES[Rung.SETUP], BRANCHES[Rung.DATA]):
        for experiment in experiments(run, every, branch):
            for key, value in experiment.settings.items():
                assert key in known
                if isinstance(value, bool) or isinstance(known[key], bool):
                    assert isinstance(value, bool) and isinstance(known[key], bool), (key, known[key], value)
                elif known[key] is not None:
                    assert isinstance(value, int | float), key
                assert re.fullmatch(r"[A-Za-z_][\w./-]*", key)
