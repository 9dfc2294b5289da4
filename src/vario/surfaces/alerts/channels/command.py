"""A command of the user's: the alert as JSON on its standard input and in its environment, without a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.message import Alert
from vario.surfaces.outward import SECONDS, NotDelivered, run_command


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
        try:
            run_command(self._words, alert.document(), self._seconds)
        except NotDelivered as error:
            raise ChannelError(str(error)) from None
