"""RU107 mode-collapse."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, lower, number, percent, raise_, rule


@rule(
    "RU107",
    "mode-collapse",
    Severity.CRITICAL,
    holds=3,
    turns=(lower("learning-rate", "sharpening is too fast", 0.3), raise_("kl-coef", "holds to the reference")),
    explains=(
        "entropy-collapsing",
        "length-diversity-collapsing",
        "few-groups-carry-signal",
        "signal-collapsed-unsolved",
        "outputs-lose-diversity",
        "outputs-repeat",
        "outputs-duplicated",
    ),
)
def mode_collapse(entropy: Entropy, signal: Signal, reward: Reward) -> Iterator[Sign]:
    """The policy gives one answer to everything, and it is not a good one.

    What it shows:
        Entropy under a tenth of its start, 90 % of the groups tied, the reward under half of its best.
    Why it matters:
        There is nothing left to select from; it does not come back by itself.
    Evidence:
        The three values.
    Looks like it but is not:
        A solved task (reward at its best).
    What to change:
        Go back; smaller learning rate, some KL.
    How sure:
        High: three witnesses.
    References:
        taxonomy of public threads, mode_collapse
    """
    dead = signal.dead_share
    if dead is None or dead < 0.9 or entropy.share_left > 0.1 or reward.lost() < 0.5 or reward.total.points < 30:
        return
    yield Evidence(
        f"entropy is at {percent(entropy.share_left)} of its start",
        ("entropy/mean",),
        entropy.mean.since_below(0.3 * entropy.mean.start),
    )
    yield Evidence(
        f"{percent(dead)} of the groups are tied at reward {number(reward.total.level)}",
        (signal.reading.name, "reward/mean"),
    )
