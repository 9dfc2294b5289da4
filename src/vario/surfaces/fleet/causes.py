"""Findings that many runs of a fleet share, each said once, with the setting that those runs have in common."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from vario.surfaces.fleet.judging import Document
from vario.surfaces.fleet.row import alarms

LEAST_RUNS = 3
LEAST_SHARE = 0.05
"""A finding is shared where so many runs have it, and at least so large a part of all."""
SHARED_SETTING = 0.75
"""A setting is worth a word where so large a part of those runs have it."""
MOST = 8


def causes(documents: Sequence[Document]) -> list[str]:
    """A sentence for each shared finding, the commonest first."""
    having: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for document in documents:
        for finding in alarms(document):
            having[finding["name"]].append(finding)
    least = max(LEAST_RUNS, LEAST_SHARE * len(documents))
    shared = sorted(((name, those) for name, those in having.items() if len(those) >= least), key=_weight)
    return [_sentence(name, those, len(documents)) for name, those in shared[:MOST]]


def _weight(shared: tuple[str, list[Mapping[str, Any]]]) -> tuple[int, str]:
    return -len(shared[1]), shared[0]


def _sentence(name: str, those: Sequence[Mapping[str, Any]], total: int) -> str:
    text = f"{name} in {len(those)} of {total} runs"
    settings = _settings(those)
    if settings:
        text += f"; {'; '.join(settings)}"
    changes = Counter(f"{c['key'] or c['knob']}: {c['why']}" for f in those for c in f["changes"][:1])
    if changes:
        change, count = changes.most_common(1)[0]
        if count >= SHARED_SETTING * len(those):
            text += f". To change: {change}"
    return text


def _settings(those: Sequence[Mapping[str, Any]]) -> list[str]:
    """Settings, of those that the finding asks to change, which most of these runs have alike."""
    counts = Counter(
        (c["key"] or c["knob"], str(c["current"])) for f in those for c in f["changes"] if c["current"] is not None
    )
    least = max(2.0, SHARED_SETTING * len(those))
    return [
        f"{'all' if count == len(those) else count} of them have {key} {value}"
        for (key, value), count in counts.most_common()
        if count >= least
    ]
