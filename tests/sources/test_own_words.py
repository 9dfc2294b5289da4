"""vario's own keys mean the same in every framework's log, and stand behind the framework's own."""

from __future__ import annotations

import pytest

from vario.catalogue import METRICS, lookup
from vario.catalogue.own_words import EVENT_METRIC, NAME_LENGTH, OWN_WORDS, event_key, event_name
from vario.run import Run
from vario.sources import interpret
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.own_words import own_metric
from vario.sources.rows import Table

ROWS = 5
LOGS: dict[str, dict[str, float]] = {
    "trl": {"reward": 0.1, "reward_std": 0.1, "frac_reward_zero_std": 0.1, "completions/mean_length": 9.0},
    "verl": {"critic/rewards/mean": 0.1, "actor/ppo_kl": 0.1, "actor/pg_loss": 0.1, "response_length/mean": 9.0},
    "generic": {"avg_reward": 0.1, "kl": 0.01},
}


def run_of(row: dict[str, float], mapping: dict[str, str] | None = None) -> Run:
    table = Table("run", "test")
    for i in range(1, ROWS + 1):
        table.add({"step": i, **{key: value * i for key, value in row.items()}})
    return interpret(table, mapping)


def test_every_word_is_a_metric() -> None:
    assert set(OWN_WORDS.values()) <= METRICS.keys()
    assert len(set(OWN_WORDS.values())) == len(OWN_WORDS)
    assert EVENT_METRIC in METRICS


@pytest.mark.parametrize("prefix", ["", "train/"], ids=["as logged", "through the Trainer's sinks"])
@pytest.mark.parametrize("framework", LOGS)
def test_they_are_read_in_every_framework(framework: str, prefix: str) -> None:
    own = {f"{prefix}{key}": 0.5 for key in OWN_WORDS} | {f"{prefix}{event_key('hub upload')}": 3.0}
    run = run_of(LOGS[framework] | own)
    assert run.framework == framework
    for key, metric in OWN_WORDS.items():
        assert run.series[metric].key == f"{prefix}{key}"
        assert run.series[metric].values.tolist() == [0.5 * i for i in range(1, ROWS + 1)]
    upload = run.series["systems/background/hub-upload/time"]
    assert (upload.key, upload.values.tolist()) == (f"{prefix}vario/event/hub-upload_s", [3.0, 6.0, 9.0, 12.0, 15.0])
    assert not [key for key in (*run.unmapped, *run.ignored, *run.unsettled) if "vario/" in key]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_no_framework_is_told_by_them(dialect: object) -> None:
    """A log of nothing else is nobody's: the loop's own words are left."""
    keys = frozenset(OWN_WORDS) | {event_key("x")}
    assert dialect.recognises(keys, {}) is (dialect.name == "generic")  # type: ignore[attr-defined]


def test_the_framework_s_own_key_counts_first() -> None:
    run = run_of(LOGS["trl"] | {"step_time": 30.0, "vario/step_time": 31.0})
    assert run.series["systems/step-time"].key == "step_time"
    assert run.ignored["vario/step_time"] == "the framework's own key gives systems/step-time"


def test_so_does_what_the_framework_says_with_several_keys() -> None:
    run = run_of(LOGS["trl"] | {"perf/fwd_bwd_s": 7.0, "perf/optimizer_s": 2.0, "vario/phase/train": 10.0})
    assert run.series["systems/train-time"].values.tolist() == [9.0 * i for i in range(1, ROWS + 1)]


def test_a_mapping_of_the_user_s_counts_before_all() -> None:
    run = run_of(LOGS["trl"] | {"step_time": 30.0, "vario/gpu/use": 0.5}, {"systems/mfu": "vario/gpu/use"})
    assert run.series["systems/mfu"].key == "vario/gpu/use"
    assert "systems/device-use" not in run.series


def test_a_name_without_a_metric_is_told() -> None:
    run = run_of(LOGS["trl"] | {"vario/phase/my-own": 1.0})
    assert run.ignored["vario/phase/my-own"] == "measured by vario under a name that is no metric"
    assert "vario/phase/my-own" not in run.unmapped


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("upload", "upload"),
        ("hub upload", "hub-upload"),
        ("a/b\x1b[31m\n", "a-b-31m"),
        ("merge_lora.v2", "merge_lora.v2"),
        ("é", "other"),
        ("", "other"),
        ("x" * 99, "x" * NAME_LENGTH),
    ],
)
def test_names_of_events_can_stand_in_a_key(name: str, clean: str) -> None:
    assert event_name(name) == clean
    assert event_name(clean) == clean
    metric = own_metric(event_key(name))
    assert metric == f"systems/background/{clean}/time"
    assert lookup(metric).name == EVENT_METRIC


def test_other_keys_are_not_ours() -> None:
    assert [own_metric(key) for key in ("step_time", "my/vario/step_time", "variometer/x", "vario/", "vario/x")] == [
        None
    ] * 5
