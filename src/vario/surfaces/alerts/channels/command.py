"""A command of the user's: the alert as JSON on its standard input and in its environment, without a shell."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.message import Alert

SECONDS = 30.0
"""A command that takes longer has failed: whoever has more to do starts it and returns."""


class CommandChannel:
    """Runs a command for each alert.

    Raises:
        ConfigError: the command cannot be divided into words.
    """

    here: Here = "anywhere"
    pictures = False

    def __init__(self, command: str, seconds: float = SECONDS) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"[alerts] to: the command cannot be read ({error})") from error
        if not self._words:
            raise ConfigError("[alerts] to: a command is missing, as in command:./page.sh")
        self.name = f"command:{Path(self._words[0]).name}"
        self.id = id_of(self.name, command)
        self._seconds = seconds

    def send(self, alert: Alert) -> None:
        """Run it.

        Raises:
            ChannelError: it could not be started, took too long, or ended with another exit code than 0.
        """
        document = alert.document()
        told = {f"VARIO_{k.upper()}": "" if v is None else str(v).replace("\0", "?") for k, v in document.items()}
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **told},
                start_new_session=True,  # what it starts is ended with it
            )
        except (OSError, ValueError) as error:
            raise ChannelError(f"could not be started ({type(error).__name__})") from None
        with process:
            try:
                process.communicate(json.dumps(document).encode(), self._seconds)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                raise ChannelError(f"took more than {self._seconds:g} s and was ended") from None
        if process.returncode:
            raise ChannelError(f"ended with exit code {process.returncode}")
