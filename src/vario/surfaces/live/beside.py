"""The process that judges beside a training: it takes rows, looks when a look is due, tells and acts, and never holds the trainer up.

It outlives its parent: when a training is killed, the pipe ends without a word, and that is told too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, cast

from vario.errors import VarioError
from vario.project_file import find_project
from vario.surfaces.live import link
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.kept_samples import FOLDER, KeptSamples
from vario.surfaces.live.notices import OF_FINDINGS, Kind, Notice
from vario.surfaces.live.recorded import Recorded
from vario.surfaces.live.row_log import Row, RowLog
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.live.wishes import LiveWishes, finish_of

NICE = 10
"""The training's own threads go first on every core."""
PAUSE = 1.0
"""Seconds between two rounds at the most: what is due by the clock (a stall) is seen that soon."""
LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING}
TOLD = (Kind.REPLACED, Kind.STALLED, Kind.DIED, Kind.REVIEW, Kind.TROUBLE)
"""Beside findings, what is written into the training's own log; the end tells itself there."""


class Beside:
    """One training, as the judging process sees it."""

    def __init__(self, hello: Mapping[str, object], answers: IO[bytes]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        directory = hello["directory"]
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="vario-")
        self._directory = Path(str(directory) if directory else self._temporary.name if self._temporary else ".")
        self._samples = KeptSamples(self._directory)
        self._log = RowLog(self._directory) if directory and hello["write_log"] else None
        place = str(directory or hello["cwd"])
        os.chdir(str(hello["cwd"]))
        choice, finish = finish_of(place)
        wishes = LiveWishes.of(
            find_project(place),
            **{k: cast("Mapping[str, object] | None", hello[k]) for k in ("watch", "alerts", "act")},
        )
        name = str(hello["name"])
        self._source = Recorded(
            name,
            str(self._directory) if directory else name,
            cast("Mapping[str, object]", hello["config"]),
            [str(self._directory / FOLDER)],
            finish,
        )
        self.watched = WatchedRun(
            name, self._source, choice, plan=wishes.watch.review, stalled_after=wishes.watch.stalled_after
        )
        self.desk = Desk(wishes, trainer=self.say)
        self.desk.admit(self.watched, str(directory) if directory else None)
        self._loud: set[str] = set()
        self._skip = self._kept = 0
        if self._log is not None:
            for step, at, row in self._log.before():
                self._source.add(step, at, row)
            # rows that an earlier process of the same training kept are among them
            self._skip = self._kept = int(str(hello["kept"]))

    def say(self, *message: object) -> None:
        """Tell the training's process something; it may be gone."""
        with contextlib.suppress(OSError, ValueError), self._lock:
            link.write(self._answers, *message)

    def take(self, message: link.Message) -> None:
        """One message of the training's."""
        kind, *rest = message
        if kind == "rows":
            rows = cast("list[Row]", rest[0])
            known, self._skip = min(self._skip, len(rows)), max(0, self._skip - len(rows))
            self._rows(rows[known:])
        elif kind == "samples":
            step, columns = cast("tuple[int, dict[str, list[object]]]", tuple(rest))
            self._keep("completions", lambda: self._samples.keep(step, columns))
        elif kind == "event":
            name, start, end = cast("tuple[str, float, float]", tuple(rest))
            self._source.overlap(name, start, end)
        elif kind == "end":
            self._source.ended = True
            self._reason = str(rest[0])

    _reason = "died"

    def died(self) -> None:
        """The pipe has ended without a word."""
        self._source.ended = True

    def turn(self) -> bool:
        """One round; False once the training has ended and everything is told."""
        notices = self.watched.look()
        if self._source.ended and self._reason != "closed":
            notices.append(self._death())
        self.desk.handle(self.watched, notices)
        for notice in notices:
            if self._is_loud(notice):
                level = LEVELS.get(notice.severity, logging.INFO)
                self.say("notice", level, f"{notice.title}\n{notice.text}".strip())
        for text in self.desk.take_messages():
            self.say("failure", text)
        return not self._source.ended

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
        for text in self.desk.take_messages():
            self.say("failure", text)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _rows(self, rows: list[Row]) -> None:
        for step, at, row in rows:
            self._source.add(step, at, row)
        log = self._log
        if log is not None and rows and self._keep("the log of rows", lambda: log.add(rows)):
            self._kept += len(rows)
            self.say("kept", self._kept)

    def _keep(self, what: str, write: Callable[[], None]) -> bool:
        try:
            write()
        except Exception as error:  # a full disk is no reason to stop judging
            self._source.troubles.append(f"{what} could not be written ({type(error).__name__}: {error})")
            return False
        return True

    def _death(self) -> Notice:
        step = self.watched.run.last_step if self.watched.run is not None else None
        why = (
            "its process is gone without a word: killed, out of memory, or the machine took it"
            if self._reason == "died"
            else f"it {self._reason}"
        )
        return Notice(
            Kind.DIED, self.watched.name, "training-died", step, "critical", "high",
            f"{self.watched.name}: the training died after step {step}", why, time.time(),
        )  # fmt: skip


def main() -> None:
    """Serve one training over standard input and output, until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # whatever prints: only messages of ours go back
    with contextlib.suppress(OSError):
        os.nice(NICE)
    inbox: queue.Queue[link.Message | None] = queue.Queue(maxsize=64)

    def listen() -> None:
        while (message := link.read(sys.stdin.buffer)) is not None:
            inbox.put(message)
        inbox.put(None)

    threading.Thread(target=listen, daemon=True).start()
    hello = inbox.get()
    if hello is None:
        return
    try:
        beside = Beside(cast("Mapping[str, object]", hello[1]), answers)
    except VarioError as error:
        link.write(answers, "failure", f"not judged: {error}")
        while inbox.get() is not None:  # the trainer goes on writing: let it
            pass
        return
    going = True
    while going:
        with contextlib.suppress(queue.Empty):
            message = inbox.get(timeout=PAUSE)
            while True:
                if message is None:
                    beside.died()
                else:
                    beside.take(message)
                message = inbox.get_nowait()
        going = beside.turn()
    beside.close()


if __name__ == "__main__":
    main()
