"""`vario.Monitor`: a training hands its rows over and goes on; everything else happens in a process beside it."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context, copy_context
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from vario.surfaces.live.courier import Courier
from vario.surfaces.live.handover import OnDevice, Samples, Table, copied, settings, settled, step_of, table, taken
from vario.surfaces.live.recorder import Recorder
from vario.surfaces.live.row_log import bytes_there
from vario.surfaces.live.telling import Teller

if TYPE_CHECKING:
    from vario.rules.choice import Choice
    from vario.run import Run
    from vario.verdict import Diagnosis

CLOSING_SECONDS = 20.0
LAST_WORDS_SECONDS = 0.2
"""What may be left to tell when the time for closing is over gets so much more."""
DIAGNOSIS_SECONDS = 5.0
"""How long a diagnosis waits for rows and completions that were handed over just before it."""
ON_DEVICE = 64
"""Rows that may wait for a device; of those beyond it the values on the device are left out."""
FAILURES = 100
"""Kinds of failure that are told apart; what comes beyond them is counted together."""
TOLD = 500
"""Characters of a failure."""
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Where launchers write a process's rank, the surest first."""
LOG = logging.getLogger("vario")


def rank_of(environ: Mapping[str, str]) -> int:
    """The rank of this process as its launcher tells it; 0 where nothing does."""
    for name in RANKS:
        value = environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return 0


