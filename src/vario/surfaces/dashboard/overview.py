"""The annunciator: all runs as lights, what needs attention first; and what was told of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from vario.surfaces.charts.look import of_verdict
from vario.surfaces.dashboard.page import Site, relative
from vario.surfaces.dashboard.said import said_of
from vario.surfaces.live.snapshot import Light, RunView
from vario.surfaces.spark import sparkline
from vario.surfaces.state.findings import Past
from vario.verdict import Diagnosis

COLOUR = {
    Light.CRITICAL: "critical",
    Light.WARNING: "warning",
    Light.DECIDE: "info",
    Light.WAITING: "pale",
    Light.FINE: "good",
}
WORD = {
    Light.CRITICAL: "critical",
    Light.WARNING: "warning",
    Light.DECIDE: "to decide",
    Light.WAITING: "waiting",
    Light.FINE: "fine",
}
KNOWN, ENDED, OPEN = "known", "ended", "cannot tell"
"""What nothing asks attention of, and is not fine all the same: somebody knows of its findings, its end was advised, or the
log does not say how it stands."""
SCORES = ("reward/mean", "preference/margin")
MOST_PAST = 300
"""Notices of the past that one page lists."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run in the list.

    Attributes:
        id: as in addresses. light, colour: the word and the colour of its light.
        picture: the score's curve in characters.
        findings: names of what is open, the gravest first, each with its severity and whether somebody knows of it.
        came: when its last row came, in words.
    """

    id: str
    view: RunView
    light: str
    colour: str
    action: str
    meaning: str
    picture: str
    findings: tuple[tuple[str, str, bool], ...]
    came: str


def index(site: Site, request: Request) -> Response:
    """All runs."""
    latest, now = site.library.latest, time.time()
    wished = request.query_params.get("find", "").strip().lower()[:200]
    rows = [_row(site, view, now) for view in latest.runs if wished in view.name.lower()]
    template = "list.html" if request.query_params.get("part") == "list" else "index.html"
    counts = {word: sum(r.light == word for r in rows) for word in (*WORD.values(), OPEN, KNOWN, ENDED)}
    return site.show(
        template,
        request,
        rows=rows,
        counts={word: n for word, n in counts.items() if n},
        wished=wished,
        total=len(latest.runs),
        messages=latest.messages,
        failures=latest.failures,
        looked_at=relative(latest.looked_at, now),
    )


def alerts(site: Site, request: Request) -> Response:
    """What is known or muted, and what was told, the newest first: by whoever watched, and since the dashboard was opened."""
    past: list[tuple[RunView, str, Past]] = []
    for view in site.library.latest.runs:
        told = site.library.watching.desk.past(view.watched)
        past += [(view, site.library.id_of(view.watched), one) for one in told]
    past.sort(key=lambda item: -item[2].at)
    seen = [(n, relative(n.at, time.time())) for n in reversed(site.library.latest.history)]
    ids = {view.name: site.library.id_of(view.watched) for view in site.library.latest.runs}
    known = [
        (view, site.library.id_of(view.watched), subject, said)
        for view in site.library.latest.runs
        for subject, every in said_of(site, view).items()
        for said in every
    ]
    return site.show(
        "alerts.html",
        request,
        known=known,
        past=[(view, run, one, relative(one.at, time.time())) for view, run, one in past[:MOST_PAST]],
        left=max(0, len(past) - MOST_PAST),
        seen=seen[:MOST_PAST],
        ids=ids,
    )


def _row(site: Site, view: RunView, now: float) -> Row:
    diagnosis = view.diagnosis
    action = diagnosis.verdict.action if diagnosis is not None else ""
    findings = tuple((f.name, f.severity, f.name in view.acknowledged) for f in view.open if f.severity != "info")
    return Row(
        site.library.id_of(view.watched),
        view,
        *_light(view, action, bool(findings)),
        action.upper().replace("-", " "),
        of_verdict(action, {severity for _, severity, _ in findings}),
        _picture(diagnosis),
        findings,
        relative(view.last_row_at, now),
    )


def _light(view: RunView, action: str, has_findings: bool) -> tuple[str, str]:
    """The word and the colour of a run's light."""
    if view.light is Light.FINE and has_findings:
        return KNOWN, "pale"
    if view.light is Light.FINE and action in ("stop", "intervene"):
        return ENDED if view.is_over else KNOWN, "pale"
    if view.light is Light.FINE and action == "cannot-tell":
        return OPEN, "pale"
    return WORD[view.light], COLOUR[view.light]


def _picture(diagnosis: Diagnosis | None) -> str:
    name = next((n for n in SCORES if diagnosis is not None and n in diagnosis.readings), None)
    if diagnosis is None or name is None:
        return ""
    reading = diagnosis.readings[name]
    return sparkline(name, reading.spark, reading.spread)
