"""What the machine does while a training runs on it, sampled by a thread of its own: devices, host, other work."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from vario.catalogue.own_words import event_key
from vario.surfaces.live.devices import GIB, Devices
from vario.surfaces.live.host import Host, host
from vario.surfaces.live.other_work import Interval, OtherWork

EVERY_SECONDS = 1.0
BUDGET = 0.002
"""Share of one processor core that sampling may take: a fifth of a percent."""
FAILURES = 3
"""A part of the sampling that raised so often in a row is left off."""
SMOOTH = 0.3
"""Weight of the newest cost in the running one."""
CLOSING_SECONDS = 2.0


@dataclass(slots=True)
class _Range:
    """What a gauge did since it was asked last."""

    low: float
    high: float
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total += value
        self.count += 1


@dataclass(slots=True)
class _Part:
    """A part of the sampling: done every so many seconds, and less often where it would cost more than its share."""

    what: str
    work: Callable[[], None]
    every: float
    share: float
    due: float = 0.0
    cost: float | None = None
    done: int = 0
    failed: int = 0

    def took(self, seconds: float, now: float) -> None:
        """Note what it cost and when it is due again; the first time fills caches and is not counted."""
        self.done += 1
        if self.done > 1:
            self.cost = seconds if self.cost is None else (1.0 - SMOOTH) * self.cost + SMOOTH * seconds
        self.due = now + max(self.every, (self.cost or 0.0) / self.share)


class Machine:
    """Samples the machine beside a training; `take` says what it did since the last time, once a step.

    What is not there (no device, no driver, no package) gives no metric and no error; it is counted in `troubles`. Only
    the process that made it samples: in a forked child `take` gives nothing.

        machine = Machine()
        for step in range(steps):
            ...
            monitor.log(step, metrics | machine.take())
        machine.close()

    Args:
        every: seconds between samples; more where they would cost more than `budget`, a share of one core.
        nvml: in place of the module `pynvml`.

    Attributes:
        troubles: what cannot be read, counted. seconds: processor time that sampling has taken.
    """

    def __init__(
        self,
        every: float = EVERY_SECONDS,
        *,
        budget: float = BUDGET,
        nvml: ModuleType | None = None,
    ) -> None:
        self.troubles: Counter[str] = Counter()
        self.seconds = 0.0
        self._opening = 0.0
        self._opened: float | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ranges: dict[str, _Range] = {}
        self._worked: dict[str, float] = {}
        self._devices: Devices | None = None
        self._host: Host | None = None
        self._nvml = nvml
        self._work: OtherWork | None = None
        self._ignored: set[int] = set()
        self._busy: tuple[float, float] | None = None
        self._parts = [
            _Part("devices", self._sample_devices, every, budget / 3),
            _Part("host", self._sample_host, every, budget / 3),
            _Part("processes", self._sample_processes, every, budget / 3),
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vario-machine", daemon=True)
        self._thread.start()

    def take(self) -> dict[str, float]:
        """What happened since the last call, by vario's own keys; a gauge without a sample in that time is left out.

        For each work beside the training its seconds are there as `vario/event/<name>_s`.
        """
        if os.getpid() != self._pid:
            return {}
        with self._lock:
            ranges, self._ranges = self._ranges, {}
            worked, self._worked = self._worked, {}
        found = {event_key(name): seconds for name, seconds in worked.items()}
        for gauge, key, how in _KEYS:
            if gauge in ranges:
                found[key] = how(ranges[gauge])
        return found

    def intervals(self) -> list[Interval]:
        """Work beside the training that was seen, the last 256; its seconds are in `take` already."""
        if os.getpid() != self._pid or self._work is None:
            return []
        with self._lock:
            return self._work.intervals()

    def ignore(self, pid: int) -> None:
        """A process of vario's own is no other work."""
        self._ignored.add(pid)

    @property
    def cost(self) -> float:
        """Share of one core that sampling has taken since its first sample; 0 before it."""
        if self._opened is None:
            return 0.0
        return (self.seconds - self._opening) / max(time.monotonic() - self._opened, 1e-9)

    def close(self) -> None:
        """Stop sampling. A driver that hangs is not waited for longer than two seconds."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._thread.join(CLOSING_SECONDS)

    # what follows runs in the sampling thread

    def _run(self) -> None:
        self._open()
        self._opening = self.seconds = time.thread_time()
        self._opened = time.monotonic()
        while self._parts:
            for part in [p for p in self._parts if p.due <= time.monotonic()]:
                self._do(part)
            self.seconds = time.thread_time()
            if not self._parts:
                break
            if self._stop.wait(max(min(p.due for p in self._parts) - time.monotonic(), 0.0)):
                break
        if self._devices is not None:
            self._devices.close()

    def _do(self, part: _Part) -> None:
        began = time.thread_time()
        try:
            part.work()
            part.failed = 0
        except Exception as error:  # whatever a driver or a system call may raise: the training must not notice
            part.failed += 1
            self.troubles[f"{part.what}: {type(error).__name__}: {error}"] += 1
            if part.failed >= FAILURES:
                self._parts.remove(part)
        part.took(time.thread_time() - began, time.monotonic())

    def _open(self) -> None:
        """Find devices and host; imports and the driver's start are no work for the training's thread."""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
            self._devices = Devices(self._nvml, troubles=self.troubles)
        except ImportError:
            self.troubles['no gauges of devices: nvidia-ml-py is not installed (pip install "vario[live]")'] += 1
        except Exception as error:  # no driver, no device, no permission
            self.troubles[f"no gauges of devices: {error}"] += 1
        try:
            self._host = host()
        except Exception as error:
            self.troubles[f"no gauges of the host: {error}"] += 1
        if self._host is not None:
            self._work = OtherWork(self._pid, self._host.processors)
            self._work.ignored = self._ignored
        without = {"devices": self._devices is None or not len(self._devices), "host": self._host is None}
        without["processes"] = without["host"]
        self._parts = [p for p in self._parts if not without[p.what]]

    def _add(self, found: dict[str, float]) -> None:
        with self._lock:
            for gauge, value in found.items():
                self._ranges.setdefault(gauge, _Range(value, value)).add(value)

    def _sample_devices(self) -> None:
        assert self._devices is not None
        self._add({f"gpu/{gauge}": value for gauge, value in self._devices.gauges().items()})

    def _sample_host(self) -> None:
        assert self._host is not None
        found = {"host/memory_share": self._host.memory_share()}
        before, self._busy = self._busy, self._host.busy()
        if before is not None and self._busy[1] > before[1]:
            # the kernel's own sums go back now and then
            found["host/use"] = min(max((self._busy[0] - before[0]) / (self._busy[1] - before[1]), 0.0), 1.0)
        self._add(found)

    def _sample_processes(self) -> None:
        assert self._host is not None
        assert self._work is not None
        on_devices = self._devices.processes() if self._devices is not None else {}
        processes = self._host.processes()
        computing = set().union(*on_devices.values()) if on_devices else None
        with self._lock:
            worked = self._work.look(time.monotonic(), time.time(), processes, computing)
            for name, seconds in worked.items():
                self._worked[name] = self._worked.get(name, 0.0) + seconds
        if self._devices is not None:
            self._devices.settle([place for place, pids in on_devices.items() if pids & self._work.family])
        self._add({"host/rss_gib": sum(p.resident for p in processes if p.pid in self._work.own) / GIB})


def _mean(values: _Range) -> float:
    return values.total / values.count


def _low(values: _Range) -> float:
    return values.low


def _high(values: _Range) -> float:
    return values.high


_KEYS: tuple[tuple[str, str, Callable[[_Range], float]], ...] = (
    ("gpu/power", "vario/gpu/power_min", _low),
    ("gpu/power", "vario/gpu/power_max", _high),
    ("gpu/memory_share", "vario/gpu/memory_share", _high),
    ("gpu/memory_share", "vario/gpu/memory_share_low", _low),
    ("gpu/memory_gib", "vario/gpu/memory_gib", _high),
    ("gpu/use", "vario/gpu/use", _mean),
    ("host/memory_share", "vario/host/memory_share", _high),
    ("host/rss_gib", "vario/host/rss_gib", _high),
    ("host/use", "vario/host/use", _mean),
)
"""What of a gauge's samples stands in a row."""
