"""A file that holds the latest alert: for schedulers and scripts that look for one."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.message import Alert

READABLE = 0o644
"""Everybody may read it, as with a file that is written the usual way: a scheduler is often another user."""


class SentinelChannel:
    """Writes each alert as JSON, whole or not at all: whoever looks for the file never finds half of it.

    Raises:
        ConfigError: no path is given.
    """

    here: Here = "anywhere"
    pictures = False

    def __init__(self, path: str) -> None:
        if not path.strip():
            raise ConfigError("[alerts] to: a path is missing, as in file:ALERT.json")
        self._path = Path(path).expanduser().absolute()
        self.name = f"file:{self._path.name}"
        self.id = id_of(self.name, str(self._path))

    def send(self, alert: Alert) -> None:
        """Write it.

        Raises:
            ChannelError: it cannot be written.
        """
        made: str | None = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self._path.parent, prefix=f".{self._path.name}-", delete=False
            ) as file:
                made = file.name
                json.dump(alert.document(), file, ensure_ascii=False, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(made).chmod(READABLE)
            Path(made).replace(self._path)
        except OSError as error:
            if made is not None:
                with suppress(OSError):
                    Path(made).unlink()
            raise ChannelError(f"cannot be written ({error.strerror or type(error).__name__})") from None
