"""A recorded run, gone through as if it were live: what would have been told, and what would have been done, and when."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from vario.errors import ConfigError, SeveralRuns, SourceError
from vario.rules.choice import Choice
from vario.rules.engine import looks_between
from vario.run import Run
from vario.surfaces.alerts.policy import AlertOptions, alert_options
from vario.surfaces.cli.watch_lines import notice_json, rehearsed_json
from vario.surfaces.cli.wishes import runs_at
from vario.surfaces.live.actions import Act, acts_of
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.watched import Polled, WatchedRun
from vario.surfaces.live.wishes import LiveWishes
from vario.surfaces.terminal.plain import line_of


class Replayed:
    """A recorded run whose rows come again, one look of the cadence at a time; its clock is the log's where it has one."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self._run = run
        self._rows = 0
        clock = run.series.get("systems/wall-clock")
        self._clock = None if clock is None or not len(clock) else clock
        self.ended = False

    def now(self) -> float:
        """Seconds since 1970 at the last row that has come; 0 where the log does not tell."""
        if self._clock is None or not self._rows:
            return 0.0
        part = self._clock.until(int(self._run.logged_steps[self._rows - 1]))
        return float(part.values[-1]) if len(part) else 0.0

    def poll(self) -> Polled:
        """The run up to the next look."""
        total = int(self._run.logged_steps.size)
        self._rows = min(next(looks_between(self._rows, total), total), total)
        self.ended = self._rows >= total
        run = self._run if self.ended else self._run.until(int(self._run.logged_steps[self._rows - 1]))
        return Polled(run, self.now() or None, ended=self.ended)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What one look would have brought."""

    notice: Notice
    alerted: bool
    acts: tuple[Act, ...]


def rehearsed(watched: WatchedRun, alerts: AlertOptions, wishes: LiveWishes) -> Iterator[Rehearsed]:
    """Everything that a run under watch brings, to its end."""
    standing: set[str] = set()
    source = watched.source
    assert isinstance(source, Replayed)
    while not source.ended:
        for notice in watched.look():
            alerted = alerts.wants(notice, alerted=notice.subject in standing)
            if notice.kind is Kind.RESOLVED:
                standing.discard(notice.subject)
            elif alerted:
                standing.add(notice.subject)
            yield Rehearsed(notice, alerted, tuple(acts_of(wishes.act, notice)))


def _every_run_at(options: argparse.Namespace, path: str) -> Iterator[tuple[Run, Choice] | SourceError | ConfigError]:
    """The runs that a watch would follow there."""
    for found in runs_at(options, path):
        if isinstance(found, SeveralRuns):
            yield from runs_at(argparse.Namespace(**{**vars(options), "all": True}), path)
        else:
            yield found


def rehearse(options: argparse.Namespace, wishes: LiveWishes) -> int:
    """Print the rehearsal of each path; nothing is sent, run or remembered. Gives the exit code."""
    alerts = alert_options(wishes.alerts)
    code = 0
    for path in options.paths:
        for found in _every_run_at(options, path):
            if not isinstance(found, tuple):
                print(f"vario: {found}", file=sys.stderr)
                code = 2 if isinstance(found, ConfigError) else max(code, 3) if isinstance(found, SourceError) else code
                continue
            run, choice = found
            source = Replayed(run.path, run)
            watched = WatchedRun(run.path, source, choice, plan=wishes.watch.review, clock=source.now)
            told = done = 0
            for step in rehearsed(watched, alerts, wishes):
                told += step.alerted
                done += len(step.acts)
                if options.format == "json":
                    print(
                        notice_json(
                            step.notice, source.now() or None, alerted=step.alerted, acts=[a.action for a in step.acts]
                        )
                    )
                    continue
                line = line_of(step.notice)
                print(line if source.now() else line.partition(" ")[2])  # a log without a clock has no times
                if step.alerted:
                    print("    would be alerted")
                for act in step.acts:
                    print(f"    would be done: {act.action}" + (f" ({act.target})" if act.action == "sentinel" else ""))
            print(
                rehearsed_json(run.path, told, done)
                if options.format == "json"
                else f"{run.path}: {told} alerts, {done} acts"
            )
    return code
