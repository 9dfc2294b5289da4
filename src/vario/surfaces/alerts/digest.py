"""Several alerts in one message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from vario.surfaces.alerts.message import Alert, short_name
from vario.surfaces.live.notices import SEVERITIES

LISTED = 20
"""Alerts that are listed; a message of more is not read."""
SUBJECTS = 4
LATE = 900.0
"""Seconds after which a message says when it was due: what it tells may have changed since."""


def digest(alerts: Sequence[Alert]) -> Alert:
    """One message of several alerts, in the order of time; the gravest lends it severity and picture."""
    ordered = sorted(alerts, key=lambda a: a.at)
    gravest = max(ordered, key=lambda a: (SEVERITIES.index(a.severity), a.at))
    runs = list(dict.fromkeys(a.run for a in ordered))
    subjects = list(dict.fromkeys(a.subject for a in ordered))
    where = short_name(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"
    named = ", ".join(subjects[:SUBJECTS]) + (", …" if len(subjects) > SUBJECTS else "")
    lines = []
    for alert in ordered[:LISTED]:
        title = alert.title.removeprefix(f"{short_name(alert.run)}: ") if len(runs) == 1 else alert.title
        lines.append(f"{_moment(alert.at)} {title}")
        first = alert.body.split("\n", 1)[0]
        if first:
            lines.append(f"    {first}")
    if len(ordered) > LISTED:
        lines.append(f"and {len(ordered) - LISTED} more")
    if gravest.link:
        lines.append(gravest.link)
    key = hashlib.blake2b("\n".join(sorted(a.key for a in alerts)).encode(), digest_size=8).hexdigest()
    return Alert(
        gravest.run,
        gravest.subject,
        "digest",
        gravest.severity,
        gravest.confidence,
        gravest.step,
        f"{where}: {len(ordered)} alerts ({named})",
        "\n".join(lines),
        f"digest:{key}",
        ordered[-1].at,
        gravest.link,
        gravest.picture,
    )


def late_note(alert: Alert, now: float) -> str:
    """What stands before a message that comes late; empty for one that does not."""
    return "" if now - alert.at < LATE or alert.kind == "digest" else f"(late: this was at {_moment(alert.at)})\n"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%m-%d %H:%M}"
