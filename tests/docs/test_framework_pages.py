"""A page says all that the dialect knows: keys, conditions, reasons, knobs, advice; and where its logs come from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

import page_parts
import pytest
from answers import answer
from format_page import extras_of, name_of, title_of
from framework_pages import algorithms_of, condition_of, framework_page, meanings, reasons
from key_words import in_words
from page_parts import Column, base_of, canonical, columns, heads, kin, logs, logs_of, nothing_known

from tests.conftest import GOLDEN, ROOT
from vario.catalogue import KNOBS
from vario.rules import RULES
from vario.run import Series
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Alias, Context, Dialect, Settled
from vario.sources.readers import READERS, mlflow_folder

FRAMEWORKS = ROOT / "docs/frameworks"
FORMATS = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def page_of(dialect: Dialect) -> str:
    return (FRAMEWORKS / f"{dialect.name}.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    """A section's text; empty when there is none."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def cells(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without heads."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    return [[c.strip() for c in line] for line in lines if not set("".join(line)) <= {"-", " "}]


# one page a framework


def test_every_framework_has_a_page_and_a_line_in_the_list() -> None:
    index = (FRAMEWORKS / "index.md").read_text(encoding="utf-8")
    assert {p.stem for p in FRAMEWORKS.glob("*.md")} == {d.name for d in DIALECTS} | {"index"}
    for dialect in DIALECTS:
        assert f"]({dialect.name}.md) | `{dialect.name}` |" in index


@each_dialect
def test_page_begins_with_what_the_module_says(dialect: Dialect) -> None:
    said = page_parts.module_of(dialect).__doc__ or ""
    assert said.strip().splitlines()[0] in page_of(dialect)
    assert said.strip().splitlines()[-1] in page_of(dialect)


@each_dialect
def test_every_key_stands_beside_its_metric(dialect: Dialect) -> None:
    rows = cells(section(page_of(dialect), "What each key means"))
    shown = {(key, row[1]) for row in rows for key in re.findall(r"`([^`]+)`", row[0])}
    for alias in dialect.aliases:
        for key in in_words(alias.key):
            assert (key, f"`{alias.metric}`") in shown, alias


@each_dialect
def test_every_condition_is_told(dialect: Dialect) -> None:
    page = page_of(dialect)
    told = re.findall(r"^(\d+)\. (.+)$", section(page, "What each key means"), flags=re.MULTILINE)
    conditional = {condition_of(a.when) for a in dialect.aliases if a.when is not None}
    assert {text for _, text in told} == conditional
    assert [int(n) for n, _ in told] == list(range(1, len(told) + 1))
    for text in conditional:
        assert len(text) > 10
    for meaning, keys in meanings(dialect):
        line = next(
            ln for ln in page.splitlines() if ln.startswith(f"| {page_parts.code(keys)} | `{meaning.metric}` |")
        )
        assert keys
        assert (meaning.condition == "") or re.search(r"\| \d+ \|", line)


@each_dialect
def test_rows_of_one_key_stand_in_the_order_in_which_they_count(dialect: Dialect) -> None:
    """Whatever families the rows are sorted into: the first row that holds has to be the one that counts."""
    rows = meanings(dialect)
    for key in {a.key for a in dialect.aliases}:
        real = list(dict.fromkeys(a.metric for a in dialect.aliases if a.key == key))
        shown = list(dict.fromkeys(m.metric for m, keys in rows if in_words(key)[0] in keys))
        assert shown == real, key


@each_dialect
def test_every_reason_to_ignore_is_told(dialect: Dialect) -> None:
    rows = cells(section(page_of(dialect), "Known, and no metric"))
    shown = {(row[0], row[1]) for row in rows}
    for pattern, why in dialect.ignored.items():
        assert (page_parts.code(in_words(pattern)).replace("|", "\\|"), why.replace("|", "\\|")) in shown


@each_dialect
def test_every_knob_and_every_advice_is_told(dialect: Dialect) -> None:
    page = page_of(dialect)
    knobs, advice = section(page, "Knobs"), section(page, "How to log what is missing")
    assert knobs.strip()
    assert advice.strip()
    for algorithm in algorithms_of(dialect):
        for knob, setting in dialect.knobs(nothing_known(algorithm)).items():
            default = "not set" if setting.current is None else f"`{setting.current}`"
            assert f"| [{knob}](../knobs.md#{knob}) | `{setting.key}` | {default} |" in knobs
        for metric, how in dialect.enable(nothing_known(algorithm)).items():
            assert f"| `{metric}` | {how} |" in advice


