"""Real processes: what comes back, what is lost, and what is left behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.work import tasks
from tests.work.helpers import ROOT, alive, in_background, in_order, interrupt_when, kill_when_written, until
from vario.errors import ConfigError, VarioError
from vario.work import Lost, Serial, pool, processes
from vario.work.processes import Processes

TWO = Processes(2)


def run(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A program of its own that finds the tests' tasks by its path alone."""
    head = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    return subprocess.run([sys.executable, "-c", head + script], cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("task", [tasks.square, tasks.square_or_raise])
def test_processes_give_what_serial_gives(task) -> None:
    items = range(25)
    serial = list(Serial().each(task, items))
    assert [index for index, _ in serial] == list(items)
    assert in_order(TWO.each(task, items)) == serial


def test_an_item_that_raises_is_lost_alone() -> None:
    results = dict(TWO.each(tasks.square_or_raise, range(7)))
    assert results[3] == Lost("ValueError: 3 is divisible by three")
    assert {i: r for i, r in results.items() if i % 3} == {1: 1, 2: 4, 4: 16, 5: 25}


def test_no_items_and_fewer_than_workers() -> None:
    assert list(TWO.each(tasks.square, [])) == []
    assert list(Processes(8).each(tasks.square, [3])) == [(0, 9)]


def test_what_kills_its_worker_once_is_done_in_the_end_and_nothing_is_done_twice(tmp_path: Path) -> None:
    results = in_order(TWO.each(tasks.once_killed, [(tmp_path, n) for n in range(12)]))
    assert results == [(n, n * n) for n in range(12)]
    assert tasks.times(tmp_path) == {n: 2 if n in (3, 5) else 1 for n in range(12)}


def test_what_kills_its_worker_again_is_lost_and_the_others_are_done(tmp_path: Path) -> None:
    results = in_order(TWO.each(tasks.always_killed, [(tmp_path, n) for n in range(8)]))
    assert [index for index, _ in results] == list(range(8))
    lost = {index: result for index, result in results if isinstance(result, Lost)}
    assert list(lost) == [3]
    assert "killed by SIGKILL" in lost[3].reason
    assert "memory" in lost[3].reason
    assert tasks.times(tmp_path) == {n: 2 if n == 3 else 1 for n in range(8)}


def test_a_worker_killed_from_outside_in_the_middle(tmp_path: Path) -> None:
    killer = in_background(lambda: kill_when_written(tmp_path / "victim"))
    results = in_order(TWO.each(tasks.wait_to_be_killed, [(tmp_path, n) for n in range(8)]))
    killer.join()
    assert results == [(n, n * n) for n in range(8)]
    assert tasks.times(tmp_path) == {n: 2 if n == 2 else 1 for n in range(8)}


def test_a_dead_worker_is_noticed_though_its_child_holds_the_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOOK", 0.2)
    try:
        results = dict(TWO.each(tasks.leave_a_child_behind, [(tmp_path, n) for n in range(4)]))
        assert results.pop(1) == Lost("its process ended with exit code 1, and again when it was tried alone")
        assert results == {0: 0, 2: 2, 3: 3}
    finally:
        for child in (tmp_path / "children").read_text().split():
            os.kill(int(child), signal.SIGKILL)


def test_an_item_that_gives_up_does_not_end_the_program() -> None:
    assert dict(TWO.each(tasks.give_up, range(3))) == {0: 0, 1: Lost("its work gave up with exit code 4"), 2: 2}


def test_what_cannot_be_sent_is_lost_alone() -> None:
    items = [1, tasks.Stubborn(), tasks.Brittle(), "stubborn", "brittle", 6]
    results = dict(TWO.each(tasks.give_back, items))
    assert results == {
        0: 1,
        1: Lost("it cannot be sent to a worker: TypeError: stays where it is"),
        2: Lost("it cannot be unpacked in its worker: ValueError: broke on the way"),
        3: Lost("its result cannot be sent back: TypeError: stays where it is"),
        4: Lost("its result cannot be unpacked: ValueError: broke on the way"),
        5: 6,
    }


def test_an_item_past_its_time_is_lost_with_what_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    results = dict(Processes(2, timeout=0.5).each(tasks.slow_with_a_child, [(tmp_path, 0)]))
    assert results == {0: Lost("it took longer than 0.5 s")}
    assert time.monotonic() - began < 5
    child = int((tmp_path / "pid").read_text())
    assert until(lambda: not alive(child))


def test_an_answer_that_crosses_with_the_dismissal_does_not_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = processes._Crew._listen

    def just_before(self: processes._Crew) -> object:
        """The answer comes after the look for it, and before the look at the clock."""
        if any(worker.index == 0 for worker in self.workers):
            assert until(lambda: not self.heard.empty())
            return None
        return listen(self)

    monkeypatch.setattr(processes._Crew, "_listen", just_before)
    results = in_order(Processes(1, timeout=1e-6).each(tasks.square, [1, 2]))
    assert [index for index, _ in results] == [0, 1]
    assert results[0] == (0, Lost("it took longer than 1e-06 s"))


def test_time_that_the_caller_takes_is_not_the_items(tmp_path: Path) -> None:
    """The results lie ready while the caller is busy for longer than an item may take."""
    work = Processes(2, timeout=1.0).each(tasks.begin, [(tmp_path, n) for n in range(4)])
    first = next(work)
    time.sleep(1.5)
    assert in_order([first, *work]) == [(n, n) for n in range(4)]


def test_results_stream_and_few_items_are_on_their_way(tmp_path: Path) -> None:
    work = TWO.each(tasks.begin, [(tmp_path, n) for n in range(50)])
    with closing(work):  # type: ignore[type-var]
        next(work)
        time.sleep(0.5)
        assert len(tasks.times(tmp_path)) <= 1 + 2  # the one that came, and one for each worker


def test_an_interrupt_ends_the_workers(tmp_path: Path) -> None:
    pids = [tmp_path / "pid-1", tmp_path / "pid-2"]
    in_background(lambda: interrupt_when(lambda: all(path.exists() and path.read_text() for path in pids)))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(TWO.each(tasks.slow, [(tmp_path, 1), (tmp_path, 2)]))
    assert time.monotonic() - began < 10
    assert [path for path in pids if alive(int(path.read_text()))] == []


def test_an_interrupt_from_the_terminal_is_told_once(tmp_path: Path) -> None:
    """There it reaches every process of the group."""
    script = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.work import tasks
from vario.work.processes import Processes
list(Processes(2).each(tasks.slow, [(Path({str(tmp_path)!r}), n) for n in range(6)]))
"""
    program = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
    )
    assert until(lambda: (tmp_path / "pid-1").exists() and (tmp_path / "pid-1").read_text() != "")
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    assert errors.count("Traceback") == 1
    assert errors.endswith("KeyboardInterrupt\n")
    assert until(lambda: not alive(int((tmp_path / "pid-1").read_text())))


def test_a_caller_that_stops_early_ends_the_workers(tmp_path: Path) -> None:
    work = TWO.each(tasks.slow, [(tmp_path, n) for n in range(3)])
    assert next(work) == (0, 0)
    assert until(lambda: (tmp_path / "pid-1").exists() and (tmp_path / "pid-1").read_text() != "")
    pid = int((tmp_path / "pid-1").read_text())
    assert alive(pid)
    work.close()  # type: ignore[attr-defined]
    assert not alive(pid)


def test_workers_end_in_the_middle_of_an_item_when_their_parent_is_gone(tmp_path: Path) -> None:
    script = f"""
import os, signal, threading, time
from pathlib import Path
from tests.work import tasks
from vario.work.processes import Processes
folder = Path({str(tmp_path)!r})
def die():
    while not ((folder / "pid-1").exists() and (folder / "pid-1").read_text()):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=die).start()
