"""docs/agents.md: every call is made of the real server, every snippet starts one, and every number is that of the code."""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("polars")

from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.dumps import broken_at, trl_run
from tests.conftest import ROOT, recorded
from tests.docs.telling import (
    BLOCK,
    Told,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    quoted,
    run,
    table_below,
    text_of,
)
from tests.mcp.talking import Talk, environment, over_http, over_stdio, talk_to
from vario.sources.sampled import KINDS, ORDERS
from vario.surfaces.cli.mcp_command import PORT, skill
from vario.surfaces.mcp import beside, catalogue, completions, series, shelf, shown
from vario.surfaces.privacy import SHOWN

PAGE = "agents"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
RUNS = {"my-run": "grpo-drift", "good": "grpo-healthy-kl"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name, golden in RUNS.items():
        recorded(golden, home / "runs" / name)
    trl_run(home / "runs/parser", broken_at(60))
    return home


@pytest.fixture(scope="module")
def talk(home: Path) -> Iterator[Talk]:
    with over_stdio("runs", cwd=home, errors=home / "errors") as talk:
        yield talk


def calls() -> list[tuple[dict[str, Any], str]]:
    """Calls with what the page shows of the answer."""
    blocks = [(kind, body) for _, _, kind, body in BLOCK.findall(TEXT)]
    return [
        (json.loads(body), blocks[place + 1][1])
        for place, (kind, body) in enumerate(blocks)
        if kind == "json" and '"tool"' in body
    ]


def snippets() -> list[dict[str, Any]]:
    bodies = [body for _, _, kind, body in BLOCK.findall(TEXT) if kind == "json" and "mcpServers" in body]
    return [json.loads(body)["mcpServers"]["vario"] for body in bodies]


@pytest.mark.parametrize(("call", "expected"), calls(), ids=[json.dumps(c) for c, _ in calls()])
def test_what_the_page_shows_is_answered(talk: Talk, call: dict[str, Any], expected: str) -> None:
    _, text = talk.ask(call["tool"], **call["arguments"])
    is_printed(Told(json.dumps(call), 0, text, [expected]))


def test_every_tool_is_told(talk: Talk) -> None:
    assert re.findall(r"^### (\w+)$", TEXT, re.MULTILINE) == list(talk.schemas)
    assert {call["tool"] for call, _ in calls()} == set(talk.schemas)


@pytest.mark.parametrize("tool", ["diagnose", "samples"])
def test_every_argument_is_told(talk: Talk, tool: str) -> None:
    told = {word for row in table_below(PAGE, tool) for word in quoted(row[0])}
    tools = talk.portal.call(talk.client.list_tools).tools
    known = next(t.input_schema["properties"] for t in tools if t.name == tool)
    assert told == set(known) - {"run"}


def test_words_of_samples() -> None:
    rows = {row[0]: quoted(row[1]) for row in table_below(PAGE, "samples")}
    assert tuple(rows["`kind`"]) == KINDS
    assert tuple(rows["`order`, `lowest`"]) == ORDERS
    from vario.surfaces.mcp.server import Tools

    hints = Tools.samples.__annotations__
    for name, words in (("kind", KINDS), ("order", ORDERS)):
        assert all(f"'{word}'" in str(hints[name]) or f'"{word}"' in str(hints[name]) for word in words)


def test_the_snippet_starts_a_server(home: Path) -> None:
    """As a client would, with the command of this environment."""
    how = snippets()[0]
    assert how["command"] == "vario"
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "vario.surfaces.cli", *how["args"]], env=environment(), cwd=home
    )
    with (home / "snippet-errors").open("w") as stream, talk_to(stdio_client(server, errlog=stream)) as talk:
        assert sorted(talk.ids()) == ["good", "my-run", "parser"]


def test_the_commands_over_http(home: Path) -> None:
    plain, guarded = (line for line in commands_of(PAGE) if "--transport http" in line)
    assert plain == "vario mcp runs --transport http"
    assert snippets()[1]["url"].endswith(f":{PORT}/mcp")
    assert f"http://127.0.0.1:{PORT}/mcp" in TEXT
    variable, *words = guarded.split()
    assert words[5:] == ["--host", "0.0.0.0"]
    assert variable.startswith("VARIO_TOKEN=")
    # tests/mcp/test_http.py starts that very command; here the token comes by the option, and counts on loopback too
    with over_http(*words[2:3], "--token", "t" * 20, cwd=home) as url:
        assert url.endswith("/mcp")

        place = http.client.HTTPConnection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        place.request("POST", "/mcp", "{}")
        assert place.getresponse().status == 401
        place.close()


def test_the_skill_is_printed() -> None:
    (line,) = (line for line in commands_of(PAGE) if "--skill" in line)
    done = run(line)
    assert done.code == 0
    assert done.out == skill()
    done.shown.append(BLOCK.findall(TEXT)[-1][3])
    is_printed(done)
    (name,) = re.findall("^name: (.*)$", skill(), re.MULTILINE)
    assert f".claude/skills/{name}/SKILL.md" in TEXT


def test_numbers_of_the_page() -> None:
    assert (shown.BRIEF, shown.FULL, shown.TEXT) == (24_000, 60_000, 4_000)
    assert (shelf.MOST_RUNS, shelf.MOST_STEPS, catalogue.PATIENCE) == (8, 6, 20.0)
    assert (series.MOST_POINTS, completions.MOST_SAMPLES, completions.WHOLE, SHOWN) == (60, 20, 8_000, 1_200)
    assert beside.MOST_RUNS == 6
    for said in (
        "at most 24,000 characters as JSON, a full diagnosis 60,000, the short text 4,000",
        "last eight runs are kept, with six moments of each",
        "one call judges for 20 seconds",
        "more than 60 are thinned",
        "4, and never more than 20",
        "up to 8,000 characters of each text, instead of 1,200",
        "Two to six runs",
    ):
        assert said in SAID, said


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "mcp")


def test_it_is_linked() -> None:
    assert "](agents.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    links_lead_somewhere(PAGE)
