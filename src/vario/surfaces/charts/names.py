"""Names from a log as pictures and pages show them, however long they are."""

from __future__ import annotations

import hashlib
import re

BRIEF = 120
"""Characters of a name that are shown."""
PLAIN = re.compile(r"[A-Za-z0-9_/-]{1,80}")


def brief(text: str, most: int = BRIEF) -> str:
    """A name on one line, cut in its middle where it is long: both its ends tell it from others."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    head = most // 2
    return f"{line[:head]}…{line[head + 1 - most :]}"


def slug(name: str) -> str:
    """A metric's name as a part of an address or of a file's name; different names give different ones."""
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", name[:80]).strip("-")
    return (
        words if PLAIN.fullmatch(name) else f"{words}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
    )
