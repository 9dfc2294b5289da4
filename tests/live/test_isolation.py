"""Whatever happens beside it, the training goes on: processes that die or hang, disks, hooks, forks, and what it logs itself."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

import vario
from tests.live.test_monitor import history, shown
from tests.live.training import train, until
from vario.surfaces.live import courier, judging_process
from vario.surfaces.live import monitor as monitor_module
from vario.surfaces.live.monitor import Monitor
from vario.surfaces.live.row_log import NAME, rows_in

FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def log(monitor: Monitor, steps: range, **more: object) -> None:
    for step in steps:
        monitor.log(step, {"reward": 0.3 + step / 1000 + step % 7 / 50, "kl": 0.01}, **more)  # type: ignore[arg-type]


def steps_in(folder: Path) -> list[int]:
    return [step for step, *_ in rows_in(folder / NAME)]


def told(monitor: Monitor, word: str) -> list[str]:
    return [text for text in monitor.failures if word in text]


def test_a_judging_process_that_is_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(courier, "PAUSES", (0.0, 0.0, 0.0))
    monitor = Monitor(directory=tmp_path)
    chance = random.Random(0)
    killed: set[int] = set()
    for step in range(1, 201):
        samples = [{"prompt": "p", "completion": f"c{step} {i}", "reward": 0.0} for i in (0, 1)]
        log(monitor, range(step, step + 1), samples=samples if step % 10 == 0 else None)
        if step % 50 == 0 and step < 200:
            until(lambda: monitor.beside not in (None, *killed))
            time.sleep(chance.choice([0.0, 0.2, 0.5]))
            assert monitor.beside is not None
            killed.add(monitor.beside)
            os.kill(monitor.beside, signal.SIGKILL)
    live = monitor.diagnosis()
    monitor.close(60.0)
    assert len(killed) == 3
    assert list(monitor.failures.items()) == [
        ("the judging process ended by itself (exit code -9); it is started again", 3)
    ]
    assert steps_in(tmp_path) == list(range(1, 201))
    assert len(list((tmp_path / "completions").iterdir())) == 20
    assert shown(live) == shown(vario.diagnose(vario.read(tmp_path)))
    opened = [subject for kind, subject, _ in history(tmp_path) if kind == "opened"]
    assert len(opened) == len(set(opened))
    assert not any(kind == "died" for kind, *_ in history(tmp_path))


def test_a_judging_process_that_dies_idle_is_there_again_to_see_the_training_die(tmp_path: Path) -> None:
    train(
        """
        monitor = vario.Monitor(directory="run", alerts={"to": ["file:died.json"], "on": ["died"]})
        rows(monitor, 1, 12)
        until(lambda: monitor.beside)
        first = monitor.beside
        os.kill(first, signal.SIGKILL)
        until(lambda: monitor.beside not in (None, first))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
        ends=-signal.SIGKILL,
    )
    until((tmp_path / "died.json").exists)
    assert steps_in(tmp_path / "run") == list(range(1, 13))


def test_a_judging_process_that_takes_the_place_of_another_repeats_nothing(tmp_path: Path) -> None:
    sentinel = tmp_path / "acted"
    act = {"command": {"severity": "warning", "confidence": "low", "run": f"sh -c 'echo $VARIO_FINDING >> {sentinel}'"}}
    monitor = Monitor(act=act)  # without a folder: what was told is remembered here only
    for step in range(1, 61):
        monitor.log(step, {"reward": 0.0, "kl": 0.01})
    until(sentinel.exists)
    until(lambda: monitor._courier._hello.get("told"))  # a moment earlier it would be done again, rather than never
    first = monitor.beside
    assert first is not None
    os.kill(first, signal.SIGKILL)
    for step in range(61, 121):
        monitor.log(step, {"reward": 0.0, "kl": 0.01})
    monitor.close(60.0)
    acted = sentinel.read_text().split()
    assert len(acted) == len(set(acted))
    told_of = [text.split()[0] for text in monitor.notices if " since step " in text]
    assert len(told_of) == len(set(told_of)) > 0


