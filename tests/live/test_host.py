"""The host as it is read: from /proc as through psutil, inside a container's bounds, and with hostile names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from vario.surfaces.live.host import Process, ProcHost, PsutilHost, host

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")
HOSTS = [pytest.param(ProcHost, marks=ON_LINUX), PsutilHost]


@pytest.mark.parametrize("kind", HOSTS)
def test_the_host_s_memory_and_processors(kind: type[ProcHost] | type[PsutilHost]) -> None:
    one = kind()
    assert one.memory_share() == pytest.approx(psutil.virtual_memory().percent / 100.0, abs=0.05)
    assert one.processors == psutil.cpu_count()
    used, every = one.busy()
    began, whole = time.thread_time(), time.monotonic()
    while time.thread_time() - began < 0.1:
        pass
    later_used, later_every = one.busy()
    passed = time.monotonic() - whole
    assert later_used - used >= 0.05
    assert later_every - every == pytest.approx(passed * one.processors, rel=0.5, abs=0.05 * one.processors)
    assert 0.0 <= used <= every


@pytest.mark.parametrize("kind", HOSTS)
def test_this_process_stands_among_the_others(kind: type[ProcHost] | type[PsutilHost]) -> None:
    (me,) = [p for p in kind().processes() if p.pid == os.getpid()]
    theirs = psutil.Process()
    assert (me.parent, me.name) == (os.getppid(), theirs.name())
    assert me.cpu == pytest.approx(time.process_time(), rel=0.2, abs=0.1)
    assert me.resident == pytest.approx(theirs.memory_info().rss, rel=0.2)
    if hasattr(theirs, "io_counters"):
        assert me.moved is not None
        assert me.moved > 0


@ON_LINUX
def test_both_ways_to_read_see_the_same_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        mine, theirs = ProcHost().processes(), PsutilHost().processes()
    finally:
        child.communicate(b"\n")
    assert child.pid in {p.pid for p in mine}
    by_pid = {p.pid: p for p in theirs}
    for one in mine:
        other = by_pid.get(one.pid)
        if other is not None and one.pid in (os.getpid(), child.pid):
            assert one.parent == other.parent
            assert (one.moved is None) == (other.moved is None)


@ON_LINUX
def test_this_system_is_read_from_proc() -> None:
    assert isinstance(host(), ProcHost)


# made-up hosts


def a_process(proc: Path, pid: int, name: bytes, parent: int = 1) -> None:
    fields = [b"0"] * 50
    fields[0], fields[1] = b"S", str(parent).encode()
    fields[11], fields[12], fields[19], fields[21] = b"250", b"50", b"777", b"3"
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_bytes(b"%d (%s) %s\n" % (pid, name, b" ".join(fields)))
    (proc / str(pid) / "io").write_text("rchar: 300\nwchar: 20\nsyscr: 1\n")


@ON_LINUX
@pytest.mark.parametrize("name", [b"python3", b"a b) c (d", b"x\n) R 1", b"\xff\xfe", b""])
def test_a_name_may_hold_whatever_it_likes(tmp_path: Path, name: bytes) -> None:
    a_process(tmp_path, 42, name)
    tick, page = 1.0 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert ProcHost(tmp_path, tmp_path).processes() == [
        Process(42, 1, 777.0, name.decode("utf-8", "replace"), 300 * tick, 320, 3 * page)
    ]


@ON_LINUX
def test_the_kernel_s_own_and_broken_ones_are_left_out(tmp_path: Path) -> None:
    a_process(tmp_path, 2, b"kthreadd", 0)
    a_process(tmp_path, 3, b"kworker", 2)
    a_process(tmp_path, 42, b"python3")
    a_process(tmp_path, 43, b"gone")
    (tmp_path / "43" / "stat").unlink()
    a_process(tmp_path, 44, b"cut")
    (tmp_path / "44" / "stat").write_text("44 (cut) S")
    one = ProcHost(tmp_path, tmp_path)
    assert [p.pid for p in one.processes()] == [42]
    assert [p.pid for p in one.processes()] == [42]


MEMORY = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"


@ON_LINUX
def test_without_a_container_the_host_s_memory_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMORY)
    assert ProcHost(tmp_path, tmp_path / "none").memory_share() == pytest.approx(0.4)


@ON_LINUX
@pytest.mark.parametrize(
    ("line", "folder", "names", "spare"),
    [
        ("0::/pod/one", "pod/one", ("memory.max", "memory.current"), "inactive_file 100"),
        ("0::/pod/one", "pod", ("memory.max", "memory.current"), "inactive_file 100"),
        ("0::/", "", ("memory.max", "memory.current"), "inactive_file 100"),
        ("0::/seen/from/outside", "", ("memory.max", "memory.current"), "inactive_file 100"),
        (
            "4:cpu,memory:/pod/one", "memory/pod/one", ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            "inactive_file 7\ntotal_inactive_file 100",
        ),
    ],
    ids=["its own group", "a group above", "the container's root", "another name inside", "the old layout"],
)  # fmt: skip
def test_a_container_s_bound_counts_where_it_is_fuller(
    tmp_path: Path, line: str, folder: str, names: tuple[str, str], spare: str
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMORY)
    (proc / "self" / "cgroup").write_text(f"7:pids:/x\n{line}\n")
    here = groups / folder
    here.mkdir(parents=True)
    (here / names[0]).write_text("1000\n")
    (here / names[1]).write_text("900\n")
    (here / "memory.stat").write_text(f"anon 1\n{spare}\n")
    one = ProcHost(proc, groups)
    assert one.memory_share() == pytest.approx(0.8)
    (here / names[1]).write_text("200\n")
    assert one.memory_share() == pytest.approx(0.4)
    (here / names[1]).unlink()
    assert one.memory_share() == pytest.approx(0.4)


@ON_LINUX
@pytest.mark.parametrize("bound", ["max", "9223372036854771712", "nonsense"])
def test_a_bound_that_is_none_is_not_one(tmp_path: Path, bound: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text(MEMORY)
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(bound)
    (tmp_path / "memory.current").write_text("900")
    (tmp_path / "memory.stat").write_text("")
    assert ProcHost(tmp_path, tmp_path).memory_share() == pytest.approx(0.4)
