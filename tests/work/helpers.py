"""What the tests of each kind of work share."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it holds, at the latest after so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def in_order(results: Iterable[tuple[int, object]]) -> list[tuple[int, object]]:
    """Sorted by index alone, so that an item that came twice shows."""
    return sorted(results, key=lambda pair: pair[0])


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found[1:]


def in_background(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def kill_when_written(path: Path) -> None:
    """Kill the process whose id is written there, as the system would."""
    assert until(path.exists, 30)
    os.kill(int(path.read_text()), signal.SIGKILL)


def interrupt_when(holds: Callable[[], bool]) -> None:
    """Press Ctrl-C."""
    assert until(holds, 30)
    os.kill(os.getpid(), signal.SIGINT)
