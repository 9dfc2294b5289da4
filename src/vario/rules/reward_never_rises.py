"""RW101 reward-never-rises."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward
from vario.instruments.reading import PATIENCE
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, percent, raise_, rule, too_early

LEAST = 100
"""Logged rewards before flatness says anything: below it a rise under 2 sd cannot be told from noise."""
MAYBE = 0.1
"""Chance under which a rise may be noise, below which nobody is told that there is none: silence asks for less than speech."""


@rule(
    "RW101",
    "reward-never-rises",
    Severity.WARNING,
    holds=3,
    causes=(
        "learning rate too low or too high",
        "batch too small for the noise",
        "reward does not depend on what the policy can change",
    ),
    turns=(
        raise_("batch-size", "more completions per update: less noise in each step"),
        raise_("learning-rate", "if KL and entropy hardly move", 3.0),
        raise_("group-size", "more completions per prompt: more groups with spread"),
    ),
    explains=(
        "reward-is-noise",
        "signal-not-declining",
        "entropy-not-falling",
        "reward-variance-high",
    ),
)
def reward_never_rises(reward: Reward) -> Iterator[Sign]:
    """The reward stays within its own noise for the whole run.

    What it shows:
        A level that no honest test can tell from constant, over at least 100 logged rewards.
    Why it matters:
        GPU-hours buy nothing while the reward stands; the cause is usually found in minutes.
    Evidence:
        The fitted shape of all history is flat; the interval of its change is given in units.
    Looks like it but is not:
        A reward at its ceiling (nothing left to gain), a reward that is exactly constant
        (reward-constant), a slow rise that more points would show (information until that is excluded, a warning
        from then on), a reward measured after filtering.
    What to change:
        First see whether the policy moves at all (KL, entropy, length), then batch size and learning rate.
    How sure:
        Medium: flat on the training batch; a held-out score could still move. Information while the fastest pace
        that the points allow gains two standard deviations of the noise in 1,000 rows: up to about row
        280 where the noise has no memory, 400 with a memory of .5, 720 with one of .9.
    References:
        taxonomy of public threads, reward_plateau (11 threads)
    """
    total = reward.total
    if total.points < LEAST or total.constant or not total.stays():
        return
    if reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85:
        return
    trend = total.trend
    if trend is None or trend.rises(MAYBE):
        return
    if not total.stays(rows=PATIENCE):
        yield from too_early("a slow rise", total.gains_at_most())
    if reward.ceiling is None:
        yield Doubt("the ceiling is not known")
    yield Evidence(
        f"reward/mean stays at {number(total.level)} (noise {number(total.noise_sd)}) over {total.points} points; "
        f"its change over all of them lies between {number(trend.low * trend.points)} and {number(trend.high * trend.points)}",
        ("reward/mean",),
        int(total.steps[0]),
    )
    if reward.share_of_ceiling is not None:
        yield Excluded(
            f"not solved: at {percent(reward.share_of_ceiling)} of the ceiling {number(reward.ceiling or 0.0)}"
        )
