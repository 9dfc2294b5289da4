"""From notices to messages: what is wanted is sent once, by whoever watches first, and nothing here holds anybody up."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import Protocol

from vario.surfaces.alerts.books import Books
from vario.surfaces.alerts.channels.base import Channel
from vario.surfaces.alerts.ledger import LEASE, Ledger
from vario.surfaces.alerts.message import Alert, alert_from, alert_of
from vario.surfaces.alerts.outbox import ASLEEP, Letter, Outbox, Retry
from vario.surfaces.alerts.policy import FIRST, AlertOptions
from vario.surfaces.live.notices import SEVERITIES, Kind, Notice
from vario.verdict import Diagnosis

WAITING = 1_000
"""Notices that wait for the thread; more are left out, and counted."""
OVERFLOW = "alerts were left out: more came than could be looked at"
TOLD_APART = 100
"""Kinds of failure that are told apart."""
MOST_CLAIMS = 100
"""Attempts, over all restarts, after which an alert is left alone: its channel is gone for good."""
LONGEST_KEY = 190
"""Characters of a key in the books; of longer ones the head is kept, and a digest of the whole."""
TROUBLES = (Kind.STALLED, Kind.LOST, Kind.DIED, Kind.ENDED)
"""What rows that come again put an end to."""
OVER = (Kind.RESOLVED, Kind.RESUMED)


class Watched(Protocol):
    """What the dispatcher needs of a run under watch."""

    @property
    def diagnosis(self) -> Diagnosis | None:
        """As it stands."""


@dataclass(slots=True)
class _Subject:
    """What was told of one subject of one run.

    Attributes:
        last: when an alert of it went out, by the steady clock; None: never. severity: of that alert.
        alerted: an alert of it stands; nobody was told that it is over.
        kind: of that alert. after: what it had passed at, where it has come back since.
    """

    last: float | None = None
    severity: str = "info"
    alerted: bool = False
    kind: str = ""
    after: str = ""


@dataclass(eq=False)
class _Run:
    """One run whose notices are told, and the alerts that wait for the end of their subject's cool-down."""

    books: Books
    subjects: dict[str, _Subject] = field(default_factory=dict)
    cooling: dict[str, tuple[float, Alert, list[tuple[Outbox, Letter]]]] = field(default_factory=dict)
    anew: bool = False