@each_dialect
def test_what_a_step_is_is_told(dialect: Dialect) -> None:
    said = section(page_of(dialect), "What a step is")
    for log in logs_of(dialect):
        if log.run.framework == dialect.name:
            assert {"rollout": "rollouts", "optimiser": "optimiser", "unknown": "not said"}[
                log.run.declared.step_unit
            ] in said
    for axis in dialect.axes:
        assert f"`{axis.prefix}` by `{axis.key}`" in said


def test_a_condition_is_told_in_its_own_words() -> None:
    trl = {(a.key, a.metric): condition_of(a.when) for a in BY_NAME["trl"].aliases if a.when is not None}
    spread = trl["reward_std", "reward/std/within-group"]
    assert spread == "“within the group up to TRL 0.26, over the batch from 0.27; the version is not known”."
    assert trl["logps/chosen", "preference/chosen-logp"].startswith("ORPO, and CPO with SimPO's or AlphaPO's loss,")
    # asked in another framework's words, it is the same condition
    axolotl = {condition_of(a.when) for a in BY_NAME["axolotl"].aliases if a.when is not None}
    assert trl["logps/chosen", "preference/chosen-logp"] in axolotl


def test_a_condition_without_words_is_told_by_its_name() -> None:
    def _only_sometimes(context: Context, _: Series) -> Settled:
        return Settled("x" in context.keys)

    def _with_reason(_context: Context, _: Series) -> Settled:
        return Settled(None, "two things at once")

    assert condition_of(_only_sometimes) == "Where it is so: only sometimes (`'x' in keys`)."
    assert reasons(_with_reason) == ["two things at once"]
    assert condition_of(_with_reason) == "“two things at once”."

    def several(*conditions: Callable[[Context, Series], Settled]) -> Callable[[Context, Series], Settled]:
        return lambda context, series: next(c(context, series) for c in conditions)

    assert condition_of(several(_with_reason)) == "“two things at once”."
    assert condition_of(several()).startswith("Where it is so: ")


def test_the_page_follows_the_dialect() -> None:
    """What is taken out of a dialect goes from its page."""
    import dataclasses

    trlx = BY_NAME["trlx"]
    less = dataclasses.replace(trlx, aliases=[a for a in trlx.aliases if a.key != "ratio"], ignored={})
    assert "`ratio`" in framework_page(trlx)
    assert "`ratio`" not in framework_page(less)
    assert not section(framework_page(less), "Known, and no metric")
    more = dataclasses.replace(trlx, aliases=[*trlx.aliases, Alias(r"a/(?P<part>.+)/b", "reward/component/*/std")])
    assert "| `a/*/b` | `reward/component/*/std` |" in framework_page(more)


# where the logs come from


def test_origins_are_counted_from_the_files() -> None:
    found = logs()
    files = [p for p in (ROOT / "tests/sources/logs").iterdir() if p.is_file() and not p.name.startswith(".")]
    named = [log for log in found if log.origin != page_parts.REAL]
    assert {log.path.name for log in named} == {p.name for p in files}, "a log whose name begins with no framework"
    for log in named:
        assert (log.origin == page_parts.SYNTHETIC) == ("synthetic" in log.path.name)
        assert log.path.name.startswith(log.framework)
    real = [log.path.name for log in found if log.origin == page_parts.REAL]
    assert sorted(real) == sorted(p.parent.name for p in GOLDEN.glob("*/label.json"))


def test_a_log_is_its_own_framework_s() -> None:
    assert not {log.path.name for log in logs_of(BY_NAME["trl"])} & {log.path.name for log in logs_of(BY_NAME["trlx"])}
    assert not any("agent" in log.path.name for log in logs_of(BY_NAME["verl"]))


@each_dialect
def test_every_log_is_on_the_page_with_its_origin(dialect: Dialect) -> None:
    rows = cells(section(page_of(dialect), "Logs that the tests read"))
    mine = {(f"`{log.path.as_posix()}`", log.origin) for log in logs_of(dialect)}
    assert {(row[0], row[1]) for row in rows if row[0].startswith("`")} == mine


# overviews


def test_every_framework_is_in_one_group() -> None:
    names = [d.name for group in kin().values() for d in group]
    assert sorted(names) == sorted(BY_NAME)
    assert names[-1] == "generic"


def test_what_is_built_on_what() -> None:
    built = {d.name: b.name for d in DIALECTS if (b := base_of(d)) is not None}
    assert {k: v for k, v in built.items() if k in ("unsloth", "ragen")} == {"unsloth": "trl", "ragen": "verl"}
    assert "slime" not in built
    assert "trl" not in built


