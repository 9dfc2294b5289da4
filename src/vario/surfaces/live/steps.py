"""How long steps take, and what of it goes to generation, scoring, the update and the like."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from vario.catalogue.own_words import event_name

ONCE = frozenset({"checkpoint", "evaluation"})
"""Phases that come now and then: their time is that of the row, where the others' is that of a step in it."""
MOST_PHASES = 32
"""Phases are columns of a log: those beyond are not timed."""


class StepClock:
    """Adds up the wall time of steps and of their phases; `take` says what it comes to, once a logged row.

        clock = StepClock()
        for step in range(steps):
            clock.begin_step()
            with clock.phase("generation"):
                ...
            with clock.phase("train"):
                ...
            clock.end_step()
            monitor.log(step, metrics | clock.take())

    The phases that vario knows are generation, reward, logprob, train, sync, wait, checkpoint and evaluation. A moment
    belongs to one phase, the one that was begun last and has not ended: phases inside each other, or beside each other
    in two threads, do not count twice, and together they never take longer than the clock on the wall. Nothing here
    raises; in a forked child nothing is timed.

    Args:
        clock: seconds that never jump.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._open: list[_Phase] = []
        self._since = 0.0
        self._spent: dict[str, float] = {}
        self._began: float | None = None
        self._ended: float | None = None
        self._seconds = 0.0
        self._steps = 0

    def begin_step(self) -> None:
        """A step begins here; one that was begun and never ended is forgotten."""
        self._began = self._clock()

    def end_step(self) -> None:
        """The step ends here. Without its beginning it is counted from the end of the one before."""
        now = self._clock()
        began = self._began if self._began is not None else self._ended
        self._began, self._ended = None, now
        if began is not None:
            self._seconds += now - began
            self._steps += 1

    def phase(self, name: str) -> _Phase:
        """A context for a phase of the step; what is raised in it goes through."""
        return _Phase(self, event_name(str(name)))

    def add(self, name: str, seconds: float) -> None:
        """Time of a phase that was seen from outside, when it had passed."""
        if os.getpid() == self._pid:
            with self._lock:
                self._settle()
                name = event_name(str(name))
                if name in self._spent or len(self._spent) < MOST_PHASES:
                    self._spent[name] = self._spent.get(name, 0.0) + max(0.0, seconds)

    def take(self) -> dict[str, float]:
        """Since the last call: seconds of a step, and of each phase, by vario's own keys.

        Times are means over the steps that have ended; those of checkpoints and evaluations are sums. Where no step has
        ended, the other phases wait for the next call.
        """
        if os.getpid() != self._pid:
            return {}
        found = {}
        with self._lock:
            self._settle()
            steps, seconds = self._steps, self._seconds
            if steps:
                found["vario/step_time"] = seconds / steps
                self._steps, self._seconds = 0, 0.0
            for name in [n for n in self._spent if steps or n in ONCE]:
                spent = self._spent.pop(name)
                found[f"vario/phase/{name}"] = spent if name in ONCE else spent / steps
        return found

    def _enter(self, phase: _Phase) -> None:
        if os.getpid() == self._pid:
            with self._lock:
                self._settle()
                self._open.append(phase)

    def _leave(self, phase: _Phase) -> None:
        if os.getpid() == self._pid:
            with self._lock:
                self._settle()
                if phase in self._open:
                    self._open.remove(phase)

    def _settle(self) -> None:
        """Give the time since the last change to the phase that was begun last."""
        now = self._clock()
        if self._open:
            name = self._open[-1].name
            if name in self._spent or len(self._spent) < MOST_PHASES:
                self._spent[name] = self._spent.get(name, 0.0) + now - self._since
        self._since = now


class _Phase:
    """One phase while it goes on."""

    def __init__(self, clock: StepClock, name: str) -> None:
        self.name = name
        self._clock = clock

    def __enter__(self) -> None:
        self._clock._enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clock._leave(self)
