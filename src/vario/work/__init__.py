"""How pieces of work are spread: one after another, over processes, or over a Ray cluster.

Whichever is chosen, the same holds: every item comes back exactly once, with its index and its result, as soon as it is
done; an item whose work fails comes back as `Lost`, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from vario.errors import VarioError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Lost:
    """An item whose work could not be done."""

    reason: str
    """What happened, in words a user understands."""


class Work(Protocol):
    """A way to have a task done for many items."""

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Lost]]:
        """Index and result of each item, as they finish, in any order; never raises because of one item.

        Beyond one process the task is a function of a module that can be imported, and items and results are picklable.
        """
        ...


class Serial:
    """One after another, in this process."""

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Lost]]:
        """Index and result of each item, in their order."""
        for index in range(len(items)):
            yield index, attempt(task, items[index])


def pool(workers: int | None, ray: str | None) -> Work:
    """The way that was asked for; `ray` is the address of a cluster, where "" is one that Ray finds by itself."""
    if ray is not None:
        from vario.work.ray_cluster import Cluster

        return Cluster(ray, workers)
    if workers is None or workers == 1:
        return Serial()
    from vario.work.processes import Processes

    return Processes(workers)


def attempt(task: Callable[[T], R], item: T) -> R | Lost:
    """The result of one item, or why there is none."""
    try:
        return task(item)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of polars is no Exception
        return Lost(in_words(error))


def in_words(error: BaseException) -> str:
    """An error as a user can read it: our own messages as they are, others with their kind."""
    if isinstance(error, VarioError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory {error}".rstrip()
    return f"{type(error).__name__}: {error}".removesuffix(": ")
