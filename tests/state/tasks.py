"""What other processes do to a state."""

from __future__ import annotations

import os
from threading import Barrier
from typing import Any

from vario.surfaces.state import State

TOGETHER = 30.0
"""Seconds after which a process that waits for the other gives up."""
STRETCH = 5
_barrier: Barrier | None = None


def begin(barrier: Any) -> None:
    global _barrier
    _barrier = barrier


def together() -> None:
    """Wait for the other process."""
    assert _barrier is not None
    _barrier.wait(TOGETHER)


def claim_all(place: str, run: str, count: int) -> list[str]:
    """The keys that this process, of two, was given to send."""
    mine = []
    with State.open(place) as state:
        for number in range(count):
            if number % STRETCH == 0:
                together()  # else one would run ahead, and the other find everything done
            key = f"opened:finding-{number}"
            if state.claim(run, key, 100.0, str(os.getpid()), subject=f"finding-{number}", payload="{}"):
                state.sent(run, key, 101.0)
                mine.append(key)
    return mine


def open_all(places: list[str]) -> int:
    """How many places could be opened, at the same time as the other process, and written to."""
    for number, place in enumerate(places):
        together()
        with State.open(place) as state:
            state.count("run", "opened", float(number))
    return len(places)
