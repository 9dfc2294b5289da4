"""One run under watch: polled, judged at the cadence, and what changed. It reads and judges; it tells nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from vario.rules.choice import Choice
from vario.rules.engine import CADENCE_ROWS, CADENCE_SHARE, looks_between
from vario.rules.non_finite import VITAL
from vario.run import Run
from vario.sources.sampled import SampleOptions
from vario.surfaces.excerpts import excerpts_of
from vario.surfaces.live.joining import rewritten
from vario.surfaces.live.notices import OF_FINDINGS, Kind, Notice, Standing, changes, standing
from vario.verdict import Diagnosis, Examiner, diagnose
from vario.verdict.review import Queued, review_queue

STALLED_TIMES = 10.0
"""Times the usual time a row from which on a run counts as stalled: the same as the rule's, run-stalled."""
STALLED_LONGEST = 2.0
"""Times the longest pause so far: what a run has done before (an evaluation, a save) is no stall."""
STALLED_SECONDS = 600.0
"""No run is called stalled sooner: compilation, a checkpoint of hundreds of GiB and a queue take minutes."""
MOST_STEPS = ("max_steps", "trainer.total_training_steps", "total_training_steps")
"""Settings that hold the step at which a run ends."""
REVIEW_SAMPLES = 8
ARRIVALS = 512
"""Pauses between rows that are remembered."""
GLANCE_ROWS = 1_000
"""Rows from which on a run is glanced at first, where that is wished: fewer are judged from the start in less than a second."""
PAUSED_TIMES = 3.0
"""Times the usual time a row without one, after which the rows since the last look are judged as they stand."""
PAUSED_SECONDS = 10.0
"""No sooner than this: a file that is written in parts has no pause between them."""
TROUBLES = 100
"""Kinds of trouble that are told apart; what comes beyond them is counted together."""


class Status(StrEnum):
    """How a run under watch is doing, as a process."""

    WAITING = "waiting"
    LIVE = "live"
    STALLED = "stalled"
    LOST = "lost"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Polled:
    """What a source says when it is asked.

    Attributes:
        run: the run as it stands; None: nothing has changed since the last time.
        written_at: when its last row was written, in seconds since 1970, as far as that is known.
        troubles: what went wrong on the way, each a sentence; the same one again is counted, not told again.
        replaced: another run stands where the old one stood: what was judged of the old one is over.
        lost: there is nothing any more at the place; what was read before is kept.
        ended: no row will follow.
        rows: how many rows there are, where a source knows that without making a run of them.
    """

    run: Run | None
    written_at: float | None = None
    troubles: tuple[str, ...] = ()
    replaced: bool = False
    lost: bool = False
    ended: bool = False
    rows: int | None = None


class Source(Protocol):
    """Where the rows of a run come from. `poll` never raises for what the run's files, or their absence, may cause."""

    name: str

    def poll(self) -> Polled:
        """The run as it stands, if it has changed."""


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """When a person should read completions, and whether the notice quotes them.

    Attributes:
        every: steps after which they are due; 0: never by steps alone.
        on_warning: whether a warning that opens makes them due.
        quote: whether the first and last words of each stand in the notice, masked as everywhere.
    """

    every: int = 200
    on_warning: bool = True
    quote: bool = True


@dataclass(slots=True)
class Review:
    """When completions were read last, and which eight are due."""

    step: int | None = None
    at: float | None = None
    due_since: int | None = None
    queue: tuple[Queued, ...] = ()


