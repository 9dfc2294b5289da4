"""Work spread over processes of this machine.

Each worker holds one item at a time and has pipes of its own, so that a worker that dies takes nothing with it but its
item. That item is tried once more when the others are done, alone and in a fresh process: what the system killed for
want of memory often passes then, and what kills its process again is lost.

A worker is started as a new interpreter, never forked (polars has threads, which a fork leaves behind with their locks
held), and it does not run the caller's script again, as multiprocessing would: a script of training has no guard.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO, Any

from vario.errors import ConfigError, VarioError
from vario.work import Lost, R, T, in_words
from vario.work.parcel import PROTOCOL, opened, packed, worked

MAX_FAILED_STARTS = 3
"""So many workers in a row that do not even start are no accident."""
LOOK = 1.0
"""Seconds between looks at silent workers: one may be dead while a child of its own holds its pipe open."""
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""There is a process for each core; were each to start a thread for each core too, they would fight over them.

These libraries read it once, when they are imported: it has to stand in the environment before the worker starts.
"""


@dataclass(frozen=True)
class Processes:
    """So many processes on this machine."""

    workers: int
    timeout: float | None = None
    """Seconds that one item may take."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"{self.workers} workers can do nothing: give 1 or more")

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Lost]]:
        """Index and result of each item, as they finish; each worker has one item on its way, and no more."""
        parcel = pickle.dumps(task, protocol=PROTOCOL)
        suspects = []
        with closing(_Crew(parcel, items, self.timeout).work_off(range(len(items)), self.workers)) as first:
            for index, result in first:
                if isinstance(result, _Died):
                    suspects.append(index)
                else:
                    yield index, result
        for suspect in suspects:
            with closing(_Crew(parcel, items, self.timeout).work_off([suspect], 1)) as alone:
                for index, result in alone:
                    if isinstance(result, _Died):
                        yield index, Lost(f"{result.how}, and again when it was tried alone")
                    else:
                        yield index, result


@dataclass(frozen=True)
class _Died:
    """In place of a result: the worker ended before the item was done."""

    how: str


class _Crew:
    """Fresh workers for some of the items."""

    def __init__(self, task: bytes, items: Sequence[Any], timeout: float | None) -> None:
        self.task = task
        self.items = items
        self.timeout = timeout
        self.workers: set[_Worker] = set()
        self.waiting: deque[int] = deque()
        self.heard: SimpleQueue[_Word] = SimpleQueue()
        self.failed_starts = 0
        self.failure = ""

    def work_off(self, indices: Iterable[int], width: int) -> Generator[tuple[int, Any]]:
        """Index and result of each of these items, by at most so many workers."""
        self.waiting.extend(indices)
        try:
            while self.waiting or self._busy():
                self._hire(width)
                word = self._listen()
                if word is None:
                    yield from self._overdue()
                elif word.worker in self.workers:  # one that was dismissed may have left a word that no more counts
                    yield from self._take(word)
        finally:
            for worker in self.workers:
                worker.kill()  # all at once, then wait for each
            for worker in self.workers:
                worker.clear_away()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.index is not None]

    def _hire(self, width: int) -> None:
        """Have as many workers as there is work for."""
        while len(self.workers) < min(width, len(self._busy()) + len(self.waiting)):
            if self.failed_starts >= MAX_FAILED_STARTS:
                break
            try:
                self.workers.add(_Worker(self.task, self.heard))
            except OSError as error:
                self.failed_starts += 1
                self.failure = in_words(error)
        if not self.workers:
            raise VarioError(f"worker processes do not start here: {self.failure}; try with fewer, or with one")

    def _dismiss(self, worker: _Worker) -> None:
        self.workers.discard(worker)
        worker.kill()
        worker.clear_away()

    def _overdue(self) -> Iterator[tuple[int, Lost]]:
        """The items that took too long; asked when all that was said is heard, however long the caller was away."""
        late = [worker for worker in self._busy() if time.monotonic() > worker.deadline]
        for worker in late:
            self._dismiss(worker)
        for worker in late:
            yield worker.let_go(), Lost(f"it took longer than {self.timeout:g} s")

    def _listen(self) -> _Word | None:
        """The next word of a worker; none when a deadline passes, or nobody speaks for a while."""
        now = time.monotonic()
        try:
            return self.heard.get(timeout=max(0.0, min([LOOK, *(w.deadline - now for w in self._busy())])))
        except Empty:
            for worker in self.workers:
                if worker.process.poll() is not None:
                    self.heard.put(_Word(worker, GONE))
            return None

    def _take(self, word: _Word) -> Iterator[tuple[int, Any]]:
        """What follows from a word: a result, the next item for the worker, or a worker less."""
        worker = word.worker
        if word.kind == USELESS:
            raise VarioError(
                f"the task cannot be loaded in a worker process ({word.parcel.decode()}): "
                "it has to be a function of a module that can be imported there"
            )
        if word.kind == GONE:
            how = worker.last_words()
            self._dismiss(worker)
            if not worker.ready:
                self.failed_starts += 1
                self.failure = how
            if worker.index is not None:
                yield worker.let_go(), _Died(how)
            return
        if word.kind == READY:
            worker.ready = True
            self.failed_starts = 0
            yield from self._hand_out(worker)
        else:
            index = worker.let_go()
            yield from self._hand_out(worker)  # the worker goes on before its result is looked at
            yield index, opened(word.parcel)

    def _hand_out(self, worker: _Worker) -> Iterator[tuple[int, Lost]]:
        """Give a worker the next item that can be sent."""
        while self.waiting and worker.index is None:
            index = self.waiting.popleft()
            item = packed(self.items, index)
            if isinstance(item, Lost):
                yield index, item
            else:
                worker.take_on(index, item, self.timeout)


class _Worker:
    """A process of ours, the item that it holds, and the thread that hears it."""

    def __init__(self, task: bytes, heard: SimpleQueue[_Word]) -> None:
        self.index: int | None = None
        self.deadline = float("inf")
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
            # Ctrl-C in a terminal goes to every process of the session; here the parent alone decides
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._hearing = threading.Thread(target=self._hear, args=(heard,), daemon=True)
        self._hearing.start()
        self._tell(task)

    def _hear(self, heard: SimpleQueue[_Word]) -> None:
        kind = READY
        with self._from:
            while kind != GONE:
                kind, parcel = _receive(self._from)
                heard.put(_Word(self, kind, parcel))

    def _tell(self, parcel: bytes) -> None:
        with suppress(OSError):  # it is dead: its own pipe says so
            _send(self._to, GIVEN, parcel)

    def take_on(self, index: int, item: bytes, timeout: float | None) -> None:
        """Have the worker start on an item."""
        self.index = index
        self.deadline = float("inf") if timeout is None else time.monotonic() + timeout
        self._tell(item)

    def let_go(self) -> int:
        """The index of the item that it held and holds no more."""
        index, self.index, self.deadline = self.index, None, float("inf")
        assert index is not None  # a worker speaks of an item only while it holds one
        return index

    def last_words(self) -> str:
        """How a process ended that has closed its pipe."""
        try:
            code = self.process.wait(LOOK)
        except subprocess.TimeoutExpired:
            return "its process stopped answering"
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return f"its process was killed by {name}{why}"

    def kill(self) -> None:
        """End the process at once, with whatever it has started itself."""
        if self.process.poll() is not None:
            return
        if sys.platform == "win32":
            self.process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def clear_away(self) -> None:
        """Wait for the end of the process and let go of what belongs to it."""
        self.process.wait()
        with suppress(OSError):  # what it was sent and never read
            self._to.close()
        self._hearing.join(LOOK)  # a child of the worker's may hold the pipe: then the thread ends when that does


# the modules of the worker come from where the caller's come from
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from vario.work.processes import serve; serve()"


def serve() -> None:
    """What a worker does: it answers each parcel, until the pipe is closed or, with it, the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # the pipes become its own; what a task, or a program that it starts, prints goes where errors go
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    parcels: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_take_in, args=(inbox, parcels), daemon=True).start()
    with suppress(BrokenPipeError):  # nobody listens any more
        try:
            task = pickle.loads(parcels.get())
        except BaseException as error:  # whatever its module does when it is imported
            _send(outbox, USELESS, in_words(error).encode())
            return
        _send(outbox, READY)
        while True:
            _send(outbox, RESULT, worked(task, parcels.get()))


def _take_in(inbox: IO[bytes], parcels: SimpleQueue[bytes]) -> None:
    """Hear the parent, in a thread of its own: when it is gone, the worker ends in the middle of its item."""
    while True:
        kind, parcel = _receive(inbox)
        if kind == GONE:
            os._exit(0)
        parcels.put(parcel)


# the kinds of words: a task or an item; from a worker: it is ready, it can never be, a result; and the end of the pipe
GIVEN, READY, USELESS, RESULT, GONE = b">", b"+", b"!", b"=", b"."
_HEAD = struct.Struct("<cQ")
"""Kind, and length of what follows."""


@dataclass(frozen=True)
class _Word:
    """What was heard from a worker."""

    worker: _Worker
    kind: bytes
    parcel: bytes = b""


def _send(pipe: IO[bytes], kind: bytes, parcel: bytes = b"") -> None:
    pipe.write(_HEAD.pack(kind, len(parcel)))
    pipe.write(parcel)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    """The next word; the end of the pipe may come in the middle of one."""
    head = pipe.read(_HEAD.size)
    if len(head) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        parcel = pipe.read(length)
        if len(parcel) == length:
            return kind, parcel
    return GONE, b""