def test_a_training_that_pauses_is_not_taken_for_a_judging_process_that_hangs(monkeypatch) -> None:
    monkeypatch.setattr(courier, "SILENT_SECONDS", 60.0)
    monkeypatch.setattr(courier, "IDLE_SECONDS", 0.05)
    monitor = Monitor(rank=0)
    log(monitor, range(1, 11))
    until(lambda: monitor._courier._process is not None and monitor._courier._process.taken >= 2)
    process = monitor._courier._process
    assert process is not None
    process.heard_at = process.asked_at = time.monotonic() - 3600.0  # an hour of nothing to do
    log(monitor, range(11, 12))
    until(lambda: process.taken >= process.sent > 2)
    monitor.close()
    assert not monitor.failures


def test_a_judging_process_that_hangs_holds_nothing_up_and_fills_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(courier, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(courier, "WAITING_CHARACTERS", 100_000)
    monkeypatch.setattr(monitor_module, "DIAGNOSIS_SECONDS", 0.5)
    monitor = Monitor(directory=tmp_path)
    log(monitor, range(1, 11))
    until(lambda: (tmp_path / NAME).exists())
    process = monitor.beside
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        for step in range(11, 5001):
            more = {"samples": [{"prompt": "p", "completion": "x" * 5_000}]} if step % 50 == 0 else {}
            log(monitor, range(step, step + 1), **more)
        until(lambda: told(monitor, "has not answered"))
        assert told(monitor, "completions were left out")
        assert len(monitor._courier._tables) + len(monitor._courier._unsure) <= 20
        assert monitor.diagnosis().run.last_step == 5000
        began = time.monotonic()
        monitor.close(0.5)
        assert time.monotonic() - began < 15.0
        assert told(monitor, "had not ended when the time for closing was over")
        assert sum(monitor.failures[text] for text in told(monitor, "has not answered")) == 1
    finally:
        os.kill(process, signal.SIGKILL)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("vario-")])


def test_a_training_ends_though_the_judging_process_hangs(tmp_path: Path) -> None:
    done = train(
        """
        from vario.surfaces.live import monitor as module
        module.CLOSING_SECONDS = 0.5
        monitor = vario.Monitor(directory="run")
        rows(monitor, 1, 12)
        until(lambda: monitor.beside)
        os.kill(monitor.beside, signal.SIGSTOP)
        rows(monitor, 13, 3000)
        print(monitor.beside)
        """,
        tmp_path,
    )
    os.kill(int(done.stdout), signal.SIGKILL)
    assert "had not ended" in done.stderr


@pytest.mark.parametrize("program", ["", "/there/is/no/such/python", "talks", "fails"])
def test_without_a_judging_process_the_training_goes_on_and_its_log_is_written(
    program: str, tmp_path: Path, monkeypatch
) -> None:
    if program in ("talks", "fails"):
        script = tmp_path / program
        script.write_text(
            "#!/bin/sh\n" + ("echo usage: talks WORDS; exec sleep 60" if program == "talks" else "exit 3")
        )
        script.chmod(0o755)
        program = str(script)
    monkeypatch.setattr(sys, "executable", program)
    monkeypatch.setattr(courier, "PAUSES", (0.0, 0.0, 0.0))
    folder = tmp_path / "run"
    monitor = Monitor(directory=folder)
    log(monitor, range(1, 31), samples=[{"prompt": "p", "completion": "c"}])
    until(lambda: told(monitor, "goes on unjudged"))
    log(monitor, range(31, 61))
    assert monitor.beside is None
    assert not monitor.should_stop
    assert monitor.diagnosis().run.last_step == 60
    monitor.close()
    (said,) = told(monitor, "goes on unjudged")
    assert said.endswith(f"follow it with `vario watch {folder}`")
    assert sum(monitor.failures.values()) <= 4
    assert steps_in(folder) == list(range(1, 61))


