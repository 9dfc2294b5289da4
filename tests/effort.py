"""How much the tests try: a part by default, so that they end soon; all of it where VARIO_LONG is set (CONTRIBUTING.md)."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("VARIO_LONG"))
PART, LEAST = 3, 10


def tries(all_of_them: int) -> int:
    """How many examples are drawn of so many."""
    return all_of_them if LONG else max(LEAST, all_of_them // PART)
