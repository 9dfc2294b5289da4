"""What a request asks for: ids, steps, choices; anything else is refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import ImmutableMultiDict, QueryParams
from starlette.exceptions import HTTPException

COMPLETION = re.compile(r"(-?[0-9]{1,15})/([0-9]{1,9})")
WHOLE = re.compile(r"-?[0-9]{1,18}")
FARTHEST = 10**15
"""Steps beyond it are no steps."""


def number(query: QueryParams, name: str, least: int = -FARTHEST) -> int | None:
    """A whole number of the query; None where it is not given.

    Raises:
        HTTPException: it is none, or too small.
    """
    text = query.get(name, "").strip()
    if not text:
        return None
    if WHOLE.fullmatch(text) is None or abs(int(text)) > FARTHEST:
        raise HTTPException(400, f"{name}: a whole number, not {text[:40]!r}")
    if int(text) < least:
        raise HTTPException(400, f"{name}: at least {least}")
    return int(text)


def span(query: QueryParams) -> tuple[int, int] | None:
    """First and last step, as `from` and `to`; None where neither is given.

    Raises:
        HTTPException: they are no steps, or the last comes before the first.

    The two may be the same step.
    """
    first, last = number(query, "from"), number(query, "to")
    if first is None and last is None:
        return None
    made = (-FARTHEST if first is None else first, FARTHEST if last is None else last)
    if made[0] > made[1]:
        raise HTTPException(400, "from: a step not after that of to")
    return made


def choice(given: QueryParams | ImmutableMultiDict[str, object], name: str, known: Collection[str]) -> str | None:
    """One of some words; None where it is not given.

    Raises:
        HTTPException: it is another one.
    """
    text = str(given.get(name, "") or "")
    if text and text not in known:
        raise HTTPException(400, f"{name}: one of {', '.join(known)}")
    return text or None


def completion(text: str) -> tuple[int, int]:
    """Step and number of a completion, as in 120/3.

    Raises:
        HTTPException: it names none.
    """
    found = COMPLETION.fullmatch(text.strip())
    if found is None:
        raise HTTPException(400, "a completion is STEP/NUMBER, as in 120/3")
    return int(found[1]), int(found[2])
