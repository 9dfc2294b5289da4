"""The ledger of one run, behind which a store may fail: then this process remembers, and the store is told later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, TypeVar

from vario.surfaces.alerts.ledger import Ledger, MemoryLedger, Pending

T = TypeVar("T")
UNKEPT = "what was sent could not be written down ({}); after a restart an alert may be repeated"


class _Told(TypedDict):
    """What is written down with a claim."""

    subject: str
    payload: str
    lease: float


class Books:
    """Claims, deliveries and silences of one run; no call raises.

    Everything is kept in memory beside the store, so that a store that fails neither doubles nor loses an alert in this
    process. Deliveries that could not be written down are written by `catch_up`.

    Args:
        ledger: the store; None: there is none.
        run: the run as the store knows it.
        by: this watcher, by a name that no other has.
        tell: takes a sentence about what failed.
    """

    def __init__(self, ledger: Ledger | None, run: str, by: str, tell: Callable[[str], None]) -> None:
        self.run = run
        self.by = by
        self._store = ledger
        self._memory = ledger if isinstance(ledger, MemoryLedger) else MemoryLedger()
        self._tell = tell
        self._unwritten: dict[str, float] = {}

    @property
    def lasting(self) -> bool:
        """Whether what is kept here outlives the process."""
        return self._store is not None and self._store is not self._memory

    def claim(self, key: str, now: float, subject: str, payload: str, lease: float) -> bool:
        """Whether this watcher is the one to send it; where the store cannot say, it is."""
        if key in self._unwritten:
            return False
        told = _Told(subject=subject, payload=payload, lease=lease)
        if not self.lasting:
            return self._memory.claim(self.run, key, now, self.by, **told)
        mine = self._ask(lambda s: s.claim(self.run, key, now, self.by, **told), None)
        if mine is None:
            return self._memory.claim(self.run, key, now, self.by, **told)
        if mine:
            self._memory.claim(self.run, key, now, self.by, **told)
        return mine

    def sent(self, key: str, now: float) -> None:
        """It was delivered."""
        self._memory.sent(self.run, key, now)
        if self.lasting and not self._write_sent(key, now):
            self._unwritten[key] = now

    def failed(self, key: str, now: float, error: str) -> None:
        """It was not delivered; another watcher may try."""
        self._memory.failed(self.run, key, now, self.by, error)
        if self.lasting:
            self._ask(lambda s: s.failed(self.run, key, now, self.by, error), None)

    def unsent(self, now: float) -> Sequence[Pending]:
        """Alerts that anybody may send."""
        nothing: Sequence[Pending] = ()
        return self._ask(lambda s: s.unsent(self.run, now), nothing)

    def last_sent(self, subject: str) -> float | None:
        """When an alert about the subject was sent last, by anybody."""
        return self._ask(lambda s: s.last_sent(self.run, subject), None)

    def silenced(self, now: float) -> set[str]:
        """Subjects of which nothing is to be sent."""
        nothing: set[str] = set()
        return self._ask(lambda s: {*s.acknowledged(self.run, now), *s.muted(self.run, now)}, nothing)

    def catch_up(self) -> None:
        """Write down what could not be written before."""
        for key, at in list(self._unwritten.items()):
            if not self._write_sent(key, at):
                return
            del self._unwritten[key]

    def _write_sent(self, key: str, at: float) -> bool:
        def write(store: Ledger) -> bool:
            store.sent(self.run, key, at)
            return True

        return self._ask(write, False)

    def _ask(self, question: Callable[[Ledger], T], otherwise: T) -> T:
        try:
            return question(self._store if self._store is not None else self._memory)
        except Exception as error:  # a store may fail in any way; alerts go out all the same
            self._tell(UNKEPT.format(type(error).__name__))
            return otherwise