def test_where_no_thread_can_be_started_nothing_piles_up(monkeypatch) -> None:
    def no(self: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monitor = Monitor(rank=0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no)
        log(monitor, range(1, 101))
        monitor.close()
    assert len(told(monitor, "no thread could be started")) == 1
    assert monitor._queue.qsize() <= 2


def test_where_no_file_can_be_opened_the_training_goes_on(tmp_path: Path) -> None:
    done = train(
        """
        import resource
        monitor = vario.Monitor(directory="run")
        least = max(map(int, os.listdir("/proc/self/fd"))) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, least))
        rows(monitor, 1, 30)
        until(lambda: monitor.failures)
        monitor.close()
        print(monitor.diagnosis.__name__)
        """,
        tmp_path,
        ends=None,
    )
    assert done.stdout == "diagnosis\n", done.stderr
    assert "Too many open files" in done.stderr


# places that cannot be written


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path) -> None:
    monitor = Monitor(directory="/proc/vario-run")
    log(monitor, range(1, 31), samples=[{"prompt": "p", "completion": "c"}])
    monitor.close()
    assert len(told(monitor, "the log of rows could not be written: /proc/vario-run")) == 1
    assert len(told(monitor, "completions could not be written to /proc/vario-run")) == 1
    assert set(monitor.failures.values()) == {1}
    assert monitor.diagnosis().run.last_step == 30


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_told_once_and_the_run_is_judged(small_disk: Path) -> None:
    monitor = Monitor(directory=small_disk, act={"stop": {"severity": "warning", "confidence": "low"}})
    (small_disk / "filler").write_bytes(b"x" * 200_000)
    for step in range(1, 1001):
        monitor.log(step, {"reward": 0.5 if step < 400 else 0.0, "kl": 0.01 * step, "note": 1.0})
    until(lambda: monitor.should_stop)
    monitor.close(60.0)
    assert len(told(monitor, "the log of rows could not be written")) == 1
    steps = steps_in(small_disk)
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) < 1000


