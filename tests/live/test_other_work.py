"""Other work is told from the training's own: by family, by devices, by what it takes of the host."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vario.surfaces.live.host import Process, host
from vario.surfaces.live.other_work import HEAVY_BYTES, KEPT, MOST_NAMES, SETTLING_SECONDS, Interval, OtherWork

ME = 100
PROCESSORS = 10
WALL = 1.7e9


def process(
    pid: int, name: str = "tool", parent: int = 1, cpu: float = 0.0, moved: int | None = 0, started: float = 1.0
) -> Process:
    return Process(pid, parent, started, name, cpu, moved, 0)


SHELL, ME_IT = process(50, "bash"), process(ME, "python3", 50)


class Looks:
    """Looks one second apart."""

    def __init__(self, work: OtherWork | None = None) -> None:
        self.work = work or OtherWork(ME, PROCESSORS)
        self.now = 0.0

    def __call__(self, *others: Process, on_devices: set[int] | None = None, passed: float = 1.0) -> dict[str, float]:
        self.now += passed
        return self.work.look(self.now, WALL + self.now, (SHELL, ME_IT, *others), on_devices)


def test_a_process_that_takes_much_of_the_host_is_work() -> None:
    look = Looks()
    assert look(process(7, cpu=50.0)) == {}
    assert look(process(7, cpu=50.9)) == {}
    assert look(process(7, cpu=51.9)) == {"tool": 1.0}
    assert look(process(7, cpu=53.9), passed=2.0) == {"tool": 2.0}
    assert look.work.intervals() == [Interval("tool", WALL + 2.0, None)]
    assert look(process(7, cpu=53.9)) == {}
    assert look.work.intervals() == [Interval("tool", WALL + 2.0, WALL + 5.0)]


def test_it_goes_on_while_it_takes_half_of_that() -> None:
    look = Looks()
    look(process(7))
    said = [look(process(7, cpu=cpu)) for cpu in (1.0, 1.5, 2.0, 2.4, 3.3)]
    assert [bool(s) for s in said] == [True, True, True, False, False]


def test_processes_of_one_name_count_together() -> None:
    look = Looks()
    look()
    assert look(*(process(i, "worker", cpu=0.2) for i in range(200, 206))) == {"worker": 1.0}


def test_reading_and_writing_is_work_too() -> None:
    look, much = Looks(), int(1.5 * HEAVY_BYTES)
    look(process(7, "rclone", moved=10), process(8, "closed", moved=None))
    assert look(process(7, "rclone", moved=10 + much), process(8, "closed", moved=None)) == {"rclone": 1.0}


def test_a_process_of_the_same_number_is_another() -> None:
    look = Looks()
    look(process(7, cpu=500.0))
    assert look(process(7, cpu=1.5, started=2.0)) == {"tool": 1.0}


def test_the_training_itself_is_none() -> None:
    look = Looks()
    look.work.look(1.0, WALL, [process(ME, "python3")])
    assert look.work.look(2.0, WALL, [process(ME, "python3", cpu=10.0, moved=10**12)]) == {}


def test_what_it_starts_at_first_is_its_own_and_what_it_starts_later_is_not() -> None:
    look = Looks()
    look()
    loader = process(7, "loader", ME)
    assert look(process(7, "loader", ME, cpu=5.0)) == {}
    look(process(7, "loader", ME, cpu=5.0), passed=SETTLING_SECONDS)
    assert look(process(7, "loader", ME, cpu=10.0)) == {}
    look(loader, process(8, "merge", ME))
    assert look(loader, process(8, "merge", ME, cpu=5.0)) == {"merge": 1.0}


def test_other_ranks_and_their_children_are_family() -> None:
    launcher = process(60, "accelerate", 50)
    me, sibling, child = process(ME, "python3", 60), process(101, "python3", 60), process(102, "engine", 101)
    stranger = process(9, "python3")
    work = OtherWork(ME, PROCESSORS)
    work.look(1.0, WALL, [SHELL, launcher, me, sibling, child, stranger])
    assert work.family == {60, ME, 101, 102}
    assert work.own == {ME}
    assert (
        work.look(2.0, WALL, [SHELL, launcher, me, process(101, "python3", 60, cpu=5.0), process(9, "python3")]) == {}
    )


def test_a_training_without_a_launcher_is_its_own_family() -> None:
    work = OtherWork(ME, PROCESSORS)
    work.look(1.0, WALL, [SHELL, ME_IT, process(7, "python3", 50), process(8, "worker", ME)])
    assert (work.family, work.own) == ({ME, 8}, {ME, 8})


def test_parents_in_a_circle_end_somewhere() -> None:
    work = OtherWork(ME, PROCESSORS)
    work.look(1.0, WALL, [process(ME, "python3", 101), process(101, "python3", ME)])
    assert work.family == {ME, 101}


# devices


def test_a_process_that_came_onto_our_device_is_work() -> None:
    look, guest, old = Looks(), process(7, "python3"), process(8, "desktop")
    assert look(old, on_devices={ME, 8}) == {}
    assert look(old, guest, on_devices={ME, 8}) == {}
    assert look(old, guest, on_devices={ME, 8, 7}) == {"gpu-python3": 1.0}
    assert look(old, guest, on_devices={ME, 7}) == {"gpu-python3": 1.0}
    assert look(old, guest, on_devices={ME, 7, 8}) == {"gpu-python3": 1.0, "gpu-desktop": 1.0}
    look(old, guest, on_devices={ME})
    assert {i.name: i.end - i.start for i in look.work.intervals() if i.end} == {"gpu-python3": 3.0, "gpu-desktop": 1.0}


def test_in_a_container_of_its_own_nobody_is_foreign() -> None:
    """The driver counts processes as the host does: where we are not among them, none of the numbers means anything."""
    look = Looks()
    look(process(7), on_devices={4711})
    assert look(process(7), on_devices={4711, 7}) == {}


def test_a_number_that_is_no_process_here_is_not_named() -> None:
    look = Looks()
    look(on_devices={ME})
    assert look(on_devices={ME, 4711}) == {}


def test_before_the_training_uses_a_device_nobody_is_foreign() -> None:
    look = Looks()
    look(process(7), on_devices=set())
    look(process(7), on_devices={7})
    look(process(7), on_devices={7, ME})
    assert look(process(7), on_devices={7, ME}) == {}


# bounds


def test_names_are_few_and_can_stand_in_a_key() -> None:
    look = Looks()
    look()
    names = {name for i in range(3 * MOST_NAMES) for name in look(process(200 + i, f"t{i}\x1b[31m/é", cpu=9.0))}
    assert len(names) == MOST_NAMES + 1
    assert "other" in names
    assert all(name.isascii() and name.isprintable() and "/" not in name for name in names)


def test_old_intervals_are_forgotten() -> None:
    look = Looks()
    look()
    for i in range(KEPT + 50):
        look(process(1000 + i, cpu=9.0))
        look()
    assert len(look.work.intervals()) == KEPT


def test_a_clock_that_stands_still_harms_nothing() -> None:
    look = Looks()
    look(process(7))
    assert look(process(7, cpu=9.0), passed=0.0) == {}


@pytest.mark.skipif(
    sys.platform != "linux", reason="a program is given a name of its own through /proc's way of naming"
)
def test_a_real_process_that_is_not_ours_is_seen(tmp_path: Path) -> None:
    """It outlives the shell that started it, and then belongs to nobody here."""
    program = tmp_path / "merge-tool"
    program.symlink_to(os.path.realpath(sys.executable))
    spin = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 20: sum(range(10000))"
    line = f'"{program}" -I -S -c "$1" >/dev/null 2>&1 & echo $!'
    pid = int(subprocess.run(["/bin/sh", "-c", line, "sh", spin], capture_output=True, check=True).stdout)
    try:
        here = host()
        assert here is not None
        work, seen, deadline = OtherWork(os.getpid(), 1), dict[str, float](), time.monotonic() + 15.0
        while "merge-tool" not in seen:
            assert time.monotonic() < deadline
            seen |= work.look(time.monotonic(), time.time(), here.processes())
            time.sleep(0.2)
        assert pid not in work.family
    finally:
        os.kill(pid, 9)
    assert seen["merge-tool"] > 0.0
