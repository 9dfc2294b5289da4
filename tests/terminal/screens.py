"""A process in a real pseudo-terminal, and its screen as a terminal would draw it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyte

from tests.conftest import ROOT


@dataclass
class Terminal:
    """A terminal with a program in it.

    Attributes:
        raw: every byte that the program wrote. before: the terminal's settings before it ran.
    """

    process: subprocess.Popen[bytes]
    main: int
    other: int
    screen: pyte.Screen
    stream: pyte.ByteStream
    before: list[object]
    raw: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def pump(self, seconds: float = 0.05) -> None:
        """Take what the program writes."""
        ready, _, _ = select.select([self.main], [], [], seconds)
        if ready:
            made = os.read(self.main, 1 << 16)
            self.raw += made
            self.stream.feed(made)

    def until(self, condition: Callable[[str], bool], seconds: float = 20.0) -> str:
        """Wait until the screen is as it should be."""
        end = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < end, f"it did not come:\n{self.text}"
            assert self.process.poll() is None, f"it has ended:\n{self.text}"
            self.pump()
        return self.text

    def press(self, keys: str) -> None:
        os.write(self.main, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def end(self, seconds: float = 30.0) -> int:
        """Its exit code, when it has ended by itself."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
            self.pump()
        while select.select([self.main], [], [], 0)[0]:
            self.pump()
        return self.process.returncode

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: its settings, its main screen, its cursor, no reports of keys."""
        raw = bytes(self.raw)
        return (
            termios.tcgetattr(self.other) == self.before
            and raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h")
            and raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")
            and raw.rfind(b"\x1b[?2004l") > raw.rfind(b"\x1b[?2004h")
        )


class _Screen(pyte.Screen):
    """As pyte draws it; sequences that it does not know and terminals may ignore are ignored."""

    def set_margins(self, *args: object, **more: object) -> None:
        more.pop("private", None)
        super().set_margins(*args, **more)

    def report_device_status(self, *args: object, **more: object) -> None:
        pass

    def select_graphic_rendition(self, *attributes: int, **more: object) -> None:
        if not more.get("private"):
            super().select_graphic_rendition(*attributes)


@contextmanager
def terminal(
    *arguments: str, size: tuple[int, int] = (80, 24), cwd: Path = ROOT, **environment: str
) -> Iterator[Terminal]:
    """A Python program in a terminal of so many columns and lines; ended where it does not end by itself."""
    main, other = pty.openpty()
    columns, lines = size
    fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    screen = _Screen(columns, lines)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        stdin=other,
        stdout=other,
        stderr=other,
        env=_environment(environment),
        start_new_session=True,
        preexec_fn=_controlled,
    )
    made = Terminal(process, main, other, screen, pyte.ByteStream(screen), termios.tcgetattr(other))
    try:
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(main)
        os.close(other)


def _controlled() -> None:
    """The terminal tells its foreground processes when its size changes."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """No colour or size comes from where the tests run."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES", "COLORTERM", "FORCE_COLOR")
    }
    return {**kept, "TERM": "xterm-256color", "PYTHONPATH": f"{ROOT}/src", **more}
