"""A file that holds the latest alert: for schedulers and scripts that look for one."""

from __future__ import annotations

from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.message import Alert
from vario.surfaces.outward import NotDelivered, write_document


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
        try:
            write_document(self._path, alert.document())
        except NotDelivered as error:
            raise ChannelError(str(error)) from None
