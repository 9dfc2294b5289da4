"""The process that judges beside a training: it takes rows, looks when a look is due, tells and acts, and never holds the trainer up.

It outlives its parent: when a training is killed, the pipe ends without a word, and that is told too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from vario.errors import VarioError
from vario.project_file import find_project
from vario.rules.choice import Choice
from vario.run import Run
from vario.surfaces.live import link
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.kept_samples import FOLDER, TEMPORARY_BYTES, KeptSamples
from vario.surfaces.live.notices import OF_FINDINGS, Kind, Notice, Standing
from vario.surfaces.live.recorded import Recorded
from vario.surfaces.live.row_log import NAME, Row, RowLog, rows_in
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.live.wishes import LiveWishes, finish_of

NICE = 10
"""The training's own threads go first on every core."""
PAUSE = 1.0
"""Seconds between two rounds at the most: what is due by the clock (a stall) is seen that soon."""
GATHER = 0.1
"""Seconds in which what comes is taken together: a trainer that logs fast is not looked at for each of its rows."""
INBOX = 10_000
"""Messages that are read ahead, so that a disk that hangs here does not fill the pipe: the last one must get through."""
LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING}
TOLD = (Kind.REPLACED, Kind.STALLED, Kind.DIED, Kind.REVIEW)
"""Beside findings and troubles, what is written into the training's own log; the end tells itself there."""
DIED = "died"
CLOSED = "closed"


