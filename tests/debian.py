"""Programs that some tests need and that Debian packages, installed where this machine is there for tests alone."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
TRIES, PAUSE, SECONDS = 4, 5.0, 400
"""Something else may be installing packages: apt-get then says at once that it cannot."""


class Unavailable(Exception):
    """What a test needs is not here, and why."""


def brought(find: Callable[[], Found | None], *packages: str, told: str) -> Found:
    """What `find` finds, with Debian's packages where it finds nothing yet.

    Args:
        find: looks for it. packages: bring it. told: what it is, and how else it is had.

    Raises:
        Unavailable: it cannot be had.
    """
    found = find()
    if found is not None:
        return found
    if not os.environ.get("CI") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"no {told}; `apt-get install {packages[0]}` brings it")
    with (Path(tempfile.gettempdir()) / f"vario-packages-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process installs it, the others find it
        found = find()
        why = "" if found is not None else _installed(packages)
    found = find()
    if found is None:
        raise Unavailable(f"apt-get brought no {told}: {why}")
    return found


def _installed(packages: tuple[str, ...]) -> str:
    """Install them; gives what apt-get complained of."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    why = ""
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        for _ in range(TRIES):
            try:
                done = subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"`{' '.join(command)}` took too long") from None
            why = done.stderr[-300:].decode(errors="replace")
            if done.returncode == 0 or "lock" not in why:
                break
            time.sleep(PAUSE)
    return why
