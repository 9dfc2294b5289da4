"""A run under watch as it stands at one moment, copied so that the watch may go on writing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from vario.run import Run
from vario.surfaces.live.watched import Review, Status, WatchedRun
from vario.surfaces.panels import panels
from vario.surfaces.privacy import head_of, safe
from vario.verdict import Diagnosis

MOST_CHARACTERS = 120
"""Characters of a label: names of runs can be whole command lines, and every series carries them."""
MOST_METRICS = 64
"""Metrics of one run that are exported, in the panels' order: reward functions are as many as the log says."""
NAMELESS = "unnamed"
"""An empty label is no label at all to Prometheus."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is exported of one run under watch.

    Attributes:
        label: the run's name, as `distinct` makes it. run: what was read. diagnosis: of the last look.
        rows: that have come so far, read or not. last_row_at: in seconds since 1970. troubles: how often something went wrong.
        metrics: names of the panels' metrics by their label; left_out: how many stand beyond `MOST_METRICS`.
    """

    label: str
    status: Status
    run: Run | None
    diagnosis: Diagnosis | None
    review: Review
    rows: int
    last_row_at: float | None
    looks: int
    judging_seconds: float
    troubles: int
    metrics: dict[str, str]
    left_out: int


def snapshots(runs: Iterable[WatchedRun]) -> list[Snapshot]:
    """Copies of all runs; safe while other threads judge them or add runs.

    Each field is read once: runs, diagnoses and reviews are replaced and never changed, and a list of a dict's values
    is made in one step. Two fields of a copy may be one look apart.
    """
    watched = tuple(runs)
    labels = distinct(w.name for w in watched)
    return [_snapshot(label, w) for label, w in zip(labels, watched, strict=True)]


def _snapshot(label: str, watched: WatchedRun) -> Snapshot:
    diagnosis = watched.diagnosis
    names = [] if diagnosis is None else [name for _, shown in panels(diagnosis) for name in shown]
    kept = names[:MOST_METRICS]
    return Snapshot(
        label=label,
        status=watched.status,
        run=watched.run,
        diagnosis=diagnosis,
        review=watched.review,
        rows=watched.arrived,
        last_row_at=watched.last_row_at,
        looks=watched.looks,
        judging_seconds=watched.judging_seconds,
        troubles=sum(list(watched.troubles.values())),
        metrics=dict(zip(distinct(kept), kept, strict=True)),
        left_out=len(names) - len(kept),
    )


def label_of(text: str) -> str:
    """A text as a label's value: without keys and control characters, not empty, at most `MOST_CHARACTERS` long.

    Of two long texts with the same beginning a mark made of the whole text keeps them apart.
    """
    shown = safe(head_of(text, MOST_CHARACTERS + 1)) or NAMELESS
    if len(shown) <= MOST_CHARACTERS:
        return shown
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{shown[: MOST_CHARACTERS - 1 - len(mark)]}~{mark}"


def distinct(texts: Iterable[str]) -> list[str]:
    """Labels for the texts, in order; equal ones are numbered, for two series of one name would spoil the whole answer."""
    made: dict[str, None] = {}
    for text in texts:
        label = base = label_of(text)
        number = 1
        while label in made:
            number += 1
            label = f"{base} #{number}"
        made[label] = None
    return list(made)
