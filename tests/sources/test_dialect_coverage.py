"""Each dialect knows the documented keys of its framework, and speaks only in words that exist."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vario
from tests.conftest import SHARED
from vario.catalogue import KNOBS
from vario.catalogue.metric import lookup
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Context, Dialect, reason_to_ignore
from vario.sources.rows import STEP_KEYS

DOCUMENTED = SHARED / "frameworks" / "metrics.csv"
LOGS = Path(__file__).parent / "logs"
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
CALLED = {"openpipe-art": "art", "tinker-cookbook": "tinker", "llamafactory": "llama-factory", "transformers": "trl"}
"""Frameworks that the table calls otherwise."""
WITHOUT = frozenset({"verifiers", "xtuner"})
"""Frameworks in the table that have no dialect."""
NUMBERS = frozenset({"k", "n", "N", "i", "j", "r", "p"})
"""Placeholders that stand for a number."""
EXAMPLES = {"subset": "all", "sglang metric": "prefill/time", "…": "verifiable_reward"}
"""Placeholders that stand for one of few words."""
NO_SERIES = frozenset(
    {*STEP_KEYS, "recorded_at", "elapsed_time", "remaining_time", "percentage", "samples", "val/generations"}
)
"""Columns that no dialect is asked for: the reader counts by them, or they hold text."""

needs_table = pytest.mark.skipif(
    not DOCUMENTED.is_file(), reason=f"no table of keys at {DOCUMENTED} (set VARIO_SHARED)"
)


def framework_of(row: str) -> str:
    """`trl.GRPO(wandb)` is trl, `axolotl(EBFT)` is axolotl."""
    plain = re.split(r"[.(]", row)[0]
    return CALLED.get(plain, plain)


def choices(inside: str) -> list[str]:
    """What a part in brackets can be: its alternatives, a number, or a name."""
    if re.fullmatch(r"[^{}<>]+([,|][^{}<>]+)+", inside):
        return re.split(r"[,|]", inside)
    return ["2"] if inside in NUMBERS else [EXAMPLES.get(inside, "sample")]


def expanded(key: str) -> Iterator[str]:
    """Keys that a documented key stands for; none where it stands for whatever the user logs."""
    if re.fullmatch(r"<[^<>]*>|\{[^{}]*\}", key) or re.search(r"<(any|all)\b", key):
        return
    parts = re.split(r"(\{[^{}]*\}|<[^<>]*>)", key)
    for made in itertools.product(*(choices(p[1:-1]) if re.fullmatch(r"\{.*\}|<.*>", p) else [p] for p in parts)):
        yield re.sub(r"…|\*$", "sample", "".join(made))


def documented() -> dict[str, list[str]]:
    """For each framework of the table, its keys."""
    found: dict[str, list[str]] = {}
    if not DOCUMENTED.is_file():
        return found
    with DOCUMENTED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            keys = found.setdefault(framework_of(row["framework"]), [])
            if row["proposal"] != "(prefix)":
                keys += (key for key in expanded(row["key"]) if key not in NO_SERIES)
    return found


def is_known(dialect: Dialect, key: str) -> bool:
    """Whether the dialect gives the key a meaning for whichever trainer, or says why not."""
    key = dialect.spell(key)
    return reason_to_ignore(dialect, key) is not None or any(a.match(key) is not None for a in dialect.aliases)


TABLE = documented()


def test_brackets_are_expanded() -> None:
    assert list(expanded("a/{b,c}/d_{k}")) == ["a/b/d_2", "a/c/d_2"]
    assert list(expanded("x/<p|q>_mean")) == ["x/p_mean", "x/q_mean"]
    assert list(expanded("rewards/{fn}/mean")) == ["rewards/sample/mean"]
    assert list(expanded("time/ppo/*")) == ["time/ppo/sample"]
    assert list(expanded("memory(GiB)")) == ["memory(GiB)"]
    assert list(expanded("<log_metric name>")) == list(expanded("eval_<any GRPO key>")) == []
    assert framework_of("trl.GRPO(wandb/mlflow/trackio)") == "trl"


@needs_table
def test_every_framework_of_the_table_has_a_dialect() -> None:
    assert set(TABLE) - WITHOUT <= set(BY_NAME)
    assert set(BY_NAME) - {"generic"} <= set(TABLE)
    assert sum(len(keys) for keys in TABLE.values()) > 1500


@needs_table
@pytest.mark.parametrize("framework", sorted(set(TABLE) & set(BY_NAME)))
def test_documented_keys_are_known(framework: str) -> None:
    unknown = [key for key in TABLE[framework] if not is_known(BY_NAME[framework], key)]
    assert not unknown, f"{len(unknown)} of {len(TABLE[framework])}: " + "\n".join(unknown)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_only_metrics_of_the_catalogue(name: str) -> None:
    dialect = BY_NAME[name]
    assert dialect.aliases
    for alias in dialect.aliases:
        assert lookup(alias.metric), alias
        assert re.compile(alias.key)


def contexts(dialect: Dialect) -> Iterator[Context]:
    """A context for each algorithm that the aliases tell apart, and for the common ones."""
    told = {algorithm for alias in dialect.aliases for algorithm in alias.algorithms}
    for algorithm in sorted(told | {"grpo", "ppo", "dpo", "unknown"}):
        yield Context(frozenset(), {}, algorithm, {})


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_only_knobs_and_advice_of_the_catalogue(name: str) -> None:
    dialect = BY_NAME[name]
    for context in contexts(dialect):
        for knob, setting in dialect.knobs(context).items():
            assert knob in KNOBS, knob
            assert setting.knob == knob
            assert setting.key
        for metric, how in dialect.enable(context).items():
            assert lookup(metric), metric
            assert how.strip(), metric


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_what_is_ignored_has_a_reason_and_an_end(name: str) -> None:
    for pattern, why in BY_NAME[name].ignored.items():
        assert len(why.strip()) > 5, pattern
        for unheard in ("qwxz", "qwxz/vjk", "qwxz vjk", "qwxz/vjk/pyf", "9"):
            assert not re.fullmatch(pattern, unheard), f"{pattern} ignores whatever comes"


def written_by(log: Path) -> str:
    """The framework that a log's name begins with."""
    return max((name for name in BY_NAME if log.name.startswith(f"{name}-")), key=len, default="")


@pytest.mark.parametrize("log", sorted(LOGS.glob("*-synthetic.jsonl")), ids=lambda p: str(p.name))
def test_each_log_is_read_by_its_own_dialect(log: Path) -> None:
    run = vario.read(log)
    assert run.framework == written_by(log), "recognised by another dialect"
    assert run.unmapped == ()
    assert run.series
    for name in run.series:
        assert lookup(name)
