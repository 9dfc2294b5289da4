"""A call that is waited for no longer than so many seconds. What hangs is left behind, and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from vario.surfaces.alerts.channels.base import ChannelError

HANGING = 3
"""Calls of one channel that may hang at a time; each holds a thread and a connection."""
KEYS = 256
"""Calls whose outcome is still of interest."""


@dataclass(eq=False)
class _Call:
    """One call in a thread of its own; `error` is what it raised."""

    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def run(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:  # it is raised again where somebody waits
            self.error = error
        finally:
            self.done.set()


class Bounded:
    """Calls a function that may hang, and gives it up after `seconds`.

    A call that was given up and ended well after all counts when its key is called again: what was delivered late is
    not delivered twice.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._late: dict[str, list[_Call]] = {}

    @property
    def hanging(self) -> int:
        """Calls that were given up and have not ended."""
        return sum(not call.done.is_set() for calls in self._late.values() for call in calls)

    def call(self, key: str, function: Callable[[], None]) -> None:
        """Call it, unless an earlier call of this key has ended well.

        Raises:
            ChannelError: it takes longer than `seconds`, or too many calls hang. Exception: whatever it raises.
        """
        if any(call.done.is_set() and call.error is None for call in self._late.get(key, ())):
            del self._late[key]
            return
        if self.hanging >= HANGING:
            raise ChannelError(f"{self.hanging} earlier messages still hang; no further one is begun")
        call = _Call()
        threading.Thread(target=call.run, args=(function,), name="vario-send", daemon=True).start()
        if not call.done.wait(self.seconds):
            self._late.setdefault(key, []).append(call)
            self._forget()
            raise ChannelError(f"did not answer within {self.seconds:g} s")
        if call.error is not None:
            raise call.error
        self._late.pop(key, None)

    def _forget(self) -> None:
        """Keep the outcomes of the latest keys, and every call that hangs."""
        ended = [k for k, calls in self._late.items() if all(c.done.is_set() for c in calls)]
        for key in ended[: max(0, len(self._late) - KEYS)]:
            del self._late[key]