def test_heads_name_trainers_only_where_they_differ() -> None:
    trl, unsloth = BY_NAME["trl"], BY_NAME["unsloth"]
    assert heads([Column(trl, "grpo"), Column(trl, "rloo"), Column(unsloth, "grpo")]) == "TRL GRPO, RLOO; Unsloth GRPO"
    assert heads([Column(trl, t) for t in page_parts.trainers_of(trl)]) == "TRL"
    assert heads([Column(BY_NAME["slime"])]) == "slime"


def test_a_set_that_is_the_only_one_is_the_score() -> None:
    """`eval/set/*/mean` gives `eval/score/mean` where there is one set: the table must not deny it."""
    verl = Column(BY_NAME["verl"])
    assert "eval/score/mean" in verl.metrics(settled=False)
    assert "eval/score/mean" not in verl.metrics(settled=True)
    rule = next(r for r in RULES if r.name == "reward-up-eval-not")
    assert answer(rule, verl).mark == "○"


@pytest.mark.parametrize("column", columns(), ids=lambda c: f"{c.dialect.name} {c.algorithm}")
def test_the_table_says_what_is_fed(column: Column) -> None:
    text = (ROOT / "docs/rule-by-framework.md").read_text(encoding="utf-8")
    tables = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for block in tables:
        rows = cells(block)
        for place, head in enumerate(rows[0][1:], 1):
            parts = dict(re.match(r"(.+?)(?: ((?:async )?[A-Z]{3,4}.*))?$", p).groups() for p in head.split("; "))  # type: ignore[union-attr]
            title = page_parts.title_of(column.dialect)
            if title not in parts or (
                parts[title] and page_parts.spoken(column.algorithm) not in parts[title].split(", ")
            ):
                continue
            said = {re.findall(r"\[([\w-]+)\]", row[0])[0]: row[place] for row in rows if row[0].startswith("[")}
            assert said == {rule.name: answer(rule, column).mark for rule in RULES}
            return
    pytest.fail(f"{column} has no column")


def test_no_table_is_too_wide_to_read() -> None:
    for page in (
        *FRAMEWORKS.glob("*.md"),
        ROOT / "docs/rule-by-framework.md",
        ROOT / "docs/knobs.md",
        ROOT / "docs/metrics.md",
    ):
        for row in cells(page.read_text(encoding="utf-8")):
            assert len(row) <= 9, f"{page.name}: {row}"


def test_every_knob_is_told_for_every_framework_that_has_it() -> None:
    text = (ROOT / "docs/knobs.md").read_text(encoding="utf-8")
    for dialect in DIALECTS:
        for trainer in page_parts.trainers_of(dialect):
            for knob, setting in page_parts.knobs_of(dialect, trainer).items():
                title = page_parts.title_of(dialect)
                assert f"| [{title}](frameworks/{dialect.name}.md) | `{setting.key}` |" in section(text, knob)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == list(KNOBS)


def test_every_metric_is_told_with_its_keys() -> None:
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL))
    assert list(sections) == list(page_parts.METRICS)
    for dialect in DIALECTS:
        for alias in dialect.aliases:
            if alias.metric in sections:
                line = next(ln for ln in sections[alias.metric].splitlines() if f"(frameworks/{dialect.name}.md)" in ln)
                assert all(f"`{key}`" in line for key in in_words(alias.key))
            else:
                assert canonical(alias.metric) in sections


# formats


@pytest.mark.parametrize("reader", [*READERS, mlflow_folder], ids=name_of)
def test_every_reader_is_on_the_page(reader: object) -> None:
    title = title_of(reader)
    part = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", FORMATS, flags=re.MULTILINE | re.DOTALL)
    assert part is not None
    assert f"`{name_of(reader)}`" in part[1]
    assert (reader.__doc__ or "").strip().splitlines()[0] in part[1]
    assert ("--run NAME" in part[1]) == hasattr(reader, "runs")
    for extra in extras_of(reader):
        assert f"vario[{extra}]" in part[1]


def test_extras_are_those_of_the_project() -> None:
    from vario.sources import mlflow_server, opening, remote, wandb_server
    from vario.sources.readers import parquet

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras_of(parquet) == ["parquet"]
    assert extras_of(opening) == ["zstd"]
    assert [extras_of(m) for m in (remote, wandb_server, mlflow_server)] == [["remote"], ["wandb"], ["mlflow"]]
    assert set(re.findall(r"vario\[(\w+)\]", FORMATS)) <= set(declared)
    for extra in set(declared) - {"test"}:
        assert f"| `{extra}` |" in FORMATS
