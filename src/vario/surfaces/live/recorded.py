"""A recorded run as a source: rows handed over one by one, made a run only when a look is due."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from vario.catalogue.own_words import event_key
from vario.rules.engine import looks_between
from vario.run import Floats, Ints, Run
from vario.sources import interpret
from vario.sources.rows import Table, kind_of
from vario.sources.sampled import SampleOptions, with_dumps
from vario.surfaces.live.recorder import Piece, Recorder
from vario.surfaces.live.watched import Polled

MOST_INTERVALS = 10_000
"""Intervals of other work that are remembered: one a minute for a week."""
Interval = tuple[str, float, float]
"""Name of other work, when it began and when it ended, in seconds since 1970."""


def table_of(
    recorder: Recorder,
    path: str,
    config: Mapping[str, object],
    intervals: Sequence[Interval] = (),
    *,
    timed: bool = False,
) -> Table:
    """What was recorded, as a reader would hand it on; for each kind of other work the seconds of it in each row.

    Args:
        recorder: the rows.
        path: what the run is called.
        config: the trainer's settings.
        intervals: other work beside the training.
        timed: the log of this training holds the time of each row, so that a diagnosis of it knows the clock.
    """
    table = Table(path, "recorded")
    steps = np.frombuffer(recorder.steps, dtype=np.int64).copy() if len(recorder) else np.empty(0, dtype=np.int64)
    columns = {key: _joined(pieces) for key, pieces in recorder.columns()}
    times = np.array(recorder.times)
    if timed:
        written = np.flatnonzero(np.isfinite(times))
        columns["_timestamp"] = (written, times[written])
    table.put_rows(steps, columns | _seconds_beside(times, intervals), side_by_side=True)
    table.config.update(config)
    table.ignored += recorder.left_out
    return table


def _joined(pieces: Sequence[Piece]) -> tuple[Ints, Floats]:
    """A column in one piece: numbers of rows, ascending, and the values there; copies, for the arrays go on growing."""
    numbers = [np.frombuffer(rows, dtype=np.uint32).astype(np.int64) for rows, _ in pieces if rows]
    values = [np.frombuffer(column, dtype=np.float64).copy() for _, column in pieces if column]
    if len(numbers) == 1:
        return numbers[0], values[0]
    rows = np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    return rows[order], np.concatenate(values)[order] if values else np.empty(0)


def _seconds_beside(times: Floats, intervals: Sequence[Interval]) -> dict[str, tuple[Ints, Floats]]:
    """How long other work ran in the time of each row: from the row before to the row itself."""
    known = np.flatnonzero(np.isfinite(times))
    if not intervals or not known.size:
        return {}
    ends = np.maximum.accumulate(times[known])
    starts = np.concatenate([ends[:1], ends[:-1]])
    seconds: dict[str, Floats] = {}
    for name, start, end in intervals:
        held = seconds.setdefault(event_key(name), np.zeros(known.size))
        here = slice(int(np.searchsorted(ends, start)), int(np.searchsorted(starts, end, side="right")))
        held[here] += np.clip(np.minimum(ends[here], end) - np.maximum(starts[here], start), 0.0, None)
    return {key: (known, values) for key, values in seconds.items()}


class Recorded:
    """The rows of a training that hands them over itself."""

    def __init__(
        self,
        name: str,
        path: str,
        config: Mapping[str, object],
        dumps: list[str],
        finish: Callable[[Run], Run],
        *,
        timed: bool = False,
    ) -> None:
        self.name = name
        self.path = path
        self.config = dict(config)
        self.dumps = dumps
        self.recorder = Recorder()
        self.intervals: list[Interval] = []
        self.samples = SampleOptions(workers=1, counted={})
        self.ended = False
        self.troubles: list[str] = []
        self._finish = finish
        self._timed = timed
        self._rows = self._judged = self._told = 0
        self._last: int | None = None

    def add(self, step: int, at: float, metrics: Mapping[str, float]) -> None:
        """Take one row."""
        self.recorder.add(step, at, metrics)
        if step != self._last and kind_of(metrics) == "train":
            self._rows += 1
            self._last = step

    def overlap(self, name: str, start: float, end: float) -> None:
        """Note other work that went on beside the training."""
        self.intervals.append((name, start, end))
        del self.intervals[:-MOST_INTERVALS]

    def run(self) -> Run:
        """Everything that was recorded, with the completions that lie where they were written."""
        table = table_of(self.recorder, self.path, self.config, self.intervals, timed=self._timed)
        dumps = [place for place in self.dumps if Path(place).exists()]
        return self._finish(with_dumps(interpret(table), dumps, self.samples))

    def poll(self) -> Polled:
        """The run where a look is due, or the training has ended; else how many rows there are."""
        troubles, self.troubles = tuple(self.troubles), []
        at = self.recorder.times[-1] if len(self.recorder) else math.nan
        written = at if math.isfinite(at) else None
        due = max(looks_between(self._judged, self._rows + 1), default=self._judged)
        if not self.ended and due == self._judged:
            return Polled(None, written, troubles, rows=self._rows)
        try:
            run = self.run() if len(self.recorder) else None
        except Exception as error:  # what a trainer logs may surprise any dialect: the next look tries again
            return Polled(
                None, written, (*troubles, f"could not be read ({type(error).__name__}: {error})"), rows=self._rows
            )
        if run is not None:
            self._rows = int(run.logged_steps.size)  # what a resume repeats counts once
            self._judged = max(looks_between(0, self._rows + 1), default=0)
        return Polled(run, written, troubles, ended=self.ended, rows=self._rows)
