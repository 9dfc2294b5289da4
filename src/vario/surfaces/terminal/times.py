"""Moments and spans of time in words."""

from __future__ import annotations

from datetime import datetime

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def stamp(at: float) -> str:
    """A moment, in seconds since 1970, as ISO 8601 local time with its offset."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def moment(at: float, now: float) -> str:
    """The hour of a moment; with its day where it is not of the last 20 hours."""
    there = datetime.fromtimestamp(at)
    return f"{there:%H:%M:%S}" if abs(now - at) < 20 * HOUR else f"{there:%m-%d %H:%M}"


def span(seconds: float) -> str:
    """A span of time in the unit that fits it."""
    seconds = max(0.0, seconds)
    if seconds < 10.0 and seconds != round(seconds):
        return f"{seconds:.2g} s"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"


def ago(seconds: float) -> str:
    """How long ago, in whole seconds."""
    return f"{span(float(round(seconds)))} ago"
