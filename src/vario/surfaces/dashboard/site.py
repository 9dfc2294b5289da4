"""The application: which address leads to which page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from vario.errors import VarioError
from vario.surfaces.dashboard import comparing, completions, overview, rule_pages, run_pages, said
from vario.surfaces.dashboard.guard import Guard
from vario.surfaces.dashboard.page import Site
from vario.surfaces.pages.environment import asset, style

ASSETS = {
    "read.js": "text/javascript",
    "live.js": "text/javascript",
    "vario.css": "text/css",
    "dashboard.css": "text/css",
}
VERSION = re.compile(r"[0-9]{1,18}")
TICK = 0.2
"""Seconds between two looks at what has changed; a listener costs as much as a comparison of two numbers."""
BEAT = 15.0
"""Seconds after which a silent line is given a sign of life: proxies close those that seem dead."""


def application(site: Site) -> Starlette:
    """The dashboard over a library, whose following begins and ends with it."""
    library = site.library

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
        library.start()
        yield
        await asyncio.to_thread(library.close)

    routes: list[tuple[str, Callable[[Site, Request], Response], str]] = [
        ("/", overview.index, "GET"),
        ("/alerts", overview.alerts, "GET"),
        ("/compare", comparing.compared, "GET"),
        ("/rules", rule_pages.every, "GET"),
        ("/rules/{name}", rule_pages.one, "GET"),
        ("/runs/{run}", run_pages.whole, "GET"),
        ("/runs/{run}/panels", run_pages.panels, "GET"),
        ("/runs/{run}/rest", run_pages.rest, "GET"),
        ("/runs/{run}/diagnosis.json", run_pages.document, "GET"),
        ("/runs/{run}/report.html", run_pages.report, "GET"),
        ("/runs/{run}/samples", completions.browse, "GET"),
        ("/runs/{run}/review", completions.review, "GET"),
        ("/runs/{run}/marks", completions.mark, "POST"),
        ("/runs/{run}/read", completions.read, "POST"),
        ("/runs/{run}/findings", said.about, "POST"),
    ]
    return Starlette(
        routes=[
            *(Route(path, _answer(site, page), methods=[method]) for path, page, method in routes),
            Route("/events", partial(_events, site), methods=["GET"]),
            Route("/assets/{name}", _asset, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, access=site.access), Middleware(GZipMiddleware, compresslevel=1)],
        exception_handlers={HTTPException: site.refused},
        lifespan=life,
    )


def _answer(site: Site, page: Callable[[Site, Request], Response]) -> Callable[[Request], Any]:
    """A page is made in a thread: reading completions takes as long as it takes, and others are answered meanwhile."""

    async def answer(request: Request) -> Response:
        try:
            if request.method == "POST":
                site.forms[request] = await request.form(max_files=0, max_fields=20)
            return await asyncio.to_thread(page, site, request)
        except HTTPException as error:
            return site.refused(request, error)
        except VarioError as error:
            return site.refused(request, HTTPException(404, str(error)))
        except ClientDisconnect:
            return Response(status_code=400)
        except BaseException as error:  # polars' panics are no `Exception`
            if isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, SystemExit)):
                raise
            return site.failed(request, error)
        finally:
            site.forms.pop(request, None)

    return answer


async def _events(site: Site, request: Request) -> Response:
    """What changes, as it changes: the ids of runs with their versions, as server-sent events."""
    since = request.headers.get("last-event-id") or request.query_params.get("since", "")
    now = site.library.version
    # a number that is yet to come is that of a dashboard before this one: everything has changed
    begin = now if VERSION.fullmatch(since) is None else int(since) if int(since) <= now else 0

    async def lines() -> AsyncIterator[str]:
        known, silent = begin, 0.0
        yield f"retry: 2000\nid: {known}\n\n"
        while not site.closing and not await request.is_disconnected():
            now = site.library.version
            if now != known:
                changed = site.library.since(known)
                known, silent = now, 0.0
                yield f"id: {known}\ndata: {json.dumps(changed)}\n\n"
            elif silent >= BEAT:
                silent = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(TICK)
            silent += TICK

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, "no such file")
    text = style() if name == "vario.css" else asset(name)
    return Response(str(text), media_type=ASSETS[name], headers={"cache-control": "no-cache"})
