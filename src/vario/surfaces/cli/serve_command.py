"""`vario serve`: the dashboard."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from vario.errors import ConfigError
from vario.surfaces.cli.wishes import add_judgement_options, add_sample_options, add_source_options, sample_options

if TYPE_CHECKING:
    from vario.run import Run
    from vario.sources.sampled import SampleOptions
    from vario.surfaces.dashboard.guard import Access

HOST, PORT = "127.0.0.1", 8321
MOST_PORT = 65_535
EVERY = 1.0
"""Seconds between two looks at the files: who looks at a page waits for what changes."""
TOKEN = "VARIO_TOKEN"
TOKENS = re.compile(r"[A-Za-z0-9._~-]{16,}")
MISSING = "vario serve needs `pip install 'vario[serve]'` ({error})"


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    one = commands.add_parser(
        "serve",
        help="a dashboard of many runs, in a browser",
        description="Serve a dashboard of the runs at the PATHs (output folders, folders of many runs, addresses): all of them as "
        "lights, what needs attention first; each with its curves, live; comparison; completions and their review. It listens on "
        "this machine alone; elsewhere with a token, or behind a proxy that says who asks.",
    )
    one.add_argument("paths", nargs="+", metavar="PATH")
    one.add_argument("--host", default=HOST, help=f"where to listen (default {HOST}: this machine alone)")
    one.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; 0: any that is free")
    one.add_argument(
        "--token",
        metavar="TOKEN",
        help=f"who asks must know it ({TOKEN} in the environment does the same; new: make one)",
    )
    one.add_argument(
        "--user-header",
        metavar="NAME",
        help="behind a proxy: the header in which it says who asks, such as X-Forwarded-User",
    )
    one.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="a further name by which the dashboard is reached"
    )
    one.add_argument("--every", type=float, metavar="SECONDS", help="pause between two looks at the files (default 1)")
    one.add_argument("--state", metavar="PLACE", help="where acknowledgements are kept (default: beside each run)")
    add_source_options(one)
    add_sample_options(one)
    add_judgement_options(one)


def run_serve(options: argparse.Namespace) -> int:
    """Serve, until the user has had enough.

    Raises:
        ConfigError: the options cannot be, or the port is taken.
    """
    if options.every is not None and not 0.1 <= options.every <= 86_400.0:
        raise ConfigError("--every: between 0.1 and 86400 seconds")
    if not 0 <= options.port <= MOST_PORT:
        raise ConfigError(f"--port {options.port}: from 0 (any that is free) to {MOST_PORT}")
    try:
        from vario.surfaces.dashboard.serving import serve
    except ImportError as error:
        raise ConfigError(MISSING.format(error=error)) from error
    from vario.project_file import find_project
    from vario.surfaces.dashboard.bounds import Bounds
    from vario.surfaces.dashboard.library import Library
    from vario.surfaces.live.watching import Watching
    from vario.surfaces.live.wishes import LiveWishes, WatchOptions, watch_options

    access, told = access_of(options)
    project = find_project(options.paths[0])
    watch = replace(watch_options(project.watch), every=options.every or EVERY)
    # the state that another's file names may be a place of theirs to write to: only one's own counts
    watch = replace(watch, state=options.state or (watch.state if project.here else WatchOptions().state))

    def samples(run: Run) -> SampleOptions:
        return replace(sample_options(options, find_project(run.path.partition("#")[0])), told=None)

    # where a file beside a log says that completions lie, anything may lie
    bounds = Bounds((*options.paths, *options.samples, *(project.samples if project.here else ())))
    watching = Watching(options.paths, options, LiveWishes(watch), speaks=False, check=bounds.check)
    library = Library(watching, bounds, samples)
    return serve(library, access, options.host, options.port, told, _warning(options))


def _warning(options: argparse.Namespace) -> str:
    """What has to be known by who opens it to others."""
    if _is_local(options.host):
        return ""
    known = (
        "the token"
        if not options.user_header
        else f"that the proxy sets {options.user_header}, and alone reaches this port,"
    )
    return f"listening beyond this machine, without encryption: {known} is all that keeps strangers out"


def _is_local(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")


def access_of(options: argparse.Namespace) -> tuple[Access, str]:
    """Who may ask, and the token as it stands in the address that is printed.

    Raises:
        ConfigError: strangers could ask, and nothing would stop them.
    """
    from vario.surfaces.dashboard.guard import LOOPBACK, Access

    token = options.token or os.environ.get(TOKEN) or None
    token = secrets.token_urlsafe(24) if token == "new" else token
    if token is not None and options.user_header:
        raise ConfigError("--token or --user-header: one of them says who may ask")
    if token is not None and TOKENS.fullmatch(token) is None:
        raise ConfigError("--token: 16 characters or more, of letters, digits and . _ ~ -; new makes one")
    is_local = _is_local(options.host)
    if not is_local and token is None and not options.user_header:
        raise ConfigError(
            f"--host {options.host}: whoever reaches this machine could read the runs. Give --token new, or --user-header NAME "
            f"behind a proxy that says who asks; or leave --host out and come by ssh -L {options.port}:{HOST}:{options.port}"
        )
    names = (*LOOPBACK, *(name.lower() for name in options.name))
    if not is_local:
        # addresses in numbers are answered anyway
        everywhere = options.host in ("0.0.0.0", "::")
        names = (*names, (socket.gethostname() if everywhere else options.host).lower())
    return Access(names, token, options.user_header), f"?token={token}" if token is not None else ""
