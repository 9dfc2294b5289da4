"""A recorded run as a source: rows handed over one by one, made a run only when a look is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vario.rules.engine import looks_between
from vario.run import Floats, Ints, Run
from vario.sources import interpret
from vario.catalogue.own_words import event_key
from vario.sources.rows import Table, kind_of
from vario.sources.sampled import SampleOptions, with_dumps
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.watched import Polled

MOST_INTERVALS = 10_000
"""Intervals of other work that are remembered: one a minute for a week."""
Interval = tuple[str, float, float]
"""Name of other work, when it began and when it ended, in seconds since 1970."""


def table_of(recorder: Recorder, path: str, config: Mapping[str, object], intervals: Sequence[Interval] = ()) -> Table:
    """What was recorded, as a reader would hand it on; for each kind of other work the seconds of it in each row."""
    table = Table(path, "recorded")
    steps = np.frombuffer(recorder.steps, dtype=np.int64).copy() if len(recorder) else np.empty(0, dtype=np.int64)
    columns = {
        key: (np.frombuffer(rows, dtype=np.uint32).astype(np.int64), np.frombuffer(values, dtype=np.float64).copy())
        for key, rows, values in recorder.columns()
    }
    table.put_rows(steps, columns | _seconds_beside(np.array(recorder.times), intervals))
    table.config.update(config)
    table.ignored += recorder.left_out
    return table


def _seconds_beside(times: Floats, intervals: Sequence[Interval]) -> dict[str, tuple[Ints, Floats]]:
    """How long other work ran in the time of each row: from the row before to the row itself."""
    if not intervals or not times.size:
        return {}
    ends = np.maximum.accumulate(times)
    starts = np.concatenate([ends[:1], ends[:-1]])
    seconds: dict[str, Floats] = {}
    for name, start, end in intervals:
        here = np.clip(np.minimum(ends, end) - np.maximum(starts, start), 0.0, None)
        key = event_key(name)
        seconds[key] = seconds.get(key, np.zeros(times.size)) + here
    every = np.arange(times.size, dtype=np.int64)
    return {key: (every, values) for key, values in seconds.items()}


class Recorded:
    """The rows of a training that hands them over itself."""

    def __init__(
        self, name: str, path: str, config: Mapping[str, object], dumps: list[str], finish: Callable[[Run], Run]
    ) -> None:
        self.name = name
        self.path = path
        self.config = dict(config)
        self.dumps = dumps
        self.recorder = Recorder()
        self.intervals: list[Interval] = []
        self.samples = SampleOptions()
        self.ended = False
        self.troubles: list[str] = []
        self._finish = finish
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
        run = interpret(table_of(self.recorder, self.path, self.config, self.intervals))
        return self._finish(with_dumps(run, self.dumps, self.samples))

    def poll(self) -> Polled:
        """The run where a look is due, or the training has ended; else how many rows there are."""
        troubles, self.troubles = tuple(self.troubles), []
        at = self.recorder.times[-1] if len(self.recorder) else None
        due = max(looks_between(self._judged, self._rows + 1), default=self._judged)
        if not self.ended and due == self._judged:
            return Polled(None, at, troubles, rows=self._rows)
        try:
            run = self.run() if len(self.recorder) else None
        except Exception as error:  # what a trainer logs may surprise any dialect: the next look tries again
            return Polled(
                None, at, (*troubles, f"could not be read ({type(error).__name__}: {error})"), rows=self._rows
            )
        if run is not None:
            self._rows = int(run.logged_steps.size)  # what a resume repeats counts once
            self._judged = max(looks_between(0, self._rows + 1), default=0)
        return Polled(run, at, troubles, ended=self.ended, rows=self._rows)
