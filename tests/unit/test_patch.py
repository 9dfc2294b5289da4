"""Settings that can be pasted: each way of writing them, read back by whoever would read them; hostile strings included."""

from __future__ import annotations

import ast
import json
import shlex
import tomllib
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.effort import tries
from vario.run import Run, Setting
from vario.sources import interpret
from vario.sources.dialects import DIALECTS
from vario.sources.rows import Table
from vario.verdict.experiments import experiments
from vario.verdict.ladder import BRANCHES, Rung
from vario.verdict.patch import STYLES, patch

LOGS = ROOT / "tests" / "sources" / "logs"
PLAIN: dict[str, Setting] = {"rollout.bound": 0, "actor.lr": 2e-6, "actor.on": True, "actor.off": False, "name": "grpo"}
HOSTILE = (
    "x; rm -rf ~",
    "$(touch /tmp/pasted)",
    "`id`",
    "a'b\"c",
    "two words",
    "yes",
    "null",
    "1e-6",
    "# no comment",
    "a: b",
    "a = b",
    "[a,b]",
    "line\nbreak",
    "tab\tbell\x07del\x7f",
    "back\\slash",
    "",
    " leading",
    "ünïcode 東京 🚀",
    "\u2028\u202e",
    "~",
    "*",
    "{x}",
    "!tag",
    "&anchor",
)


def nested(settings: Mapping[str, Setting]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for key, value in settings.items():
        *parts, last = key.split(".")
        place = tree
        for part in parts:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = value
    return tree


def keywords(text: str) -> dict[str, object]:
    (call,) = ast.parse(f"f(\n{text}\n)").body
    return {k.arg: ast.literal_eval(k.value) for k in call.value.keywords}  # type: ignore[attr-defined,misc]


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("yaml", 'rollout:\n  bound: 0\nactor:\n  lr: 2.0e-06\n  on: true\n  off: false\nname: "grpo"'),
        ("toml", 'name = "grpo"\n[rollout]\nbound = 0\n[actor]\nlr = 2e-06\non = true\noff = false'),
        ("overrides", "rollout.bound=0 actor.lr=2e-06 actor.on=true actor.off=false name=grpo"),
        ("flags", "--rollout.bound 0 --actor.lr 2e-06 --actor.on --actor.off false --name grpo"),
    ],
)
def test_each_style(style: str, text: str) -> None:
    assert patch(PLAIN, style) == text


def test_dashes_and_keywords() -> None:
    flat: dict[str, Setting] = {"num_steps_per_rollout": 1, "use_kl_loss": True, "lr": 1e-6, "note": "a_b"}
    assert patch(flat, "dashed-flags") == "--num-steps-per-rollout 1 --use-kl-loss --lr 1e-06 --note a_b"
    assert patch(flat, "keywords") == "num_steps_per_rollout=1,\nuse_kl_loss=True,\nlr=1e-06,\nnote='a_b',"


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_nothing(style: str) -> None:
    assert patch({}, style) == ""


def test_every_dialect_writes_in_a_known_style() -> None:
    assert {d.patch for d in DIALECTS} <= set(STYLES)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_strings_come_back_as_they_were(value: str) -> None:
    settings: dict[str, Setting] = {"data.train_files": value, "seed": 1}
    assert yaml.safe_load(patch(settings, "yaml")) == nested(settings)
    assert tomllib.loads(patch(settings, "toml")) == nested(settings)
    assert shlex.split(patch(settings, "overrides")) == [f"data.train_files={value}", "seed=1"]
    assert shlex.split(patch(settings, "flags")) == ["--data.train_files", value, "--seed", "1"]
    assert shlex.split(patch({"train_files": value}, "dashed-flags")) == ["--train-files", value]
    assert keywords(patch({"train_files": value, "seed": 1}, "keywords")) == {"train_files": value, "seed": 1}


@pytest.mark.parametrize("value", [1e-6, 2.5e-7, 1.2345678e-7, 0.1, 0.30000000000000004, 1e16, 3.0, -0.5, 123456.789])
def test_numbers_keep_every_digit_and_stay_numbers(value: float) -> None:
    read = yaml.safe_load(patch({"a.lr": value}, "yaml"))["a"]["lr"]
    assert isinstance(read, int | float), "YAML 1.1 takes 2e-06 for a word"
    assert read == value
    assert tomllib.loads(patch({"a.lr": value}, "toml"))["a"]["lr"] == value
    assert float(patch({"lr": value}, "overrides").partition("=")[2]) == value
    assert keywords(patch({"lr": value}, "keywords")) == {"lr": value}


def test_switches_are_no_numbers() -> None:
    both: dict[str, Setting] = {"a": True, "b": False, "c": 1, "d": 0}
    for read in (yaml.safe_load(patch(both, "yaml")), tomllib.loads(patch(both, "toml")), keywords(patch(both, "keywords"))):
        assert [(k, v, type(v)) for k, v in read.items()] == [(k, v, type(v)) for k, v in both.items()]


def test_nothing_set() -> None:
    none: dict[str, Setting] = {"a.b": None, "a.c": 1}
    assert yaml.safe_load(patch(none, "yaml")) == {"a": {"b": None, "c": 1}}
    assert tomllib.loads(patch(none, "toml")) == {"a": {"c": 1}}, "TOML has no null"
    assert patch(none, "overrides") == "a.b=null a.c=1"
    assert keywords(patch({"b": None}, "keywords")) == {"b": None}


