"""What becomes of notices: they are remembered, told to whom it concerns, and acted upon; once, whoever else watches."""

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from vario.rules import RULES
from vario.rules.base import Rule
from vario.surfaces.live.actions import IN_TRAINER, Act, acts_of
from vario.surfaces.live.alerting import dispatcher_of
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.performing import ActFailed, perform
from vario.surfaces.live.remembering import Memory
from vario.surfaces.live.watched import Review, WatchedRun
from vario.surfaces.live.wishes import LiveWishes
from vario.surfaces.state import State
from vario.surfaces.state.acts import Act as Kept
from vario.surfaces.state.findings import Past
from vario.surfaces.state.silences import Silence

CLOSING_SECONDS = 15.0
SETTLING_SECONDS = 5.0
"""Longer than a store takes, on a bad day, to write down that an alert is due."""
HISTORY = 1_000
"""Notices that stay in memory for the surfaces; the store keeps more."""
MESSAGES = 1_000
"""Different sentences that are shown: who needs more of them has the first ones to mend."""


class Desk:
    """Remembers, alerts and acts for the runs of one watcher. What fails becomes a message, once; nothing raises.

    Raises:
        ConfigError: at its making, where `[alerts]` says what cannot be.

    Args:
        wishes: what the user asked for.
        trainer: tells the process that trains; None where there is none.
        clock: seconds since 1970.
        rules: those that are asked; `[alerts]` may name them.
        speaks: False for a surface that people look at: it alerts of nothing, acts on nothing, and counts nothing as told.
    """

    def __init__(
        self,
        wishes: LiveWishes,
        *,
        trainer: Callable[..., None] | None = None,
        clock: Callable[[], float] = time.time,
        rules: Iterable[Rule] = RULES,
        speaks: bool = True,
    ) -> None:
        self.wishes = wishes
        self.speaks = speaks
        self.history: list[Notice] = []
        self.messages: list[str] = []
        self.acts: list[tuple[Act, str]] = []
        self._given = 0
        self._by = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._trainer = trainer
        self._clock = clock
        self._memory = Memory(self.say, wishes.watch.state)
        self._marks: dict[str, int] = {}
        self._outside = ThreadPoolExecutor(max_workers=2, thread_name_prefix="vario-act")
        self._alerts = dispatcher_of(wishes, self.say, trainer, clock, rules) if speaks else None

    def say(self, text: str) -> None:
        """Something that the user must know; the same sentence only once."""
        if text not in self.messages and len(self.messages) <= MESSAGES:
            self.messages.append(text if len(self.messages) < MESSAGES else "more was said, and is not shown")

    def take_messages(self) -> list[str]:
        """What was said since the last time."""
        new = self.messages[self._given :]
        self._given += len(new)
        return new

    def admit(self, watched: WatchedRun, path: str | None) -> None:
        """Take on a run: what was told of it, by whoever watched it last, is known from now on.

        Args:
            watched: the run.
            path: where it lies; None: nowhere, and nothing of it is remembered.
        """
        if path is not None:
            self._memory.admit(watched.name, path, keeps=self.speaks)
            if path == "-" and self.speaks:
                self._memory.replaced(watched.name)  # each pipe is a run of its own
        if self._alerts is not None:
            state, key = self._memory.of(watched.name) or (None, watched.name)
            self._alerts.begin(watched.name, key=key, ledger=state)
        if self.speaks:
            watched.told.update(self._memory.told(watched.name))
        last = self._memory.recall(watched.name, lambda state, run: state.last_review(run), None)
        if last is not None:
            watched.review = Review(last.step, last.at)

    def handle(self, watched: WatchedRun, notices: Iterable[Notice]) -> None:
        """What a look has brought: remembered, told, acted upon."""
        made = list(notices)
        self.history += made
        del self.history[:-HISTORY]
        if not self.speaks:
            for notice in made:
                if notice.kind is Kind.RESOLVED:
                    self._end(watched, notice.subject)
            return
        self._note_marks(watched)
        if not made:
            return
        if any(n.kind is Kind.REPLACED for n in made):
            self._memory.replaced(watched.name)
        # an alert is due before its finding counts as told: a crash between the two repeats a question, and loses nothing
        if self._alerts is not None:
            for notice in made:
                self._alerts.offer(notice, watched)
            self._alerts.settle(SETTLING_SECONDS)
        self._memory.remember(watched.name, made)
        for notice in made:
            if notice.kind is Kind.TROUBLE:
                self._memory.count(watched.name, notice.text, notice.at)
        known = self.acknowledged(watched)
        for notice in made:
            if notice.subject not in known:
                for act in acts_of(self.wishes.act, notice):
                    self._act(act, watched)

    def acknowledge(self, watched: WatchedRun, subject: str, reason: str, by: str = "") -> None:
        """Somebody knows of a finding, and says why it may stand: no alert and no act until it resolves."""
        now, who = self._clock(), by or _user()
        self._memory.ask(watched.name, lambda state, run: state.acknowledge(run, subject, who, reason, now), None)

    def mute(self, watched: WatchedRun, subject: str, reason: str, until: float | None, by: str = "") -> None:
        """Nobody wants to hear of a finding until then (seconds since 1970), or until it resolves."""
        now, who = self._clock(), by or _user()
        self._memory.ask(watched.name, lambda state, run: state.mute(run, subject, who, reason, now, until), None)

    def speak_again(self, watched: WatchedRun, subject: str) -> None:
        """Take back what was said of a finding."""
        self._memory.ask(watched.name, lambda state, run: state.speak_again(run, subject), None)

    def _end(self, watched: WatchedRun, subject: str) -> None:
        """A finding is over, and with it what people said of it until then: it may come again, and mean something else."""
        self._memory.recall(watched.name, lambda state, run: state.over(run, subject), None)

    def silences(self, watched: WatchedRun) -> Mapping[str, Mapping[str, Silence]]:
        """What people said of each finding, by `acknowledged` and `muted`."""
        now = self._clock()
        nothing: dict[str, dict[str, Silence]] = {}
        said = self._memory.recall(
            watched.name,
            lambda state, run: {"acknowledged": state.acknowledged(run, now), "muted": state.muted(run, now)},
            nothing,
        )
        made: dict[str, dict[str, Silence]] = {}
        for word, silences in said.items():
            for subject, silence in silences.items():
                made.setdefault(subject, {})[word] = silence
        return made

    def past(self, watched: WatchedRun) -> list[Past]:
        """What was told of this run, by whoever watched it, the newest first."""
        nothing: list[Past] = []
        return self._memory.recall(watched.name, lambda state, run: state.history(run), nothing)

    def acknowledged(self, watched: WatchedRun) -> Mapping[str, str]:
        """Reasons by subject of what was acknowledged."""
        now = self._clock()
        nobody: dict[str, Silence] = {}
        known = self._memory.recall(watched.name, lambda state, run: state.acknowledged(run, now), nobody)
        return {subject: silence.reason for subject, silence in known.items()}

    def reviewed(self, watched: WatchedRun, by: str = "") -> None:
        """Somebody has read completions of this run, now."""
        now = self._clock()
        step = watched.run.last_step if watched.run is not None else None
        if step is None:
            return
        watched.reviewed(step, now)
        who = by or _user()
        self._memory.ask(watched.name, lambda state, run: state.reviewed(run, step, now, who), None)

    def close(self, timeout: float = CLOSING_SECONDS) -> None:
        """Tell what is left, as far as that goes in time, and give everything back."""
        self._outside.shutdown(wait=True, cancel_futures=False)
        if self._alerts is not None:
            self._alerts.close(timeout)
        self._memory.close()

    def _note_marks(self, watched: WatchedRun) -> None:
        """Marks beside the run are a review; a team's store holds them too."""
        run = watched.run
        if run is None or len(run.marks) == self._marks.get(watched.name, 0):
            return
        new = watched.name in self._marks
        self._marks[watched.name] = len(run.marks)
        self._memory.ask(watched.name, lambda state, name: state.put_marks(name, run.marks), None)
        if new:
            self.reviewed(watched)

    def _act(self, act: Act, watched: WatchedRun) -> None:
        if self.wishes.act.dry_run:
            self._done(act, watched, "dry run: nothing was done")
        elif act.action in IN_TRAINER and self._trainer is None:
            self._done(act, watched, "not done: only vario's callback in the training can do it")
        elif not self._is_ours(act, watched):
            return
        elif act.action not in IN_TRAINER:
            verdict = "" if watched.diagnosis is None else str(watched.diagnosis.verdict)
            self._outside.submit(self._perform, act, watched, verdict)
        elif self._trainer is not None:
            self._trainer("act", act.action, act.text)
            self._done(act, watched, "handed to the training")

    def _is_ours(self, act: Act, watched: WatchedRun) -> bool:
        """Whether no other watcher of this run has done it: one act for one finding, whoever sees it first."""
        key, now = f"act:{act.key}", self._clock()

        def claim(state: State, run: str) -> bool:
            ours = state.claim(run, key, now, self._by, subject=f"act:{act.action}", payload="{}")
            if ours:
                state.sent(run, key, now)
            return ours

        return self._memory.ask(watched.name, claim, True)

    def _perform(self, act: Act, watched: WatchedRun, verdict: str) -> None:
        try:
            perform(act, watched.name, verdict)
        except ActFailed as error:
            self._done(act, watched, f"failed: {error}")
        except Exception as error:  # a thread has nobody to raise to
            self._done(act, watched, f"failed: {type(error).__name__}")
        else:
            self._done(act, watched, "done")

    def _done(self, act: Act, watched: WatchedRun, outcome: str) -> None:
        """Log an act with its evidence, whatever came of it."""
        now, dry = self._clock(), self.wishes.act.dry_run
        self.acts.append((act, outcome))
        self.say(f"{watched.name}: {act.text}: {outcome}")
        kept = Kept(act.action, act.subject, act.step, act.severity, act.confidence, (act.evidence,), dry, now, outcome)
        self._memory.ask(watched.name, lambda state, run: state.act(run, kept), None)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "unknown"
