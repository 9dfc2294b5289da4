"""The table of exported metrics: the exporter, the dashboard and the alerting rules are made from it.

Names follow OpenMetrics: `vario_` in front, base units, `_total` for what only grows. A value that is not known is left
out, for a zero would be an answer. A state is one series for each of its words, 1 for the one that holds and 0 for the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from vario.surfaces.exporters.snapshot import Snapshot, label_of
from vario.surfaces.fleet.row import ACTIONS
from vario.surfaces.live.notices import CONFIDENCES
from vario.surfaces.live.watched import Status
from vario.verdict import Finding, Verdict
from vario.verdict.trajectory import WORDS

TRAJECTORIES = WORDS
DIRECTIONS = ("up", "flat", "down")
REGIMES = ("unknown", *(f"kl-{paid}-reward-{got}" for paid, got in product(DIRECTIONS, DIRECTIONS)))

Value = tuple[tuple[str, ...], float | None]
"""Values of the labels behind `run`, and the sample's value."""
Read = Callable[[Snapshot], Iterable[Value]]


class Kind(StrEnum):
    """Types of OpenMetrics that are used."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


class Row(StrEnum):
    """Rows of the dashboard, from top to bottom."""

    ANNUNCIATOR = "annunciator"
    PRIMARY = "primary"
    SECONDARY = "secondary"
    TERTIARY = "tertiary"
    AHEAD = "best checkpoint and upside"
    FRESHNESS = "freshness"
    REVIEW = "review"
    ITSELF = "vario itself"


@dataclass(frozen=True, slots=True)
class Family:
    """One exported metric.

    Attributes:
        name: as a query names it. labels: their names; every series of a run has `run` first.
        rows: where the dashboard shows it.
        read: the samples of one run; None for what is said of vario itself.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    rows: tuple[Row, ...]
    read: Read | None
    unit: str = ""


def _one(read: Callable[[Snapshot], float | None]) -> Read:
    return lambda snapshot: [((), read(snapshot))]


def _of_verdict(read: Callable[[Verdict], float | None]) -> Read:
    return _one(lambda s: None if s.diagnosis is None else read(s.diagnosis.verdict))


def _states(words: Sequence[str], current: Callable[[Snapshot], str | None]) -> Read:
    def read(snapshot: Snapshot) -> Iterator[Value]:
        now = current(snapshot)
        if now is not None:
            yield from (((word,), float(word == now)) for word in words)

    return read


def _word_of_verdict(words: Sequence[str], current: Callable[[Verdict], str]) -> Read:
    return _states(words, lambda s: None if s.diagnosis is None else current(s.diagnosis.verdict))


