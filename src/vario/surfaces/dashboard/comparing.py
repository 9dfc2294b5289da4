"""Runs beside each other: curves over one another, at equal steps, samples or KL, and where they first part."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from vario.surfaces.charts.overlay import overlay_of
from vario.surfaces.dashboard import asked
from vario.surfaces.dashboard.page import Site
from vario.surfaces.pages.view import unsecret
from vario.surfaces.panels import panels
from vario.verdict.compare import AXES, compare

MOST = 6
"""Runs on one page: more lines cannot be told apart."""
METRICS = 8
"""Metrics whose curves are drawn unless others are wished."""
PARTED = 12


def compared(site: Site, request: Request) -> Response:
    """The page; without two runs, what there is to choose from."""
    query, library = request.query_params, site.library
    chosen = list(dict.fromkeys(query.getlist("run")))
    names = chosen[:MOST]
    too_many = max(0, len(chosen) - MOST)
    axis = asked.choice(query, "by", AXES) or AXES[0]
    views = [view for name in names if (view := library.find(name)) is not None]
    if len(views) < len(names):
        raise HTTPException(404, "one of these runs is not followed here; the list of all runs is at /")
    # the order of the boxes is the order in which a form asks: those that were chosen stand first, as they were chosen
    judged = {library.id_of(v.watched): v.name for v in library.latest.runs if v.diagnosis is not None}
    choices = [(name, judged[name]) for name in dict.fromkeys((*names, *judged)) if name in judged]
    if len(views) < 2:
        return site.show(
            "compare.html", request, choices=choices, names=names, too_many=0, comparison=None, axes=AXES, axis=axis
        )
    diagnoses = [site.judged(view) for view in views]
    comparison = compare(diagnoses)
    shared = [
        m for d in diagnoses[:1] for _, row in panels(d) for m in row if all(m in o.run.series for o in diagnoses)
    ]
    wished = [m for m in query.getlist("metric") if m in shared] or shared[:METRICS]
    overlays = [overlay_of([d.run for d in diagnoses], metric, axis, comparison.departures) for metric in wished]
    parted = [d for d in comparison.departures if d.axis == axis]
    return site.show(
        "compare.html",
        request,
        choices=choices,
        names=names,
        too_many=too_many,
        settings={key: tuple(unsecret(key, value) for value in values) for key, values in comparison.settings.items()},
        titles=[view.name for view in views],
        first_instead=[_with_first(query, name, names) for name in names],
        comparison=comparison,
        diagnoses=diagnoses,
        overlays=[o for o in overlays if o is not None],
        metrics=shared,
        wished=wished,
        axes=AXES,
        axis=axis,
        parted=parted[:PARTED],
        left=max(0, len(parted) - PARTED),
    )


def _with_first(query: QueryParams, first: str, names: list[str]) -> str:
    """The address of this page with another run as the one that the others are held against."""
    rest = [(key, value) for key, value in query.multi_items() if key != "run"]
    return "/compare?" + urlencode([("run", name) for name in sorted(names, key=lambda n: n != first)] + rest)
