"""Between the training and the judging process: what was recorded is handed over, and again to the next one when one dies."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from vario.surfaces.live.handover import Table, size_of
from vario.surfaces.live.judging_process import JudgingProcess
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.row_log import RowLog

BATCH_ROWS = 100
BATCH_VALUES = 10_000
"""Rows that are handed over at a time, and values: packing them keeps every other thread waiting, so they are few."""
WAITING_TABLES = 256
WAITING_CHARACTERS = 32_000_000
"""Tables of completions that may wait for the judging process, and their texts: beyond it they are left out and counted."""
INTERVALS = 10_000
"""Events that are remembered."""
PAUSES = (0.0, 5.0, 30.0)
"""Seconds before a judging process that died is started again; after the last one it is left off."""
STARTED_SECONDS = 120.0
"""A judging process that lived so long before it died had no fault of its own: the count begins anew."""
SILENT_SECONDS = 300.0
"""A judging process that has taken nothing for so long hangs: more than any look takes, on a busy machine too."""
IDLE_SECONDS = 5.0
"""Pause between two glances at what nobody wakes us for."""
STOPPING_SECONDS = 0.5
"""What the thread takes to notice that nobody waits for it any more, twice over."""
Interval = tuple[str, float, float]


class _Waiting:
    """Completions on their way: after how many rows they come, their characters, and the message that held them."""

    __slots__ = ("columns", "message", "place", "step", "weight")

    def __init__(self, place: int, weight: int, step: int, columns: Table) -> None:
        self.place = place
        self.weight = weight
        self.step = step
        self.columns = columns
        self.message = 0


class Courier:
    """Starts the judging process at the first row, hands it what was recorded, and gives it to the next one when it dies.

    Rows are taken from the recorder, so that none can pile up here; completions come at their place among the rows.
    Everything runs in a thread of its own, `vario-send`, which may wait for the process.

    Args:
        hello: how the process is greeted.
        recorder: the rows of this training; `lock` is held while it is read.
        heard: takes what the process says; must not wait.
        fail: takes a sentence about what went wrong.
    """

    def __init__(
        self,
        hello: Mapping[str, object],
        recorder: Recorder,
        lock: threading.Lock,
        heard: Callable[..., None],
        fail: Callable[[str], None],
    ) -> None:
        self._hello = dict(hello)
        self._recorder = recorder
        self._lock = lock
        self._heard = heard
        self._fail = fail
        self._process: JudgingProcess | None = None
        self._handed = 0
        self._tables_lock = threading.Lock()
        self._tables: deque[_Waiting] = deque()
        self._unsure: deque[_Waiting] = deque()
        self._intervals: deque[Interval] = deque(maxlen=INTERVALS)
        self._events = self._events_handed = 0
        self._deaths = 0
        self._not_before = 0.0
        self._left_off = False
        self._own_log: RowLog | None = None
        self._reason: str | None = None
        self._closing_told = self._end_sent = False
        self._dropped = False
        self._silence_told = 0
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self.over = threading.Event()

    @property
    def pid(self) -> int | None:
        """Of the judging process; None while there is none."""
        process = self._process
        return None if process is None or process.gone.is_set() else process.pid

    @property
    def intervals(self) -> list[Interval]:
        """Events so far."""
        return list(self._intervals)

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: no thread can be started.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="vario-send", daemon=True)
            thread.start()
            self._thread = thread

    def rows_came(self) -> None:
        """There is more in the recorder."""
        self._more.set()

    def greet_with(self, word: str, value: object) -> None:
        """Something that the next judging process shall know."""
        self._hello[word] = value

    def put_table(self, step: int, table: Table) -> None:
        """Completions of a step, for the place where the rows are now (the caller holds the lock); left out where too many wait."""
        if self._left_off:
            return
        weight = sum(map(size_of, table.values()))
        with self._tables_lock:
            waiting = [*self._tables, *self._unsure]
            room = len(waiting) < WAITING_TABLES and sum(t.weight for t in waiting) + weight <= WAITING_CHARACTERS
            if room:
                self._tables.append(_Waiting(len(self._recorder), weight, step, table))
        if not room:
            self._fail("completions were left out: the judging process does not keep up")
        self._more.set()

    def put_event(self, interval: Interval) -> None:
        """Other work beside the training; safe in any thread."""
        self._intervals.append(interval)
        self._events += 1
        self._more.set()

    def settled(self, deadline: float) -> bool:
        """Wait until completions that were handed over lie where a diagnosis finds them, or the time has come."""
        while self._tables or self._unsure:
            if self._left_off or self.over.is_set() or time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def finish(self, reason: str, deadline: float) -> bool:
        """Say that the training has ended, and wait for the last words; whether all was told in time."""
        self._reason = reason
        self._more.set()
        thread = self._thread
        if thread is None:
            return True
        in_time = self.over.wait(max(0.0, deadline - time.monotonic()))
        self._dropped = True  # whoever still waits for room in the pipe stops
        self._more.set()
        thread.join(max(STOPPING_SECONDS, deadline - time.monotonic()))
        process = self._process
        if process is not None:
            process.hang_up()
            in_time = process.join(deadline - time.monotonic()) and in_time
        return in_time

    # what follows runs in the thread `vario-send`

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # a training may have SIGPIPE end it: not for a pipe of ours
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        while not (self._dropped or self.over.is_set()):
            try:
                self._hand()
                self._look_out()
            except Exception as error:  # the thread must outlive whatever happens to it
                self._fail(f"rows could not be handed on ({type(error).__name__}: {error})")
            if not self.over.is_set():
                self._more.wait(self._pause())
                self._more.clear()

    def _pause(self) -> float:
        until = self._not_before - time.monotonic()
        return min(IDLE_SECONDS, until) if until > 0.0 else IDLE_SECONDS

    def _hand(self) -> None:
        """Hand over what there is to hand over."""
        while not (self._dropped or self.over.is_set()):
            if self._left_off:
                self._write_log()
                return
            process = self._process or self._start()
            if process is None:
                return
            try:
                if process.gone.is_set() or not self._send_next(process):
                    if not process.gone.is_set():
                        return
                    self._lost(process)
            except OSError:
                if not self._dropped:
                    self._lost(process)

    def _send_next(self, process: JudgingProcess) -> bool:
        """Send one message; False where there is nothing to send."""
        self._forget_taken()
        if self._events_handed < self._events:
            events, count = list(self._intervals), self._events
            self._tell(process, "events", events[-(count - self._events_handed) :])
            self._events_handed = count
        elif self._reason is not None and not self._closing_told:
            self._tell(process, "closing", self._reason)  # should the rest not get through in time, it was no death
            self._closing_told = True
        elif self._tables and self._tables[0].place <= self._handed:
            table = self._tables[0]
            self._tell(process, "samples", table.step, table.columns)
            table.message = process.sent
            with self._tables_lock:
                self._unsure.append(self._tables.popleft())
        elif self._handed < len(self._recorder):
            with self._lock:
                until = self._tables[0].place if self._tables else len(self._recorder)
                most = min(max(1, BATCH_VALUES // max(1, self._recorder.keys)), BATCH_ROWS, until - self._handed)
                rows = list(self._recorder.rows(self._handed, most))
            if rows:  # none, where completions have just come that belong before the next one
                self._tell(process, "rows", rows)
                self._handed += len(rows)
        elif self._reason is not None and not self._end_sent:
            self._tell(process, "end", self._reason)
            self._end_sent = True
        else:
            return False
        return True

    def _tell(self, process: JudgingProcess, *message: object) -> None:
        process.send(*message, given_up=self._stops)

    def _stops(self) -> bool:
        """Asked while the pipe is full."""
        self._look_out()
        process = self._process
        return self._dropped or (process is not None and process.gone.is_set())

    def _forget_taken(self) -> None:
        """Completions that the process has taken are its own."""
        process = self._process
        with self._tables_lock:
            while process is not None and self._unsure and self._unsure[0].message <= process.taken:
                self._unsure.popleft()

    def _look_out(self) -> None:
        """A process that says nothing any more is told of, once."""
        process = self._process
        if process is None or process.gone.is_set() or process.taken >= process.sent:
            return
        silent = time.monotonic() - max(process.heard_at, process.asked_at)
        if silent > SILENT_SECONDS and self._silence_told != process.pid:
            self._silence_told = process.pid
            self._fail(
                f"the judging process (pid {process.pid}) has not answered for {SILENT_SECONDS / 60:.0f} minutes; "
                "the training goes on, and its rows are kept for when it does"
            )

    def _start(self) -> JudgingProcess | None:
        if self._reason is None and time.monotonic() < self._not_before:
            return None
        if not (self._handed < len(self._recorder) or self._tables or self._events or self._reason is not None):
            return None
        try:
            process = JudgingProcess(self._heard, self._more.set)
        except Exception as error:  # no interpreter, no memory, no descriptors: the training goes on unjudged
            self._leave_off(f"the judging process cannot be started ({type(error).__name__}: {error})")
            return None
        self._process = process
        self._events_handed = 0
        self._closing_told = self._end_sent = False
        with self._tables_lock:  # what the one before may not have got to: at its place again
            self._tables.extendleft(reversed(self._unsure))
            self._unsure.clear()
        try:
            self._tell(process, "hello", {**self._hello, "again": self._deaths > 0, "rows": len(self._recorder)})
        except OSError:
            self._lost(process)
            return None
        return process

    def _lost(self, process: JudgingProcess) -> None:
        """A judging process has ended: as it should, or the next one gets everything again."""
        process.hang_up()
        process.join(2.0)  # what it said before it ended has been heard
        if process.finished:
            self.over.set()
            return
        self._process, self._handed = None, 0
        self._deaths = 1 if time.monotonic() - process.started_at > STARTED_SECONDS else self._deaths + 1
        code = process.exit_code
        said = (
            f"the judging process ended by itself (exit code {code})"
            if process.speaks
            else "what was started as the judging process is another program: see sys.executable"
        )
        if not process.speaks or self._deaths > len(PAUSES):
            self._leave_off(said)
            return
        pause = PAUSES[self._deaths - 1]
        self._not_before = time.monotonic() + pause
        self._fail(said + ("; it is started again" if not pause else f"; it is started again in {pause:.0f} s"))

    def _leave_off(self, said: str) -> None:
        """There is no judging process any more; the log of rows is written from here."""
        self._left_off = True
        with self._tables_lock:
            self._tables.clear()
            self._unsure.clear()
        directory = self._hello["directory"]
        if directory is None:
            self._fail(f"{said}; the training goes on unjudged")
            return
        self._fail(f"{said}; the training goes on unjudged: follow it with `vario watch {directory}`")
        if self._hello["write_log"]:
            earlier = self._hello["earlier"]
            self._own_log = RowLog(Path(str(directory)), self._rows, earlier=int(str(earlier)), again=self._deaths > 0)

    def _rows(self, start: int, most: int) -> list[tuple[int, float, dict[str, float]]]:
        with self._lock:
            return list(self._recorder.rows(start, most))

    def _write_log(self) -> None:
        if self._own_log is not None and (trouble := self._own_log.bring(last=self._reason is not None)):
            self._fail(trouble)
        if self._reason is not None:
            self.over.set()
