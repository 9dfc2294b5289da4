"""Over which wire the server is reached: its own standard streams, or HTTP behind checks of host, origin and token."""

from __future__ import annotations

import hmac
import ipaddress
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from vario.errors import ConfigError
from vario.surfaces.mcp.server import Server

MOST_PORT = 65_535
BACKLOG = 128
PATH = "/mcp"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


class Guarded:
    """An application behind a bearer token."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what has the token, and what is no request."""
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
            return
        head = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": head})
        await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer TOKEN\n"})

    def _admits(self, scope: Scope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        return scope["type"] == "http" and len(given) == 1 and hmac.compare_digest(given[0], self._wanted)


def serve_stdio(server: Server) -> None:
    """Answer on standard output what comes on standard input, until it ends."""
    # a thread waits for the next line: Ctrl-C would wait for it, too
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            server.run("stdio")
        except BaseExceptionGroup as group:
            _, rest = group.split((BrokenPipeError, ConnectionResetError))
            if rest is not None:
                raise rest from None


def serve_http(server: Server, host: str, port: int, token: str | None, hosts: Sequence[str] = ()) -> None:
    """Answer over streamable HTTP, until interrupted.

    Args:
        host: the address to listen at. port: 0 for any that is free.
        token: what every request has to bear; None only on loopback.
        hosts: further names by which it is reached.

    Raises:
        ConfigError: it cannot listen there, or would be open to the network.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    if not 0 <= port <= MOST_PORT:
        raise ConfigError(f"--port {port}: there is none; give one from 1 to {MOST_PORT}, or 0 for any that is free")
    addresses = _addresses(host, port)
    if token is None and not all(ipaddress.ip_address(a).is_loopback for _, a in addresses):
        raise ConfigError(
            f"--host {host}: beyond this machine only with a token: set VARIO_TOKEN or give --token, "
            "or listen at 127.0.0.1 and reach it through ssh"
        )
    names = dict.fromkeys((*LOOPBACK_NAMES, *_names(host), *hosts))
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[f"{way}://{form}" for way in ("http", "https") for n in names for form in (n, f"{n}:*")],
    )
    app: Callable[[Scope, Receive, Send], Awaitable[None]] = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=security, host=host
    )
    listening = _listening(*addresses[0], port)
    shown = f"[{addresses[0][1]}]" if ":" in addresses[0][1] else addresses[0][1]
    print(f"vario mcp: http://{shown}:{listening.getsockname()[1]}{PATH}", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        app if token is None else Guarded(app, token), log_level="error", access_log=False, server_header=False
    )
    with listening, suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: no such address ({error})") from error
    return [(family, str(place[0]).partition("%")[0]) for family, _, _, _, place in found]


def _names(host: str) -> list[str]:
    """The names of the machine under which the address can be meant."""
    try:
        everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return [host]
    if not everywhere:
        return [f"[{host.strip('[]')}]" if ":" in host else host]
    own = socket.gethostname()
    with suppress(OSError, UnicodeError):
        return [own, socket.getfqdn(), *dict.fromkeys(str(i[4][0]) for i in socket.getaddrinfo(own, None))]
    return [own]


def _listening(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)  # who reads the address may come at once
    except OSError as error:
        made.close()
        why = error.strerror or error
        raise ConfigError(f"{address}:{port}: cannot listen there: {why}; try another port, or 0 for any") from error
    return made
