"""What the templates show of one diagnosis: its charts, the findings with their letters, and everything beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from vario.run import KnobSetting, Setting
from vario.surfaces.charts.chart import WIDTH, Chart, chart_of
from vario.surfaces.charts.look import of_verdict
from vario.surfaces.charts.marks import Mark, marks_of
from vario.surfaces.charts.phases import Plane, Strip, plane_of, strip_of
from vario.surfaces.excerpts import Excerpts
from vario.surfaces.exemplars import Exemplar
from vario.surfaces.panels import panels
from vario.surfaces.privacy import MASK, masked
from vario.surfaces.sentences import NO_FINDING, NO_WARNING, complaints, unseen
from vario.verdict import Diagnosis, Finding
from vario.verdict.diagnosis import ReadingSummary

SETTINGS = 400
"""Settings of a configuration that a page lists."""
REST = 60
"""Metrics beyond the panels that a page draws."""
REST_WIDTH = 160


@dataclass(frozen=True)
class View:
    """One diagnosis as it is shown.

    Attributes:
        diagnosis: what is shown. name: what the run is called.
        excerpts: the first words of completions that findings name. samples: completions to be read.
        pedantic: whether findings for the pedantic audience are shown too.
        span: first and last step of the charts; None for all of them.
        width: columns of a chart at most.
    """

    diagnosis: Diagnosis
    name: str
    excerpts: Excerpts
    samples: Sequence[Exemplar] = ()
    pedantic: bool = False
    span: tuple[int, int] | None = None
    width: int = WIDTH

    @property
    def meaning(self) -> str:
        """The colour of the verdict, by its name."""
        severities = {f.severity for f in self.diagnosis.findings if f.until is None and f.audience == "default"}
        return of_verdict(self.diagnosis.verdict.action, severities)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """The findings that cost something, each with its letter."""
        return marks_of(self.diagnosis, pedantic=self.pedantic)

    @cached_property
    def minor(self) -> list[Finding]:
        """The other findings that are shown."""
        shown = {mark.finding.name for mark in self.marks}
        return [
            f for f in self.diagnosis.findings if f.name not in shown and (self.pedantic or f.audience == "default")
        ]

    @property
    def no_finding(self) -> str:
        """What is said where no finding is."""
        return NO_FINDING if self.diagnosis.verdict.action in ("stop", "intervene") else NO_WARNING

    def chart(self, name: str, width: int | None = None) -> Chart:
        """The chart of one metric."""
        return chart_of(self.diagnosis, name, self.marks, span=self.span, width=width or self.width)

    @cached_property
    def panels(self) -> list[tuple[str, list[Chart]]]:
        """Each panel's title and its charts; metrics of findings stand in them too, wherever else they belong."""
        made = {title: list(names) for title, names in panels(self.diagnosis)}
        placed = {name for names in made.values() for name in names}
        found = [m for mark in self.marks for m in sorted(mark.metrics) if m in self.diagnosis.readings]
        extra = [m for m in dict.fromkeys(found) if m not in placed]
        if extra:
            made.setdefault("tertiary", []).extend(extra)
        return [(title, [self.chart(name) for name in names]) for title, names in made.items()]

    @cached_property
    def rest(self) -> list[Chart]:
        """The metrics that no panel holds, smaller."""
        placed = {chart.name for _, charts in self.panels for chart in charts}
        left = [name for name in self.diagnosis.readings if name not in placed]
        return [self.chart(name, REST_WIDTH) for name in left[:REST]]

    @property
    def rest_left(self) -> int:
        """Metrics that are not drawn at all."""
        drawn = sum(len(charts) for _, charts in self.panels) + len(self.rest)
        return max(0, len(self.diagnosis.readings) - drawn)

    @cached_property
    def charted(self) -> frozenset[str]:
        """The metrics that are drawn."""
        return frozenset(c.name for charts in (*(charts for _, charts in self.panels), self.rest) for c in charts)

    def drawn_on(self, mark: Mark) -> list[str]:
        """The charts on which a finding is drawn."""
        return sorted(self.charted & mark.metrics)

    @property
    def blank(self) -> list[str]:
        """The metrics that were logged and never as a finite number."""
        return [name for name, series in self.diagnosis.run.series.items() if len(series) and not series.usable().any()]

    @cached_property
    def strip(self) -> Strip | None:
        """The regime along the run."""
        return strip_of(self.diagnosis)

    @cached_property
    def plane(self) -> Plane | None:
        """KL against reward."""
        return plane_of(self.diagnosis)

    @property
    def components(self) -> list[tuple[str, float | None, ReadingSummary]]:
        """Each reward function: its name, weight, and how its mean stands."""
        run = self.diagnosis.run
        weights = run.declared.component_weights
        read = ((name, self.diagnosis.readings.get(f"reward/component/{name}/mean")) for name in run.components())
        return [(name, weights.get(name), reading) for name, reading in read if reading is not None]

    @property
    def samples_told(self) -> str:
        """Where the completions come from."""
        samples = self.diagnosis.run.samples
        counted = samples.counted if samples is not None else 0
        return (
            f"{len(self.samples)} of {counted} completions beside the log, from the last quarter of the sampled steps."
        )

    @cached_property
    def unseen(self) -> list[str]:
        """What could not be seen, and how to log it."""
        return unseen(self.diagnosis)

    @property
    def complaints(self) -> list[str]:
        """What went wrong in reading."""
        return complaints(self.diagnosis)

    @property
    def knobs(self) -> list[KnobSetting]:
        """What can be turned, as far as its key is known."""
        return list(self.diagnosis.run.knobs.values())

    @cached_property
    def settings(self) -> list[tuple[str, Setting]]:
        """The configuration, without what looks like a secret."""
        every = sorted(self.diagnosis.run.config.items())
        return [(key, unsecret(key, value)) for key, value in every[:SETTINGS]]

    @property
    def settings_left(self) -> int:
        """Settings that are not listed."""
        return max(0, len(self.diagnosis.run.config) - SETTINGS)


def unsecret(key: str, value: Setting) -> Setting:
    """A setting whose name or value says that it is a key is not shown."""
    if not isinstance(value, str):
        return value
    return masked(value) if MASK not in masked(f'{key}="{value}"') else MASK
