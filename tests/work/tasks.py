"""Tasks that workers import: items are numbers, or numbers with the folder where the test can see what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

Item = tuple[Path, int]


def square(item: int) -> int:
    return item * item


def square_or_raise(item: int) -> int:
    if item % 3 == 0:
        raise ValueError(f"{item} is divisible by three")
    return item * item


def once_killed(item: Item) -> int:
    """The third kills its worker the first time, the fifth too, by leaving in an orderly way."""
    folder, number = item
    _note(folder, number)
    if number in (3, 5) and _times(folder, number) == 1:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)
    return number * number


def always_killed(item: Item) -> int:
    folder, number = item
    _note(folder, number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def wait_to_be_killed(item: Item) -> int:
    """The second waits for somebody to kill it, the first time."""
    folder, number = item
    _note(folder, number)
    if number == 2 and _times(folder, number) == 1:
        (folder / "pid").write_text(str(os.getpid()))
        (folder / "pid").rename(folder / "victim")
        time.sleep(60)
    return number * number


def slow(item: Item) -> int:
    """Leaves its process id, then takes as long as an impatient user would not wait."""
    folder, number = item
    (folder / f"pid-{number}").write_text(str(os.getpid()))
    if number:
        time.sleep(60)
    return number


def slow_with_a_child(item: Item) -> int:
    """A program that the task has started, such as a download, goes on for long."""
    folder, _ = item
    child = subprocess.Popen(["sleep", "60"])
    (folder / "pid").write_text(str(child.pid))
    return child.wait()


def large(megabytes: int) -> bytes:
    return bytes([megabytes]) * (megabytes * 1_000_000)


def talk(item: int) -> int:
    """Prints, as a library may, and has a program print."""
    print("from the task")
    subprocess.run([sys.executable, "-c", "print('from a program')"], check=True)
    return item


def threads_of_polars(_: int) -> int:
    import polars

    return polars.thread_pool_size()


def _note(folder: Path, number: int) -> None:
    with (folder / str(number)).open("a") as file:
        file.write("x")


def _times(folder: Path, number: int) -> int:
    return (folder / str(number)).stat().st_size


def times(folder: Path) -> dict[int, int]:
    """How often each item was begun."""
    return {int(path.name): path.stat().st_size for path in folder.iterdir() if path.name.isdigit()}


class Stubborn:
    """Cannot be sent."""

    def __reduce__(self) -> str:
        raise TypeError("stays where it is")


class Brittle:
    """Can be sent, but does not survive the way."""

    def __reduce__(self) -> tuple[object, ...]:
        return _break, ()


def _break() -> None:
    raise ValueError("broke on the way")


def give_back(item: object) -> object:
    """Numbers as they are; a word for something that is hard to send."""
    return {"stubborn": Stubborn, "brittle": Brittle}[item]() if isinstance(item, str) else item


def give_up(item: int) -> int:
    if item == 1:
        sys.exit(4)
    return item


def leave_a_child_behind(item: Item) -> int:
    """Its forked child goes on with the pipe in its hands when the worker is gone."""
    folder, number = item
    if number == 1:
        child = os.fork()
        if child == 0:
            time.sleep(60)
        with (folder / "children").open("a") as file:
            file.write(f"{child}\n")
        os._exit(1)
    return number


def begin(item: Item) -> int:
    folder, number = item
    _note(folder, number)
    return number


def lose_the_machine(item: Item) -> int:
    """The first to run on the machine that is marked takes it down: the parent of a worker is what runs a node."""
    folder, number = item
    _note(folder, number)
    if os.environ.get("TO_BE_LOST") and not (folder / "lost").exists():
        (folder / "lost").touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    time.sleep(0.05)
    return number
