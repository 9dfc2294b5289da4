"""Work beside the training: processes that came onto its devices, and those that take much of its host."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vario.catalogue.own_words import event_name
from vario.surfaces.live.host import Process

HEAVY_PROCESSORS = 0.1
"""Share of the host's processors that the processes of one name take together from which on they may disturb."""
HEAVY_BYTES = 100e6
"""Bytes a second, read and written, likewise: a disk or a network of a gigabit is full then."""
STAYS = 0.5
"""Work goes on while it takes half of what it needed to be seen: one slow second does not part it in two."""
SETTLING_SECONDS = 120.0
"""What the training itself starts, it starts in its first minutes: loaders, engines, workers. Its later children count."""
MOST_NAMES = 16
"""Names are columns of a log: what comes under further names counts as `other`."""
KEPT = 256
LAUNCHER = re.compile(
    r"python|pt_|torchrun|accelerate|deepspeed|ray|mpirun|mpiexec|orted|prte|srun|slurmstepd|uv$|vllm|sglang",
    re.IGNORECASE,
)
"""Programs that start the processes of a training: what stands beneath the topmost of them belongs to it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Work beside the training, in seconds since 1970; `end` is None while it goes on."""

    name: str
    start: float
    end: float | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where a process stood at the last look."""

    cpu: float
    moved: int | None


class OtherWork:
    """Tells other work from the training's own, from one look at the processes to the next.

    Args:
        pid: the process that trains. processors: of the host.
        settling: seconds in which new children belong to the training.
    """

    def __init__(self, pid: int, processors: int, settling: float = SETTLING_SECONDS) -> None:
        self.family: set[int] = {pid}
        self.own: set[int] = {pid}
        self.ignored: set[int] = set()
        self._pid = pid
        self._processors = processors
        self._settling = settling
        self._began: float | None = None
        self._last = 0.0
        self._settled: set[tuple[int, float]] = set()
        self._seen: dict[tuple[int, float], _Seen] = {}
        self._on_devices: set[int] | None = None
        self._names: set[str] = set()
        self._running: dict[str, float] = {}
        self._ended: deque[Interval] = deque(maxlen=KEPT)

    def look(
        self, now: float, wall: float, processes: Sequence[Process], on_devices: Collection[int] | None = None
    ) -> dict[str, float]:
        """Seconds for which each work ran since the last look.

        Args:
            now: seconds on a clock that does not jump. wall: seconds since 1970.
            processes: every process there is. on_devices: numbers of those that compute on our devices; None if unknown.
        """
        first = self._began is None
        began = self._began = now if self._began is None else self._began
        passed, self._last = now - self._last, now
        self._find_family(processes)
        if now - began <= self._settling:
            self._settled |= {(p.pid, p.started) for p in processes if p.pid in self.family}
        foreign = self._foreign(processes, on_devices)
        heavy: set[str] = set() if first or passed <= 0.0 else self._heavy(processes, passed)
        self._seen = {(p.pid, p.started): _Seen(p.cpu, p.moved) for p in processes}
        names = {self._named(name) for name in (*foreign, *heavy)}
        self._note(names, wall - (0.0 if first else passed))
        return {} if first else dict.fromkeys(names, passed)

    def intervals(self) -> list[Interval]:
        """The last 256 works, those that go on at the end."""
        return [*self._ended, *(Interval(name, start, None) for name, start in self._running.items())]

    def _find_family(self, processes: Iterable[Process]) -> None:
        """The training's processes: all beneath the topmost launcher above it; and its own, which are beneath itself."""
        by_pid = {p.pid: p for p in processes}
        children: dict[int, list[int]] = {}
        for process in by_pid.values():
            children.setdefault(process.parent, []).append(process.pid)
        root, climbed = self._pid, {self._pid}
        while (me := by_pid.get(root)) and (above := by_pid.get(me.parent)) and LAUNCHER.match(above.name):
            if above.pid in climbed:
                break  # a number was given anew while the list was read
            root = above.pid
            climbed.add(root)
        self.family = _beneath(root, children)
        self.own = _beneath(self._pid, children)

    def _foreign(self, processes: Sequence[Process], on_devices: Collection[int] | None) -> set[str]:
        """Names of processes that came onto our devices and are not ours."""
        if not on_devices:
            return set()
        seen = set(on_devices)
        if not seen & self.family:
            # in a container of its own the driver's numbers are not ours: who is foreign cannot be told
            return set()
        if self._on_devices is None:
            self._on_devices = seen - self.family  # who was there before is part of the furniture
        self._on_devices &= seen
        came = seen - self.family - self._on_devices - self.ignored
        return {f"gpu-{p.name}" for p in processes if p.pid in came}

    def _heavy(self, processes: Iterable[Process], passed: float) -> set[str]:
        """Names whose processes take much of the host together."""
        cpu: dict[str, float] = {}
        moved: dict[str, float] = {}
        for process in processes:
            key = (process.pid, process.started)
            if process.pid == self._pid or process.pid in self.ignored:
                continue
            if process.pid in self.family and key in self._settled:
                continue
            before = self._seen.get(key, _Seen(0.0, 0))
            cpu[process.name] = cpu.get(process.name, 0.0) + process.cpu - before.cpu
            if process.moved is not None and before.moved is not None:
                moved[process.name] = moved.get(process.name, 0.0) + process.moved - before.moved
        found = set()
        for name, seconds in cpu.items():
            least = STAYS if self._named(name) in self._running else 1.0
            if (
                seconds >= least * HEAVY_PROCESSORS * self._processors * passed
                or moved.get(name, 0.0) >= least * HEAVY_BYTES * passed
            ):
                found.add(name)
        return found

    def _named(self, name: str) -> str:
        """A name that can be a column, one of the first sixteen."""
        clean = event_name(name)
        if clean not in self._names and len(self._names) >= MOST_NAMES:
            return "other"
        return clean

    def _note(self, names: set[str], since: float) -> None:
        for name in [n for n in self._running if n not in names]:
            self._ended.append(Interval(name, self._running.pop(name), since))
        for name in names:
            self._names.add(name)
            self._running.setdefault(name, since)


def _beneath(root: int, children: Mapping[int, Sequence[int]]) -> set[int]:
    found, left = {root}, [root]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found
