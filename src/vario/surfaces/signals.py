"""Commands that go on until somebody ends them: what the signals for that mean meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function called where somebody ends it; afterwards the signals mean what they meant."""
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)
