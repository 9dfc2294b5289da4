"""A real Chromium without a window, for as long as the tests of a file run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TRIES, PAUSE = 4, 5.0
"""Another test may be installing something else: apt-get then says at once that it cannot."""


class Unavailable(Exception):
    """There is no browser here, and why."""


def executable() -> str:
    """Where the browser lies. Raises Unavailable where it cannot be had."""
    found = _found()
    if found is None:
        with (Path(tempfile.gettempdir()) / f"vario-chromium-{os.geteuid()}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process installs it, the others find it
            found = _found() or _installed()
    return found


def _found() -> str | None:
    named = os.environ.get("VARIO_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str:
    """From Debian's package, where this machine is there for tests alone."""
    if not os.environ.get("CI") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable("no Chromium here; `apt-get install chromium` brings it, VARIO_CHROMIUM names another one")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    why = ""
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        for _ in range(TRIES):
            try:
                done = subprocess.run(command, env=environment, capture_output=True, timeout=400, check=False)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"`{' '.join(command)}` took too long") from None
            why = done.stderr[-300:].decode(errors="replace")
            if done.returncode == 0 or "lock" not in why:
                break
            time.sleep(PAUSE)
    found = _found()
    if found is None:
        raise Unavailable(f"apt-get brought no Chromium: {why}")
    return found
