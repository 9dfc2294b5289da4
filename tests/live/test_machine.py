"""The machine beside a training. No device is here: their absence is tested for real, their presence with a stand-in.

The stand-in is a module object with the functions of `pynvml` that vario calls; that these exist there, with as many
arguments, is checked against the installed package.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pynvml
import pytest

from vario.catalogue import METRICS
from vario.catalogue.own_words import OWN_WORDS
from vario.surfaces.live import devices, machine
from vario.surfaces.live.devices import FAILURES, GIB, Devices
from vario.surfaces.live.machine import Machine

ID = "GPU-{}0000000-1111-2222-3333-444444444444"
INSTANCE = "MIG-90000000-1111-2222-3333-444444444444"
DEVICE_KEYS = {key for key in OWN_WORDS if key.startswith("vario/gpu/")}
HOST_KEYS = {"vario/host/memory_share", "vario/host/rss_gib", "vario/host/use"}


def refuse(code: int = pynvml.NVML_ERROR_NOT_SUPPORTED) -> pynvml.NVMLError:
    return pynvml.NVMLError(code)


class Board(ModuleType):
    """So many devices: device i draws 100 i + 100 W, is used 10 i + 10 %, and has i + 1 of 8 GiB in use."""

    def __init__(
        self, count: int = 3, cut: frozenset[int] = frozenset(), pids: Mapping[int, list[int]] | None = None
    ) -> None:
        super().__init__("pynvml")
        self.count = count
        self.cut = cut
        self.pids = pids or {}
        self.calls: Counter[str] = Counter()
        self.ended = threading.Event()

    def nvmlInit(self) -> None:  # noqa: N802
        self.calls["init"] += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.ended.set()

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        if uuid != INSTANCE:
            raise refuse(pynvml.NVML_ERROR_NOT_FOUND)
        return 0

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return ID.format(handle)

    def nvmlDeviceGetMigMode(self, device: int) -> list[int]:  # noqa: N802
        if not self.cut:
            raise refuse()
        return [int(device in self.cut)] * 2

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        self.calls["power"] += 1
        return (100 * handle + 100) * 1000

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=10 * handle + 10, memory=1)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=int(8 * GIB), used=int((handle + 1) * GIB), free=0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.pids.get(handle, [])]


def eventually(true: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def no_choice_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def watch() -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def start(nvml: ModuleType | None = None, every: float = 0.01) -> Machine:
        made.append(Machine(every, budget=1.0, nvml=nvml))
        return made[-1]

    yield start
    for one in made:
        one.close()


def gathered(one: Machine, wanted: set[str], seconds: float = 20.0) -> dict[str, float]:
    """What was taken until every wanted key was there at once."""
    deadline = time.monotonic() + seconds
    while not wanted <= (found := one.take()).keys():
        assert time.monotonic() < deadline, f"only {sorted(found)}"
        time.sleep(0.1)
    return found


# devices


def test_what_vario_calls_is_what_the_package_has() -> None:
    source = Path(devices.__file__).read_text() + Path(machine.__file__).read_text()
    called = set(re.findall(r"\.(nvml[A-Z]\w+)", source))
    ours = {name for name in vars(Board) if name.startswith("nvml")}
    assert called == ours
    for name in called:
        mine = list(inspect.signature(getattr(Board, name)).parameters)[1:]
        theirs = inspect.signature(getattr(pynvml, name)).parameters.values()
        assert [p.name for p in theirs if p.default is p.empty] == mine, name


def test_a_sample_is_the_mean_of_the_devices_and_the_fullest_memory() -> None:
    assert Devices(Board(), {}).gauges() == {
        "power": 200.0,
        "use": pytest.approx(0.2),
        "memory_share": 0.375,
        "memory_gib": 3.0,
    }


@pytest.mark.parametrize(
    ("named", "power"),
    [
        ("0", 100.0),
        ("2,0", 200.0),
        ("0, 9, 1", 100.0),
        (ID.format(1), 200.0),
        (ID.format(2)[:6], 300.0),
        (INSTANCE, 100.0),
        ("", None),
        ("-1", None),
        ("NoDevFiles", None),
        ("MIG-00000000", None),
    ],
    ids=[
        "one",
        "two",
        "up to the first unknown",
        "by id",
        "by the head of an id",
        "an instance",
        "none",
        "hidden",
        "off",
        "unknown",
    ],
)
def test_only_visible_devices_are_read(named: str, power: float | None) -> None:
    assert Devices(Board(), {"CUDA_VISIBLE_DEVICES": named}).gauges().get("power") == power


@pytest.mark.parametrize(("named", "power"), [(None, 100.0), ("1", None), ("1,0", 100.0), (INSTANCE, 100.0)])
def test_a_device_in_instances_says_nothing_of_a_part(named: str | None, power: float | None) -> None:
    seen = Devices(Board(2, cut=frozenset({1})), {} if named is None else {"CUDA_VISIBLE_DEVICES": named})
    assert seen.gauges().get("power") == power
    assert any("MIG" in trouble for trouble in seen.troubles) is (named != INSTANCE)


def test_devices_of_others_are_left_alone_once_ours_are_known() -> None:
    seen = Devices(Board(), {})
    seen.settle([2])
    assert seen.gauges()["power"] == 300.0
    seen.settle([])
    seen.settle([0])
    assert seen.gauges()["power"] == 200.0


def test_a_gauge_that_fails_is_left_off_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(1)
    asked = 0

    def no_power(_: int) -> int:
        nonlocal asked
        asked += 1
        raise refuse()

    monkeypatch.setattr(board, "nvmlDeviceGetPowerUsage", no_power)
    seen = Devices(board, {})
    for _ in range(10):
        assert set(seen.gauges()) == {"use", "memory_share", "memory_gib"}
    assert asked == FAILURES
    assert list(seen.troubles.items()) == [("device 0: no power (Not Supported)", 1)]


def test_a_gauge_that_fails_now_and_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(1)
    asked = 0

    def now_and_then(_: int) -> int:
        nonlocal asked
        asked += 1
        if asked % FAILURES:
            raise refuse(pynvml.NVML_ERROR_UNKNOWN)
        return 5000

    monkeypatch.setattr(board, "nvmlDeviceGetPowerUsage", now_and_then)
    seen = Devices(board, {})
    assert [seen.gauges().get("power") for _ in range(6)] == [None, None, 5.0, None, None, 5.0]
    assert not seen.troubles


def test_devices_that_cannot_be_counted_are_none() -> None:
    board = Board()
    board.nvmlDeviceGetCount = lambda: (_ for _ in ()).throw(refuse())  # type: ignore[method-assign]
    seen = Devices(board, {})
    assert (len(seen), seen.gauges(), len(seen.troubles)) == (0, {}, 1)


# the sampling


def has_device() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


@pytest.mark.skipif(has_device(), reason="there is a device here: its absence cannot be tested")
def test_without_a_driver_there_is_no_metric_and_no_error(watch: Callable[..., Machine]) -> None:
    one = watch()
    found = gathered(one, HOST_KEYS)
    assert not found.keys() & DEVICE_KEYS
    assert [count for trouble, count in one.troubles.items() if "no gauges of devices" in trouble] == [1]


def test_without_the_package_there_is_none_either(
    watch: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    one = watch()
    gathered(one, HOST_KEYS)
    assert [trouble for trouble in one.troubles if 'pip install "vario[live]"' in trouble]


def test_the_extremes_of_the_samples_stand_in_a_row(
    watch: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(1)
    powers = iter([300_000, 700_000, 500_000])
    useds = iter([2 * GIB, 6 * GIB, 4 * GIB])
    done = threading.Event()

    def power(_: int) -> int:
        try:
            return next(powers)
        except StopIteration:
            done.set()
            raise refuse() from None

    def memory(_: int) -> SimpleNamespace:
        if (used := next(useds, None)) is None:
            raise refuse()
        return SimpleNamespace(total=8 * GIB, used=used)

    monkeypatch.setattr(board, "nvmlDeviceGetPowerUsage", power)
    monkeypatch.setattr(board, "nvmlDeviceGetMemoryInfo", memory)
    one = watch(board)
    assert done.wait(20.0)
    found = one.take()
    assert {k: v for k, v in found.items() if k in DEVICE_KEYS} == {
        "vario/gpu/power_min": 300.0,
        "vario/gpu/power_max": 700.0,
        "vario/gpu/memory_share": 0.75,
        "vario/gpu/memory_share_low": 0.25,
        "vario/gpu/memory_gib": 6.0,
        "vario/gpu/use": pytest.approx(0.1),
    }


def test_every_key_of_a_row_has_a_metric(watch: Callable[..., Machine]) -> None:
    found = gathered(watch(Board()), DEVICE_KEYS | HOST_KEYS)
    assert {OWN_WORDS[key] for key in found if not key.startswith("vario/event/")} <= METRICS.keys()
    assert 0.0 < found["vario/host/memory_share"] < 1.0
    assert 0.0 <= found["vario/host/use"] <= 1.0
    assert 0.0 < found["vario/host/rss_gib"] < 1000.0


def test_what_was_taken_is_gone(watch: Callable[..., Machine]) -> None:
    one = watch(Board(1), every=600.0)
    found: dict[str, float] = {}
    eventually(lambda: found.update(one.take()) or found.keys() >= {"vario/gpu/use", "vario/host/rss_gib"})
    time.sleep(0.05)
    assert one.take() == {}


def test_a_driver_that_raises_anything_stops_nothing(
    watch: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(1)
    monkeypatch.setattr(board, "nvmlInit", lambda: (_ for _ in ()).throw(OSError("no such library")))
    one = watch(board)
    gathered(one, HOST_KEYS)
    assert one.troubles["no gauges of devices: no such library"] == 1


def test_a_part_that_keeps_raising_is_left_off(watch: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> dict[str, float]:
        raise RuntimeError("no")

    monkeypatch.setattr(Devices, "gauges", broken)
    one = watch(Board(1))
    eventually(lambda: one.troubles["devices: RuntimeError: no"] >= FAILURES)
    gathered(one, HOST_KEYS)
    assert one.troubles["devices: RuntimeError: no"] == FAILURES


def test_a_driver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CLOSING_SECONDS", 0.05)
    board, asked, go_on = Board(1), threading.Event(), threading.Event()

    def hang(_: int) -> int:
        asked.set()
        go_on.wait(30.0)
        return 0

    monkeypatch.setattr(board, "nvmlDeviceGetPowerUsage", hang)
    one = Machine(0.01, budget=1.0, nvml=board)
    assert asked.wait(20.0)
    assert one.take() is not None
    one.close()
    assert one._thread.is_alive()
    go_on.set()
    one._thread.join(20.0)
    assert not one._thread.is_alive()


def test_closing_lets_the_driver_go(watch: Callable[..., Machine]) -> None:
    board = Board(1)
    one = watch(board)
    gathered(one, {"vario/gpu/use"})
    one.close()
    assert board.ended.is_set()
    assert not one._thread.is_alive()


def test_a_forked_child_samples_nothing_and_hangs_nowhere(watch: Callable[..., Machine]) -> None:
    one = watch(Board(1))
    gathered(one, HOST_KEYS)
    with one._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads is forked: that is the point
        child = os.fork()  # with the lock taken, as the sampling thread may have it
        if child == 0:
            quiet = one.take() == {} and one.intervals() == []
            one.close()
            os._exit(0 if quiet else 1)
    deadline = time.monotonic() + 20.0
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    gathered(one, HOST_KEYS)


def test_sampling_that_costs_more_than_its_share_is_done_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tenth of a core a third is for each part: reading that takes 5 ms is done every 150 ms and not every 10."""
    board = Board(1)

    def slow(_: int) -> SimpleNamespace:
        began = time.thread_time()
        while time.thread_time() - began < 0.005:
            pass
        return SimpleNamespace(gpu=1, memory=1)

    monkeypatch.setattr(board, "nvmlDeviceGetUtilizationRates", slow)
    one = Machine(0.01, budget=0.1, nvml=board)
    try:
        (part,) = [p for p in one._parts if p.what == "devices"]
        eventually(lambda: part.done >= 4)
        assert part.cost is not None
        assert part.cost >= 0.005
        assert part.due - time.monotonic() <= part.cost / part.share
        assert one.seconds >= 0.015
        assert one.cost > 0.0
    finally:
        one.close()


