"""What waits for one channel: a thread that sends what is due, again and again where it fails, and keeps up no other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field, replace

from vario.surfaces.alerts.books import Books
from vario.surfaces.alerts.channels.base import Channel, ChannelError
from vario.surfaces.alerts.digest import digest, late_note
from vario.surfaces.alerts.ledger import SKEW
from vario.surfaces.alerts.message import Alert

ASLEEP = 60.0
"""Seconds that a thread sleeps at the most: a clock that was set, or a machine that slept, is noticed that soon."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and after which seconds, a message that was not delivered is tried again: about an hour in all."""

    first: float = 5.0
    longest: float = 900.0
    attempts: int = 11

    def pause(self, attempts: int, chance: float) -> float:
        """Seconds after so many attempts; `chance`, from 0 to 1, keeps watchers from coming all at once."""
        pause: float = min(self.longest, self.first * 2.0 ** (attempts - 1))
        return pause * (0.8 + 0.4 * chance)


@dataclass(eq=False, slots=True)
class Letter:
    """An alert on its way through one channel.

    Attributes:
        alert: what it says. key: by which this channel's delivery is known in the books.
        due: when it is to be sent, by the steady clock. gathered: it may go together with others.
        claimed_at, lease: what the books were told, by the wall clock; `claimed_at` is None while nobody holds it.
        attempts: how often it was tried.
    """

    alert: Alert
    key: str
    subject: str
    payload: str
    books: Books
    due: float
    gathered: bool = False
    claimed_at: float | None = None
    lease: float = 0.0
    attempts: int = 0
    context: Context | None = field(default=None, repr=False)

    def claim(self, now: float, lease: float) -> bool:
        """Make it ours; False where it was sent, or somebody else sends it."""
        if not self.books.claim(self.key, now, self.subject, self.payload, lease):
            return False
        self.claimed_at, self.lease = now, lease
        return True

    def held(self, now: float) -> bool:
        """Whether it is still ours."""
        at = self.claimed_at
        return at is not None and at - SKEW <= now < at + self.lease


class Outbox:
    """Sends the letters of one channel.

    Args:
        channel: by which they go.
        changed: the condition that guards every outbox and the dispatcher.
        clock: seconds since 1970. steady: seconds that no clock setting moves.
        waits: seconds for which quiet hours hold an alert back.
        tell: takes a sentence about what failed.
        gave_up: takes a letter that is not tried again.
    """

    def __init__(
        self,
        channel: Channel,
        changed: threading.Condition,
        clock: Callable[[], float],
        steady: Callable[[], float],
        waits: Callable[[Alert], float],
        tell: Callable[[str], None],
        retry: Retry,
        lease: float,
    ) -> None:
        self.channel = channel
        self.letters: list[Letter] = []
        self.given_up: set[tuple[Books, str]] = set()
        self._changed = changed
        self._clock, self._steady = clock, steady
        self._waits, self._tell = waits, tell
        self._retry, self._lease = retry, lease
        self._chance = random.Random()
        self._sending: list[Letter] = []
        self._stopped = False
        self._thread: threading.Thread | None = None

    def holds(self, books: Books, key: str) -> bool:
        """Whether a letter of this run and key waits or is under way; the condition is held."""
        return any(x.key == key and x.books is books for x in (*self.letters, *self._sending))

    def put(self, letters: Iterable[Letter]) -> None:
        """Take letters to be sent; the condition is held."""
        self.letters += letters
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"vario-{self.channel.name}", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def busy(self) -> bool:
        """Whether something is due or under way; the condition is held."""
        return bool(self._sending) or any(letter.due <= self._steady() for letter in self.letters)

    def gathering(self) -> float | None:
        """When the message that is being gathered is due; the condition is held."""
        return min((letter.due for letter in self.letters if letter.gathered and not letter.attempts), default=None)

    def stop(self) -> list[Letter]:
        """End the thread after what is under way; gives what is left. The condition is held."""
        self._stopped = True
        self._changed.notify_all()
        return [*self.letters, *self._sending]

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (due := self._due()):
                    if self._stopped:
                        return
                    first = min((letter.due for letter in self.letters), default=None)
                    wait = ASLEEP if first is None else min(ASLEEP, first - self._steady())
                    self._changed.wait(max(0.0, wait))
                self._sending = due
            try:
                self._send_all(due)
            except Exception as error:  # the thread outlives whatever happens: the letters are tried again
                self._tell(f"{self.channel.name}: {type(error).__name__}")
                for letter in due:
                    self._again(letter, type(error).__name__)
            finally:
                with self._changed:
                    self._sending = []
                    self._changed.notify_all()

    def _due(self) -> list[Letter]:
        """Take out what is to be sent now; what quiet hours hold back is looked at again soon."""
        now = self._steady()
        due = []
        for letter in self.letters:
            if letter.due <= now:
                wait = self._waits(letter.alert)
                if wait > 0.0:
                    letter.due, letter.gathered = now + min(wait, ASLEEP), True
                    self._changed.notify_all()  # whoever waits for what is due need not
                else:
                    due.append(letter)
        if any(letter.gathered for letter in due):
            # one message for all that were gathered, though some would be due later
            fresh = [x for x in self.letters if x.gathered and not x.attempts and x not in due]
            due += [x for x in fresh if not self._waits(x.alert)]
        self.letters = [letter for letter in self.letters if letter not in due]
        return due

    def _send_all(self, due: list[Letter]) -> None:
        together = [letter for letter in due if letter.gathered]
        alone = [[letter] for letter in due if not letter.gathered]
        for letters in (*alone, together):
            # a claim that has run out may be another's by now
            ours = [x for x in letters if x.held(self._clock()) or x.claim(self._clock(), self._lease)]
            # somebody may have said meanwhile that they know
            silenced = {books: books.silenced(self._clock()) for books in {x.books for x in ours}}
            for letter in ours:
                if letter.alert.subject in silenced[letter.books]:
                    letter.books.sent(letter.key, self._clock())
            if wanted := [x for x in ours if x.alert.subject not in silenced[x.books]]:
                self._send(wanted)

    def _send(self, letters: list[Letter]) -> None:
        alert = letters[0].alert if len(letters) == 1 else digest([x.alert for x in letters])
        late = late_note(alert, self._clock())
        if late:
            alert = replace(alert, body=late + alert.body)
        context = next((x.context for x in reversed(letters) if x.context is not None), None)
        try:
            if context is None:
                self.channel.send(alert)
            else:
                context.copy().run(self.channel.send, alert)
        except Exception as error:  # a channel raises ChannelError; whatever else a plug-in does is no better
            reason = str(error) if isinstance(error, ChannelError) else type(error).__name__
            for letter in letters:
                self._again(letter, reason)
            return
        for letter in letters:
            letter.books.sent(letter.key, self._clock())

    def _again(self, letter: Letter, reason: str) -> None:
        """Try it later, or give it up for this process."""
        letter.attempts += 1
        letter.claimed_at = None
        letter.books.failed(letter.key, self._clock(), reason)
        last = letter.attempts >= self._retry.attempts
        after = f"given up after {letter.attempts} attempts" if last else "it is tried again"
        self._tell(f"an alert was not delivered by {self.channel.name}: {reason}; {after}")
        with self._changed:
            if last:
                self.given_up.add((letter.books, letter.key))
                return
            letter.due = self._steady() + self._retry.pause(letter.attempts, self._chance.random())
            self.letters.append(letter)
