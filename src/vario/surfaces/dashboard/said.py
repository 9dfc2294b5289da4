"""What people say of findings: that they know of one, that it is muted, or neither any more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vario.surfaces.dashboard.page import Site
from vario.surfaces.live.snapshot import RunView
from vario.surfaces.privacy import shown

WORDS = ("acknowledge", "mute", "speak-again")
LONGEST = 500
"""Characters of a reason."""
HOUR = 3600.0
LONGEST_MUTE = 24.0 * 90.0
"""Hours: what nobody wants to hear for longer belongs into vario.toml, with its reason."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said of a finding: `acknowledged` or `muted`, by whom, why, and how long a mute goes on."""

    word: str
    by: str
    reason: str
    ends: str


def said_of(site: Site, run: RunView) -> Mapping[str, list[Said]]:
    """What was said of each finding of a run."""
    found = site.library.watching.desk.silences(run.watched)
    return {
        subject: [Said(word, s.by, shown(s.reason), _left(s.until)) for word, s in silences.items()]
        for subject, silences in found.items()
    }


def about(site: Site, request: Request) -> Response:
    """Note it, and show the run again."""
    view, said = site.run(request), site.said(request)
    subject, reason = said.get("finding", ""), said.get("reason", "").strip()
    if view.diagnosis is None or subject not in {f.name for f in view.diagnosis.findings}:
        raise HTTPException(404, "this run has no such finding")
    word = said.get("what", "")
    if word not in WORDS:
        raise HTTPException(400, f"what: one of {', '.join(WORDS)}")
    if word != "speak-again" and not reason:
        raise HTTPException(400, "reason: say why, for those who look next")
    desk, by = site.library.watching.desk, site.user(request)
    if word == "acknowledge":
        desk.acknowledge(view.watched, subject, reason[:LONGEST], by)
    elif word == "mute":
        desk.mute(view.watched, subject, reason[:LONGEST], _until(said.get("hours", "")), by)
    else:
        desk.speak_again(view.watched, subject)
    if (subject in desk.silences(view.watched)) == (word == "speak-again"):
        raise HTTPException(503, "it could not be kept; the list of all runs says why")
    site.library.refresh()
    return RedirectResponse(f"/runs/{site.library.id_of(view.watched)}#finding-{subject}", 303)


def _left(until: float | None) -> str:
    """How long a mute goes on, for people."""
    if until is None:
        return ""
    hours = max(until - time.time(), 0.0) / HOUR
    return f"another {hours:.0f} h" if hours >= 1.5 else f"another {hours * 60.0:.0f} min"


def _until(hours: str) -> float | None:
    """When a mute ends; None: when the finding resolves."""
    if not hours.strip():
        return None
    try:
        wished = float(hours)
    except ValueError:
        wished = 0.0
    if not 0.0 < wished <= LONGEST_MUTE:
        raise HTTPException(400, f"hours: more than 0 and at most {LONGEST_MUTE:.0f}, or nothing")
    return time.time() + wished * HOUR