def test_another_process_on_our_device_is_seen(watch: Callable[..., Machine]) -> None:
    """The stand-in lists this process on device 1 and, from some time on, one of somebody else's."""
    pids = {1: [os.getpid()]}
    one = watch(Board(2, pids=pids))
    eventually(lambda: one.take().get("vario/gpu/power_max") == 200.0)  # device 0 is no longer read
    assert one._work is not None
    others = [p for p in machine.host().processes() if p.pid not in one._work.family]  # type: ignore[union-attr]
    if not others:
        pytest.skip("no process here but those of this test")
    assert not [i for i in one.intervals() if i.name.startswith("gpu-")]
    pids[1].append(others[0].pid)
    taken: dict[str, float] = {}
    eventually(lambda: taken.update(one.take()) or any(key.startswith("vario/event/gpu-") for key in taken))
    pids[1].clear()
    pids[1].append(os.getpid())
    eventually(lambda: [i for i in one.intervals() if i.name.startswith("gpu-") and i.end is not None])
    (interval,) = [i for i in one.intervals() if i.name.startswith("gpu-")]
    assert interval.end is not None
    assert 0.0 <= interval.end - interval.start < 20.0
    assert abs(interval.start - time.time()) < 60.0


def test_a_process_of_vario_s_own_is_no_other_work(watch: Callable[..., Machine]) -> None:
    pids = {0: [os.getpid()]}
    one = watch(Board(1, pids=pids))
    eventually(lambda: one._work is not None and one._work._on_devices is not None)
    assert one._work is not None
    others = [p for p in machine.host().processes() if p.pid not in one._work.family]  # type: ignore[union-attr]
    if not others:
        pytest.skip("no process here but those of this test")
    one.ignore(others[0].pid)
    pids[0].append(others[0].pid)
    looks = one._parts[-1]
    assert looks.what == "processes"
    done = looks.done
    eventually(lambda: looks.done >= done + 3)
    assert not [i for i in one.intervals() if i.name.startswith("gpu-")]