class Beside:
    """One training, as the judging process sees it.

    Args:
        hello: how the training greets: what it is called, where it lies, what is wished.
        answers: descriptor on which the training listens.
    """

    def __init__(self, hello: Mapping[str, object], answers: int) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._taken = self._said_taken = 1
        self._behind = int(str(hello["rows"]))
        directory = hello["directory"]
        with contextlib.suppress(
            OSError
        ):  # the folder may be gone, or not be made: that is told when something is written
            os.chdir(str(hello["cwd"]))
            if directory:
                Path(str(directory)).mkdir(parents=True, exist_ok=True)
        self._temporary = None if directory else str(hello.get("place") or tempfile.mkdtemp(prefix="vario-"))
        self._directory = Path(str(directory or self._temporary))
        with contextlib.suppress(OSError):  # the state goes beside the run where there is a folder for it
            self._directory.mkdir(parents=True, exist_ok=True)
        if self._temporary is not None:
            self.say("place", self._temporary)
        self._samples = KeptSamples(self._directory, None if directory else TEMPORARY_BYTES)
        name, written = str(hello["name"]), bool(hello["write_log"])
        choice, finish, wishes = self._wished(hello)
        self._source = Recorded(
            name,
            str(self._directory) if directory else name,
            cast("Mapping[str, object]", hello["config"]),
            [str(self._directory / FOLDER)],
            finish,
            timed=written,
        )
        self.watched = WatchedRun(
            name, self._source, choice, plan=wishes.watch.review, stalled_after=wishes.watch.stalled_after
        )
        self.desk = self._desk(wishes, choice)
        self.desk.admit(self.watched, str(directory) if directory else None)
        told = cast("list[tuple[str, str, str, int | None, int]]", hello.get("told", []))
        self.watched.told.update((one[0], Standing(*one)) for one in told)
        self._told = dict(self.watched.told)
        self._loud = {name for name, one in self._told.items() if one.severity != "info"}
        self._acted = 0
        self._reason = DIED
        self._log: RowLog | None = None
        if directory and written:
            earlier = int(str(hello["earlier"]))
            for row in rows_in(self._directory / NAME, end=earlier) if earlier else ():
                self._source.add(*row)
            recorder = self._source.recorder
            self._log = RowLog(
                self._directory, recorder.rows, first=len(recorder), earlier=earlier, again=bool(hello["again"])
            )
        self._earlier = self._log.earlier if self._log is not None else 0

    def _wished(self, hello: Mapping[str, object]) -> tuple[Choice, Callable[[Run], Run], LiveWishes]:
        """What the user asked for; what cannot be is told, and the training is judged without it."""
        place = str(hello["directory"] or hello["cwd"])
        choice: Choice = Choice()
        finish: Callable[[Run], Run] = _as_it_is
        wishes = LiveWishes()
        try:
            choice, finish = finish_of(place)
            wishes = LiveWishes.of(
                find_project(place),
                **{k: cast("Mapping[str, object] | None", hello[k]) for k in ("watch", "alerts", "act")},
            )
        except Exception as error:  # a wish that nobody can read is no reason to judge nothing
            self.say("failure", f"{_said(error)}; nobody is alerted and nothing is acted upon until that is mended")
        return choice, finish, wishes

    def _desk(self, wishes: LiveWishes, choice: Choice) -> Desk:
        try:
            return Desk(wishes, trainer=self.say, rules=choice.rules)
        except Exception as error:
            self.say("failure", f"{_said(error)}; nobody is alerted and nothing is acted upon until that is mended")
            return Desk(LiveWishes(wishes.watch), trainer=self.say)

    def say(self, *message: object) -> None:
        """Tell the training's process something; it may be gone."""
        with contextlib.suppress(OSError), self._lock:
            link.write(self._answers, *message)

    def take(self, message: link.Message) -> None:
        """One message of the training's."""
        self._taken += 1
        kind, *rest = message
        if kind == "rows":
            for step, at, row in cast("list[Row]", rest[0]):
                self._source.add(step, at, row)
                self._behind -= 1
        elif kind == "samples":
            step, columns = cast("tuple[int, dict[str, list[object]]]", tuple(rest))
            self._keep_samples(step, columns)
        elif kind == "events":
            for name, start, end in cast("list[tuple[str, float, float]]", rest[0]):
                self._source.overlap(name, start, end)
        elif kind == "closing":
            self._reason = str(rest[0])
        elif kind == "end":
            self._reason = str(rest[0])
            self._source.ended = True

    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._source.ended

    def died(self) -> None:
        """The pipe has ended, or the process at its other end: without a word, unless it was closing."""
        self._source.ended = True

    def turn(self) -> bool:
        """One round; False once the training has ended and everything is told."""
        self._write_log()
        if self._taken != self._said_taken:
            self._said_taken = self._taken
            self.say("taken", self._taken)
        over = self._source.ended
        if self._behind > 0 and not over:
            return True  # rows of long ago, handed over again: the newest of them is no sign of a stall
        try:
            notices = self.watched.look()
        except Exception as error:  # a rule's or a dialect's fault: the next look may find it gone
            notices = [self._trouble(f"the run could not be judged ({_said(error)})")]
        if over and self._reason != CLOSED:
            notices.append(self._death())
        self.desk.handle(self.watched, notices)
        if self.watched.told != self._told:  # a process that has to take this one's place repeats nothing
            self._told = dict(self.watched.told)
            self.say("told", [(t.name, t.severity, t.confidence, t.since, t.step) for t in self._told.values()])
        for notice in notices:
            if notice.kind is Kind.TROUBLE:
                self.say("failure", notice.text)
            elif self._is_loud(notice):
                level = LEVELS.get(notice.severity, logging.INFO)
                self.say("notice", level, f"{notice.title}\n{notice.text}".strip())
        self._pass_on_messages()
        return not over

    def _is_loud(self, notice: Notice) -> bool:
        """Whether a notice belongs into the training's own log: of findings, warnings and what becomes of them."""
        if notice.kind not in OF_FINDINGS:
            return notice.kind in TOLD
        if notice.kind is Kind.RESOLVED:
            known = notice.subject in self._loud
            self._loud.discard(notice.subject)
            return known
        if notice.severity == "info":
            return False
        new = notice.subject not in self._loud
        self._loud.add(notice.subject)
        return new or notice.kind is not Kind.SURER

    def close(self) -> None:
        """Tell what is left, and go."""
        self.desk.close()
        self._pass_on_messages()
        if self._temporary is not None and self._reason == DIED:  # nobody is left who would
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)
        self.say("finished")

    def _pass_on_messages(self) -> None:
        """What the desk has to say: that something was done is news, anything else is a failure."""
        acts, self._acted = self.desk.acts[self._acted :], len(self.desk.acts)
        done = {
            f"{self.watched.name}: {act.text}: {said}" for act, said in acts if not said.startswith(("failed", "not "))
        }
        for text in self.desk.take_messages():
            self.say(*(("notice", logging.WARNING, text) if text in done else ("failure", text)))

    def _write_log(self) -> None:
        if self._log is None:
            return
        if trouble := self._log.bring(last=self._source.ended):
            self._source.troubles.append(trouble)
        if self._log.earlier != self._earlier:
            self._earlier = self._log.earlier
            self.say("earlier", self._earlier)

    def _keep_samples(self, step: int, columns: Mapping[str, list[object]]) -> None:
        try:
            self._samples.keep(step, columns)
        except Exception as error:  # a full disk is no reason to stop judging
            self._source.troubles.append(
                f"completions could not be written to {self._samples.folder} ({_reason_of(error)})"
            )

    def _trouble(self, text: str) -> Notice:
        name, run = self.watched.name, self.watched.run
        return Notice(
            Kind.TROUBLE, name, "trouble", run.last_step if run is not None else None, "info", "high",
            f"{name}: trouble", text, time.time(),
        )  # fmt: skip

    def _death(self) -> Notice:
        step = self.watched.run.last_step if self.watched.run is not None else None
        why = (
            "its process is gone without a word: killed, out of memory, or the machine took it"
            if self._reason == DIED
            else f"it {self._reason}"
        )
        return Notice(
            Kind.DIED, self.watched.name, "training-died", step, "critical", "high",
            f"{self.watched.name}: the training died after step {step}", why, time.time(),
        )  # fmt: skip


