"""What a channel is: a safe name, a place where it works, and `send`."""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol

from vario.errors import VarioError
from vario.surfaces.alerts.message import Alert

Here = Literal["anywhere", "trainer"]
"""Where a channel works: in any process, or only in the one that trains, where the tracker's run is."""


class ChannelError(VarioError):
    """An alert was not delivered; the reason is short and names no address, token or path."""


class Channel(Protocol):
    """A way by which alerts leave.

    Attributes:
        name: safe to show: no credential, no token, no path.
        id: the same for the same address, here and after a restart, and no secret: what was sent is remembered by it.
        here: where it works.
        pictures: whether it shows them.
    """

    name: str
    id: str
    here: Here
    pictures: bool

    def send(self, alert: Alert) -> None:
        """Deliver an alert; ends within a bounded time.

        Raises:
            ChannelError: it was not delivered.
        """


def id_of(name: str, word: str) -> str:
    """The id of a channel: its name, and what tells it from another one of the same name."""
    return f"{name}#{hashlib.blake2b(word.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
