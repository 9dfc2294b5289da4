"""The reference pages are what the source says, and the source says what a page must."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vario.catalogue import KNOBS, lookup
from vario.rules import RULES, Rule
from vario.rules.base import HEADINGS
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Context, Dialect

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MODULES = sorted(
    p.stem for p in (ROOT / "src/vario/rules").glob("*.py") if p.stem not in ("__init__", "base", "choice", "engine")
)
NAMES = {rule.name for rule in RULES}
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def test_pages_are_what_the_source_says() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/pages.py", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@each_rule
def test_page_has_every_heading_in_order(rule: Rule) -> None:
    found = [line.strip(" :") for line in rule.page.splitlines() if line.strip().endswith(":")]
    assert [f for f in found if f in HEADINGS] == list(HEADINGS)
    for heading in HEADINGS:
        assert rule.section(heading), f"{heading} is empty"


@each_rule
def test_summary_is_one_sentence(rule: Rule) -> None:
    assert rule.summary.endswith(".")
    assert rule.page.splitlines()[1] == ""


@each_rule
def test_name_file_and_code_agree(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]{2}\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    stem = rule.name.replace("-", "_")
    assert rule.function.__name__ == stem
    assert rule.function.__module__ == f"vario.rules.{stem}"
    opening = (ROOT / f"src/vario/rules/{stem}.py").read_text(encoding="utf-8").splitlines()[0]
    assert opening == f'"""{rule.code} {rule.name}."""'


def test_every_rule_module_is_in_the_table() -> None:
    assert sorted(rule.name.replace("-", "_") for rule in RULES) == MODULES


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len(NAMES) == len(RULES)


def test_comments_of_the_table_give_the_right_code() -> None:
    text = (ROOT / "src/vario/rules/__init__.py").read_text(encoding="utf-8")
    said = dict(re.findall(r"^    (\w+),  # ([A-Z]{2}\d{3})$", text, flags=re.MULTILINE))
    assert said == {rule.name.replace("-", "_"): rule.code for rule in RULES}


@each_rule
def test_turns_are_knobs_with_a_reason(rule: Rule) -> None:
    for turn in rule.turns:
        assert turn.knob in KNOBS
        assert turn.why


@each_rule
def test_what_it_explains_exists(rule: Rule) -> None:
    assert set(rule.explains) <= NAMES
    assert rule.name not in rule.explains
    assert len(set(rule.explains)) == len(rule.explains)


@each_dialect
def test_aliases_name_metrics_of_the_catalogue(dialect: Dialect) -> None:
    for alias in dialect.aliases:
        assert lookup(alias.metric)
        assert "*" not in alias.metric or "(?P<" in alias.key, alias
        assert "*" in alias.metric or "(?P<" not in alias.key or alias.when, f"{alias}: which of the keys, and when?"


@each_dialect
def test_knobs_of_a_dialect_are_in_the_catalogue(dialect: Dialect) -> None:
    text = (DOCS / "knobs.md").read_text(encoding="utf-8")
    for algorithm in {a for alias in dialect.aliases for a in alias.algorithms} | {"unknown", "ppo"}:
        settings = dialect.knobs(_nothing_known(algorithm))
        assert set(settings) <= set(KNOBS)
        for knob in settings:
            assert f"\n## {knob}\n" in text


def _nothing_known(algorithm: str) -> Context:
    return Context(frozenset(), {}, algorithm, {})


@each_rule
def test_page_is_linked_from_the_index(rule: Rule) -> None:
    index = (DOCS / "rules/index.md").read_text(encoding="utf-8")
    assert f"| {rule.code} | [{rule.name}]({rule.name}.md) |" in index
    assert f"[{rule.name}](rules/{rule.name}.md)" in (DOCS / "rule-by-framework.md").read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """What a link can name behind `#`: headings in small letters, hyphens for spaces, nothing else kept."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page: Path) -> None:
    known: dict[Path, set[str]] = {}
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        if anchor:
            if there not in known:
                known[there] = anchors(there)
            assert anchor in known[there], f"{target}#{anchor}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_tables_are_whole(page: Path) -> None:
    width = 0
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (cells and width) or cells == width, line
        width = cells
