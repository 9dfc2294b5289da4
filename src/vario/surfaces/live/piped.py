"""Standard input as a source: it is kept in a file as it comes, and followed there like any other log."""

from __future__ import annotations

import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO

from vario.surfaces.live.followed import Followed, Read
from vario.surfaces.live.watched import Polled

CHUNK = 1 << 16


class Piped:
    """A log that comes through a pipe; whoever writes into it never waits for the judging.

    Args:
        stream: where it comes from.
        read: reads what was kept of it.
    """

    def __init__(self, stream: IO[bytes], read: Read) -> None:
        self.name = "standard input"
        self._folder = Path(tempfile.mkdtemp(prefix="vario-"))
        self._file = self._folder / "standard-input.log"
        self._file.touch()
        self._stream = stream
        self._ended = threading.Event()
        self._followed = Followed(str(self._file), read, name=self.name)
        self._problem = ""
        threading.Thread(target=self._copy, name="vario-pipe", daemon=True).start()

    def poll(self) -> Polled:
        """The run, if more of it has come."""
        ended = self._ended.is_set()
        polled = self._followed.poll() if not ended else self._followed.now()
        if self._problem:
            polled = replace(polled, troubles=(*polled.troubles, self._problem))
        return replace(polled, ended=ended)

    def close(self) -> None:
        """Remove what was kept."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _copy(self) -> None:
        try:
            with self._file.open("ab", buffering=0) as kept:
                # read1 gives what is there: a row must not wait until a buffer is full
                while data := self._stream.read1(CHUNK):  # type: ignore[attr-defined]
                    kept.write(data)
        except OSError as error:
            self._problem = (
                f"standard input could not be kept ({error.strerror or error}); what came later is not judged"
            )
            while self._stream.read(CHUNK):  # whoever writes must not be stopped by our full disk
                pass
        finally:
            self._ended.set()