def _as_it_is(run: Run) -> Run:
    return run


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, VarioError) else f"{type(error).__name__}: {error}"


def _reason_of(error: Exception) -> str:
    """Why a file could not be written, the same words for every file."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else _said(error)


class _Inbox:
    """What the training sends, read ahead in a thread; `None` stands for its end."""

    def __init__(self, questions: int) -> None:
        self._questions = questions
        self._parent = os.getppid()
        self._queue: queue.Queue[link.Message | None] = queue.Queue(INBOX)
        threading.Thread(target=self._read, name="vario-read", daemon=True).start()

    def _read(self) -> None:
        message: link.Message | None = ("",)
        while message is not None and message[0] != "end":
            try:
                message = link.read(self._questions)
            except (OSError, link.NoMessage):
                message = None
            self._queue.put(message)

    def first(self) -> link.Message | None:
        """The first message."""
        return self._queue.get()

    def round(self) -> Iterator[link.Message | None]:
        """What comes in a round: nothing for a while, or all of it for a moment.

        A process that was forked off the training may hold its end of the pipe when it is gone.
        """
        orphaned = os.getppid() != self._parent
        try:
            yield self._queue.get(timeout=PAUSE)
        except queue.Empty:
            if orphaned:
                yield None
            return
        until = time.monotonic() + GATHER
        while (left := until - time.monotonic()) > 0.0:
            try:
                yield self._queue.get(timeout=left)
            except queue.Empty:
                return


def _descriptors() -> tuple[int, int]:
    """The pipes to the training, and standard streams that lead nowhere: whatever prints or reads does not touch them."""
    questions, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    return questions, answers


def _stay() -> None:
    """What ends a whole job reaches this process too: it ends when the training has, and has said so.

    Handlers that do nothing, not ignored signals: those would be inherited by the commands that are run here.
    """
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})


def main() -> None:
    """Serve one training over standard input and output, until it ends."""
    _stay()
    questions, answers = _descriptors()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    inbox = _Inbox(questions)
    hello = inbox.first()
    if hello is None:
        return
    try:
        _serve(cast("Mapping[str, object]", hello[1]), inbox, answers)
    except Exception as error:
        with contextlib.suppress(OSError):
            link.write(answers, "failure", f"the judging process failed ({_said(error)})")
        raise


def _serve(hello: Mapping[str, object], inbox: _Inbox, answers: int) -> None:
    beside = Beside(hello, answers)
    going = True
    while going:
        for message in inbox.round():
            if message is None:
                beside.died()
            else:
                beside.take(message)
            if beside.ended():
                break
        going = beside.turn()
    beside.close()


if __name__ == "__main__":
    main()
