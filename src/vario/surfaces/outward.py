"""Out of this process: a document for a command of the user's, or for a file that others look for. Each ends within its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vario.errors import VarioError

SECONDS = 30.0
"""A command that takes longer has failed: whoever has more to do starts it and returns."""
READABLE = 0o644
"""Everybody may read the file, as with one that is written the usual way: a scheduler is often another user."""


class NotDelivered(VarioError):
    """It did not arrive; the reason names no secret."""


def run_command(words: Sequence[str], document: Mapping[str, object], seconds: float | None = None) -> None:
    """Run a command without a shell: the document is JSON on its standard input, and VARIO_* in its environment.

    Raises:
        NotDelivered: it could not be started, took too long, or ended with another exit code than 0.
    """
    seconds = SECONDS if seconds is None else seconds
    told = {f"VARIO_{k.upper()}": "" if v is None else str(v).replace("\0", "?") for k, v in document.items()}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **told},
            start_new_session=True,  # what it starts is ended with it
        )
    except (OSError, ValueError, IndexError) as error:
        raise NotDelivered(f"could not be started ({type(error).__name__})") from None
    with process:
        try:
            process.communicate(json.dumps(document).encode(), seconds)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise NotDelivered(f"took more than {seconds:g} s and was ended") from None
    if process.returncode:
        raise NotDelivered(f"ended with exit code {process.returncode}")


def write_document(path: Path, document: Mapping[str, object]) -> None:
    """Write a document as JSON, whole or not at all.

    Raises:
        NotDelivered: it cannot be written.
    """
    write_whole(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a text, whole or not at all: whoever looks for the file never finds half of it.

    Raises:
        NotDelivered: it cannot be written.
    """
    made: str | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
        ) as file:
            made = file.name
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(made).chmod(READABLE)
        Path(made).replace(path)
    except OSError as error:
        if made is not None:
            with suppress(OSError):
                Path(made).unlink()
        raise NotDelivered(f"cannot be written ({error.strerror or type(error).__name__})") from None
