"""The SDK's own client, talking to the real process `vario mcp`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytest.importorskip("mcp")

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp import Client
from tests.conftest import ROOT
from vario.surfaces.mcp.shown import BRIEF, FULL, TEXT, size

COMMAND = ["-m", "vario.surfaces.cli", "mcp"]
PATIENCE = 60.0


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("VARIO_TOKEN", "VARIO_DEBUG")}
    return kept | {"PYTHONPATH": str(ROOT / "src")} | more


@dataclass
class Talk:
    """A client, and what the server's tools promise of their answers."""

    portal: BlockingPortal
    client: Client
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: Path | None = None

    def begin(self, tool: str, **arguments: object) -> Future[Any]:
        return self.portal.start_task_soon(self.client.call_tool, tool, arguments)

    def ask(self, tool: str, **arguments: object) -> tuple[dict[str, Any], str]:
        """The structured answer, which is what its schema says and no longer than promised, and the short text."""
        done = self.begin(tool, **arguments).result(PATIENCE)
        assert not done.is_error, done.content[0].text
        answer, text = done.structured_content, done.content[0].text
        jsonschema.validate(answer, self.schemas[tool])
        assert size(answer) <= (FULL if arguments.get("detail") == "full" else BRIEF), size(answer)
        assert len(text) <= TEXT
        return answer, text

    def refused(self, tool: str, **arguments: object) -> str:
        """The one sentence of an error."""
        done = self.begin(tool, **arguments).result(PATIENCE)
        assert done.is_error, done.structured_content
        assert not done.structured_content
        (content,) = done.content
        assert "\n" not in content.text
        assert "Traceback" not in content.text
        assert "internal error" not in content.text
        return content.text

    def ids(self) -> dict[str, str]:
        answer, _ = self.ask("list_runs", limit=200)
        return {run["name"]: run["id"] for run in answer["runs"]}


@contextlib.contextmanager
def talk_to(server: Any) -> Iterator[Talk]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        tools = portal.call(client.list_tools).tools
        yield Talk(portal, client, {tool.name: tool.output_schema for tool in tools})


@contextlib.contextmanager
def over_stdio(*places: object, cwd: Path, errors: Path, env: Mapping[str, str] | None = None) -> Iterator[Talk]:
    """A server of its own for these places; what it says on standard error goes to a file."""
    how = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *map(str, places)], env=environment(**(env or {})), cwd=cwd
    )
    with errors.open("w") as stream, talk_to(stdio_client(how, errlog=stream)) as talk:
        talk.errors = errors
        yield talk


@contextlib.contextmanager
def over_http(*options: object, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server at a free port; its address."""
    command = [sys.executable, *COMMAND, "--transport", "http", "--port", "0", *map(str, options)]
    process = subprocess.Popen(
        command, cwd=cwd, env=environment(**(env or {})), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0]
        assert process.poll() is None, "it died meanwhile"
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
        assert out == ""


def raw(places: Sequence[object], cwd: Path) -> subprocess.Popen[str]:
    """The process by itself, to be spoken to line by line."""
    return subprocess.Popen(
        [sys.executable, *COMMAND, *map(str, places)], cwd=cwd, env=environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, tool: str, **arguments: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages: object) -> str:
    return "".join((m if isinstance(m, str) else json.dumps(m)) + "\n" for m in messages)
