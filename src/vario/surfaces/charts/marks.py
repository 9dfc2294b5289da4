"""Findings as they are drawn on curves: a letter each, from its onset to its end."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vario.surfaces.sentences import when
from vario.verdict import Diagnosis, Finding

LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding with the letter that stands for it, and the metrics that it and its symptoms rest on."""

    letter: str
    finding: Finding
    metrics: frozenset[str]

    @property
    def when(self) -> str:
        """Its steps in words."""
        return when(self.finding)


def marks_of(diagnosis: Diagnosis, *, pedantic: bool = False) -> tuple[Mark, ...]:
    """The findings that are drawn, in the order of the diagnosis: what costs something; more letters than 52 are not read."""
    drawn = [f for f in diagnosis.findings if pedantic or (f.audience == "default" and f.severity != "info")]
    return tuple(
        Mark(letter, finding, frozenset(_metrics(finding))) for letter, finding in zip(LETTERS, drawn, strict=False)
    )


def on(marks: Sequence[Mark], metric: str) -> tuple[Mark, ...]:
    """Those that rest on this metric."""
    return tuple(mark for mark in marks if metric in mark.metrics)


def _metrics(finding: Finding) -> Iterator[str]:
    yield from finding.metrics
    for symptom in finding.symptoms:
        yield from _metrics(symptom)
