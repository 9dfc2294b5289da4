"""One run: the page of the report, alive."""

from __future__ import annotations

import datetime
import json

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from vario.errors import VarioError
from vario.surfaces.charts.chart import WIDTH
from vario.surfaces.dashboard import asked
from vario.surfaces.dashboard.completions import opened
from vario.surfaces.dashboard.page import Site
from vario.surfaces.dashboard.said import said_of
from vario.surfaces.excerpts import Excerpts, excerpts
from vario.surfaces.live.snapshot import RunView
from vario.surfaces.pages.view import View
from vario.surfaces.report.document import html_report
from vario.verdict import Diagnosis, to_json

PARTS = {"said": "said.html", "below": "below.html"}
"""What a page fetches anew while it is open."""


def whole(site: Site, request: Request) -> Response:
    """The run's page; `part=said` gives what is above the curves alone, `part=below` what stands below them."""
    part = asked.choice(request.query_params, "part", PARTS)
    run = site.run(request)
    name = site.library.id_of(run.watched)
    if run.diagnosis is None:
        return site.show("waiting.html", request, run=run, id=name)
    diagnosis = site.judged(run)
    words = _excerpts(site, diagnosis) if part != "below" else {}
    view = _view(diagnosis, request, run, words)
    silences = said_of(site, run)
    template = PARTS.get(part or "", "run.html")
    beyond = view.span is None and asked.span(request.query_params) is not None
    seen = run.diagnosis.run.last_step
    judged_at = seen if seen != diagnosis.run.last_step else None
    return site.show(
        template, request, run=run, id=name, view=view, silences=silences, beyond=beyond, judged_at=judged_at
    )


def panels(site: Site, request: Request) -> Response:
    """The curves alone, of all steps or of some of them."""
    run = site.run(request)
    view = _view(site.judged(run), request, run)
    return site.show("panels.html", request, run=run, id=site.library.id_of(run.watched), view=view)


def rest(site: Site, request: Request) -> Response:
    """The curves of the metrics that no panel holds."""
    run = site.run(request)
    return site.show("rest.html", request, view=_view(site.judged(run), request, run))


def document(site: Site, request: Request) -> Response:
    """`diagnosis/v1`."""
    text = json.dumps(to_json(site.judged(site.run(request))), ensure_ascii=False, allow_nan=False)
    return Response(text, media_type="application/json")


def report(site: Site, request: Request) -> Response:
    """The report as a file, to be sent; it brings its own content security policy."""
    run = site.run(request)
    diagnosis = site.judged(run)
    text = html_report(
        _view(diagnosis, request, run, _excerpts(site, diagnosis)), datetime.datetime.now(tz=datetime.UTC).date()
    )
    name = f"{site.library.id_of(run.watched)}.html"
    return HTMLResponse(
        text,
        headers={
            "content-disposition": f'attachment; filename="{name}"',
            "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
        },
    )


def _view(diagnosis: Diagnosis, request: Request, run: RunView, words: Excerpts | None = None) -> View:
    pedantic = asked.choice(request.query_params, "pedantic", ("yes", "no")) == "yes"
    return View(diagnosis, run.name, words or {}, pedantic=pedantic, span=_span(diagnosis, request), width=WIDTH)


def _excerpts(site: Site, diagnosis: Diagnosis) -> Excerpts:
    """Words of the completions that findings point to, where those may be read and can be."""
    run = diagnosis.run
    if all(f.read is None for f in diagnosis.findings):
        return {}
    try:
        opened(site, run)
    except (HTTPException, VarioError):
        return {}
    return excerpts(run, diagnosis, site.library.samples(run))


def _span(diagnosis: Diagnosis, request: Request) -> tuple[int, int] | None:
    """The steps that are looked at, within those of the run."""
    wished, run = asked.span(request.query_params), diagnosis.run
    if wished is None or run.first_step is None or run.last_step is None:
        return None
    first, last = max(wished[0], run.first_step), min(wished[1], run.last_step)
    return (first, last) if first < last else None