class Dispatcher:
    """Sends what the options want of the notices that are offered, through every channel, each alert once.

    `offer` takes microseconds and never raises; everything else happens in threads: one that decides, and one for each
    channel, so that a service that hangs holds up no other. What cannot be delivered is tried again for about an hour,
    and after a restart. Spans of time are measured by a clock that nobody sets; the hour of the day matters for quiet
    hours alone.

    Args:
        options: what is wanted.
        channels: where to.
        ledger: what was sent, for restarts and for others who watch the same run; None: this process remembers.
        clock: seconds since 1970. steady: seconds that no clock setting moves.
        told: takes each sentence about a failure once, from any thread; all are counted in `failures`.
        retry: how failures are tried again.
    """

    def __init__(
        self,
        options: AlertOptions,
        channels: Sequence[Channel],
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.time,
        *,
        steady: Callable[[], float] = time.monotonic,
        told: Callable[[str], None] = lambda _: None,
        retry: Retry | None = None,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._options = options
        self._ledger = ledger
        self._clock, self._steady = clock, steady
        self._told = told
        self._by = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._inbox: deque[Callable[[], None]] = deque()
        self._working = self._closing = self._stopped = self._overflown = False
        self._runs: dict[str, _Run] = {}
        self._thread: threading.Thread | None = None
        self._next_tick = steady()
        self._outboxes = [
            Outbox(c, self._changed, clock, steady, self._quiet, self._tell, retry or Retry(), LEASE) for c in channels
        ]
        self._in_trainer = any(c.here == "trainer" for c in channels)

    def begin(self, run: str, *, key: str | None = None, ledger: Ledger | None = None) -> None:
        """A run is watched from now on: what of its alerts was left unsent is sent.

        Args:
            run: its name in notices.
            key: what the ledger calls it; the name by default.
            ledger: its own, where it has one.
        """
        self._post(lambda: self._begin(run, key or run, ledger), always=True)

    def offer(self, notice: Notice, watched: Watched) -> None:
        """Take a notice; whether and when it is told is decided later."""
        diagnosis = watched.diagnosis
        # trackio knows its run by the context of the thread that trains
        context = copy_context() if self._in_trainer else None
        self._post(lambda: self._take(notice, diagnosis, context))

    def settle(self, timeout: float) -> bool:
        """Wait until what was offered is decided, and written down where it is to be sent; not until it is sent."""
        if self._idle():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._inbox and not self._working, timeout)

    def flush(self, timeout: float) -> bool:
        """Wait until everything that is due has been tried; False if that takes longer than `timeout` seconds."""
        if self._idle():
            return True
        deadline = time.monotonic() + timeout
        with self._changed:
            self._next_tick = self._steady()
            self._changed.notify_all()
            while self._inbox or self._working or self._ready() or any(o.busy() for o in self._outboxes):
                left = deadline - time.monotonic()
                if left <= 0.0:
                    return False
                self._changed.wait(min(left, ASLEEP))
        return True

    def close(self, timeout: float) -> bool:
        """Send what is gathered, try once more what failed, and end; False if something is left unsent.

        What quiet hours hold back is left to the next watcher, where the ledger outlives this process.
        """
        if self._idle():
            return True
        deadline = time.monotonic() + timeout
        self._post(self._hurry, always=True)
        self.flush(timeout)
        with self._changed:
            self._closing = self._stopped = True
            left = [letter for outbox in self._outboxes for letter in outbox.stop()]
            self._changed.notify_all()
        assert self._thread is not None
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if left:
            self._tell(f"{len(left)} alerts were left unsent at the end")
        return not left

    def _idle(self) -> bool:
        """Whether there is no thread to wait for: none was needed yet, it has ended, or this is a forked child."""
        return self._thread is None or self._stopped or self._pid != os.getpid()

    # what follows runs in the dispatcher's thread, but for _post and _tell

    def _post(self, work: Callable[[], None], *, always: bool = False) -> None:
        if self._pid != os.getpid():
            return  # a forked child has none of the threads
        with self._changed:
            if self._stopped:
                return
            if len(self._inbox) >= WAITING and not always:
                self._overflown = True
                self._count(OVERFLOW)
                return
            self._inbox.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="vario-alerts", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _tell(self, sentence: str) -> None:
        with self._changed:
            new = self._count(sentence)
        if new:
            self._show(sentence)

    def _show(self, sentence: str) -> None:
        try:
            self._told(sentence)
        except Exception:  # whoever listens must not stop the sending
            with self._changed:
                self._count("a failure could not be told")

    def _count(self, sentence: str) -> bool:
        known = sentence in self.failures
        self.failures[sentence if known or len(self.failures) < TOLD_APART else "other failures"] += 1
        return not known

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._inbox and not self._stopped and not self._ready():
                    ends = [end for run in self._runs.values() for end, _, _ in run.cooling.values()]
                    until = min([self._next_tick, *ends]) - self._steady()
                    self._changed.wait(min(ASLEEP, max(0.0, until)))
                if self._stopped:
                    return
                work = self._inbox.popleft() if self._inbox else self._tick
                self._working = True
            try:
                if self._overflown:
                    self._overflown = False
                    self._show(OVERFLOW)
                work()
            except Exception as error:  # the thread outlives whatever happens
                self._tell(f"an alert could not be made ({type(error).__name__}: {error})")
            finally:
                with self._changed:
                    self._working = False
                    self._changed.notify_all()

    def _ready(self) -> bool:
        """Whether there is something to do by the clock; the condition is held."""
        now = self._steady()
        return now >= self._next_tick or any(
            end <= now for r in self._runs.values() for end, _, _ in r.cooling.values()
        )

    def _tick(self) -> None:
        """What the clock brings: cool-downs that end, and what others left unsent."""
        now = self._steady()
        for run in self._runs.values():
            for subject in [s for s, (end, _, _) in run.cooling.items() if end <= now]:
                _, alert, letters = run.cooling[subject]
                self._release(letters, alert)
                self._note(run, alert)
                del run.cooling[subject]
        with self._changed:
            due = now >= self._next_tick
            if due:
                self._next_tick = now + ASLEEP
        if due:
            for run in self._runs.values():
                run.books.catch_up()
                if not self._closing:
                    self._adopt(run)

    def _begin(self, name: str, key: str, ledger: Ledger | None) -> None:
        if name in self._runs:
            return
        run = self._runs[name] = _Run(Books(ledger or self._ledger, key, self._by, self._tell))
        self._adopt(run)

    def _adopt(self, run: _Run) -> None:
        """Send what was claimed and never sent: before a restart, or by a watcher that is gone."""
        now = self._clock()
        for pending in run.books.unsent(now):
            if pending.attempts > MOST_CLAIMS:
                continue
            try:
                document = json.loads(pending.payload)
                alert, channel = alert_from(document["alert"]), document["channel"]
            except (ValueError, KeyError, TypeError):
                continue  # an older or a newer vario's
            for outbox in self._outboxes:
                with self._changed:
                    known = outbox.holds(run.books, pending.key) or (run.books, pending.key) in outbox.given_up
                cooling = {x.key for _, _, letters in run.cooling.values() for _, x in letters}
                if outbox.channel.id != channel or known or pending.key in cooling:
                    continue
                letter = Letter(
                    alert, pending.key, _subject_of(alert, outbox), pending.payload, run.books, self._steady()
                )
                if letter.claim(now, LEASE):
                    self._note(run, alert)
                    self._release([(outbox, letter)], alert)

    def _take(self, notice: Notice, diagnosis: Diagnosis | None, context: Context | None) -> None:
        if notice.run not in self._runs:
            self._begin(notice.run, notice.run, None)
        run = self._runs[notice.run]
        if notice.kind is Kind.REPLACED:
            self._forget(run)
        subject = self._subject(run, notice.subject)
        silenced = notice.subject in run.books.silenced(self._clock())
        ended = [subject] if notice.kind is Kind.RESOLVED else []
        if notice.kind is Kind.RESUMED:
            ended = [self._subject(run, k) for k in ("run-stalled", "training-died", *TROUBLES)]
        alerted = subject.alerted or any(s.alerted and s.kind in (*TROUBLES, "") for s in ended)
        wanted = not silenced and self._options.wants(notice, alerted=alerted)
        if notice.kind in OVER:
            for s in ended:
                s.alerted = False
        if notice.kind is Kind.RESOLVED:
            self._cancel(run, notice.subject)
        if wanted:
            self._tell_of(run, notice, diagnosis, context)
        if notice.kind is Kind.RESOLVED:
            finding = notice.finding
            until = notice.step if finding is None or finding.until is None else finding.until
            subject.after = f"{until}"

    def _tell_of(self, run: _Run, notice: Notice, diagnosis: Diagnosis | None, context: Context | None) -> None:
        subject = run.subjects[notice.subject]
        alert = alert_of(notice, diagnosis, self._options.link)
        if notice.kind in FIRST and subject.after:
            alert = replace(alert, key=f"{alert.key}:after-{subject.after}")
        cools = 0.0 if notice.kind in OVER else self._cools(subject, notice)
        letters = self._letters(run, alert, cools, context)
        self._cancel(run, notice.subject)  # what waits for its cool-down is out of date
        # written down first: drawing takes longer than the run may have
        shown = self._picture(alert, diagnosis, notice) if letters else None
        for _, letter in letters:
            letter.alert = replace(alert, picture=shown)
        if cools > 0.0:
            run.cooling[notice.subject] = (self._steady() + cools, alert, letters)
            return
        self._note(run, alert)
        self._release(letters, alert)

    def _cools(self, subject: _Subject, notice: Notice) -> float:
        """Seconds of the cool-down that are left for an alert of this severity."""
        if subject.last is None or SEVERITIES.index(notice.severity) > SEVERITIES.index(subject.severity):
            return 0.0
        return max(0.0, subject.last + self._options.cool_down - self._steady())

    def _letters(self, run: _Run, alert: Alert, wait: float, context: Context | None) -> list[tuple[Outbox, Letter]]:
        """A letter for each channel by which it is ours to send."""
        made = []
        now, steady = self._clock(), self._steady()
        held = max(wait, self._quiet(alert), self._options.digest if self._gathers(alert) else 0.0)
        for outbox in self._outboxes:
            key = _key(f"{alert.key}@{outbox.channel.id}")
            payload = json.dumps({"channel": outbox.channel.id, "alert": alert.document()})
            letter = Letter(alert, key, _subject_of(alert, outbox), payload, run.books, steady, context=context)
            with self._changed:
                known = outbox.holds(run.books, key)
            if not known and letter.claim(now, held + LEASE):
                made.append((outbox, letter))
        return made

    def _release(self, letters: Iterable[tuple[Outbox, Letter]], alert: Alert) -> None:
        """Put letters into their outboxes, to go now or with others."""
        gathers, now = self._gathers(alert), self._steady()
        with self._changed:
            for outbox, letter in letters:
                letter.gathered, letter.due = gathers, now
                if gathers:
                    begun = outbox.gathering()
                    letter.due = now + self._options.digest if begun is None else begun
                outbox.put([letter])

    def _gathers(self, alert: Alert) -> bool:
        return self._options.digest > 0.0 and alert.severity != "critical" and not self._closing

    def _quiet(self, alert: Alert) -> float:
        """Seconds for which quiet hours hold an alert back."""
        quiet = self._options.quiet
        if quiet is None or self._options.disturbs(alert.severity):
            return 0.0
        return quiet.seconds_left(self._clock())

    def _note(self, run: _Run, alert: Alert) -> None:
        """An alert goes out."""
        subject = self._subject(run, alert.subject)
        if alert.kind in OVER:
            subject.alerted = False
            return
        subject.last, subject.severity = self._steady(), alert.severity
        subject.alerted, subject.kind = True, alert.kind

    def _cancel(self, run: _Run, subject: str) -> None:
        """What waits for its cool-down is told no more; the books must not bring it back."""
        _, _, letters = run.cooling.pop(subject, (0.0, None, []))
        for _, letter in letters:
            letter.books.sent(letter.key, self._clock())

    def _forget(self, run: _Run) -> None:
        """Another run stands in its place."""
        for subject in list(run.cooling):
            self._cancel(run, subject)
        run.subjects.clear()
        run.anew = True

    def _subject(self, run: _Run, name: str) -> _Subject:
        """What is known of a subject; of what was told before a restart the books know when."""
        known = run.subjects.get(name)
        if known is not None:
            return known
        made = run.subjects[name] = _Subject()
        # what others told other people counts for nothing
        told = None if run.anew else self._last_sent(run, name)
        if told is None:
            return made
        over = self._last_sent(run, _over(name))
        made.alerted = over is None or over < told
        if not made.alerted:
            made.after = f"t{over:.0f}"
        # a clock that was set back since says nothing: then the cool-down begins anew
        passed = self._clock() - told
        made.last = self._steady() - (passed if passed >= 0.0 else 0.0)
        made.severity = "warning"
        return made

    def _last_sent(self, run: _Run, subject: str) -> float | None:
        times = [run.books.last_sent(_by(subject, outbox)) for outbox in self._outboxes]
        return max((t for t in times if t is not None), default=None)

    def _picture(self, alert: Alert, diagnosis: Diagnosis | None, notice: Notice) -> bytes | None:
        if not self._options.picture or diagnosis is None or not any(o.channel.pictures for o in self._outboxes):
            return None
        try:
            from vario.surfaces.alerts.picture import picture

            return picture(diagnosis, name=alert.run, subject=notice.subject)
        except ImportError:
            self._tell('alerts go without a picture: it needs Pillow (pip install "vario[alerts]")')
        except Exception as error:  # an alert without its picture is better than none
            self._tell(f"alerts go without a picture ({type(error).__name__})")
        return None

    def _hurry(self) -> None:
        """Nothing waits any longer, but for what quiet hours hold back for another watcher."""
        self._closing = True
        for run in self._runs.values():
            for subject in list(run.cooling):
                _, alert, letters = run.cooling.pop(subject)
                self._release(letters, alert)
        now = self._steady()
        left: list[Letter] = []
        with self._changed:
            for outbox in self._outboxes:
                for letter in outbox.letters:
                    letter.due = now
                left += [x for x in outbox.letters if x.books.lasting and self._quiet(x.alert) > 0.0]
                outbox.letters = [x for x in outbox.letters if x not in left]
            self._options = replace(self._options, quiet=None)
            self._changed.notify_all()
        for letter in left:
            letter.books.failed(letter.key, self._clock(), "held back by quiet hours")
        if left:
            self._tell(f"{len(left)} alerts are held back by quiet hours: whoever watches the run next sends them")


def _over(subject: str) -> str:
    return f"{subject} is over"


def _subject_of(alert: Alert, outbox: Outbox) -> str:
    """What the books call it: that something is over is remembered apart from that it was."""
    return _by(_over(alert.subject) if alert.kind in OVER else alert.subject, outbox)


def _by(subject: str, outbox: Outbox) -> str:
    return _key(f"{subject}@{outbox.channel.id}")


def _key(text: str) -> str:
    if len(text) <= LONGEST_KEY:
        return text
    return f"{text[: LONGEST_KEY - 33]}…{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
