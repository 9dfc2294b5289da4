"""What the screen shows, taken between two turns: the runs go on changing in another thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from vario.surfaces.live.feed import Feed
from vario.surfaces.live.notices import OF_FINDINGS, SEVERITIES, Kind, Notice
from vario.surfaces.live.watched import Review, Status, WatchedRun
from vario.verdict import Diagnosis, Finding


class Light(IntEnum):
    """How much a run asks for attention, the least first."""

    FINE = 0
    WAITING = 1
    DECIDE = 2
    WARNING = 3
    CRITICAL = 4


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as it stood.

    Attributes:
        watched: whose view it is; only its identity is used. index: its place on the command line.
        rows: that have come; step: of the last one that was read.
        troubles: sentences with how often each came. acknowledged: reasons by finding.
        news: the last thing that was told of each finding, and when.
        at_a_glance: whether the diagnosis looked at the run as it stands alone; one from its start follows.
    """

    watched: WatchedRun
    index: int
    name: str
    status: Status
    rows: int = 0
    step: int | None = None
    path: str = ""
    framework: str = ""
    algorithm: str = ""
    seconds_per_row: float | None = None
    last_row_at: float | None = None
    diagnosis: Diagnosis | None = None
    has_samples: bool = False
    how_to_sample: str = ""
    review: Review = field(default_factory=Review)
    troubles: tuple[tuple[str, int], ...] = ()
    ignored_lines: int = 0
    warnings: tuple[str, ...] = ()
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    news: Mapping[str, tuple[Kind, float]] = field(default_factory=dict)
    at_a_glance: bool = False

    @property
    def open(self) -> list[Finding]:
        """Findings that hold, the gravest first; those that somebody acknowledged stand last."""
        found = self._findings()
        now = [f for f in found if f.until is None]
        return sorted(now, key=lambda f: (f.name in self.acknowledged, -SEVERITIES.index(f.severity)))

    @property
    def passed(self) -> list[Finding]:
        """Findings that held and passed, the latest first."""
        return sorted((f for f in self._findings() if f.until is not None), key=lambda f: -(f.until or 0))

    @property
    def light(self) -> Light:
        """The gravest of what is open and nobody has acknowledged, of a process that stopped, and of what is due."""
        severities = [f.severity for f in self.open if f.name not in self.acknowledged]
        if "critical" in severities:
            return Light.CRITICAL
        if "warning" in severities or (self.status in (Status.STALLED, Status.LOST) and not self.is_over):
            return Light.WARNING
        if self.diagnosis is None:
            return Light.WAITING
        advised = self.diagnosis.verdict.action in ("stop", "intervene") and not self.acknowledged
        due = self.review.due_since is not None
        return Light.DECIDE if not self.is_over and (advised or due) else Light.FINE

    @property
    def is_over(self) -> bool:
        """Whether it goes on no more, as far as anybody has seen: a log that was silent from the first look on is an old one."""
        return self.status is Status.ENDED or (self.status is Status.STALLED and self.seconds_per_row is None)

    def _findings(self) -> list[Finding]:
        return [f for f in self.diagnosis.findings if f.audience == "default"] if self.diagnosis is not None else []


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All runs as they stood after a turn.

    Attributes:
        runs: what needs attention first. messages, history: the feed's.
        failures: what went wrong in the feed itself, with counts. looked_at: when the turn ended, seconds since 1970.
    """

    runs: tuple[RunView, ...] = ()
    messages: tuple[str, ...] = ()
    history: tuple[Notice, ...] = ()
    failures: tuple[tuple[str, int], ...] = ()
    looked_at: float | None = None

    def of(self, watched: WatchedRun | None) -> RunView | None:
        """The view of a run; None where it is not among them."""
        return next((r for r in self.runs if r.watched is watched), None)


Acknowledged = Callable[[WatchedRun], Mapping[str, str]]


def taken(feed: Feed, acknowledged: Acknowledged, failures: Mapping[str, int], looked_at: float | None) -> Snapshot:
    """Take the runs as they stand; called where the feed is called, so that nothing changes meanwhile."""
    news: dict[str, dict[str, tuple[Kind, float]]] = {}
    for notice in feed.history:
        if notice.kind in OF_FINDINGS:
            news.setdefault(notice.run, {})[notice.subject] = (notice.kind, notice.at)
    views = [_view(run, i, acknowledged(run), news.get(run.name, {})) for i, run in enumerate(feed.runs)]
    return Snapshot(
        tuple(in_order(views)), tuple(feed.messages), tuple(feed.history), tuple(failures.items()), looked_at
    )


def in_order(views: Iterable[RunView]) -> list[RunView]:
    """What needs attention first; of equals those that still run, then the order of the command line."""
    return sorted(views, key=lambda v: (-v.light, v.is_over, v.index))


def _view(
    watched: WatchedRun, index: int, acknowledged: Mapping[str, str], news: Mapping[str, tuple[Kind, float]]
) -> RunView:
    run = watched.run
    troubles = tuple(watched.troubles.items())
    if run is None:
        return RunView(watched, index, watched.name, watched.status, watched.arrived, troubles=troubles)
    return RunView(
        watched,
        index,
        watched.name,
        watched.status,
        max(watched.arrived, watched.rows),
        run.last_step,
        run.path,
        run.framework,
        run.algorithm,
        watched.seconds_per_row,
        watched.last_row_at,
        watched.diagnosis,
        run.samples is not None,
        run.how_to_sample,
        watched.review,
        troubles,
        run.ignored_lines,
        run.warnings,
        dict(acknowledged),
        dict(news),
        watched.at_a_glance,
    )
