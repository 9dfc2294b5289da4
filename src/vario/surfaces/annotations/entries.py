"""What is written back: a few entries whose names all begin with `vario/`, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from vario.surfaces.pages.view import View
from vario.surfaces.privacy import masked, shown
from vario.surfaces.report.markdown import markdown_report
from vario.surfaces.sentences import best, headline, when_and_how_sure
from vario.verdict import Diagnosis, Finding

OURS = "vario/"
"""Every name that is written begins so; nothing else of a tracker's is touched."""
FINDINGS = f"{OURS}findings/"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is written.

    Attributes:
        name: begins with `vario/`. text: what it says, masked, on one line.
        step: where it stands. severity: of a finding, else "info".
    """

    name: str
    text: str
    step: int
    severity: str = "info"


@dataclass(frozen=True, slots=True)
class Annotation:
    """Everything that is written of one diagnosis; `report` is Markdown."""

    entries: tuple[Entry, ...]
    report: str


class Target(Protocol):
    """Where a diagnosis is written to."""

    def places(self, annotation: Annotation) -> Iterator[tuple[str, str]]:
        """What would be written: the place as the tracker calls it, and the text."""
        ...

    def write(self, annotation: Annotation) -> None:
        """Write it; what an earlier writing left is replaced, or stays as it is.

        Raises:
            NotDelivered: the tracker does not take it.
        """
        ...


def annotation_of(diagnosis: Diagnosis, made: date) -> Annotation:
    """What is written of a diagnosis. No completion is: a tracker may be open to more people than the log."""
    run, verdict = diagnosis.run, diagnosis.verdict
    last = run.last_step or 0
    serious = [f for f in diagnosis.findings if f.audience == "default" and f.severity != "info"]
    entries = [
        Entry(f"{OURS}verdict", _line(headline(verdict)), last),
        Entry(f"{OURS}trajectory", verdict.trajectory, last),
        Entry(f"{OURS}regime", verdict.regime, last),
        Entry(f"{OURS}best", _line(best(verdict) or "not known"), last),
        Entry(f"{OURS}findings", ", ".join(f.name for f in serious) or "none", last),
    ]
    for finding in serious:
        step = finding.since if finding.since is not None else last
        entries.append(Entry(FINDINGS + finding.name, _line(_told(finding)), step, finding.severity))
    return Annotation(tuple(entries), masked(markdown_report(View(diagnosis, run.path, {}), made, "", None).text))


def _told(finding: Finding) -> str:
    return f"{finding.severity}, {when_and_how_sure(finding)}: {finding.summary} {'; '.join(finding.evidence)}"


def _line(text: str) -> str:
    return " ".join(shown(text).split())