@dataclass(eq=False)
class WatchedRun:
    """A run under watch and all that a surface shows of it.

    Attributes:
        replay: False: each look is at the run as it stands then, as `--no-replay` has it.
        glances: whether a long run is judged as it stands first, and from its start at the next look: of many runs, each
            has a light soon. No notice comes of a glance.
        newest: whether a look is at the newest row, as `vario diagnose` looks, and one is taken at the rows that are left
            when no more come for a while: for who looks at it, now. Otherwise looks come at the cadence alone, so that an
            alert is what a later reader of the log finds, too; and once more when the run stalls or ends.
        run: everything that was read. diagnosis: of the run as it stood at the last look of the cadence; None before it.
        at_a_glance: whether that diagnosis is of a glance.
        arrived: logged rows that are known of; `run` may hold fewer of them until the next look.
        told: findings that stand as told, by name: what a notice was made of and has not resolved.
        clock: seconds since 1970. monotonic: seconds that no change of the clock moves, for pauses; by default the clock
            itself where one is given.
        last_row_at: when the last row came, in seconds since 1970. seconds_per_row: the usual pause between rows.
        troubles: what went wrong, counted by sentence.
        looks: how many looks were taken; judging_seconds: what they took.
    """

    name: str
    source: Source
    choice: Choice = field(default_factory=Choice)
    told: dict[str, Standing] = field(default_factory=dict)
    plan: ReviewPlan = field(default_factory=ReviewPlan)
    stalled_after: float | None = None
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] | None = None
    replay: bool = True
    glances: bool = False
    newest: bool = False
    at_a_glance: bool = False
    run: Run | None = None
    diagnosis: Diagnosis | None = None
    status: Status = Status.WAITING
    arrived: int = 0
    last_row_at: float | None = None
    pauses: list[float] = field(default_factory=list)
    review: Review = field(default_factory=Review)
    troubles: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    judging_seconds: float = 0.0
    _examiner: Examiner = field(init=False)
    _judged: int = 0
    _since_start: Callable[[], float] = field(init=False)
    _came_at: float | None = None
    _asked_at: float | None = None

    def __post_init__(self) -> None:
        self._examiner = Examiner(self.choice, replay=self.replay)
        self._since_start = self.monotonic or (time.monotonic if self.clock is time.time else self.clock)

    @property
    def rows(self) -> int:
        """Logged rows so far."""
        run = self.run  # once: another thread may look while this run is replaced
        return 0 if run is None else int(run.logged_steps.size)

    @property
    def seconds_per_row(self) -> float | None:
        """The usual pause between rows; None before there are two."""
        pauses = list(self.pauses)
        return float(np.median(pauses)) if pauses else None

    def look(self) -> list[Notice]:
        """Ask the source, and judge where a look has come due."""
        now = self.clock()
        polled = self.source.poll()
        notices = [notice for text in polled.troubles for notice in self.trouble(text)]
        if polled.replaced:
            notices.append(self._about(Kind.REPLACED, "another run stands here now; its findings start anew", now))
            self._begin_anew()
        if polled.lost and self.status is not Status.LOST:
            self.status = Status.LOST
            notices.append(self._about(Kind.LOST, "nothing lies at its place any more; what was read is kept", now))
        glanced_before = self.at_a_glance
        if polled.run is not None:
            notices += self._take(polled.run, polled, now)
        elif polled.rows is not None:
            notices += self._arrived(polled.rows, polled.written_at, now)
        elif self.at_a_glance and self.run is not None:
            notices += self._judge_what_is_due(self.run, now)
        if self.at_a_glance and not glanced_before:
            pass  # the next look judges it from the start, and ends what has ended
        elif (polled.ended or self._is_complete()) and (self.status is not Status.ENDED or self._has_unseen()):
            notices += self._end(now)
        elif polled.run is None and not polled.lost:
            notices += self._quiet(now)
        self._asked_at = self._since_start()
        return notices

    def trouble(self, text: str) -> list[Notice]:
        """Count what went wrong; a notice where it is new. Beyond `TROUBLES` kinds the rest counts as one."""
        kind = text if text in self.troubles or len(self.troubles) < TROUBLES else "other troubles"
        is_new = kind not in self.troubles
        self.troubles[kind] += 1
        return [self._about(Kind.TROUBLE, text, self.clock())] if is_new else []

    def _is_complete(self) -> bool:
        """Whether the run has made all the steps that its settings ask for."""
        run = self.run
        if run is None or run.last_step is None:
            return False
        wished = [run.config.get(key) for key in MOST_STEPS]
        return any(isinstance(n, int | float) and 0 < n <= run.last_step for n in wished)

    def reviewed(self, step: int, at: float) -> None:
        """Somebody has read completions."""
        self.review = Review(step, at)

    def _take(self, run: Run, polled: Polled, now: float) -> list[Notice]:
        self.run = run
        notices = self._arrived(int(run.logged_steps.size), polled.written_at, now)
        if self.rows < self._judged:
            self._judged = 0  # the past was rewritten: a resume that dropped rows, a log cut short
        if self.status is Status.LOST:
            self.status = Status.LIVE
            notices.append(self._about(Kind.RESUMED, "it is there again", now))
        return notices + self._judge_what_is_due(run, now)

    def _judge_what_is_due(self, run: Run, now: float) -> list[Notice]:
        due = max(looks_between(self._judged, self.rows + 1), default=self._judged)
        if due == self._judged and self._rewritten() < max(CADENCE_ROWS, int(CADENCE_SHARE * self._judged)):
            is_first = self.newest and self.diagnosis is None
            return self._judge_the_rest(now) if is_first or self._breaks_off() else []
        to_the_end = self.newest or self.status is Status.STALLED
        seen = run if to_the_end else run.until(int(run.logged_steps[due - 1]))
        if self.glances and self.replay and self.diagnosis is None and due >= GLANCE_ROWS:
            self.diagnosis, self.at_a_glance = diagnose(seen, choice=self.choice, replay=False), True
            return []
        self._judged = due
        return self._judge(seen, now)

    def _judge_the_rest(self, now: float) -> list[Notice]:
        """A look at the newest row between two of the cadence, if there is one that no look has seen: it leaves no trace in these."""
        return self._judge(self.run, now) if self.run is not None and self.rows and self._has_unseen() else []

    def _breaks_off(self) -> bool:
        """Whether a vital metric, finite so far, is so no more: a run that dies of it brings no row for another look."""
        if self.run is None or "non-finite" in self.told:
            return False
        seen = -1 if self.diagnosis is None or self.diagnosis.run.last_step is None else self.diagnosis.run.last_step
        for name, series in self.run.series.items():
            if name.startswith(VITAL) and len(series) and series.steps[-1] > seen:
                finite = np.isfinite(series.values)
                new = series.steps > seen
                if finite[~new].all() and not finite[new].all():
                    return True
        return False

    def _rewritten(self) -> int:
        """Steps of the last look that read otherwise now: a resume repeats steps, and no new row comes until it has passed them."""
        return 0 if self.diagnosis is None or self.run is None else rewritten(self.diagnosis.run, self.run)

    def _arrived(self, rows: int, written_at: float | None, now: float) -> list[Notice]:
        """Note when rows came, and how far apart they come."""
        more, had = rows - self.arrived, self._came_at
        self.arrived = rows
        if more <= 0:
            return []
        age = max(now - written_at, 0.0) if written_at is not None else 0.0
        if self._asked_at is not None:
            # it was not there the last time; a clock that was set since would make days of it
            age = min(age, max(self._since_start() - self._asked_at, 0.0))
        at = self._since_start() - age
        if rows > more and had is not None and at > had:
            self.pauses.append((at - had) / more)
            del self.pauses[:-ARRIVALS]
        self._came_at = at if had is None else max(at, had)
        self.last_row_at = now - age
        back = self.status in (Status.STALLED, Status.LOST, Status.ENDED)
        # what had been silent for long before anybody watched is no news: it is shown, and nobody is told
        self.status = Status.STALLED if had is None and age >= (self.stalled_after or STALLED_SECONDS) else Status.LIVE
        return [self._about(Kind.RESUMED, "rows come again", now)] if back else []

    def _judge(self, run: Run, now: float) -> list[Notice]:
        began = time.perf_counter()
        self.diagnosis, self.at_a_glance = self._examiner.see(run), False
        self.judging_seconds += time.perf_counter() - began
        self.looks += 1
        notices = list(changes(self.name, self.told, self.diagnosis, now))
        self._remember(notices, run)
        return notices + self._due_review(notices, now)

    def _remember(self, notices: list[Notice], run: Run) -> None:
        for notice in notices:
            if notice.kind is Kind.RESOLVED:
                self.told.pop(notice.subject, None)
            elif notice.kind in OF_FINDINGS and notice.finding is not None:
                self.told[notice.subject] = standing(notice.finding, run.last_step or 0)

    def _has_unseen(self) -> bool:
        """Whether the run holds what the last look did not see; an evaluation after its last step is no row."""
        seen = 0 if self.diagnosis is None else sum(map(len, self.diagnosis.run.series.values()))
        return self.run is not None and sum(map(len, self.run.series.values())) != seen

    def _end(self, now: float) -> list[Notice]:
        """The last look is at the last row, whether it was due or not: an offline diagnosis takes it too."""
        notices = []
        if self.run is not None and (self.rows > self._judged or self._has_unseen() or self._rewritten()):
            self._judged = self.rows
            notices += self._judge(self.run, now)
        if self.status is Status.ENDED:
            return notices
        self.status = Status.ENDED
        said = "" if self.diagnosis is None else str(self.diagnosis.verdict)
        notices.append(self._about(Kind.ENDED, said or "it ended before its first row", now))
        return notices

    def _quiet(self, now: float) -> list[Notice]:
        """Nothing new: whether that is long for this run."""
        if self.status is not Status.LIVE or self._came_at is None:
            return []
        usual, quiet = self.seconds_per_row, self._since_start() - self._came_at
        rest = []
        if self.newest and quiet >= max(PAUSED_SECONDS, PAUSED_TIMES * (usual or 0.0)):
            rest = self._judge_the_rest(now)
        bound = max(STALLED_SECONDS, STALLED_TIMES * (usual or 0.0), STALLED_LONGEST * max(self.pauses, default=0.0))
        if quiet < (self.stalled_after or bound):
            return rest
        self.status = Status.STALLED
        rest = rest or self._judge_the_rest(now)
        pace = "" if usual is None else f"; {_seconds(usual)} a row are usual here"
        return [
            *rest,
            Notice(
                Kind.STALLED, self.name, "run-stalled", self.run.last_step if self.run else None, "warning", "medium",
                f"no row for {_seconds(quiet)}", f"The last one was step {self.run.last_step if self.run else None}{pace}.", now,
            ),
        ]  # fmt: skip

    def _due_review(self, notices: list[Notice], now: float) -> list[Notice]:
        """Whether somebody should read completions, and which; told once until somebody has."""
        run = self.diagnosis.run if self.diagnosis is not None else None
        if run is None or run.samples is None or run.last_step is None or self.review.due_since is not None:
            return []
        since = self.review.step if self.review.step is not None else (run.first_step or 0)
        warned = [n for n in notices if n.kind is Kind.OPENED and n.severity != "info"] if self.plan.on_warning else []
        by_steps = self.plan.every > 0 and run.last_step - since >= self.plan.every
        if not warned and not by_steps:
            return []
        marked = {(m.step, m.number) for m in run.marks}
        queue = tuple(review_queue(run, REVIEW_SAMPLES, marked))
        if not queue:
            return []
        self.review = Review(self.review.step, self.review.at, run.last_step, queue)
        why = f"{warned[0].subject} has opened" if warned else f"nobody has read any since step {since}"
        words = excerpts_of(run, tuple((q.step, q.number) for q in queue), SampleOptions()) if self.plan.quote else {}
        listed = "\n".join(_to_read(q, words.get((q.step, q.number))) for q in queue)
        return [
            Notice(
                Kind.REVIEW, self.name, "review-due", run.last_step, "info", "high",
                f"time to read {len(queue)} completions: {why}", f"{listed}\nvario samples {run.path} --review", now,
            )
        ]  # fmt: skip

    def _begin_anew(self) -> None:
        self.run, self.diagnosis, self.arrived, self._judged = None, None, 0, 0
        self._came_at = None
        self.told.clear()
        self.pauses.clear()
        self.review = Review()
        self.at_a_glance = False
        self._examiner = Examiner(self.choice, replay=self.replay)

    def _about(self, kind: Kind, text: str, now: float) -> Notice:
        step = self.run.last_step if self.run is not None else None
        return Notice(kind, self.name, kind.value, step, "info", "high", f"{self.name}: {kind.value}", text, now)


def _to_read(queued: Queued, words: str | None) -> str:
    paid = "" if queued.reward is None else f", reward {queued.reward:.3g}"
    said = "" if words is None else f": {words}"
    return f"step {queued.step}, completion {queued.number} ({queued.stratum}{paid}){said}"


def _seconds(seconds: float) -> str:
    """A span of time in the unit that fits it."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    return f"{seconds / 60.0:.3g} min" if seconds < 7200.0 else f"{seconds / 3600.0:.3g} h"
