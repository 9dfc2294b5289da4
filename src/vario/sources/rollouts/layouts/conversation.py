"""Conversations: what was asked and what was sampled, out of messages and other people's nesting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SAMPLED = "assistant"


def entries(value: object) -> Mapping[str, object]:
    """A mapping with its texts as keys; anything else holds nothing."""
    return {k: v for k, v in value.items() if isinstance(k, str)} if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[object]:
    """A list; anything else holds nothing."""
    return value if isinstance(value, list | tuple) else ()


def finite(value: object) -> float | None:
    """A number that JSON or a table holds as one; texts that look like numbers are texts."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def parted(messages: Sequence[object]) -> tuple[list[object] | None, list[object] | None]:
    """The messages before the policy's first turn, and its turns; None where there is none.

    Without marks of what was sampled, turns of the assistant that a user answers are taken for examples in the
    prompt, and those that an environment or a tool answers for sampled.
    """
    roles = [entries(m).get("role") for m in messages]
    asked = max((i for i, role in enumerate(roles) if role == "user"), default=-1)
    turns = [i for i, role in enumerate(roles) if role == SAMPLED and i > asked]
    if not turns:  # the user had the last word
        turns = [i for i, role in enumerate(roles) if role == SAMPLED][-1:]
    return split(messages, turns)


def split(messages: Sequence[object], turns: Sequence[int]) -> tuple[list[object] | None, list[object] | None]:
    """The messages before the first of these turns, and the turns."""
    if not turns:
        return list(messages) or None, None
    return list(messages[: turns[0]]) or None, [messages[i] for i in turns]
