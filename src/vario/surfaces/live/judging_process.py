"""The judging process, as the training that started it sees it: two pipes, a thread that listens, and its end."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vario.surfaces.live import link

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
LAST_SECONDS = 10.0
"""A process that has closed its pipe and has not ended by then is ended."""


class JudgingProcess:
    """One process and the pipes to it and from it.

    Attributes:
        pid: its number.
        sent: messages sent; the caller's thread counts. taken: how many of them it says it has taken.
        started_at, heard_at, asked_at: when it was started, when it last said anything, and since when something
            waits to be taken; by the monotonic clock.
        finished: it has done all that was asked before it ended.
        speaks: False once what came from it was no message of ours: another program.
        gone: set when it has ended.

    Args:
        hear: takes each of its messages, in a thread of this object's; must not wait.
        stir: is called when it has taken something, and when it has ended.

    Raises:
        OSError, RuntimeError: it cannot be started, or no thread for it. ValueError: `sys.executable` names nothing.
    """

    def __init__(self, hear: Callable[..., None], stir: Callable[[], None]) -> None:
        self.sent = self.taken = 0
        self.finished = False
        self.speaks = True
        self.gone = threading.Event()
        self._hear = hear
        self._stir = stir
        inward, self._questions = link.pipe()
        try:
            self._answers, outward = link.pipe()
        except OSError:
            for fd in (inward, self._questions):
                link.close(fd)
            raise
        try:
            self._popen = _start(inward, outward)
            os.set_blocking(self._questions, False)
        except BaseException:
            for fd in (self._questions, self._answers):
                link.close(fd)
            raise
        finally:
            for fd in (inward, outward):
                link.close(fd)
        self.pid = self._popen.pid
        self.started_at = self.heard_at = self.asked_at = time.monotonic()
        self._listener = threading.Thread(target=self._listen, name="vario-answers", daemon=True)
        try:
            self._listener.start()
        except RuntimeError:  # no more threads: nobody would hear it
            self._popen.kill()
            self._popen.wait()
            for fd in (self._questions, self._answers):
                link.close(fd)
            raise

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.returncode

    def send(self, *message: object, given_up: Callable[[], bool]) -> None:
        """Send one message, waiting while there is no room for it.

        Raises:
            OSError: it reads no more, or `given_up` says that nobody waits for it.
        """
        link.write(self._questions, *message, given_up=given_up)
        if self.taken >= self.sent:
            self.asked_at = time.monotonic()
        self.sent += 1

    def hang_up(self) -> None:
        """Nothing more will be sent: for the process that is the end."""
        link.close(self._questions)

    def join(self, seconds: float) -> bool:
        """Wait for its end; whether it has come, with everything heard that it had said."""
        self._listener.join(max(0.0, seconds))
        return not self._listener.is_alive()

    def _listen(self) -> None:
        try:
            while (message := link.read(self._answers)) is not None:
                self.heard_at = time.monotonic()
                if message[0] == "taken" and isinstance(message[1], int):
                    self.taken = message[1]
                    self._stir()
                elif message[0] == "finished":
                    self.finished = True
                else:
                    self._hear(*message)
        except Exception:  # a program that is not ours: its words mean nothing, and it may go on for ever
            self.speaks = False
            self._popen.kill()
        finally:
            link.close(self._answers)
            self._reap()
            self.gone.set()
            self._stir()

    def _reap(self) -> None:
        try:
            self._popen.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def _start(inward: int, outward: int) -> subprocess.Popen[bytes]:
    """The same interpreter and packages, one thread of arithmetic, no device, a session of its own."""
    import vario

    if not sys.executable:
        raise ValueError("sys.executable is empty: this Python is part of another program")
    home = str(Path(vario.__file__).parent.parent)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if home not in site.getsitepackages():  # on PYTHONPATH a site's packages would stand before the standard library
        paths.append(home)
    return subprocess.Popen(
        # -P: files of the working folder must not stand in for modules
        [sys.executable, "-P", "-W", "ignore", "-m", "vario.surfaces.live.beside"],
        stdin=inward,
        stdout=outward,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            **dict.fromkeys(ONE_THREAD, "1"),
            "PYTHONPATH": os.pathsep.join(paths),
            "CUDA_VISIBLE_DEVICES": "",
        },
        start_new_session=True,  # Ctrl-C is for the training, which then closes the monitor
    )
