"""docs/command-line.md, docs/schemas.md, docs/instruments.md and the how-tos on the frameworks' pages: complete and true."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from command_page import NEEDS, SHARED, commands, options_of, usage
from framework_howto import logs_lie
from page_parts import logs_of
from schema_page import schemas

from tests.conftest import ROOT
from tests.docs.telling import BLOCK, packed, run
from vario.instruments import INSTRUMENTS
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Dialect
from vario.surfaces import cli
from vario.surfaces.panels import PANELS

DOCS = ROOT / "docs"
SOURCE = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "src/vario").rglob("*.py")))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
each_command = pytest.mark.parametrize("name", commands())
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next one of its rank."""
    return re.split(r"^## ", text.split(f"\n## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


# the command line


@each_command
def test_every_option_of_a_command_is_told(name: str) -> None:
    parser, _ = commands()[name]
    text = page("command-line")
    mine = section(text, f"vario {name}")
    for title in SHARED:
        if f"](#{re.sub(r'[^a-z ]', '', title.lower()).replace(' ', '-')})" in mine:
            mine += text.split(f"\n### {title}\n")[1].split("\n### ")[0]
    for action in options_of(parser):
        for option in action.option_strings:
            assert f"`{option}`" in mine, option
    told = set(re.findall(r"^\| (?:`-\w`, )?`(--[\w-]+)`", mine, flags=re.MULTILINE))
    assert told <= {option for action in options_of(parser) for option in action.option_strings}
    assert f"`{usage(name, parser)}`" in mine


@each_command
def test_a_command_says_of_itself_what_the_page_says(name: str) -> None:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), pytest.raises(SystemExit):
        cli.main([name, "--help"])
    described = section(page("command-line"), f"vario {name}").split("\n\n")[1]
    parser, line = commands()[name]
    told = packed(parser.description or line)
    assert packed(described.replace("\\", "")).rstrip(".").lower() == told.rstrip(".").lower()
    assert not parser.description or told in packed(heard.getvalue())


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from command_page import command_page

    monkeypatch.setenv("COLUMNS", "40")
    narrow = command_page()
    monkeypatch.setenv("COLUMNS", "200")
    assert command_page() == narrow == page("command-line")


def test_extras_are_those_of_the_commands() -> None:
    assert set(NEEDS) <= set(commands())
    for name, words in NEEDS.items():
        for extra in re.findall(r"`([a-z]+)`", words):
            assert extra in EXTRAS, f"{name}: {extra}"
            assert re.search(rf"vario\[{extra}\]", SOURCE), f"{name}: nothing asks for {extra}"
    asked = re.findall(r"vario (\w+) needs .*?vario\[", SOURCE)
    assert {"serve", "mcp"} <= set(asked) <= set(NEEDS), "a command that cannot begin without an extra says so here"


def test_exit_codes_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d) \| (.+) \|$", section(page("command-line"), "Exit codes"), flags=re.MULTILINE)
    assert [int(code) for code, _ in rows] == [cli.OK, cli.FOUND, cli.FAILED, cli.NOTHING]
    assert f"in the order {', '.join(map(str, cli.WORST))}" in page("command-line")


def test_a_new_argument_would_be_told() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("more", nargs="*", metavar="NAME")
    parser.add_argument("--to", required=True, metavar="TARGET")
    assert usage("try", parser) == "vario try PATH [NAME …] --to TARGET [OPTION …]"


# schemas


@pytest.mark.parametrize("name", schemas())
def test_every_field_of_a_schema_is_told(name: str) -> None:
    schema = schemas()[name]
    text = section(page("schemas"), schema["title"].removeprefix("vario "))
    shapes = [*schema.get("oneOf", (schema,)), *schema.get("$defs", {}).values()]
    for shape in shapes:
        for field in shape["properties"]:
            assert f"| `{field}` |" in text, field
    assert f"`src/vario/schemas/{name}.json`" in text


def test_fields_that_the_page_names_are_in_the_schemas() -> None:
    whole = json.dumps(schemas())
    for field in re.findall(r"^\| `([\w.\[\]*]+)` \|", page("schemas"), flags=re.MULTILINE):
        assert f'"{re.split(r"[.]", field)[-1].removesuffix("[]")}"' in whole, field


# instruments


def test_every_instrument_has_its_part() -> None:
    text = page("instruments")
    told = re.findall(r"^### (\w+)$", text, flags=re.MULTILINE)
    assert sorted(told) == sorted(kind.__name__ for kind in INSTRUMENTS)
    for kind in INSTRUMENTS:
        part = text.split(f"\n### {kind.__name__}\n")[1].split("\n##")[0]
        assert "Can be read with: " in part
        assert "Asked by: " in part
        assert (kind.__doc__ or "").strip().splitlines()[0] in part
    for title, prefixes in PANELS:
        assert f"| {title} | " in text
        assert all(f"`{prefix}`" in text for prefix in prefixes)


# how-tos of the frameworks


@each_dialect
def test_a_framework_says_how_to_read_follow_log_and_turn(dialect: Dialect) -> None:
    text = (DOCS / f"frameworks/{dialect.name}.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert heads[:2] == ["Read a run", "Follow it while it trains"]
    assert {"What each key means", "Knobs", "How to log what is missing"} <= set(heads)
    if dialect.name != "generic":
        switch, place, _ = logs_lie()[dialect.name]
        assert f"- To have a log: {switch}." in text
        assert f"- What to watch: {place}." in text


@each_dialect
def test_commands_of_a_framework_run_on_its_log(dialect: Dialect, tmp_path: Path) -> None:
    found = next(iter(logs_of(dialect)), None)
    log = ROOT / found.path if found is not None else ROOT / "tests/golden/grpo-healthy"
    here = tmp_path / "runs/my-run"
    if log.is_dir():
        shutil.copytree(log, here)
    else:
        here.mkdir(parents=True)
        shutil.copy(log, here / log.name)
    with contextlib.chdir(tmp_path):
        text = (DOCS / f"frameworks/{dialect.name}.md").read_text(encoding="utf-8")
        lines = [line for _, _, kind, body in BLOCK.findall(text) if kind == "sh" for line in body.splitlines()]
        assert len(lines) == 3
        for line in lines:
            done = run(f"{line} --once" if line.startswith("vario watch") else line)
            assert done.code == cli.OK, f"{line}\n{done.out}"
            assert done.out.strip(), line


# every page


def test_code_of_every_page_is_run_by_a_test() -> None:
    """A page with commands or code is named in a test of this folder, which runs them."""
    tests = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "tests/docs").glob("test_*.py")}
    del tests["test_site.py"]
    for path in sorted(DOCS.glob("*.md")):
        blocks = [kind for _, _, kind, _ in BLOCK.findall(path.read_text(encoding="utf-8"))]
        if {"sh", "python"} & set(blocks):
            named = [n for n, text in tests.items() if re.search(rf"""["'/]{path.stem}(\.md)?["']""", text)]
            assert named, f"{path.name}: no test runs its {blocks}"