def _findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Those that are told: at the top, of the default audience, open or passed."""
    if snapshot.diagnosis is not None:
        yield from (f for f in snapshot.diagnosis.findings if f.audience == "default")


def _active(snapshot: Snapshot) -> Iterator[Value]:
    for f in _findings(snapshot):
        yield (label_of(f.name), f.severity, f.confidence), float(f.until is None)


def _since(snapshot: Snapshot) -> Iterator[Value]:
    for f in _findings(snapshot):
        yield (label_of(f.name),), f.since


def _levels(snapshot: Snapshot) -> Iterator[Value]:
    if snapshot.diagnosis is not None:
        readings = snapshot.diagnosis.readings
        yield from (((label,), readings[name].level) for label, name in snapshot.metrics.items())


def _lasts(snapshot: Snapshot) -> Iterator[Value]:
    series = {} if snapshot.run is None else snapshot.run.series
    for label, name in snapshot.metrics.items():
        # the run may have been replaced since it was judged
        if name in series and len(series[name]):
            yield (label,), float(series[name].values[-1])


def _last_step(snapshot: Snapshot) -> float | None:
    return None if snapshot.run is None else snapshot.run.last_step


def _judged_step(snapshot: Snapshot) -> float | None:
    return None if snapshot.diagnosis is None else snapshot.diagnosis.run.last_step


def _unread(snapshot: Snapshot) -> float | None:
    run = snapshot.run
    if run is None or run.samples is None or run.last_step is None:
        return None
    read = snapshot.review.step if snapshot.review.step is not None else run.first_step
    return max(0, run.last_step - (read or 0))


def _review_due(snapshot: Snapshot) -> float | None:
    if snapshot.run is None or snapshot.run.samples is None:
        return None
    return float(snapshot.review.due_since is not None)


def _best_step(verdict: Verdict) -> float | None:
    return None if verdict.best_checkpoint is None else verdict.best_checkpoint.step


def _upside_bound(end: int) -> Read:
    return _of_verdict(lambda v: None if v.upside.interval80 is None else v.upside.interval80[end])


_ANNUNCIATOR = (Row.ANNUNCIATOR,)
_PANELS = (Row.PRIMARY, Row.SECONDARY, Row.TERTIARY)

FAMILIES = (
    Family("vario_build_info", Kind.INFO, "The version of vario that is at work.", ("version",), (Row.ITSELF,), None),
    Family(
        "vario_verdict_state",
        Kind.GAUGE,
        "1 for what the verdict says to do, 0 for the other words.",
        ("run", "action"),
        _ANNUNCIATOR,
        _word_of_verdict(ACTIONS, lambda v: v.action),
    ),
    Family(
        "vario_verdict_confidence_state",
        Kind.GAUGE,
        "1 for how sure the verdict is, 0 for the other words.",
        ("run", "confidence"),
        _ANNUNCIATOR,
        _word_of_verdict(CONFIDENCES, lambda v: v.confidence),
    ),
    Family(
        "vario_verdict_step",
        Kind.GAUGE,
        "Step of the last look: verdict, findings and levels are as of this step.",
        ("run",),
        (Row.FRESHNESS,),
        _one(_judged_step),
    ),
    Family(
        "vario_trajectory_state",
        Kind.GAUGE,
        "1 for the shape of the score at the last look, 0 for the other words.",
        ("run", "trajectory"),
        _ANNUNCIATOR,
        _word_of_verdict(TRAJECTORIES, lambda v: v.trajectory),
    ),
    Family(
        "vario_regime_state",
        Kind.GAUGE,
        "1 for the regime of KL against reward at the last look, 0 for the other words.",
        ("run", "regime"),
        _ANNUNCIATOR,
        _word_of_verdict(REGIMES, lambda v: v.regime),
    ),
    Family(
        "vario_finding_active",
        Kind.GAUGE,
        "1 for a finding that holds at the last look, 0 for one that has passed. Symptoms stand beneath their cause.",
        ("run", "finding", "severity", "confidence"),
        _ANNUNCIATOR,
        _active,
    ),
    Family(
        "vario_finding_since_step",
        Kind.GAUGE,
        "Estimated first step of what a finding tells.",
        ("run", "finding"),
        _ANNUNCIATOR,
        _since,
    ),
    Family(
        "vario_metric_last",
        Kind.GAUGE,
        "Value of a metric in the last row that has it, in the metric's own unit.",
        ("run", "metric"),
        _PANELS,
        _lasts,
    ),
    Family(
        "vario_metric_level",
        Kind.GAUGE,
        "Level of a metric at the last look, its noise taken out, in the metric's own unit.",
        ("run", "metric"),
        _PANELS,
        _levels,
    ),
    Family(
        "vario_metrics_left_out",
        Kind.GAUGE,
        "Metrics that the panels show and that are not exported, for they are too many.",
        ("run",),
        (Row.ITSELF,),
        _one(lambda s: s.left_out),
    ),
    Family(
        "vario_best_checkpoint_step",
        Kind.GAUGE,
        "Step of the best checkpoint so far.",
        ("run",),
        (Row.AHEAD,),
        _of_verdict(_best_step),
    ),
    Family(
        "vario_upside_expected",
        Kind.GAUGE,
        "Median gain of the score if the run goes on, in the score's own unit; left out where nothing can be told.",
        ("run",),
        (Row.AHEAD,),
        _of_verdict(lambda v: v.upside.expected),
    ),
    Family(
        "vario_upside_low",
        Kind.GAUGE,
        "Lower end of the 80 percent interval of that gain.",
        ("run",),
        (Row.AHEAD,),
        _upside_bound(0),
    ),
    Family(
        "vario_upside_high",
        Kind.GAUGE,
        "Upper end of the 80 percent interval of that gain.",
        ("run",),
        (Row.AHEAD,),
        _upside_bound(1),
    ),
    Family(
        "vario_run_status",
        Kind.GAUGE,
        "1 for how the run is doing as a process, 0 for the other words.",
        ("run", "status"),
        (Row.FRESHNESS,),
        _states(tuple(Status), lambda s: s.status),
    ),
    Family(
        "vario_run_step",
        Kind.GAUGE,
        "Step of the last row that was read.",
        ("run",),
        (Row.AHEAD, Row.FRESHNESS),
        _one(_last_step),
    ),
    Family(
        "vario_run_rows_total",
        Kind.COUNTER,
        "Logged rows so far; falls when the log was cut or replaced.",
        ("run",),
        (Row.FRESHNESS,),
        _one(lambda s: s.rows),
    ),
    Family(
        "vario_run_last_row_timestamp_seconds",
        Kind.GAUGE,
        "When the last row came, in seconds since 1970.",
        ("run",),
        (Row.FRESHNESS,),
        _one(lambda s: s.last_row_at),
        "seconds",
    ),
    Family(
        "vario_unread_steps",
        Kind.GAUGE,
        "Steps since somebody has read completions; left out for a run without any.",
        ("run",),
        (Row.REVIEW,),
        _one(_unread),
    ),
    Family(
        "vario_review_due",
        Kind.GAUGE,
        "1 when completions are due to be read, 0 otherwise; left out for a run without any.",
        ("run",),
        (Row.REVIEW,),
        _one(_review_due),
    ),
    Family(
        "vario_looks_total",
        Kind.COUNTER,
        "Looks that were taken at the run.",
        ("run",),
        (Row.ITSELF,),
        _one(lambda s: s.looks),
    ),
    Family(
        "vario_judging_seconds_total",
        Kind.COUNTER,
        "Time that these looks took.",
        ("run",),
        (Row.ITSELF,),
        _one(lambda s: s.judging_seconds),
        "seconds",
    ),
    Family(
        "vario_troubles_total",
        Kind.COUNTER,
        "Times that something went wrong in following the run.",
        ("run",),
        (Row.ITSELF,),
        _one(lambda s: s.troubles),
    ),
)
