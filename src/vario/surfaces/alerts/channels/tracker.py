"""`trackio.alert` and `wandb.run.alert`: they speak for the run that is active in the process that trains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.message import Alert

TRACKERS = ("trackio", "wandb")
LEVELS = {"info": "INFO", "warning": "WARN", "critical": "ERROR"}
NO_RUN = "no {} run is active in this process; it works in the process that trains"
WANDB_TITLE = 63
"""wandb takes titles of less than 64 characters."""


class TrackerChannel:
    """Alerts of a tracker, in its dashboard and by its own ways of telling."""

    here: Here = "trainer"
    pictures = False

    def __init__(self, word: str) -> None:
        self.name = word
        self.id = id_of(word, word)

    def send(self, alert: Alert) -> None:
        """Raise the alert in the run that is active here.

        trackio knows its active run by context: call this in a copy of the training thread's context.

        Raises:
            ChannelError: no run is active in this process, or the tracker cannot tell of alerts.
        """
        if self.name not in sys.modules:  # nobody has imported it, so it has no run; importing it takes seconds
            raise ChannelError(NO_RUN.format(self.name))
        try:
            (_trackio if self.name == "trackio" else _wandb)(alert)
        except ChannelError:
            raise
        except Exception as error:  # a tracker's own fault
            raise ChannelError(f"failed ({type(error).__name__})") from None


class HandedOver:
    """A tracker's channel in a process beside the training: the alert is handed to the process that trains."""

    here: Here = "anywhere"
    pictures = False

    def __init__(self, word: str, hand: Callable[[str, Alert], None]) -> None:
        self.name = word
        self.id = id_of(word, word)
        self._hand = hand

    def send(self, alert: Alert) -> None:
        """Hand it over; what becomes of it there is told there.

        Raises:
            ChannelError: the training does not listen any more.
        """
        try:
            self._hand(self.name, replace(alert, picture=None))  # no tracker shows it
        except (OSError, ValueError) as error:
            raise ChannelError(f"the training does not listen ({type(error).__name__})") from None


def _trackio(alert: Alert) -> None:
    import trackio

    if trackio.context_vars.current_run.get() is None:
        raise ChannelError(NO_RUN.format("trackio"))
    if not hasattr(trackio, "alert"):
        raise ChannelError("this trackio knows no alerts; a newer one does (pip install -U trackio)")
    trackio.alert(title=alert.title, text=alert.body, level=trackio.AlertLevel[LEVELS[alert.severity]])


def _wandb(alert: Alert) -> None:
    import wandb

    if wandb.run is None:
        raise ChannelError(NO_RUN.format("wandb"))
    title = alert.title if len(alert.title) <= WANDB_TITLE else alert.title[: WANDB_TITLE - 1] + "…"
    wandb.run.alert(title=title, text=alert.body, level=LEVELS[alert.severity])
