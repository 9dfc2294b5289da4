"""The alerts of a watch: whom to tell, as `[alerts]` says, and a trial of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from vario.rules import RULES
from vario.rules.base import Rule
from vario.surfaces.alerts.channels.choosing import channels_of
from vario.surfaces.alerts.dispatcher import Dispatcher
from vario.surfaces.alerts.message import Alert
from vario.surfaces.alerts.policy import alert_options
from vario.surfaces.alerts.trial import OK, send_test
from vario.surfaces.live.wishes import LiveWishes

NOBODY = '[alerts] names nobody: write to = ["env:VARIO_ALERTS"] there, and put the address into that variable'


def dispatcher_of(
    wishes: LiveWishes,
    say: Callable[[str], None],
    trainer: Callable[..., None] | None,
    clock: Callable[[], float],
    rules: Iterable[Rule] = RULES,
) -> Dispatcher | None:
    """What sends alerts; None where nobody is to be told.

    Args:
        wishes: what the user asked for.
        say: takes a sentence about what failed.
        trainer: hands a message to the process that trains, for the trackers that are active there; None: there is none.
        clock: seconds since 1970.
        rules: those that `[alerts]` can name.

    Raises:
        ConfigError: `[alerts]` says what cannot be, or a channel's package is missing.
    """
    options = alert_options(wishes.alerts, rules=rules)
    if not options.to:
        return None

    def hand(word: str, alert: Alert) -> None:
        assert trainer is not None
        trainer("alert", word, alert)

    channels = channels_of(options.to, os.environ, None if trainer is None else hand)
    return Dispatcher(options, channels, clock=clock, told=say)


def try_alerts(alerts: Mapping[str, object]) -> int:
    """Send a test to every channel and print what came of each; gives the exit code."""
    options = alert_options(alerts)
    if not options.to:
        print(NOBODY)
        return 2
    outcomes = send_test(options, os.environ)
    for name, outcome in outcomes:
        print(f"{name}: {outcome}")
    return 0 if all(outcome == OK for _, outcome in outcomes) else 2
