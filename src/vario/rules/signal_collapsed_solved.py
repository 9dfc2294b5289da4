"""SG101 signal-collapsed-solved."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, percent, rule, set_


@rule(
    "SG101",
    "signal-collapsed-solved",
    Severity.INFO,
    holds=2,
    turns=(set_("dynamic-filter", True, "spend the compute on prompts that are not solved"),),
    explains=("few-groups-carry-signal",),
)
def signal_collapsed_solved(signal: Signal, reward: Reward) -> Iterator[Sign]:
    """Most groups are tied because the task is solved.

    What it shows:
        80 % or more of the groups have no spread, with the reward at its best.
    Why it matters:
        Only the rest of the batch teaches; the compute for the others is wasted.
    Evidence:
        The share, and the reward level.
    Looks like it but is not:
        Groups tied at the floor (signal-collapsed-unsolved): the opposite diagnosis.
    What to change:
        Harder prompts, or filter solved ones; or stop.
    How sure:
        High.
    References:
        DAPO dynamic sampling, arXiv 2503.14476
    """
    dead = signal.dead_share
    if dead is None or dead < 0.8:
        return
    share = reward.share_of_ceiling
    high = (
        share >= 0.9
        if share is not None
        else reward.total.level >= 0.95 * reward.total.high and reward.total.level > 0.5
    )
    if not high:
        return
    yield Evidence(
        f"{percent(dead)} of the groups are tied, with reward/mean at {number(reward.total.level)}",
        (signal.reading.name, "reward/mean"),
        signal.reading.since_above(0.7) if signal.zero_share is not None else None,
    )
