"""A cluster that cannot be had is said in seconds, in words, and without waiting for Ray to give up."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.work import tasks
from vario.errors import ConfigError
from vario.work import ray_cluster
from vario.work.ray_cluster import Cluster

SECONDS = 4.0
"""More than it takes to import Ray; much less than the minutes for which it waits by itself."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_cluster, "PATIENCE", 1.0)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def closed() -> int:
    """A port where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody takes the call and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@pytest.fixture
def website() -> Iterator[int]:
    """A port such as that of Ray's own dashboard, which is easily taken for the cluster's."""
    server = HTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def refusal(address: str) -> str:
    """What a user reads who asks for that cluster."""
    began = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        list(Cluster(address).each(tasks.square, [1]))
    assert time.monotonic() - began < SECONDS
    return str(caught.value)


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_nobody_listens(form: str, closed: int) -> None:
    address = form.format(closed)
    said = refusal(address)
    assert said.startswith(f"no Ray cluster answers at {address} (")
    assert "Connection refused): give host:port" in said


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_somebody_listens_and_says_nothing(form: str, silent: int) -> None:
    address = form.format(silent)
    assert refusal(address).startswith(f"no Ray cluster answers at {address} (timed out): give host:port")


def test_what_listens_is_something_else(website: int) -> None:
    assert refusal(f"127.0.0.1:{website}").startswith(f"what answers at 127.0.0.1:{website} is no Ray cluster: give")


@pytest.mark.parametrize("address", ["head", "head:", "head:port", "ray://", ":6379", "ray://head:99999"])
def test_what_is_no_address(address: str) -> None:
    said = refusal(address)
    assert address in said
    assert "give host:port of the cluster's head" in said


@pytest.mark.parametrize("address", ["", "auto"])
def test_no_cluster_runs_here(address: str) -> None:
    assert "Could not find any running Ray instance" in refusal(address)


@pytest.mark.parametrize("address", ["", "auto"])
def test_the_cluster_that_ran_here_has_crashed(address: str, closed: int, tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{closed}")
    assert refusal(address).startswith(f"no Ray cluster answers at 127.0.0.1:{closed} (")


@pytest.mark.parametrize("address", ["", "auto"])
def test_a_process_of_a_cluster_that_is_gone(address: str, closed: int) -> None:
    """Ray takes the address from its command line, and keeps it in mind."""
    code = "import time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "raylet", f"--gcs-address=127.0.0.1:{closed}"]
    with subprocess.Popen(["bash", "-c", 'exec -a raylet "$@"', "bash", *command], stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        try:
            assert refusal(address).startswith(f"no Ray cluster answers at 127.0.0.1:{closed} (")
        finally:
            left.kill()
    assert "Could not find any running Ray instance" in refusal(address)


def test_the_address_of_the_environment(closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed}")
    assert refusal("auto").startswith(f"no Ray cluster answers at 127.0.0.1:{closed} (")


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refusal("auto").endswith("pip install 'vario[ray]'")


def test_no_workers() -> None:
    with pytest.raises(ConfigError, match="give 1 or more"):
        Cluster("auto", 0)
