"""A recorded run as a source: rows handed over one by one, made a run only when a look is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vario.rules.engine import looks_between
from vario.run import Event, Run
from vario.sources import interpret
from vario.sources.rows import Table, kind_of
from vario.sources.sampled import SampleOptions, with_dumps
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.watched import Polled


def table_of(recorder: Recorder, path: str, config: Mapping[str, object], events: list[Event]) -> Table:
    """What was recorded, as a reader would hand it on."""
    table = Table(path, "recorded")
    steps = np.frombuffer(recorder.steps, dtype=np.int64).copy() if len(recorder) else np.empty(0, dtype=np.int64)
    columns = {
        key: (np.frombuffer(rows, dtype=np.uint32).astype(np.int64), np.frombuffer(values, dtype=np.float64).copy())
        for key, rows, values in recorder.columns()
    }
    table.put_rows(steps, columns)
    table.config.update(config)
    table.events += events
    table.ignored += recorder.left_out
    return table


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
        self.events: list[Event] = []
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

    def run(self) -> Run:
        """Everything that was recorded, with the completions that lie where they were written."""
        run = interpret(table_of(self.recorder, self.path, self.config, self.events))
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
