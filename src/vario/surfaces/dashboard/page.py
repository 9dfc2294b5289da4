"""What every page has: the library behind it, the way to its template, and what is shown where something went wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from vario.surfaces.dashboard.guard import Access, user_of
from vario.surfaces.dashboard.library import Library, shown
from vario.surfaces.live.snapshot import RunView
from vario.surfaces.pages.environment import environment
from vario.surfaces.privacy import safe
from vario.verdict import Diagnosis
from vario.verdict.serial import VERSION

LONGEST = 2_000
"""Characters of a refusal: it may quote what was asked for."""


@dataclass
class Site:
    """What the pages share.

    Attributes:
        library: the runs. access: who may ask.
        forms: what the orders that are being carried out hold.
        closing: whether those who listen are to be let go.
    """

    library: Library
    access: Access
    forms: dict[Request, FormData] = field(default_factory=dict)
    closing: bool = False

    def show(self, template: str, request: Request, code: int = 200, **shown: object) -> HTMLResponse:
        """A page from its template."""
        text = (
            environment()
            .get_template(f"dashboard/{template}")
            .render(version=VERSION, path=request.url.path, state=self.library.version, **shown)
        )
        return HTMLResponse(text, code)

    def run(self, request: Request) -> RunView:
        """The run that the address names.

        Raises:
            HTTPException: there is none of that id.
        """
        found = self.library.find(request.path_params["run"])
        if found is None:
            raise HTTPException(404, "no run of that name is followed here; the list of all runs is at /")
        return found

    def judged(self, view: RunView) -> Diagnosis:
        """The run's diagnosis.

        Raises:
            HTTPException: it has not been judged yet.
        """
        diagnosis = shown(view)
        if diagnosis is None:
            raise HTTPException(404, f"{view.name} has not been judged yet")
        return diagnosis

    def user(self, request: Request) -> str:
        """Who asks, for what is remembered with a name."""
        return user_of(request.headers, self.access)

    def said(self, request: Request) -> Mapping[str, str]:
        """The fields of an order."""
        form = self.forms.get(request)
        return {name: value for name, value in form.items() if isinstance(value, str)} if form is not None else {}

    def refused(self, request: Request, error: Exception) -> Response:
        """A page that says why there is none."""
        status, why = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        page = self.show("refused.html", request, status, status=status, why=safe(str(why))[:LONGEST])
        page.headers.update((error.headers or {}) if isinstance(error, HTTPException) else {})
        return page

    def failed(self, request: Request, error: BaseException) -> Response:
        """Our own failure: a sentence to the reader, and a line to whoever runs the dashboard."""
        print(f"vario: {request.url.path}: {type(error).__name__}: {safe(str(error))[:300]}", file=sys.stderr)
        return self.refused(request, HTTPException(500, "vario itself failed; who runs it sees why"))


def relative(changed: float | None, now: float) -> str:
    """How long ago something was, for people."""
    if changed is None:
        return ""
    seconds = max(now - changed, 0.0)
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds < 10.0 else f"{seconds:.0f} s ago"
