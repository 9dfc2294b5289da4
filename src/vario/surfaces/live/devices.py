"""The NVIDIA devices that the training may use: power, memory and use of each, and the processes on them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import TypeVar

FAILURES = 3
"""A call that failed so often in a row is not made again: not supported by this device, or the device is gone."""
GIB = 2.0**30
WATT = 1e-3
"""NVML counts milliwatts."""
Answer = TypeVar("Answer")


class Devices:
    """The devices in `CUDA_VISIBLE_DEVICES`, or all.

    A device number there counts in the order of the bus here, which is CUDA's own order wherever devices are alike. Of
    a device that is cut into instances (MIG) only an instance that is named is read: the whole says nothing of a part.

    Args:
        nvml: the module `pynvml`, initialised.
        environ: where `CUDA_VISIBLE_DEVICES` stands.
        troubles: what cannot be read, counted once for each device and gauge.
    """

    def __init__(
        self, nvml: ModuleType, environ: Mapping[str, str] = os.environ, troubles: Counter[str] | None = None
    ) -> None:
        self.troubles: Counter[str] = Counter() if troubles is None else troubles
        self._nvml = nvml
        self._failed: Counter[tuple[int, str]] = Counter()
        self._ours: frozenset[int] = frozenset()
        self._handles = dict(enumerate(self._visible(environ.get("CUDA_VISIBLE_DEVICES"))))

    def __len__(self) -> int:
        return len(self._handles)

    def settle(self, ours: Collection[int]) -> None:
        """Read these devices only, by their place in the list: those on which the training was seen."""
        self._ours |= frozenset(ours)

    def gauges(self) -> dict[str, float]:
        """One sample: `power` (W, mean), `memory_share` and `memory_gib` of the fullest device, `use` (share, mean)."""
        power, use, memory = [], [], []
        nvml = self._nvml
        for place, handle in self._handles.items():
            if self._ours and place not in self._ours:
                continue
            drawn = self._ask(place, "power", nvml.nvmlDeviceGetPowerUsage, handle)
            rates = self._ask(place, "use", nvml.nvmlDeviceGetUtilizationRates, handle)
            held = self._ask(place, "memory", nvml.nvmlDeviceGetMemoryInfo, handle)
            if drawn is not None:
                power.append(float(drawn) * WATT)
            if rates is not None:
                use.append(float(rates.gpu) / 100.0)
            if held is not None and held.total:
                memory.append((float(held.used) / float(held.total), float(held.used) / GIB))
        found = {}
        if power:
            found["power"] = sum(power) / len(power)
        if use:
            found["use"] = sum(use) / len(use)
        if memory:
            found["memory_share"], found["memory_gib"] = max(memory)
        return found

    def processes(self) -> dict[int, set[int]]:
        """The processes that compute on each device, by the device's place in the list."""
        found = {}
        for place, handle in self._handles.items():
            listed = self._ask(place, "processes", self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            if listed is not None:
                found[place] = {int(process.pid) for process in listed}
        return found

    def close(self) -> None:
        """Let go of the driver."""
        self._handles = {}
        self._try("shut down", self._nvml.nvmlShutdown)

    def _ask(self, place: int, gauge: str, call: Callable[..., Answer], handle: object) -> Answer | None:
        if self._failed[place, gauge] >= FAILURES:
            return None
        before = self._failed.pop((place, gauge), 0)
        try:
            return call(handle)
        except Exception as error:  # NVMLError and what a driver of another version may raise beside it
            self._failed[place, gauge] = before + 1
            if before + 1 == FAILURES:
                self.troubles[f"device {place}: no {gauge} ({error})"] += 1
            return None

    def _try(self, what: str, call: Callable[..., Answer], *about: object) -> Answer | None:
        try:
            return call(*about)
        except Exception as error:
            self.troubles[f"{what}: {error}"] += 1
            return None

    def _visible(self, named: str | None) -> list[object]:
        """Handles of what the variable names: numbers, ids that begin with GPU-, instances with MIG-."""
        nvml = self._nvml
        every = [
            self._try(f"device {i}", nvml.nvmlDeviceGetHandleByIndex, i)
            for i in range(self._try("no count of devices", nvml.nvmlDeviceGetCount) or 0)
        ]
        if named is None:
            return [h for i, h in enumerate(every) if h is not None and self._whole(str(i), h)]
        found: list[object] = []
        for word in filter(None, (w.strip() for w in named.split(","))):
            device: object | None = None
            if word.isdigit() and int(word) < len(every):
                device = every[int(word)]
            elif word.startswith("GPU-"):
                # a part of an id is enough where only one device has it
                device = next((h for h in every if h is not None and self._id(h).startswith(word)), None)
            elif word.startswith("MIG-"):
                device = self._try(word, nvml.nvmlDeviceGetHandleByUUID, word)
            if device is None:
                break  # CUDA sees nothing behind a name that it does not know either
            if word.startswith("MIG-") or self._whole(word, device):
                found.append(device)
        return found

    def _id(self, handle: object) -> str:
        name = self._try("no id of a device", self._nvml.nvmlDeviceGetUUID, handle)
        return name.decode() if isinstance(name, bytes) else str(name or "")

    def _whole(self, name: str, handle: object) -> bool:
        """Whether a device is not cut into instances."""
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
        except Exception:  # a device that cannot be cut says so by an error
            return True
        if current:
            self.troubles[f"device {name} is cut into instances (MIG): name one in CUDA_VISIBLE_DEVICES"] += 1
        return not current
