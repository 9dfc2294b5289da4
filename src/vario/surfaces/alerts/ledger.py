"""What alerts ask of the state that survives restarts, and the same without a store."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

LEASE = 300.0
"""Seconds for which an alert is ours to send: longer than a queue of slow services takes; then another watcher may."""
SKEW = 600.0
"""Seconds by which a claim may lie ahead of the clock and still hold: clocks of machines differ by less."""
KEPT = 10_000
"""Alerts that are remembered without a store: their keys weigh 2 MB."""


class Pending(Protocol):
    """An alert that was claimed and never sent."""

    @property
    def key(self) -> str:
        """What it is deduplicated by."""

    @property
    def payload(self) -> str:
        """What was given with the claim."""

    @property
    def attempts(self) -> int:
        """How often it was claimed."""


class Ledger(Protocol):
    """Who sends what, and what people want to hear no more of; `vario.surfaces.state.State` is one.

    `run` is the run as the store knows it, `now` in seconds since 1970, `by` a name that no other watcher has. Each may
    raise when the store fails.
    """

    def claim(
        self, run: str, key: str, now: float, by: str, *, subject: str, payload: str, lease: float = LEASE
    ) -> bool:
        """Whether this watcher is the one to send an alert, for `lease` seconds; nobody is, once it was sent."""

    def sent(self, run: str, key: str, now: float) -> None:
        """It was sent: nobody sends it again."""

    def failed(self, run: str, key: str, now: float, by: str, error: str) -> None:
        """It was not sent, and anybody may try."""

    def unsent(self, run: str, now: float) -> Sequence[Pending]:
        """Alerts that failed, or whose lease is over."""

    def last_sent(self, run: str, subject: str) -> float | None:
        """When an alert about this subject was sent last."""

    def acknowledged(self, run: str, now: float) -> Mapping[str, object]:
        """Subjects that somebody knows of."""

    def muted(self, run: str, now: float) -> Mapping[str, object]:
        """Subjects that nobody wants to hear of."""


@dataclass(slots=True)
class _Claim:
    key: str
    subject: str
    payload: str
    by: str | None
    at: float
    lease: float
    attempts: int = 1
    sent_at: float | None = None

    def free(self, now: float) -> bool:
        return self.sent_at is None and (self.by is None or not self.at - SKEW <= now < self.at + self.lease)


class MemoryLedger:
    """The ledger of one process, where no store can be opened: a restart may repeat an alert, and forgets what waited."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], _Claim] = {}
        self._lock = threading.Lock()

    def claim(
        self, run: str, key: str, now: float, by: str, *, subject: str, payload: str, lease: float = LEASE
    ) -> bool:
        """As in `Ledger`."""
        with self._lock:
            known = self._claims.get((run, key))
            if known is not None and not known.free(now):
                return False
            attempts = 1 if known is None else known.attempts + 1
            self._claims[run, key] = _Claim(key, subject, payload, by, now, lease, attempts)
            while len(self._claims) > KEPT:
                del self._claims[next(iter(self._claims))]
            return True

    def sent(self, run: str, key: str, now: float) -> None:
        """As in `Ledger`."""
        with self._lock:
            if (known := self._claims.get((run, key))) is not None and known.sent_at is None:
                known.sent_at, known.payload = now, ""

    def failed(self, run: str, key: str, now: float, by: str, error: str) -> None:  # noqa: ARG002
        """As in `Ledger`."""
        with self._lock:
            known = self._claims.get((run, key))
            if known is not None and known.sent_at is None and known.by == by:
                known.by, known.at = None, now

    def unsent(self, run: str, now: float) -> Sequence[Pending]:
        """As in `Ledger`."""
        with self._lock:
            return [c for (of, _), c in self._claims.items() if of == run and c.free(now)]

    def last_sent(self, run: str, subject: str) -> float | None:
        """As in `Ledger`."""
        with self._lock:
            times = [
                c.sent_at
                for (of, _), c in self._claims.items()
                if of == run and c.subject == subject and c.sent_at is not None
            ]
        return max(times, default=None)

    def acknowledged(self, run: str, now: float) -> Mapping[str, object]:  # noqa: ARG002
        """Nothing: there is nowhere to say it."""
        return {}

    def muted(self, run: str, now: float) -> Mapping[str, object]:  # noqa: ARG002
        """Nothing: there is nowhere to say it."""
        return {}
