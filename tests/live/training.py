"""A training with a monitor, in a process of its own: what is done to it leaves the tests alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which what a test waits for counts as never coming; on an idle machine it takes one or two."""
BEGIN = """
import logging, os, signal, sys, time
import vario
logging.basicConfig(format="%(message)s", stream=sys.stderr)

def rows(monitor, first, last, **options):
    for step in range(first, last + 1):
        monitor.log(step, {"reward": 0.3 + step / 1000 + step % 7 / 50, "kl": 0.01 + step % 5 / 1000}, **options)

def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
"""


def program(code: str) -> list[str]:
    """The command that runs a training."""
    return [sys.executable, "-W", "error", "-c", BEGIN + textwrap.dedent(code)]


def train(code: str, folder: Path, *, ends: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run a training to its end, in a folder; it must end with that code, and leave nothing unclosed.

    Its streams are files: children that outlive it may hold them.
    """
    with (folder / "stdout").open("w+") as out, (folder / "stderr").open("w+") as err:
        code_of = subprocess.run(
            program(code), cwd=folder, stdout=out, stderr=err, timeout=PATIENCE, check=False
        ).returncode
    done = subprocess.CompletedProcess(code, code_of, (folder / "stdout").read_text(), (folder / "stderr").read_text())
    assert ends is None or done.returncode == ends, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr  # what the interpreter says of streams and children left
    return done


def until(condition: Callable[[], object]) -> None:
    """Wait for something that will come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
