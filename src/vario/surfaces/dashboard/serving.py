"""The server under the dashboard: where it listens, what it says when it stands, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

import uvicorn

from vario.errors import ConfigError
from vario.surfaces.dashboard.guard import Access
from vario.surfaces.dashboard.library import Library
from vario.surfaces.dashboard.page import Site
from vario.surfaces.dashboard.site import application
from vario.surfaces.signals import ended_by

WAITING = 512
"""Connections that wait to be taken."""
LARGEST_HEAD = 32 << 10
"""Bytes of a request's address and headers."""
MOST_CONNECTIONS = 900
"""Those beyond are told to come again: a process has a thousand files, and the runs need some of them."""
TURNS = 0.001
"""Seconds after which a thread that works lets another one have its turn: a page must not wait behind a judgement."""
PATIENCE = 3.0
"""Seconds that those who are being answered have left when it ends."""


def serve(library: Library, access: Access, host: str, port: int, told: str, warning: str = "") -> int:
    """Serve until a signal; 0 in the end.

    Args:
        library: the runs. access: who may ask.
        host, port: where to listen; port 0 takes a free one.
        told: what stands behind the address that is printed. warning: what else is to be known, on standard error.

    Raises:
        ConfigError: it cannot listen there.
    """
    listening = _listen(host, port)
    sys.setswitchinterval(TURNS)
    # what was imported stays: gone through at every full collection it would hold up pages for a tenth of a second
    gc.collect()
    gc.freeze()
    shown = f"[{host}]" if ":" in host else host
    site = Site(library, access)
    config = uvicorn.Config(
        application(site),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(PATIENCE),
        http="h11",  # the one of uvicorn's parsers whose headers have a bound
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=WAITING,
        lifespan="on",
    )
    print(f"vario serve: http://{shown}:{listening.getsockname()[1]}/{told}", flush=True)
    for message in (*([warning] if warning else []), *library.messages):
        print(f"vario: {message}", file=sys.stderr, flush=True)
    # to end it is no failure: the server sends itself again, once it has ended, what has ended it
    with listening, ended_by(lambda *_: None):
        asyncio.run(_Server(config, site).serve([listening]))
    return 0


class _Server(uvicorn.Server):
    """Lets go of those who listen before it waits for those who are being answered."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._site.closing = True
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{host}:{port}: cannot listen there ({error})") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(WAITING)  # who reads the address may come at once
    except (OSError, OverflowError) as error:
        made.close()
        raise ConfigError(f"{host}:{port}: cannot listen there ({error})") from error
    return made