def test_a_table_takes_no_key_that_is_not_its_own() -> None:
    mixed: dict[str, Setting] = {"trainer.lr": 1, "seed": 2, "trainer.optim.beta": 3, "other": 4}
    assert tomllib.loads(patch(mixed, "toml")) == nested(mixed)
    assert yaml.safe_load(patch(mixed, "yaml")) == nested(mixed)


words = st.from_regex(r"[a-z][a-z_0-9]{0,6}", fullmatch=True).filter(lambda w: w not in ("n", "y", "no", "on", "off", "yes", "true", "null", "false"))  # fmt: skip
values = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e12, 1e12), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))  # fmt: skip


@settings(max_examples=tries(120), deadline=None, derandomize=True)
@given(st.dictionaries(st.tuples(words, words).map(".".join), values, max_size=4), st.dictionaries(words.map(str.upper), values, max_size=2))
def test_whatever_is_set_is_read_back(below: dict[str, Setting], above: dict[str, Setting]) -> None:
    every = {**below, **above}
    assert (yaml.safe_load(patch(every, "yaml")) or {}) == nested(every)
    assert tomllib.loads(patch(every, "toml")) == nested(every)
    assert [w.partition("=")[0] for w in shlex.split(patch(every, "overrides"))] == list(every)


# what the experiments of real dialects print


def run_of(name: str, config: Mapping[str, object]) -> Run:
    table = Table("run", "test")
    for line in (LOGS / name).read_text().splitlines():
        table.add(json.loads(line))
    table.config.update(config)
    return interpret(table)


def printed(run: Run, named: str, experiment: str) -> str:
    return next(e.patch for e in experiments(run, frozenset({named}), None) if e.name == experiment)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"rollout": {"max_head_offpolicyness": 4}, "actor": {"recompute_logprob": True, "use_decoupled_loss": True}},
    ],
    ids=["defaults", "asynchronous"],
)
@pytest.mark.parametrize("found", ["rollouts-too-stale", "behaviour-weight-off-one", "weights-never-synced"])
def test_areal_goes_synchronous(config: Mapping[str, object], found: str) -> None:
    run = run_of("areal-synthetic.jsonl", config)
    assert run.framework == "areal"
    assert printed(run, found, "synchronous") == (
        "rollout:\n"
        "  max_head_offpolicyness: 0\n"
        "actor:\n"
        "  recompute_logprob: false\n"
        "  use_decoupled_loss: false"
    )  # fmt: skip


def verl_of(config: Mapping[str, object], **keys: float) -> Run:
    table = Table("run", "test")
    row = {"critic/score/mean": 0.5, "actor/pg_loss": 0.1, "actor/ppo_kl": 0.0, "response_length/mean": 99.0, **keys}
    for step in range(1, 13):
        table.add({"step": step, **row})
    table.config.update(config)
    run = interpret(table)
    assert run.framework == "verl"
    return run


def test_verl_goes_synchronous_by_its_bypass() -> None:
    run = verl_of(
        {
            "async_training": {"staleness_threshold": 0.5, "trigger_parameter_sync_step": 4},
            "algorithm": {"rollout_correction": {"bypass_mode": False}},
        },
        **{"fully_async/count/current_param_version": 3.0},
    )
    assert printed(run, "rollouts-too-stale", "synchronous") == (
        "async_training.staleness_threshold=0 algorithm.rollout_correction.bypass_mode=true"
    )


def test_verl_makes_one_update_of_the_whole_batch() -> None:
    run = verl_of(
        {
            "data": {"train_batch_size": 512, "max_response_length": 1024},
            "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 128, "ppo_epochs": 2}, "rollout": {"n": 8}},
        }
    )
    assert run.declared.updates_per_rollout == 8.0
    assert printed(run, "clip-fraction-high", "one-minibatch") == (
        "actor_rollout_ref.actor.ppo_epochs=1 actor_rollout_ref.actor.ppo_mini_batch_size=512"
    )


def test_verl_turns_the_learning_rate_off_and_trains_on_the_test_set() -> None:
    run = verl_of({"data": {"train_files": "train.parquet", "val_files": "it's a test.parquet", "train_batch_size": 512}})
    assert printed(run, "engine-mismatch", "zero-learning-rate") == "actor_rollout_ref.actor.optim.lr=0"
    (tried,) = experiments(run, frozenset(), BRANCHES[Rung.TRAIN_ON_TEST])
    assert shlex.split(tried.patch) == ["data.train_files=it's a test.parquet"]


def test_trl_prints_arguments_of_its_configuration() -> None:
    run = run_of("trl-synthetic.jsonl", {"num_iterations": 4, "steps_per_generation": 8, "gradient_accumulation_steps": 4, "learning_rate": 1e-6, "beta": 0.0})  # fmt: skip
    assert run.framework == "trl"
    assert printed(run, "clip-fraction-high", "one-minibatch") == "num_iterations=1,\nsteps_per_generation=1,"
    assert printed(run, "engine-mismatch", "zero-learning-rate") == "learning_rate=0.0,"
    setup = next(e for e in experiments(run, frozenset(), BRANCHES[Rung.SETUP]))
    assert setup.patch == "gradient_accumulation_steps=8,\nlearning_rate=2e-06,"
    assert not any(e.name == "synchronous" for e in experiments(run, frozenset({"rollouts-too-stale"}), None))
