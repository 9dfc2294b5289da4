"""A real MLflow tracking server on loopback, for the tests that read from it, write to it or follow it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

QUIET = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}


@contextmanager
def tracking_server(folder: Path, *more: str) -> Iterator[str]:
    """Its address; the database is `mlflow.db` in the folder, made where there is none.

    Args:
        more: further words of its command line.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--host", "127.0.0.1",
               "--port", str(port), "--workers", "1", *more]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **QUIET}, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                with urlopen(f"{url}/health", timeout=1):
                    break
            except (URLError, OSError):
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                time.sleep(0.1)
        else:
            pytest.fail((folder / "log").read_text()[-2000:])
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(20)
