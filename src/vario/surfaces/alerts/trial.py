"""A trial: a message to every channel that says it is one, and what came of it."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import Channel, ChannelError
from vario.surfaces.alerts.channels.choosing import channels_of
from vario.surfaces.alerts.message import Alert, clean
from vario.surfaces.alerts.policy import AlertOptions

OK = "ok"


def send_test(
    options: AlertOptions, environ: Mapping[str, str], hand: Callable[[str, Alert], None] | None = None
) -> list[tuple[str, str]]:
    """Send a trial by each channel, all at the same time; gives each one's name and "ok" or a reason.

    What hangs is given up as with any alert. Arguments as in `channels_of`.
    """
    made: list[tuple[str, str]] = []
    channels: dict[str, Channel] = {}
    for number, word in enumerate(options.to, 1):
        try:
            channels |= {c.id: c for c in channels_of([word], environ, hand)}
        except ConfigError as error:
            # a word that names no channel may be a token
            name = word if word.startswith("env:") and "//" not in word else f"word {number} of to"
            made.append((name, str(error)))
    if not channels:
        return made
    alert = _trial(options)
    with ThreadPoolExecutor(len(channels), "vario-trial") as pool:
        outcomes = list(pool.map(lambda c: _outcome(c, alert), channels.values()))
    return [*zip((c.name for c in channels.values()), outcomes, strict=True), *made]


def _outcome(channel: Channel, alert: Alert) -> str:
    try:
        channel.send(alert)
    except ChannelError as error:
        return str(error)
    except Exception as error:  # a fault of a service's plug-in; its text may hold the address
        return f"failed ({type(error).__name__})"
    return OK


def _trial(options: AlertOptions) -> Alert:
    picture = None
    if options.picture:
        try:
            from vario.surfaces.alerts.picture import placard

            picture = placard("vario", "TEST", "no run is in trouble")
        except ImportError:
            picture = None  # addresses say by themselves what to install
    return Alert(
        "vario",
        "test",
        "test",
        "info",
        "high",
        None,
        "vario: TEST, no run is in trouble",
        f"Somebody on {clean(socket.gethostname())} tries whether alerts arrive. They do.",
        f"test:{uuid.uuid4().hex}",
        time.time(),
        "",
        picture,
    )
