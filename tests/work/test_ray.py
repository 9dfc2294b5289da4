"""A real Ray on this machine, with little room: what comes back, what is lost, and what is left as it was."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.work import tasks
from tests.work.helpers import (
    ROOT,
    alive,
    descendants,
    in_background,
    in_order,
    interrupt_when,
    kill_when_written,
    until,
)
from vario.work import Lost, Serial, pool, ray_cluster
from vario.work.ray_cluster import TRIES, Cluster

pytest.importorskip("ray")


@contextmanager
def short_folder() -> Iterator[Path]:
    """For Ray's own files: the paths of its sockets must not be long, as those of pytest's folders are."""
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    """Two workers, a store of 80 MB, and a disk that counts as full: what does not fit has nowhere to go.

    Ray is connected already, by the caller: the address is not looked at.
    """
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with short_folder() as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=80_000_000,
            _system_config={"local_fs_capacity_threshold": 0.001},
            _temp_dir=str(folder),
        )
        yield Cluster("nowhere:1")
        ray.shutdown()


@pytest.mark.parametrize("task", [tasks.square, tasks.square_or_raise])
def test_a_cluster_gives_what_serial_gives(here: Cluster, task) -> None:
    items = range(25)
    assert in_order(here.each(task, items)) == list(Serial().each(task, items))


def test_no_items(here: Cluster) -> None:
    assert list(here.each(tasks.square, [])) == []


def test_the_callers_connection_is_left_as_it_is(here: Cluster) -> None:
    import ray

    mine = ray.put("mine")
    assert dict(here.each(tasks.square, [3])) == {0: 9}
    assert ray.is_initialized()
    assert ray.get(mine) == "mine"


def test_what_kills_its_worker_once_is_done_in_the_end_and_nothing_is_done_twice(here: Cluster, tmp_path: Path) -> None:
    results = in_order(here.each(tasks.once_killed, [(tmp_path, n) for n in range(12)]))
    assert results == [(n, n * n) for n in range(12)]
    assert tasks.times(tmp_path) == {n: 2 if n in (3, 5) else 1 for n in range(12)}


def test_what_always_kills_its_worker_is_lost_and_the_others_are_done(here: Cluster, tmp_path: Path) -> None:
    results = in_order(here.each(tasks.always_killed, [(tmp_path, n) for n in range(8)]))
    assert [index for index, _ in results] == list(range(8))
    lost = {index: result for index, result in results if isinstance(result, Lost)}
    assert lost == {3: Lost("its worker process was killed or crashed, 3 times out of 3")}
    assert tasks.times(tmp_path) == {n: TRIES if n == 3 else 1 for n in range(8)}


def test_a_worker_killed_from_outside_in_the_middle(here: Cluster, tmp_path: Path) -> None:
    killer = in_background(lambda: kill_when_written(tmp_path / "victim"))
    results = in_order(here.each(tasks.wait_to_be_killed, [(tmp_path, n) for n in range(8)]))
    killer.join()
    assert results == [(n, n * n) for n in range(8)]
    assert tasks.times(tmp_path) == {n: 2 if n == 2 else 1 for n in range(8)}


def test_what_cannot_be_sent_is_lost_alone(here: Cluster) -> None:
    items = [1, tasks.Stubborn(), tasks.Brittle(), "stubborn", "brittle", 6]
    assert in_order(here.each(tasks.give_back, items)) == [
        (0, 1),
        (1, Lost("it cannot be sent to a worker: TypeError: stays where it is")),
        (2, Lost("it cannot be unpacked in its worker: ValueError: broke on the way")),
        (3, Lost("its result cannot be sent back: TypeError: stays where it is")),
        (4, Lost("its result cannot be unpacked: ValueError: broke on the way")),
        (5, 6),
    ]


@contextmanager
def squeezes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, int]]]:
    """For each time that Ray itself said that the store is full: the room for all, and beside this one, from then on."""
    met: list[tuple[float, int]] = []
    squeezed = ray_cluster._Flight._squeezed

    def noted(self: Any, job: Any, how: str) -> None:
        squeezed(self, job, how)
        met.append((self.room, job.bound))

    with monkeypatch.context() as patch:
        patch.setattr(ray_cluster._Flight, "_squeezed", noted)
        yield met


def test_when_the_store_is_full_fewer_are_on_their_way_and_all_are_done(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is slow, then keeps every result: 240 MB in the end, of which the store may hold nothing."""
    with squeezes(monkeypatch) as met:
        work = here.each(tasks.large, [30] * 8)
        first = next(work)
        time.sleep(3.0)  # four are on their way meanwhile, and there is room for two
        results = in_order([first, *work])
    assert met[0] == (2.0, 1)
    assert [index for index, _ in results] == list(range(8))
    assert {type(result) for _, result in results} == {bytes}
    assert {len(result) for _, result in results} == {30_000_000}  # type: ignore[arg-type]


