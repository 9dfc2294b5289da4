"""From the words of `to` to channels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import Channel
from vario.surfaces.alerts.message import Alert

KNOWN = ("env:NAME", "trackio", "wandb", "command:PROGRAM", "file:PATH")
SEVERAL = re.compile(r"\s+|,\s*(?=[A-Za-z][A-Za-z0-9+]*://)")
"""Addresses in one variable are parted by blanks, or by a comma before another one: a comma may belong to an address."""


def channels_of(
    words: Sequence[str], environ: Mapping[str, str], hand: Callable[[str, Alert], None] | None = None
) -> list[Channel]:
    """The channels that words name, each once.

    Args:
        words: "env:NAME", "trackio", "wandb", "command:PROGRAM ARGUMENTS", "file:PATH", or an apprise URL.
        environ: the environment that env:NAME reads.
        hand: how an alert reaches the process that trains, for the trackers; None: this process is the one.

    Raises:
        ConfigError: a word names no channel, a variable is not set, or a package is missing.
    """
    made: dict[str, Channel] = {}
    for word in words:
        for plain in _from_environment(word, environ):
            channel = _channel(plain, hand)
            made.setdefault(channel.id, channel)
    return list(made.values())


def _from_environment(word: str, environ: Mapping[str, str]) -> Iterator[str]:
    kind, separator, name = word.partition(":")
    if kind != "env" or not separator:
        yield word
        return
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"[alerts] to: the environment has no {name}; it should hold the address")
    if "://" in value:
        yield from filter(None, SEVERAL.split(value))
    else:
        yield value


def _channel(word: str, hand: Callable[[str, Alert], None] | None) -> Channel:
    # each imports what it needs, and no more: apprise takes half a second
    if word in ("trackio", "wandb"):
        from vario.surfaces.alerts.channels.tracker import HandedOver, TrackerChannel

        return TrackerChannel(word) if hand is None else HandedOver(word, hand)
    kind, separator, rest = word.partition(":")
    if kind == "command" and separator:
        from vario.surfaces.alerts.channels.command import CommandChannel

        return CommandChannel(rest)
    if kind == "file" and separator:
        from vario.surfaces.alerts.channels.sentinel import SentinelChannel

        return SentinelChannel(rest.removeprefix("//"))
    if "://" in word:
        from vario.surfaces.alerts.channels.apprise_url import AppriseChannel

        return AppriseChannel(word)
    near = get_close_matches(kind, [k.partition(":")[0] for k in KNOWN], n=1)
    # the word itself is not shown: it may be a token that somebody pasted
    raise ConfigError(
        "[alerts] to: a word names no channel; "
        + (f"{near[0]}?" if near else f"it is one of {', '.join(KNOWN)}, or an address such as json://HOST/PATH")
    )
