"""How far a fleet is, on standard error: a bar where rich is installed and somebody watches, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY = 3.0
"""Seconds between plain lines on a terminal."""
PARTS = 10
"""In a file, lines at so many equal parts of the whole."""


class Progress(Protocol):
    """What is told of each job that is done."""

    def __call__(self, name: str) -> None:
        """One more, of that name."""
        ...


@contextmanager
def progress(total: int, *, quiet: bool, done: int = 0) -> Iterator[Progress]:
    """The way that fits standard error."""
    if quiet or total == done:
        yield lambda name: None  # noqa: ARG005
        return
    if not sys.stderr.isatty():
        yield _Lines(total, done)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield _Lines(total, done, every=EVERY)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done, name="")
        yield lambda name: bar.update(task, advance=1, name=name)


class _Lines:
    """`37/300 NAME`, now and then."""

    def __init__(self, total: int, done: int, every: float | None = None) -> None:
        self.total, self.done, self.every = total, done, every
        self.begun = self.last = time.monotonic()
        self.fresh = 0

    def __call__(self, name: str) -> None:
        self.done += 1
        self.fresh += 1
        now = time.monotonic()
        if self.every is None:
            told = self.done * PARTS // self.total > (self.done - 1) * PARTS // self.total
        else:
            told = now - self.last >= self.every or self.done == self.total
        if told:
            self.last = now
            left = (now - self.begun) / self.fresh * (self.total - self.done)
            print(f"{self.done}/{self.total} {name}, about {left:.0f} s left", file=sys.stderr, flush=True)