def test_a_result_that_never_fits_is_lost_and_the_others_are_done(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with squeezes(monkeypatch) as met:
        results = dict(here.each(tasks.large, [1, 120, 1, 1]))
    assert results.pop(1) == Lost("the object store of the cluster had no room for it, even alone")
    assert len(met) > 1
    assert {index: len(result) for index, result in results.items()} == dict.fromkeys((0, 2, 3), 1_000_000)


def test_an_item_that_never_fits_is_lost_and_the_others_are_done(here: Cluster) -> None:
    results = dict(here.each(tasks.give_back, [1, bytes(120_000_000), 3]))
    assert results == {0: 1, 1: Lost("the object store of the cluster had no room for it, even alone"), 2: 3}


def test_results_stream_and_few_items_are_on_their_way(here: Cluster, tmp_path: Path) -> None:
    for cluster, most in ((here, 4), (Cluster("auto", workers=1), 1)):
        folder = tmp_path / str(most)
        folder.mkdir()
        with closing(cluster.each(tasks.begin, [(folder, n) for n in range(50)])) as work:  # type: ignore[type-var]
            next(work)
            time.sleep(0.5)
            assert len(tasks.times(folder)) <= 1 + most


def test_an_interrupt_ends_what_is_on_its_way_and_nothing_else(here: Cluster, tmp_path: Path) -> None:
    pids = [tmp_path / "pid-1", tmp_path / "pid-2"]
    in_background(lambda: interrupt_when(lambda: all(path.exists() and path.read_text() for path in pids)))
    with pytest.raises(KeyboardInterrupt):
        list(here.each(tasks.slow, [(tmp_path, 1), (tmp_path, 2)]))
    assert until(lambda: not any(alive(int(path.read_text())) for path in pids))
    assert dict(here.each(tasks.square, [3])) == {0: 9}


def run(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A program of its own that finds the tests' tasks by its path alone."""
    head = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfolder = Path({str(cwd)!r})\n"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", head + script],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | env,
    )


