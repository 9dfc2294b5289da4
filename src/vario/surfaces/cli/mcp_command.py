"""`vario mcp`: the runs below some folders as tools for agents."""

from __future__ import annotations

import argparse
import os
from importlib import resources
from typing import TYPE_CHECKING

from vario.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

LOOPBACK = "127.0.0.1"
PORT = 10778
"""Beside the exporter's."""
TOKEN = "VARIO_TOKEN"
"""The variable that holds the token."""


def add_mcp(commands: Commands) -> None:
    """Describe the command."""
    one = commands.add_parser(
        "mcp",
        help="serve runs to agents (Model Context Protocol)",
        description="Answer agents over the Model Context Protocol: list runs, diagnose them, explain rules, show series and "
        "completions, compare. Only runs at the PATHs (folders, files, addresses) and below them can be read; the current "
        "folder where none is given.",
    )
    one.add_argument("paths", nargs="*", metavar="PATH")
    one.add_argument(
        "--transport", choices=("stdio", "http"), default="stdio", help="standard streams, or streamable HTTP"
    )
    one.add_argument("--host", default=LOOPBACK, help=f"with http: where to listen (default {LOOPBACK})")
    one.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"with http: the port (default {PORT}; 0: any that is free)"
    )
    one.add_argument("--token", help=f"with http: what every request has to bear (better: {TOKEN} of the environment)")
    one.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="with http: a further name by which it is reached, as behind a proxy",
    )
    one.add_argument("--skill", action="store_true", help="print the agent skill (SKILL.md), and end")


def run_mcp(options: argparse.Namespace) -> int:
    """Serve until the client has gone.

    Raises:
        ConfigError: mcp is not installed, a PATH is not there, or the server would be open to the network.
    """
    if options.skill:
        print(skill(), end="")
        return 0
    try:
        from vario.surfaces.mcp.server import build
        from vario.surfaces.mcp.transports import serve_http, serve_stdio
    except ImportError as error:
        raise ConfigError("vario mcp needs the SDK of the protocol: pip install 'vario[mcp]'") from error
    server = build(options.paths)
    if options.transport == "stdio":
        serve_stdio(server)
    else:
        token = options.token or os.environ.get(TOKEN) or None
        serve_http(server, options.host, options.port, token, options.name)
    return 0


def skill() -> str:
    """The text of the agent skill."""
    return resources.files("vario.surfaces.mcp").joinpath("SKILL.md").read_text(encoding="utf-8")
