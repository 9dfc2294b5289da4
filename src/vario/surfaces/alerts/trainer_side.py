"""What the process that trains does with an alert that is handed to it: it raises it in its tracker."""

from __future__ import annotations

from contextvars import Context

from vario.surfaces.alerts.channels.base import ChannelError
from vario.surfaces.alerts.channels.tracker import TRACKERS, TrackerChannel
from vario.surfaces.alerts.message import Alert


def send_here(word: str, alert: object, context: Context | None = None) -> str | None:
    """Raise an alert in the tracker's run that is active in this process; gives why it could not be, or None.

    Args:
        word: `trackio` or `wandb`.
        alert: an `Alert`.
        context: a copy of the training thread's (`contextvars.copy_context()`), by which trackio knows its run; it is
            needed in any other thread.
    """
    if word not in TRACKERS or not isinstance(alert, Alert):
        return "an alert was handed over that no tracker takes"
    channel = TrackerChannel(word)
    try:
        if context is None:
            channel.send(alert)
        else:
            context.copy().run(channel.send, alert)  # a copy, for a context can be entered once at a time
    except ChannelError as error:
        return f"alert not delivered by {channel.name}: {error}"
    return None