def test_a_folder_that_is_removed_is_made_again_with_every_row(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    monitor = Monitor(directory=folder)
    log(monitor, range(1, 21))
    until(lambda: len(steps_in(folder)) == 20)
    shutil.rmtree(folder)
    log(monitor, range(21, 41))
    until(lambda: told(monitor, "written again"))
    monitor.close()
    assert steps_in(folder) == list(range(1, 41))
    assert len(told(monitor, "written again")) == 1


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    done = train(
        """
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        monitor = vario.Monitor()
        rows(monitor, 1, 30)
        monitor.close()
        print(monitor.diagnosis().run.last_step)
        """,
        tmp_path,
    )
    assert done.stdout == "30\n"
    assert "the working folder cannot be told" in done.stderr


# what the user gives


class Failing(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("read once only")

    def __len__(self) -> int:
        return 3


def test_whatever_is_logged_the_training_goes_on(tmp_path: Path) -> None:
    monitor = Monitor(directory=tmp_path)
    log(monitor, range(1, 11))
    monitor.log(11, Failing())
    monitor.log(12, None)  # type: ignore[arg-type]
    monitor.log(None, {"reward": 1.0})  # type: ignore[arg-type]
    monitor.log(13, {"reward": 0.5, **{f"key/{i}": "text" for i in range(100_000)}})
    monitor.log(14, {"reward": 0.5, "x" * 1_000_000: 1.0, "text": "y" * 10_000_000})
    monitor.log(15, {"reward": 0.5}, samples=[{"prompt": "p", "completion": "z" * 9_000_000}])
    monitor.log(16, {"reward": 0.5}, samples=5)  # type: ignore[arg-type]
    monitor.log(17, {"reward": 0.5}, samples=Failing())  # type: ignore[arg-type]
    monitor.log(18, {"reward": 0.5}, samples=[{"prompt": "p", "completion": object()}])
    monitor.event("upload", None)  # type: ignore[arg-type]
    monitor.event("upload", float("nan"))
    monitor.close(60.0)
    assert steps_in(tmp_path) == [*range(1, 11), 13, 14, 15, 16, 17, 18]
    assert len(monitor.failures) == 10
    assert {path.name for path in (tmp_path / "completions").iterdir()} == {"completions_00018.parquet"}


def test_a_burst_of_rows_arrives(tmp_path: Path) -> None:
    monitor = Monitor(directory=tmp_path)
    log(monitor, range(10_000))
    monitor.close(60.0)
    assert not monitor.failures
    assert steps_in(tmp_path) == list(range(10_000))


def test_arguments_that_cannot_be_are_told_and_secrets_are_not(caplog) -> None:
    monitor = Monitor(Failing(), alerts="slack://token/secret", act=["stop"], rank=0, history=5)  # type: ignore[arg-type]
    log(monitor, range(1, 11))
    monitor.close()
    assert len(monitor.failures) == 4
    assert "secret" not in caplog.text
    for word in ("config", "alerts", "act", "history"):
        assert told(monitor, word)


def test_a_wrong_table_is_told_through_the_monitor(tmp_path: Path) -> None:
    monitor = Monitor(directory=tmp_path, act={"stop": {"severity": "grave", "confidence": "high"}})
    log(monitor, range(1, 31))
    monitor.close()
    ((said, count),) = monitor.failures.items()
    assert "severity is one of info, warning, critical" in said
    assert count == 1
    assert steps_in(tmp_path) == list(range(1, 31))


def test_a_hook_or_a_handler_that_hangs_holds_nothing_else_up() -> None:
    release = threading.Event()
    monitor = Monitor(rank=0)
    monitor.on("raise-kl", lambda reason: release.wait(60))  # type: ignore[arg-type, return-value]
    monitor._hear("act", "raise-kl", "why")
    monitor._hear("act", "stop", "because")
    monitor._hear("act", "checkpoint", "because")
    for i in range(5_000):
        monitor._hear("notice", logging.WARNING, f"text {i}")
    assert monitor.should_stop
    assert monitor.take_save() == "because"
    assert monitor._teller._things.qsize() <= 1_000
    monitor.close(0.2)
    release.set()
    until(lambda: not [t for t in threading.enumerate() if t.name == "vario-tell"])


class Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(f"the handler fails for {record.levelname}")


def test_a_handler_that_raises_is_counted() -> None:
    monitor = Monitor(rank=0)
    handler = Raising()
    logging.getLogger("vario").addHandler(handler)
    try:
        monitor.log("none", {})  # type: ignore[arg-type]
        monitor._hear("notice", logging.ERROR, "a finding")
        monitor.close()
    finally:
        logging.getLogger("vario").removeHandler(handler)
    assert told(monitor, "the handler fails for WARNING")
    assert told(monitor, "the handler fails for ERROR")


# the process that trains


def test_a_training_leaves_no_child_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    train(
        """
        import threading
        before = sorted(os.listdir("/proc/self/fd"))
        with vario.Monitor(directory="run") as monitor:
            rows(monitor, 1, 30, samples=[{"prompt": "p", "completion": "c"}])
            until(lambda: monitor.beside)
            os.kill(monitor.beside, signal.SIGKILL)
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert threading.enumerate() == [threading.main_thread()]
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        else:
            raise AssertionError("a child is left")
        """,
        tmp_path,
    )


@pytest.mark.parametrize(
    "close",
    ["for fd in (0, 1, 2): os.close(fd)", "sys.stdout = sys.stderr = None", "sys.stdout.close(); sys.stderr.close()"],
)
def test_a_training_without_standard_streams_goes_on(close: str, tmp_path: Path) -> None:
    train(
        f"""
        logging.getLogger().handlers.clear()
        logging.getLogger("vario").addHandler(logging.StreamHandler(sys.stderr))
        {close}
        monitor = vario.Monitor(directory="run")
        monitor.log("no step", {{}})
        for fd in (0, 1, 2):
            try:
                os.write(fd, b"printed by something else")
            except OSError:
                pass
        rows(monitor, 1, 30)
        monitor.close()
        open("done", "w").write(str(dict(monitor.failures)))
        os._exit(0)
        """,
        tmp_path,
    )
    assert "a row could not be taken" in (tmp_path / "done").read_text()
    assert steps_in(tmp_path / "run") == list(range(1, 31))


def test_a_broken_pipe_does_not_end_a_training_that_lets_it(tmp_path: Path) -> None:
    train(
        """
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        monitor = vario.Monitor(directory="run")
        rows(monitor, 1, 10)
        until(lambda: monitor.beside)
        first = monitor.beside
        os.kill(first, signal.SIGSTOP)  # so that its pipe is full when it dies
        rows(monitor, 11, 3000)
        time.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        until(lambda: monitor.failures)
        rows(monitor, 3001, 3010)
        monitor.close()
        """,
        tmp_path,
    )
    assert steps_in(tmp_path / "run") == list(range(1, 3011))


def test_a_handler_of_a_signal_may_close_in_the_middle_of_anything(tmp_path: Path) -> None:
    train(
        """
        def leave(number, frame):
            monitor.close()
            sys.exit(0)
        signal.signal(signal.SIGALRM, leave)
        monitor = vario.Monitor(directory="run")
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        step = 0
        while True:
            step += 1
            monitor.log(step, {"reward": 0.5, "kl": object()})
            monitor.log("no step", {})
        """,
        tmp_path,
    )
    steps = steps_in(tmp_path / "run")
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > 100
    assert any(kind == "ended" for kind, *_ in history(tmp_path / "run"))


def test_a_forked_child_is_silent_and_its_parents_death_is_seen_though_it_lives(tmp_path: Path) -> None:
    done = train(
        """
        monitor = vario.Monitor(directory="run", alerts={"to": ["file:died.json"], "on": ["died"]})
        rows(monitor, 1, 10)
        until(lambda: os.path.exists("run/vario-log.jsonl"))
        child = os.fork()
        if child == 0:
            rows(monitor, 100, 200)
            monitor.event("upload", 0.0)
            monitor._fail("not told")
            assert monitor.diagnosis().run.last_step is None
            monitor.close()
            open("child", "w").close()
            time.sleep(60)
            os._exit(0)
        rows(monitor, 11, 20)
        until(lambda: os.path.exists("child"))
        print(child, flush=True)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
        ends=-signal.SIGKILL,
    )
    child = int(done.stdout)
    try:
        until((tmp_path / "died.json").exists)
        os.kill(child, 0)  # it lives
    finally:
        os.kill(child, signal.SIGKILL)
    assert steps_in(tmp_path / "run") == list(range(1, 21))
    assert "not told" not in done.stderr


@FORKS
def test_workers_that_are_forked_while_rows_are_logged_change_nothing(tmp_path: Path) -> None:
    from torch.utils.data import DataLoader

    monitor = Monitor(directory=tmp_path)
    done = threading.Event()

    def keep_logging() -> None:
        step = 0
        while not done.is_set():
            step += 1
            monitor.log(step, {"reward": 0.5})
            time.sleep(0.0005)

    thread = threading.Thread(target=keep_logging)
    thread.start()
    until(lambda: monitor.beside)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=log, args=(monitor, range(10**6, 10**6 + 10))) for _ in range(5)]
    for worker in workers:
        worker.start()
    assert [int(batch) for batch in DataLoader([1, 2, 3], batch_size=None, num_workers=1)] == [1, 2, 3]  # type: ignore[arg-type]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    done.set()
    thread.join()
    monitor.close()
    assert not monitor.failures
    steps = steps_in(tmp_path)
    assert steps == list(range(1, len(steps) + 1))


def test_a_process_that_is_spawned_has_a_copy_that_is_silent(tmp_path: Path) -> None:
    train(
        """
        import multiprocessing
        monitor = vario.Monitor(directory="run")
        rows(monitor, 1, 10)
        worker = multiprocessing.get_context("spawn").Process(target=monitor.log, args=(99, {"reward": 9.0}))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
        monitor.close()
        """,
        tmp_path,
    )
    assert steps_in(tmp_path / "run") == list(range(1, 11))


def test_files_of_the_working_folder_do_not_stand_in_for_modules(tmp_path: Path) -> None:
    for name in ("queue", "random", "signal", "numpy", "vario"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')")
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error::ResourceWarning", "-c",
         "import vario\nm = vario.Monitor(directory='run')\nfor s in range(30): m.log(s, {'reward': .1})\nm.close()\nprint(m.failures)"],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.stdout == "Counter()\n"
    assert steps_in(tmp_path / "run") == list(range(30))


def test_the_environment_of_the_judging_process(monkeypatch, tmp_path: Path) -> None:
    given: dict[str, object] = {}

    def start(command: list[str], **options: object) -> NoReturn:
        given.update(options, command=command)
        raise FileNotFoundError(2, "not started here")

    monkeypatch.setattr(judging_process.subprocess, "Popen", start)
    monkeypatch.setenv("PYTHONPATH", "/a" + os.pathsep + "/b")
    monitor = Monitor(directory=tmp_path)
    log(monitor, range(1, 3))
    until(lambda: told(monitor, "not started here"))
    monitor.close()
    environment = given["env"]
    assert isinstance(environment, dict)
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["PYTHONPATH"].startswith("/a" + os.pathsep + "/b")
    assert given["start_new_session"] is True
    assert monitor_module.CLOSING_SECONDS == 20.0