class Monitor:
    """Judges a training while it runs, tells what changes, and costs the training thread some microseconds a row.

        monitor = vario.Monitor(config=vars(args), directory="outputs/run-7")
        for step in range(steps):
            ...
            monitor.log(step, {"reward": reward, "kl": kl}, samples=[{"prompt": p, "completion": c, "reward": r}])
            if monitor.should_stop:
                break
        monitor.close()

    Nothing here raises into the training or waits for a device, a disk or a network: what fails is counted in
    `failures` and told once through the logger `vario`. Only rank 0 speaks; in a forked or unpickled copy every call
    does nothing.

    Args:
        config: the settings of the run, by the framework's own names: vario finds knobs and caps in them.
        directory: where the run is kept: a log of the rows (`vario-log.jsonl`), completions and the state are written
            there, and a resumed run goes on with what lies there. None keeps all in memory, and nothing survives the
            process; of the completions the newest 256 MiB count.
        name: what the run is called in alerts; the folder's name by default.
        rank: of this process; by default what the launcher says.
        history: rows that were logged before, each with its step under "step": a resumed run goes on with them. They
            are not looked at where `directory` holds a log of the rows already.
        write_log: False where the trainer writes its own log into `directory`.
        alerts, act, watch: as the sections of vario.toml; they win over the file.

    Attributes:
        failures: what went wrong, counted by sentence.
        notices: what was told of the run, the last thousand.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        directory: str | Path | None = None,
        name: str | None = None,
        rank: int | None = None,
        history: Iterable[Mapping[str, object]] = (),
        write_log: bool = True,
        alerts: Mapping[str, object] | None = None,
        act: Mapping[str, object] | None = None,
        watch: Mapping[str, object] | None = None,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self.notices: deque[str] = deque(maxlen=1_000)
        self._pid = os.getpid()
        self._speaks = self._alive = (rank_of(os.environ) if rank is None else rank) == 0
        self._hooks: dict[str, Callable[[str], None]] = {}
        self._stop: str | None = None
        self._save: str | None = None
        self._context: Context | None = None
        self._place: str | None = None
        sections = {"alerts": alerts, "act": act, "watch": watch}
        self._clear()
        self._config = self._section("config", config) or {}
        self._directory = self._folder(directory)
        self._write_log = write_log
        self._earlier = bytes_there(self._directory) if self._directory and write_log and self._alive else 0
        self._hello = {
            "name": str(name) if name else Path(self._directory).name if self._directory else "training",
            "directory": self._directory,
            "config": self._config,
            "write_log": write_log,
            "earlier": self._earlier,
            "cwd": self._absolute(""),
            **{word: self._section(word, table) for word, table in sections.items()},
        }
        self._courier = Courier(self._hello, self._recorder, self._lock, self._hear, self._fail)
        if self._alive:
            if not self._earlier:
                self._guarded("the history", lambda: self._remember(history))
            _living.add(self)

    def log(self, step: int, metrics: Mapping[str, object], samples: Samples | None = None) -> None:
        """Hand over one row, and completions with it.

        A value that a device still computes is not waited for: its row, and those after it, go on with the next call
        that finds it done.

        Args:
            step: of the training.
            metrics: values by the trainer's own keys: numbers, texts that are numbers, tensors without a dimension, or
                tables of these, whose keys are put together with `/`. Anything else is left out.
            samples: completions of this step: a list of rows or a table of columns with `prompt`, `completion`,
                `reward` and what else there is; at most 512 of them are kept, and 8 million characters.
        """
        if not self._alive or os.getpid() != self._pid:
            return
        try:
            device: OnDevice | None = None

            def later() -> OnDevice:
                nonlocal device
                device = device or OnDevice()
                return device

            at, number = time.time(), step_of(step)
            row = taken(metrics, later, self._fail)
            kept = None
            if samples is not None:
                kept = self._guarded("completions", lambda: copied(samples, later))
            if device is not None:
                device.start()
            self._context = copy_context()  # trackio knows its run by it
            self._put(("row", number, at, row, kept), device)
        except Exception as error:  # whatever is logged: the training goes on
            self._fail(f"a row could not be taken ({_said(error)})")

    def event(self, name: str, start: float, end: float | None = None) -> None:
        """Work beside the training (an upload, a merge): from `start` to `end`, in seconds since 1970; now by default."""
        if not self._alive or os.getpid() != self._pid:
            return
        try:
            interval = (str(name), float(start), time.time() if end is None else float(end))
            if not all(map(math.isfinite, interval[1:])):
                raise ValueError(f"{start} and {end} are no times")
            self._put(("event", interval))
        except Exception as error:
            self._fail(f"an event could not be taken ({_said(error)})")

    def on(self, action: str, hook: Callable[[str], None]) -> None:
        """Register what `lower-learning-rate` or `raise-kl` shall do: it is called in a thread of vario's with the reason."""
        self._hooks[action] = hook

    @property
    def should_stop(self) -> bool:
        """Whether `[act] stop` has decided: the loop should end cleanly."""
        return self._stop is not None

    @property
    def stop_reason(self) -> str | None:
        """Why, in one line."""
        return self._stop

    @property
    def beside(self) -> int | None:
        """The judging process's number; None while there is none."""
        return self._courier.pid

    def take_save(self) -> str | None:
        """The reason why a checkpoint should be saved now; None, and None again once it has been taken."""
        reason, self._save = self._save, None
        return reason

    def diagnosis(self) -> Diagnosis:
        """The run as it stands, diagnosed here and now: the caller waits for it, a second or more on a long run."""
        from vario.sources import interpret
        from vario.sources.sampled import SampleOptions, with_dumps
        from vario.surfaces.live.kept_samples import FOLDER
        from vario.surfaces.live.recorded import table_of
        from vario.surfaces.live.row_log import NAME, rows_in
        from vario.verdict import diagnose

        self._settle(time.monotonic() + DIAGNOSIS_SECONDS)
        recorder = Recorder()
        if self._directory is not None and self._earlier:
            for row in rows_in(Path(self._directory) / NAME, end=self._earlier):
                recorder.add(*row)
        with self._lock:
            if len(recorder):
                for row in self._recorder.rows(0, len(self._recorder)):
                    recorder.add(*row)
            made = table_of(
                recorder if len(recorder) else self._recorder,
                self._directory or str(self._hello["name"]),
                self._config,
                self._courier.intervals,
                timed=self._write_log,
            )
        choice, finish = self._wished()
        place = self._directory or self._place
        dumps = [str(Path(place) / FOLDER)] if place is not None and (Path(place) / FOLDER).exists() else []
        return diagnose(finish(with_dumps(interpret(made), dumps, SampleOptions(workers=1))), choice=choice)

    def close(self, timeout: float = CLOSING_SECONDS) -> None:
        """End: the last look is taken and what is left to tell is told; waits no longer than `timeout` seconds."""
        self._close("closed", timeout)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._close(_reason(kind, error), CLOSING_SECONDS)

    def __getstate__(self) -> dict[str, object]:
        """A copy in another process has nothing to say."""
        return {"rank": 1}

    def __setstate__(self, state: object) -> None:
        self.__init__(rank=1)  # type: ignore[misc]

    # what follows runs in the training thread

    def _clear(self) -> None:
        """Begin with nothing recorded, and with locks that nobody holds."""
        self._lock = threading.Lock()
        self._recorder = Recorder()
        self._on_device: deque[tuple[_Message, OnDevice | None]] = deque()
        self._device_lock = threading.RLock()
        # the handler of a signal may interrupt the thread that trains anywhere, and close: this queue allows for it
        self._queue: SimpleQueue[tuple[_Message, list[object]]] = SimpleQueue()
        self._keeper: threading.Thread | None = None
        self._teller = Teller(lambda error: self._fail(f"what was told could not be taken ({_said(error)})"))

    def _guarded(self, what: str, work: Callable[[], object]) -> object:
        try:
            return work()
        except Exception as error:
            self._fail(f"{what} could not be taken ({_said(error)})")
            return None

    def _section(self, word: str, given: object) -> dict[str, object] | None:
        """An argument that is a table, as plain values."""
        if given is None or not self._alive:
            return None
        if not isinstance(given, Mapping):
            self._fail(
                f"Monitor({word}=…) takes a table of names and values, not {type(given).__name__}: it is left out"
            )
            return None
        made = self._guarded(word, lambda: settings(given))
        return made if isinstance(made, dict) else None

    def _folder(self, directory: str | Path | None) -> str | None:
        if directory is not None and "://" in str(directory):
            self._fail("Monitor(directory=…) is a folder of this machine, not an address: nothing is kept")
            return None
        return None if directory is None else self._absolute(directory)

    def _absolute(self, path: str | Path) -> str:
        """A path that stays right when the training goes elsewhere; as it is where the working folder is gone."""
        try:
            return str(Path(path).absolute())
        except OSError as error:
            self._fail(f"the working folder cannot be told ({_said(error)})")
            return str(path) or "/"

    def _remember(self, history: Iterable[Mapping[str, object]]) -> None:
        """Take rows that were logged before."""
        for row in history:
            step, at = row.get("step"), row.get("_timestamp")
            if step is not None:
                values = settled(taken(row, OnDevice, self._fail))
                self._recorder.add(step_of(step), float(at) if isinstance(at, int | float) else math.nan, values)

    def _put(self, message: _Message, device: OnDevice | None = None) -> None:
        """Hand over a message behind those before it; what waits for a device keeps those behind it waiting."""
        if self._keeper is None:
            self._begin()
        if device is None and not self._on_device:
            self._queue.put((message, []))
        elif self._alive:
            with self._device_lock:
                self._on_device.append((message, device))
                self._pass_on()

    def _pass_on(self, *, at_once: bool = False) -> None:
        """Hand over what waited for a device, as far as the device has got."""
        while self._on_device:
            message, device = self._on_device[0]
            read: list[object] = []
            if device is not None:
                try:
                    if device.ready():
                        read = device.read()
                    elif at_once or len(self._on_device) > ON_DEVICE:
                        read = [math.nan] * len(device)
                        self._fail("values on a device were left out: it did not get to them in time")
                    else:
                        return
                except Exception as error:  # a device that has failed
                    read = [math.nan] * len(device)
                    self._fail(f"values on a device could not be read ({_said(error)})")
            self._on_device.popleft()
            self._queue.put((message, read))

    def _begin(self) -> None:
        """Start the threads, with the first thing that is handed over."""
        with self._lock:
            if self._keeper is not None or not self._alive:
                return
            keeper = threading.Thread(target=self._run, name="vario-record", daemon=True)
            try:
                keeper.start()
                self._courier.start()
            except RuntimeError as error:  # no more threads for this process: what is handed over would pile up
                self._alive = False
                self._queue.put((_END, []))
                self._fail(f"the training is not judged: no thread could be started ({error})")
            else:
                self._keeper = keeper

    def _settle(self, deadline: float) -> None:
        """Wait until what was handed over is recorded, or the time has come."""
        if self._keeper is None or os.getpid() != self._pid:
            return
        self._await_device(deadline)
        if self._alive:
            recorded = threading.Event()
            self._put(("mark", recorded))
            recorded.wait(max(0.0, deadline - time.monotonic()))
        self._courier.settled(deadline)

    def _await_device(self, deadline: float) -> None:
        with self._device_lock:
            self._pass_on()
            while self._on_device and time.monotonic() < deadline:
                time.sleep(0.001)
                self._pass_on()

    def _wished(self) -> tuple[Choice, Callable[[Run], Run]]:
        """Which rules are asked, and what is declared; without the project file where that is broken."""
        from vario.rules.choice import Choice
        from vario.surfaces.live.wishes import finish_of

        try:
            return finish_of(self._directory or str(self._hello["cwd"]))
        except Exception as error:  # a file that is broken, rules of the user's own, a working folder that is gone
            self._fail(f"diagnosed without what is declared ({_said(error)})")
            return Choice(), lambda run: run

    def _fail(self, text: str) -> None:
        """Count a failure, and have it told once."""
        text = text[:TOLD]
        with _counting:
            if text not in self.failures and len(self.failures) >= FAILURES:
                text = "other failures"
            self.failures[text] += 1
            new = self.failures[text] == 1
        if new and self._speaks:
            self._tell(logging.WARNING, text)

    def _tell(self, level: int, text: str) -> None:
        try:
            self._teller.put(lambda: _log(level, text))
        except RuntimeError:  # no thread to tell it: here, then, as far as that goes
            try:
                _log(level, text)
            except Exception:
                self.failures["what was told could not be taken"] += 1

    def _close(self, reason: str, timeout: float) -> None:
        if not self._alive or os.getpid() != self._pid:
            return
        deadline = time.monotonic() + timeout
        if self._keeper is None and len(self._recorder):
            self._begin()  # nothing but history: it is judged all the same
        self._alive = False
        _living.discard(self)
        # in the handler of a signal an error would be taken for one of whatever it interrupts, and what follows be left out
        if self._keeper is not None:
            self._guarded("the end", lambda: self._hand_over_the_rest(reason, deadline))
        last = max(deadline, time.monotonic() + LAST_WORDS_SECONDS)
        self._guarded("the last words", lambda: self._teller.close(last))

    def _hand_over_the_rest(self, reason: str, deadline: float) -> None:
        keeper = self._keeper
        self._await_device(deadline)
        self._pass_on(at_once=True)
        self._queue.put((_END, []))
        if keeper is not None:
            keeper.join(max(0.0, deadline - time.monotonic()))
        if not self._courier.finish(reason, deadline):
            self._fail("the judging process had not ended when the time for closing was over; it goes on by itself")

    # what follows runs off the training thread

    def _run(self) -> None:
        """Keep what was handed over. This never waits for the judging process: rows cannot pile up behind it."""
        going = True
        while going:
            message, read = self._queue.get()
            try:
                going = self._keep(message, read)
            except Exception as error:  # the thread must outlive whatever happens to it
                self._fail(f"a row could not be recorded ({_said(error)})")
            if self._queue.empty():
                self._courier.rows_came()

    def _keep(self, message: _Message, read: list[object]) -> bool:
        """Take one message; False for the last."""
        kind, *rest = message
        if kind == "event":
            self._courier.put_event(rest[0])  # type: ignore[arg-type]
        elif kind == "mark":
            rest[0].set()  # type: ignore[attr-defined]
        elif kind == "row":
            step, at, row, samples = rest
            columns = None if samples is None else self._table(samples, read)
            values = settled(row, read)  # type: ignore[arg-type]
            with self._lock:
                if columns is not None:
                    self._courier.put_table(step, columns)  # type: ignore[arg-type]
                self._recorder.add(step, at, values)  # type: ignore[arg-type]
        return kind != "end"

    def _table(self, samples: object, read: list[object]) -> Table | None:
        try:
            columns, whole = table(samples, read)  # type: ignore[arg-type]
        except Exception as error:
            self._fail(f"completions could not be taken ({_said(error)})")
            return None
        if not whole:
            self._fail("completions were left out: those of one row have more characters than are kept")
        return columns

    def _hear(self, kind: object, *rest: object) -> None:
        """What the judging process says; never waits."""
        try:
            if kind == "notice":
                level, text = rest
                self.notices.append(str(text))
                self._tell(int(str(level)), str(text))
            elif kind == "failure":
                self._fail(str(rest[0]))
            elif kind == "told":
                self._courier.greet_with("told", rest[0])
            elif kind == "earlier":
                self._earlier = int(str(rest[0]))
            elif kind == "place":
                self._keep_place(str(rest[0]))
            elif kind == "act":
                self._act(str(rest[0]), str(rest[1]))
            elif kind == "alert":
                self._teller.put(lambda: self._alert(str(rest[0]), rest[1]))
        except Exception as error:
            self._fail(f"{kind}: {_said(error)}")

    def _keep_place(self, place: str) -> None:
        """The temporary folder of a run without one: the next judging process goes on there, and it goes with this object."""
        if place != self._place:
            self._place = place
            self._courier.greet_with("place", place)
            _places.add(place)
            weakref.finalize(self, _remove, place, self._pid).atexit = False

    def _alert(self, word: str, alert: object) -> None:
        from vario.surfaces.alerts.trainer_side import send_here

        if reason := send_here(word, alert, self._context):
            self._fail(reason)

    def _act(self, action: str, reason: str) -> None:
        if action == "stop":
            self._stop = self._stop or reason
        elif action == "checkpoint":
            self._save = reason
        elif hook := self._hooks.get(action):
            self._teller.put(lambda: self._call(action, hook, reason))
        else:
            self._fail(f"{action}: the training registered no hook for it (monitor.on({action!r}, function))")

    def _call(self, action: str, hook: Callable[[str], None], reason: str) -> None:
        try:
            hook(reason)
        except Exception as error:
            self._fail(f"{action}: the training's hook for it failed ({_said(error)})")

    def _forget(self) -> None:
        """In a forked child: nothing of this is its own."""
        self._alive = self._speaks = False
        self._clear()
        self._courier = Courier(self._hello, self._recorder, self._lock, self._hear, self._fail)


