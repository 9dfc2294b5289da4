"""What may hang or raise because it is the user's own: loggers, hooks, trackers. A thread for it, and nobody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

MOST = 1_000
"""Things to tell that may wait; those beyond are not told."""


class Teller:
    """Does one thing after the other in a thread of its own, which starts with the first.

    Args:
        failed: is told what a thing raised; must not raise itself.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._things: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.RLock()  # a signal's handler may come in between
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, thing: Callable[[], object]) -> None:
        """Have something done; here and now, once this is closed.

        Raises:
            RuntimeError: no thread can be started.
        """
        if self._closed:
            self._do(thing)
            return
        if self._things.qsize() >= MOST:
            return
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="vario-tell", daemon=True)
                thread.start()
                self._thread = thread
        self._things.put(thing)

    def close(self, deadline: float) -> None:
        """Wait until everything is told, or the time has come."""
        with self._lock:
            thread = self._thread
        if thread is not None and not self._closed:
            self._things.put(None)
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self._closed = True

    def _run(self) -> None:
        ending = False
        while not (ending and self._things.empty()):
            thing = self._things.get()
            if thing is None:
                ending = True
            else:
                self._do(thing)

    def _do(self, thing: Callable[[], object]) -> None:
        try:
            thing()
        except Exception as error:  # a logger of the user's, a hook of the user's
            self._failed(error)