def test_a_cluster_started_here_is_silent_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = """
import os, subprocess, time
from tests.work import tasks
from vario.work import pool
def children():
    return subprocess.run(["ps", "-ww", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
work = pool(2, "local").each(tasks.once_killed, [(folder, n) for n in range(8)])
results = [next(work) for _ in range(8)]
time.sleep(1)  # for news to arrive, should any be printed
import ray
print(ray.cluster_resources()["CPU"], "gcs_server" in children())
print(sorted(results), list(work), ray.is_initialized(), "ray" in children())
"""
    with short_folder() as folder:
        done = run(script, tmp_path, RAY_TMPDIR=str(folder))
        dashboard = (folder / "ray" / "session_latest" / "logs" / "dashboard.log").read_text()
    assert done.stderr == ""
    assert done.stdout == f"2.0 True\n{[(n, n * n) for n in range(8)]} [] False False\n"
    assert "Usage reporting is disabled" in dashboard


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for free in (first, second):
            free.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(*arguments: str, env: dict[str, str]) -> Iterator[None]:
    """A node of a cluster as an administrator starts it, and its end with all that belongs to it."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--object-store-memory=80000000"]
    with tempfile.NamedTemporaryFile("w") as log:

        def said() -> str:
            return Path(log.name).read_text()

        node = subprocess.Popen([*command, *arguments], env=os.environ | env, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: "Ray runtime started" in said() or node.poll() is not None, 30)
            assert "Ray runtime started" in said()
            yield
        finally:
            belonging = descendants(node.pid)
            node.terminate()
            with suppress(subprocess.TimeoutExpired):
                node.wait(10)
            for pid in [node.pid, *belonging]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait()


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, str]]:
    """A cluster that somebody else started on this machine: its address, and what it takes to connect."""
    port, client_port = free_ports()
    head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={client_port}"]
    with short_folder() as folder:
        access = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "a-token-of-these-tests-and-of-nothing-else",
            "RAY_TMPDIR": str(folder),
            "ADDRESS": f"127.0.0.1:{port}",
        }
        with started(*head, "--num-cpus=1", "--include-dashboard=false", "--disable-usage-stats", env=access):
            yield access


def test_a_cluster_seen_through_its_client_port(running: dict[str, str], tmp_path: Path) -> None:
    """The head has such a port too, but starts a server for each caller, and on a busy machine often gives up on it."""
    port, _ = free_ports()
    serve = ["--mode=legacy", "--host=127.0.0.1", f"--port={port}", f"--address={running['ADDRESS']}"]
    script = f"""
from tests.work import tasks
from vario.work.ray_cluster import Cluster
print(sorted(Cluster("ray://127.0.0.1:{port}").each(tasks.always_killed, [(folder, n) for n in range(8)])))
"""
    server = subprocess.Popen(
        [sys.executable, "-m", "ray.util.client.server", *serve],
        env=os.environ | running,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: listens(port), 30)
        done = run(script, tmp_path, **running)
    finally:
        server.kill()
        server.wait()
    killed = Lost("its worker process was killed or crashed, 3 times out of 3")
    assert done.stderr == ""
    assert done.stdout == f"{[(n, killed if n == 3 else n * n) for n in range(8)]}\n"


def test_a_cluster_without_vario(running: dict[str, str], tmp_path: Path) -> None:
    """On its machines there is another vario, which cannot be imported."""
    (tmp_path / "there" / "vario").mkdir(parents=True)
    (tmp_path / "there" / "vario" / "__init__.py").write_text("raise ImportError('no vario here')")
    script = """
import os, ray
from tests.work import tasks
from vario.work.ray_cluster import Cluster
from vario.errors import ConfigError
there = {"env_vars": {"PYTHONPATH": str(folder / "there")}}
ray.init(os.environ["ADDRESS"], log_to_driver=False, logging_level="error", runtime_env=there)
try:
    print(list(Cluster("auto").each(tasks.square, [1, 2, 3])))
except ConfigError as error:
    print(error)
"""
    done = run(script, tmp_path, **running)
    said = r"vario cannot be imported on .*no vario here.*: install it on each of its machines\n"
    assert done.stderr == ""
    assert re.fullmatch(said, done.stdout)


def test_a_cluster_that_runs_already_and_loses_a_machine_in_the_middle(running: dict[str, str], tmp_path: Path) -> None:
    script = """
import os
from tests.work import tasks
from vario.work.ray_cluster import Cluster
print(sorted(Cluster(os.environ["ADDRESS"]).each(tasks.lose_the_machine, [(folder, n) for n in range(40)])))
print(os.environ["RAY_USAGE_STATS_ENABLED"])
"""
    with started(f"--address={running['ADDRESS']}", "--num-cpus=1", env=running | {"TO_BE_LOST": "1"}):
        done = run(script, tmp_path, **running, RAY_USAGE_STATS_ENABLED="1")
    assert (tmp_path / "lost").exists()
    assert done.stderr == ""
    assert done.stdout == f"{[(n, n) for n in range(40)]}\n0\n"
    assert max(tasks.times(tmp_path).values()) == 2


def test_the_pool_knows_a_cluster() -> None:
    assert pool(None, "") == Cluster("")
    assert pool(3, "ray://host:10001") == Cluster("ray://host:10001", 3)
