"""SG102 signal-collapsed-unsolved."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, percent, raise_, rule, set_


@rule(
    "SG102",
    "signal-collapsed-unsolved",
    Severity.CRITICAL,
    holds=2,
    causes=("task out of reach", "reward function broken", "completions cut before the answer"),
    turns=(
        raise_("group-size", "more tries per prompt"),
        raise_("max-completion-length", "if completions are cut"),
        set_("dynamic-filter", True, "train on prompts within reach"),
    ),
    explains=("few-groups-carry-signal", "reward-never-rises", "reward-is-noise", "gradient-vanished"),
)
def signal_collapsed_unsolved(signal: Signal, reward: Reward) -> Iterator[Sign]:
    """Most groups are tied at the bottom: nothing tells good from bad.

    What it shows:
        80 % or more of the groups have no spread while the reward is at or near its floor.
    Why it matters:
        Zero advantage means zero gradient: the run cannot find its way out by itself.
    Evidence:
        The share, and the reward level against its floor and its best.
    Looks like it but is not:
        A solved task; a filter that removes tied groups by design.
    What to change:
        Easier prompts, a graded reward, more tries per prompt, a longer cap.
    How sure:
        High.
    References:
        taxonomy of public threads, zero_advantage (12 threads)
    """
    dead = signal.dead_share
    if dead is None or dead < 0.8 or reward.total.points < 10:
        return
    total = reward.total
    share = reward.share_of_ceiling
    low = share <= 0.2 if share is not None else total.level <= 0.0 or total.level < 0.2 * total.high
    if not low:
        return
    since = signal.reading.since_above(0.7) if signal.zero_share is not None else int(total.steps[0])
    yield Evidence(
        f"{percent(dead)} of the groups are tied, with reward/mean at {number(total.level)}",
        (signal.reading.name, "reward/mean"),
        since,
    )