_Message = tuple[object, ...]
_END: _Message = ("end",)
_counting = threading.RLock()
_places: set[str] = set()
_living: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _close_all() -> None:
    # set at the end of a program by what nobody caught; in a session of commands it may be long past
    failed = None if hasattr(sys, "ps1") else getattr(sys, "last_type", None)
    for monitor in list(_living):
        monitor._close(_reason(failed, getattr(sys, "last_value", None)), CLOSING_SECONDS)
    for place in list(_places):
        _remove(place, os.getpid())


def _forget_all() -> None:
    global _counting
    _counting = threading.RLock()
    _places.clear()
    for monitor in list(_living):
        monitor._forget()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _reason(kind: type[BaseException] | None, error: BaseException | None) -> str:
    """How a training has ended: a person who stops it knows, and an exit without an error is none."""
    if kind is None or issubclass(kind, KeyboardInterrupt):
        return "closed"
    if issubclass(kind, SystemExit):
        code = getattr(error, "code", None)
        return "closed" if code in (None, 0) else f"failed: exit code {str(code)[:TOLD]}"
    return f"failed: {kind.__name__}"


def _said(error: Exception) -> str:
    """An error in words; one that cannot even say what it is, by its name."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _log(level: int, text: str) -> None:
    from vario.surfaces.privacy import safe

    LOG.log(level, "%s", "\n".join(safe(line) for line in text.splitlines()))


def _remove(place: str, pid: int) -> None:
    """Remove the temporary folder of a run without one, in the process whose it was."""
    if os.getpid() == pid and place in _places:
        from shutil import rmtree

        _places.discard(place)
        rmtree(place, ignore_errors=True)