list(Processes(2).each(tasks.slow, [(folder, 1)]))
"""
    assert run(script, tmp_path).returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid-1").read_text())
    assert until(lambda: not alive(pid))


def test_what_tasks_print_stays_out_of_the_result(tmp_path: Path) -> None:
    script = """
from tests.work import tasks
from vario.work.processes import Processes
print(sorted(Processes(2).each(tasks.talk, [5, 6])))
"""
    done = run(script, tmp_path)
    assert done.stdout == "[(0, 5), (1, 6)]\n"
    assert done.stderr.count("from the task") == 2
    assert done.stderr.count("from a program") == 2


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "print('training')\n"
        "from tests.work import tasks\n"
        "from vario.work import pool\n"
        "print(sorted(pool(2, None).each(tasks.square, [1, 2, 3])))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "training\n[(0, 1), (1, 4), (2, 9)]\n"
    assert done.stderr == ""


def test_polars_has_one_thread_in_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.setenv("POLARS_MAX_THREADS", "2")
    assert dict(TWO.each(tasks.threads_of_polars, [0, 1])) == {0: 1, 1: 1}


def test_a_task_that_workers_cannot_load_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def task(item):\n    return item\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    (tmp_path / "only_here.py").unlink()
    with pytest.raises(VarioError, match=r"cannot be loaded in a worker process.*No module named 'only_here'"):
        list(TWO.each(only_here.task, [1, 2]))


def test_workers_that_never_start_are_an_error_and_no_endless_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(VarioError, match="do not start here: its process ended with exit code 1"):
        list(TWO.each(tasks.square, range(10)))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(VarioError, match="do not start here: FileNotFoundError"):
        list(TWO.each(tasks.square, range(10)))


def test_a_word_cut_off_is_the_end_and_never_a_result() -> None:
    pipe = io.BytesIO()
    processes._send(pipe, processes.RESULT, b"a result")
    whole = pipe.getvalue()
    assert processes._receive(io.BytesIO(whole)) == (processes.RESULT, b"a result")
    for length in range(len(whole)):
        assert processes._receive(io.BytesIO(whole[:length])) == (processes.GONE, b"")


def test_the_pool_is_what_was_asked_for() -> None:
    assert isinstance(pool(None, None), Serial)
    assert isinstance(pool(1, None), Serial)
    assert pool(3, None) == Processes(3)
    for workers in (0, -1):
        with pytest.raises(ConfigError, match="give 1 or more"):
            pool(workers, None)


def test_serial_lets_an_interrupt_and_an_exit_through() -> None:
    """An exit in the caller's own process may be a signal's."""

    def stop(kind: type[BaseException]) -> None:
        raise kind

    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            list(Serial().each(stop, [kind]))
    assert list(Serial().each(stop, [GeneratorExit])) == [(0, Lost("GeneratorExit"))]


def test_ray_is_not_imported_without_a_cluster(tmp_path: Path) -> None:
    script = """
from tests.work import tasks
import vario.work
from vario.work import Serial, pool
from vario.work.processes import Processes
list(Serial().each(tasks.square, [1])), list(Processes(2).each(tasks.square, [1]))
pool(None, None), pool(2, None), pool(2, "auto")
print([name for name in ("ray", "numpy", "polars", "multiprocessing") if name in sys.modules])
"""
    assert run(script, tmp_path).stdout == "[]\n"
