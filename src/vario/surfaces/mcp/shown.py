"""What an answer may hold: no secrets, no control characters, and no more than was promised."""

from __future__ import annotations

import json
from collections.abc import Sequence

from vario.surfaces.privacy import safe, shown
from vario.verdict.serial import Json

BRIEF = 24_000
"""Characters of an answer as JSON."""
FULL = 60_000
"""Characters of a whole diagnosis."""
TEXT = 4_000
"""Characters of the short text beside an answer."""
STRING = 400
"""Characters of a string where nothing else is left to leave out."""
KEPT = frozenset({"id", "ids"})
"""Names that vario made itself."""


def cleaned(value: Json) -> Json:
    """The value with every text as it may be shown."""
    if isinstance(value, str):
        return shown(value, whole=True)
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if isinstance(value, dict):
        return {safe(key): one if key in KEPT else cleaned(one) for key, one in value.items()}
    return value


def size(value: Json) -> int:
    """Characters of it as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def fitted(answer: dict[str, Json], most: int, expendable: Sequence[str]) -> None:
    """Make an answer fit; what was left out of it is told under `left_out`.

    Args:
        answer: is changed. most: characters.
        expendable: lists, tables and texts, dots between levels, the least important first; each loses its end.
    """
    told = answer.setdefault("left_out", [])
    assert isinstance(told, list)
    for place in expendable:
        if size(answer) <= most:
            return
        holder, last = _holder(answer, place)
        held = holder.get(last)
        if not isinstance(held, list | dict | str) or not held:
            continue
        whole, note = len(held), len(told)
        told.append("")
        while held and size(answer) > most:
            held = _shorter(held)
            holder[last] = held
            told[note] = (
                f"{place}: {whole - len(held)} of {whole} {'characters' if isinstance(held, str) else 'entries'}"
            )
    if size(answer) > most:
        answer.update({key: _cut(value) for key, value in answer.items() if key != "left_out"})
        told.append(f"texts beyond {STRING} characters")


def short(text: str) -> str:
    """The text beside an answer, masked and within its bound."""
    made = shown(text, whole=True)
    return made if len(made) <= TEXT else f"{made[: TEXT - 40].rstrip()}\n[...: the rest is in the structured answer]"


def _holder(answer: dict[str, Json], place: str) -> tuple[dict[str, Json], str]:
    *levels, last = place.split(".")
    holder = answer
    for level in levels:
        below = holder.get(level)
        if not isinstance(below, dict):
            return {}, last
        holder = below
    return holder, last


def _shorter(held: list[Json] | dict[str, Json] | str) -> list[Json] | dict[str, Json] | str:
    keep = len(held) * 3 // 4 if len(held) > 3 else len(held) - 1
    if isinstance(held, dict):
        return dict(list(held.items())[:keep])
    return held[:keep]


def _cut(value: Json) -> Json:
    """The value with no string longer than STRING."""
    if isinstance(value, str):
        return value[:STRING]
    if isinstance(value, list):
        return [_cut(one) for one in value]
    return {key: _cut(one) for key, one in value.items()} if isinstance(value, dict) else value
