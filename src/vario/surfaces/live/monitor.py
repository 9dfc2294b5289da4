"""`vario.Monitor`: a training hands its rows over and goes on; everything else happens in a process beside it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vario.surfaces.live import link
from vario.surfaces.live.recorder import Recorder, plain_number, settled

if TYPE_CHECKING:
    from vario.verdict import Diagnosis

WAITING = 16
"""Tables of completions and events that wait for the judging process; beyond it they are left out and counted."""
BATCH = 100
"""Rows that are handed over at a time: few enough that packing them never keeps the training thread waiting."""
RESTARTS = 3
"""How often a judging process that died is started again."""
INTERVALS = 10_000
"""Events that are remembered."""
STARTED_SECONDS = 120.0
"""A judging process that lived so long before it died had no fault of its own: the count of restarts begins anew."""
CLOSING_SECONDS = 20.0
SAMPLES = 512
"""Completions of one row that are handed on; more would weigh more than the row."""
Samples = Sequence[Mapping[str, object]] | Mapping[str, Sequence[object]]
LOG = logging.getLogger("vario")
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Where launchers write a process's rank, the surest first."""


def rank_of(environ: Mapping[str, str]) -> int:
    """The rank of this process as its launcher tells it; 0 where nothing does."""
    for name in RANKS:
        value = environ.get(name, "")
        if value.isdigit():
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

    Nothing here raises into the training or waits for a disk or a network: what fails is counted in `failures` and
    told once through the logger `vario`. Only rank 0 speaks; in a forked or unpickled copy every call does nothing.

    Args:
        config: the settings of the run, by the framework's own names: vario finds knobs and caps in them.
        directory: where the run is kept: a log of the rows (`vario-log.jsonl`), completions and the state are written
            there. None keeps all in memory, and nothing survives the process.
        name: what the run is called in alerts; the folder's name by default.
        rank: of this process; by default what the launcher says.
        history: rows that were logged before, each with its step under "step": a resumed run goes on with them.
        write_log: False where the trainer writes its own log into `directory`.
        alerts, act, watch: as the sections of vario.toml; they win over the file.
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
        self._lock = threading.Lock()
        self._recorder = Recorder()
        self._intervals: list[tuple[str, float, float]] = []
        self._hooks: dict[str, Callable[[str], None]] = {}
        self._stop: str | None = None
        self._save: str | None = None
        self._pid = os.getpid()
        self._alive = (rank_of(os.environ) if rank is None else rank) == 0
        self._config = _plain(config or {})
        self._directory = None if directory is None else str(Path(directory).absolute())
        self._hello = {
            "name": name or (Path(self._directory).name if self._directory else "training"),
            "directory": self._directory,
            "config": self._config,
            "write_log": write_log,
            "cwd": str(Path.cwd()),
            "alerts": None if alerts is None else dict(alerts),
            "act": None if act is None else dict(act),
            "watch": None if watch is None else dict(watch),
        }
        self._queue: deque[tuple[object, ...]] = deque()
        self._wake = threading.Event()
        self._done = threading.Event()
        self._ended = threading.Event()
        self._outbox: deque[tuple[object, ...]] = deque()
        self._more = threading.Event()
        self._threads: list[threading.Thread] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._restarts = 0
        self._handed = self._kept = 0
        for row in history:
            self._record(row)
        if self._alive:
            _living.add(self)

    def log(self, step: int, metrics: Mapping[str, object], samples: Samples | None = None) -> None:
        """Hand over one row, and completions with it.

        Args:
            step: of the training.
            metrics: values by the trainer's own keys: numbers, or tensors without a dimension; what is neither is left out.
            samples: completions of this step: a list of rows or a table of columns with `prompt`, `completion`,
                `reward` and what else there is; at most 512 of them are kept.
        """
        if not self._alive or os.getpid() != self._pid:
            return
        try:
            row = {key: number for key, value in metrics.items() if (number := plain_number(value)) is not None}
            self._put("row", int(step), time.time(), row)
            if samples:
                self._put("samples", int(step), _copied(samples))
        except Exception as error:  # whatever is logged: the training goes on
            self._fail(f"a row could not be taken ({type(error).__name__}: {error})")

    def event(self, name: str, start: float, end: float | None = None) -> None:
        """Work beside the training (an upload, a merge): from `start` to `end`, in seconds since 1970; now by default."""
        if self._alive and os.getpid() == self._pid:
            ended = time.time() if end is None else float(end)
            self._intervals.append((str(name), float(start), ended))
            del self._intervals[:-INTERVALS]
            self._put("event", str(name), float(start), ended)

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
        """The number of the judging process, while there is one."""
        process = self._process
        return None if process is None else process.pid

    def take_save(self) -> str | None:
        """The reason why a checkpoint should be saved now; None, and None again once it has been taken."""
        reason, self._save = self._save, None
        return reason

    def diagnosis(self) -> Diagnosis:
        """The run as it stands, diagnosed here and now: the caller waits for it, a second or more on a long run."""
        from vario.sources import interpret
        from vario.surfaces.live.recorded import table_of
        from vario.surfaces.live.wishes import finish_of
        from vario.verdict import diagnose

        deadline = time.monotonic() + 1.0
        while self._queue and time.monotonic() < deadline:
            time.sleep(0.001)  # rows that were handed over just now
        with self._lock:
            table = table_of(self._recorder, self._directory or str(self._hello["name"]), self._config, self._intervals)
        choice, finish = finish_of(self._directory or str(self._hello["cwd"]))
        return diagnose(finish(interpret(table)), choice=choice)

    def close(self, timeout: float = CLOSING_SECONDS) -> None:
        """End: the last look is taken and what is left to tell is told; waits no longer than `timeout` seconds."""
        self._close("closed", timeout)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._close("closed" if kind is None else f"failed: {getattr(kind, '__name__', kind)}", CLOSING_SECONDS)

    def __getstate__(self) -> dict[str, object]:
        """A copy in another process has nothing to say."""
        return {}

    def __setstate__(self, state: object) -> None:
        self.__init__(rank=1)  # type: ignore[misc]

    # what follows runs off the training thread, but for _put

    def _put(self, *message: object) -> None:
        self._queue.append(message)
        if not self._threads:
            self._start_threads()
        self._wake.set()

    def _start_threads(self) -> None:
        with self._lock:
            if not self._threads:
                self._threads = [
                    threading.Thread(
                        target=self._loop, args=(self._wake, self._keep), name="vario-record", daemon=True
                    ),
                    threading.Thread(target=self._loop, args=(self._more, self._hand), name="vario-send", daemon=True),
                ]
                for thread in self._threads:
                    thread.start()

    def _loop(self, wake: threading.Event, work: Callable[[], None]) -> None:
        while not self._ended.is_set():
            wake.wait(1.0)
            wake.clear()
            try:
                work()
            except Exception as error:  # the thread must outlive whatever happens to it
                self._fail(f"{type(error).__name__}: {error}")

    def _keep(self) -> None:
        """Keep what was handed over. This never waits for the judging process: rows cannot pile up behind it."""
        while self._queue:
            message = self._queue.popleft()
            if message[0] == "row":
                _, step, at, row = message
                made = settled(row)  # type: ignore[arg-type]
                with self._lock:
                    self._recorder.add(step, at, made)  # type: ignore[arg-type]
            elif message[0] == "end" or len(self._outbox) < WAITING:
                if message[0] == "samples":
                    message = ("samples", message[1], _table(message[2]))  # type: ignore[arg-type]
                self._outbox.append(message)
            else:
                self._fail("completions or events were left out: the judging process does not keep up")
        self._more.set()

    def _hand(self) -> None:
        """Hand rows and messages to the judging process; may wait for it."""
        while self._handed < len(self._recorder) or self._outbox:
            if self._handed < len(self._recorder):
                with self._lock:
                    rows = list(self._recorder.rows(self._handed, BATCH))
                if not self._send("rows", rows):
                    break
                self._handed += len(rows)
                continue
            message = self._outbox.popleft()
            if message[0] == "end":
                self._send(*message)
                self._ended.set()
            elif not self._send(*message):
                self._fail("completions or events were left out: there is no judging process")
        if self._given_up and any(m[0] == "end" for m in self._outbox):
            self._ended.set()

    def _record(self, row: Mapping[str, object]) -> None:
        step = row.get("step")
        if isinstance(step, int):
            numbers = {k: n for k, v in row.items() if k != "step" and (n := plain_number(v)) is not None}
            self._recorder.add(step, time.time(), settled(numbers))

    @property
    def _given_up(self) -> bool:
        return self._process is None and self._restarts > RESTARTS

    def _send(self, *message: object) -> bool:
        """Hand over a message, starting the judging process where there is none; False where it has to be done again."""
        process = self._process or self._start()
        if process is None or process.stdin is None:
            return False
        try:
            link.write(process.stdin, *message)
        except (OSError, ValueError):
            self._lost(process)
            return False
        return True

    def _start(self) -> subprocess.Popen[bytes] | None:
        if self._restarts > RESTARTS:
            return None
        try:
            process = _start_beside()
            assert process.stdin is not None
            link.write(process.stdin, "hello", {**self._hello, "kept": self._kept})
        except Exception as error:  # no memory, no permission, no interpreter: the training goes on unjudged
            self._restarts = RESTARTS + 1
            self._fail(
                f"no judging process could be started ({type(error).__name__}: {error}); follow the log with `vario watch`"
            )
            return None
        self._process, self._started, self._handed = process, time.monotonic(), 0
        threading.Thread(target=self._listen, args=(process,), name="vario-answers", daemon=True).start()
        return process

    def _lost(self, process: subprocess.Popen[bytes]) -> None:
        """A judging process has ended by itself: the next one gets every row again."""
        self._process, self._handed = None, 0
        lived = time.monotonic() - self._started
        self._restarts = 1 if lived > STARTED_SECONDS else self._restarts + 1
        code = process.poll()
        self._fail(
            f"the judging process ended by itself (exit code {code})"
            + (
                "; it is started again"
                if self._restarts <= RESTARTS
                else "; it is left off: follow the log with `vario watch`"
            )
        )

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take what the judging process says."""
        assert process.stdout is not None
        while (message := link.read(process.stdout)) is not None:
            try:
                self._hear(*message)
            except Exception as error:  # a hook of the user's, a logger of the user's
                self._fail(f"{message[0]}: {type(error).__name__}: {error}")
        process.wait()
        self._done.set()

    def _hear(self, kind: object, *rest: object) -> None:
        if kind == "notice":
            level, text = rest
            self.notices.append(str(text))
            LOG.log(int(str(level)), "%s", text)
        elif kind == "failure":
            self._fail(str(rest[0]))
        elif kind == "kept":
            self._kept = int(str(rest[0]))
        elif kind == "act":
            self._act(str(rest[0]), str(rest[1]))
        elif kind == "alert":
            from vario.surfaces.alerts.trainer_side import send_here

            word, alert = rest
            if reason := send_here(str(word), alert):
                self._fail(reason)

    def _act(self, action: str, reason: str) -> None:
        if action == "stop":
            self._stop = self._stop or reason
        elif action == "checkpoint":
            self._save = reason
        elif hook := self._hooks.get(action):
            hook(reason)
        else:
            self._fail(f"{action}: the training registered no hook for it (monitor.on({action!r}, function))")

    def _fail(self, text: str) -> None:
        self.failures[text] += 1
        if self.failures[text] == 1:
            LOG.warning("%s", text)

    def _close(self, reason: str, timeout: float) -> None:
        if not self._alive or os.getpid() != self._pid:
            return
        self._alive = False
        _living.discard(self)
        if not self._threads and not len(self._recorder):
            return
        self._put("end", reason)
        self._ended.wait(timeout)
        if self._process is not None:
            self._done.wait(timeout)

    def _forget(self) -> None:
        """In a forked child: the pipe belongs to the parent, which must see it close when it dies."""
        self._alive = False
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError, ValueError):
                        os.close(stream.fileno())
            process.returncode = 0  # not this process's child: nobody here waits for it


_living: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _close_all() -> None:
    failed = getattr(sys, "last_type", None)
    for monitor in list(_living):
        monitor._close(f"failed: {failed.__name__}" if failed is not None else "closed", CLOSING_SECONDS)


def _forget_all() -> None:
    for monitor in list(_living):
        monitor._forget()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _start_beside() -> subprocess.Popen[bytes]:
    """The process that judges: the same interpreter and packages, one thread of arithmetic, its own session."""
    import vario

    home = str(Path(vario.__file__).parent.parent)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return subprocess.Popen(
        [sys.executable, "-m", "vario.surfaces.live.beside"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C is for the training, which then closes the monitor
    )


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    """Settings that can travel: plain values, and text for the rest."""
    return {str(k): _plain_value(v) for k, v in config.items()}


def _plain_value(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, list | tuple):
        return [_plain_value(v) for v in value]
    return str(value)


def _copied(samples: Samples) -> Samples:
    """The first of them, in lists of our own: the training may go on to change its own."""
    if isinstance(samples, Mapping):
        return {str(k): list(v[:SAMPLES]) for k, v in samples.items()}
    return [dict(row) for row in samples[:SAMPLES]]


def _table(samples: Samples) -> dict[str, list[object]]:
    """Completions as columns of plain values, of one length."""
    if isinstance(samples, Mapping):
        count = min(map(len, samples.values()), default=0)
        return {k: [_plain_sample(v) for v in values[:count]] for k, values in samples.items()}
    names = dict.fromkeys(str(k) for row in samples for k in row)
    return {name: [_plain_sample(row.get(name)) for row in samples] for name in names}


def _plain_sample(value: object) -> object:
    return plain_number(value) if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else _plain_value(value)
