"""The host beside the training: its memory and processors, and the processes on it.

Read from /proc on Linux, through psutil elsewhere; without either there is nothing to read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

GIB = 2.0**30
CGROUPS = Path("/sys/fs/cgroup")
UNLIMITED = 2**60
"""Bytes from which on a bound of a container is none: the kernel writes a huge number where nothing was set."""
_STAT = re.compile(rb"\d+ \((.*)\) (.+)", re.DOTALL)
"""One process: its name stands in brackets and may hold some itself."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process as it stands.

    Attributes:
        started: when it began, on a clock of the host's own: with `pid` it tells two processes of one number apart.
        name: of the program, as the system has it. cpu: seconds of processor time so far.
        moved: bytes read and written so far, by files and pipes; None where that may not be read.
        resident: bytes of memory.
    """

    pid: int
    parent: int
    started: float
    name: str
    cpu: float
    moved: int | None
    resident: int


class Host(Protocol):
    """What can be read of a host. Each call may raise OSError where the system withholds it."""

    processors: int

    def memory_share(self) -> float:
        """Share of memory in use: of the host, or of the container where that is fuller."""

    def busy(self) -> tuple[float, float]:
        """Processor seconds in use, and all that there were, since the host began."""

    def processes(self) -> list[Process]:
        """Every process that can be seen, but for the kernel's own."""


def host() -> Host | None:
    """The host, by what this system and what is installed allow."""
    if sys.platform == "linux" and Path("/proc/self/stat").exists():
        return ProcHost()
    try:
        return PsutilHost()
    except ImportError:
        return None


class ProcHost:
    """A Linux host, read from /proc: some twenty microseconds a process."""

    def __init__(self, proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> None:
        self.processors = os.cpu_count() or 1
        self._proc = str(proc)
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._kernel: set[int] = set()
        self._closed: set[int] = set()
        self._bounds = list(_bounds(proc, cgroups))

    def memory_share(self) -> float:
        """See `Host`."""
        found = {}
        for line in self._read("meminfo").splitlines()[:5]:
            name, _, rest = line.partition(b":")
            found[name] = float(rest.split()[0])
        share = 1.0 - found[b"MemAvailable"] / found[b"MemTotal"]
        return max([share, *(s for bound in self._bounds if (s := bound.share()) is not None)])

    def busy(self) -> tuple[float, float]:
        """See `Host`."""
        head = self._read("stat", 512)
        ticks = [int(word) for word in head[: head.find(b"\n")].split()[1:9]]
        every = sum(ticks)
        return (every - ticks[3] - ticks[4]) * self._tick, every * self._tick

    def processes(self) -> list[Process]:
        """See `Host`."""
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - a Path each costs more than the rest
        self._kernel &= pids
        self._closed &= pids
        found = []
        for pid in pids - self._kernel:
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                match = _STAT.match(self._read(f"{pid}/stat"))
                if match is None:
                    continue
                fields = match[2].split()
                parent = int(fields[1])
                if parent == 2 or pid == 2:
                    self._kernel.add(pid)
                    continue
                name = match[1].decode("utf-8", "replace")
                cpu = (int(fields[11]) + int(fields[12])) * self._tick
                started, resident = float(fields[19]), int(fields[21]) * self._page
                found.append(Process(pid, parent, started, name, cpu, self._moved(pid), resident))
        return found

    def _moved(self, pid: int) -> int | None:
        if pid in self._closed:
            return None
        try:
            words = self._read(f"{pid}/io").split()
        except PermissionError:
            self._closed.add(pid)  # of another user: not asked again
            return None
        return int(words[1]) + int(
            words[3]
        )  # rchar, wchar: what comes from the cache counts, for it goes to the network

    def _read(self, name: str, most: int = 4096) -> bytes:
        # the descriptor itself: a file object costs as much again
        fd = os.open(f"{self._proc}/{name}", os.O_RDONLY)
        try:
            return os.read(fd, most)
        finally:
            os.close(fd)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A container's bound on memory: files that say what is in use, and what of it can be given back at once."""

    used: Path
    details: Path
    bytes: int

    def share(self) -> float | None:
        try:
            used = int(self.used.read_bytes())
            details = dict(line.split() for line in self.details.read_bytes().splitlines())
        except (OSError, ValueError):
            return None
        spare = int(details.get(b"total_inactive_file", details.get(b"inactive_file", 0)))
        return min(max((used - spare) / self.bytes, 0.0), 1.0)


def _bounds(proc: Path, cgroups: Path) -> Iterator[_Bound]:
    """The bounds on memory that hold for this process: of its own group and of those above it, in both layouts."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            root, names = cgroups, ("memory.max", "memory.current")
        elif "memory" in kinds.split(","):
            root, names = cgroups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):
            with suppress(OSError, ValueError):
                most = int((folder / names[0]).read_text())
                if 0 < most < UNLIMITED:
                    yield _Bound(folder / names[1], folder / "memory.stat", most)
            if folder == root:
                break


class PsutilHost:
    """A host of any system, read through psutil."""

    def __init__(self) -> None:
        """Look for psutil.

        Raises:
            ImportError: psutil is not installed.
        """
        import psutil

        self._psutil = psutil
        self.processors = psutil.cpu_count() or 1

    def memory_share(self) -> float:
        """See `Host`."""
        return float(self._psutil.virtual_memory().percent) / 100.0

    def busy(self) -> tuple[float, float]:
        """See `Host`."""
        times = self._psutil.cpu_times()._asdict()
        # a guest's time is counted in its host's already
        every = sum(seconds for kind, seconds in times.items() if not kind.startswith("guest"))
        return every - times["idle"] - times.get("iowait", 0.0), every

    def processes(self) -> list[Process]:
        """See `Host`."""
        found = []
        for process in self._psutil.process_iter():
            with suppress(self._psutil.Error), process.oneshot():
                times, moved = process.cpu_times(), None
                with suppress(self._psutil.Error, AttributeError):
                    counts = process.io_counters()
                    moved = getattr(counts, "read_chars", counts.read_bytes) + getattr(
                        counts, "write_chars", counts.write_bytes
                    )
                found.append(
                    Process(
                        process.pid,
                        process.ppid(),
                        process.create_time(),
                        process.name(),
                        times.user + times.system,
                        moved,
                        process.memory_info().rss,
                    )
                )
        return found
