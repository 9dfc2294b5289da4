"""RW107 reward-saturated."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule(
    "RW107",
    "reward-saturated",
    Severity.INFO,
    holds=2,
    explains=("reward-plateaued", "signal-collapsed-solved", "component-saturated"),
)
def reward_saturated(reward: Reward, signal: Signal | None) -> Iterator[Sign]:
    """The reward sits at its ceiling.

    What it shows:
        The level is within 3 % of the highest possible reward, or constant at a high value.
    Why it matters:
        There is nothing left to gain on this data; spread within groups dies and gradients with it.
    Evidence:
        The level and the ceiling, and how the ceiling is known.
    Looks like it but is not:
        A plateau below the ceiling; a ceiling reached by a loophole (read samples).
    What to change:
        Stop, or harder prompts.
    How sure:
        High where 0/1 components prove the ceiling.
    References:
        taxonomy of public threads, saturated
    """
    share = reward.share_of_ceiling
    if share is not None and share >= 0.97 and reward.total.points >= 10:
        since = reward.total.since_above((reward.ceiling or 0.0) * 0.95)
        yield Evidence(
            f"reward/mean is {number(reward.total.level)} of at most {number(reward.ceiling or 0.0)}",
            ("reward/mean",),
            since,
        )
        return
    if (
        signal is not None
        and signal.dead_share is not None
        and signal.dead_share >= 0.9
        and reward.ceiling is None
        and reward.total.points >= 20
    ):
        total = reward.total
        if total.level >= 0.98 * total.high > 0.0 and total.level > 0.5 and total.level >= total.start:
            yield Evidence(
                f"reward/mean stays at its best, {number(total.level)}, with nearly all groups tied",
                ("reward/mean",),
                total.since_above(0.95 * total.level),
            )
