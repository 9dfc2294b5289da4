"""Who may ask, and what an answer may do in a browser: names, tokens, origins, sizes, and the headers of every answer.

The dashboard shows what a model wrote and what a log says, and both are hostile. Pages run only our own scripts, load
nothing from elsewhere, and cannot be framed. A page of somebody else's that the user visits can neither read ours (its
name is not ours, and no answer may be shared) nor have it do something (an order needs our own origin).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "vario-token"
LARGEST_BODY = 64 << 10
"""Bytes of a request: a reason and a few names, not more."""
TOO_LARGE = f"a request has at most {LARGEST_BODY} bytes"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    Attributes:
        names: host names by which the dashboard is reached, without ports; an address in numbers is none that somebody
            else could have registered, and is always one of its own.
        token: what a stranger must know; None: nobody but this machine can ask, or a proxy has asked already.
        user_header: where a proxy in front writes who asks; requests without it are refused. None: there is no proxy.
    """

    names: tuple[str, ...] = LOOPBACK
    token: str | None = None
    user_header: str | None = None


class Guard:
    """Middleware that answers what must not get further, and puts the headers on what does."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", POLICY)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, _bounded(receive, scope["method"]), with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = _name(host)
        if name not in self._access.names and not _is_address(name):
            return _no(421, "this dashboard is not known by that name; --name NAME adds one")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no(405, "only GET and POST are answered", {"allow": "GET, HEAD, POST"})
        if scope["method"] == "POST" and _origin(headers) != host.lower():
            return _no(403, "an order must come from the dashboard's own pages")
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError:
            return _no(400, "content-length is no number")
        if length > LARGEST_BODY:
            return _no(413, TOO_LARGE)
        if self._access.user_header is not None and not headers.get(self._access.user_header):
            return _no(401, f"the proxy in front did not say who asks ({self._access.user_header})")
        return self._without_token(scope, headers) if self._access.token is not None else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """None for who knows the token; who has it in the address gets it as a cookie, and an address without it."""
        token = self._access.token or ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        kept = cookie_parser(headers.get("cookie", "")).get(cookie_of(token), "")
        if (scheme.lower() == "bearer" and _same(given, token)) or _same(kept, token):
            return None
        pairs = parse_qsl(scope["query_string"].decode("latin-1"))
        if any(name == "token" and _same(value, token) for name, value in pairs) and scope["method"] == "GET":
            left = urlencode([(name, value) for name, value in pairs if name != "token"])
            # two slashes at the beginning would lead to another host
            path = "/" + scope["path"].lstrip("/")
            response = RedirectResponse(f"{path}?{left}" if left else path, 303)
            # lax: an address that somebody sends in a chat opens; an order is held against its origin in any case
            secure = scope["scheme"] == "https"
            response.set_cookie(cookie_of(token), token, httponly=True, samesite="lax", secure=secure)
            return response
        why = "this dashboard asks for its token: open the address that vario serve has printed"
        return _no(401, why, {"www-authenticate": "Bearer"})


def cookie_of(token: str) -> str:
    """The cookie's name: ports share cookies, and two dashboards on one machine must not take each other's."""
    return f"{COOKIE}-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def user_of(headers: Headers, access: Access) -> str:
    """Who asks, as far as a proxy says; empty without one."""
    return headers.get(access.user_header, "")[:200] if access.user_header else ""


def _bounded(receive: Receive, method: str) -> Receive:
    """A body that ends at its bound, whatever its header said; what is no order has none, and who sends one is gone."""
    came = 0

    async def take() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > LARGEST_BODY and method == "POST":
            raise HTTPException(413, TOO_LARGE)
        if came > LARGEST_BODY:
            return {"type": "http.disconnect"}
        return message

    return take


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[: host.find("]") + 1].lower()
    return host.partition(":")[0].lower()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _origin(headers: Headers) -> str:
    """Host and port of the page that sends this; empty where it says none."""
    try:
        return urlsplit(headers.get("origin", "")).netloc.lower()
    except ValueError:  # a bracket that is never closed
        return ""


def _no(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{why}\n", status, headers)
