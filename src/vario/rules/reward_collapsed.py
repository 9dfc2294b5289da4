"""RW105 reward-collapsed."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward
from vario.rules.base import Evidence, Severity, Sign, lower, number, rule

LOST = 0.7


@rule(
    "RW105",
    "reward-collapsed",
    Severity.CRITICAL,
    causes=("reward or parser broke", "policy collapsed", "weights or samples corrupted"),
    turns=(lower("learning-rate", "if KL, entropy or length moved with it"),),
)
def reward_collapsed(reward: Reward) -> Iterator[Sign]:
    """The reward has lost most of its height and stays down.

    What it shows:
        The level is below 30 % of the best level of the run, beyond noise, for many points.
    Why it matters:
        The run is dead or its measurement is; either way no step from here on helps.
    Evidence:
        The best level, the level now, and where it fell.
    Looks like it but is not:
        A single bad batch; harder prompts; a reward that only ever was noise around zero; a dip of noise with memory
        (the fall must outlast it).
    What to change:
        Stop; restore the last good checkpoint; look at what moved first (see the folding finding).
    How sure:
        High.
    References:
        taxonomy of public threads, kl_explosion, gibberish, verifier_bug
    """
    total = reward.total
    if (
        total.points < 20
        or total.high <= 0.0
        or total.held_high - total.level < LOST * (total.held_high - reward.ground)
    ):
        return
    if total.held_high - total.level < 4.0 * total.noise_sd and total.noise_sd > 0.0 and not total.fell():
        return
    middle = 0.5 * (total.held_high + total.level)
    since = total.since_below(middle)
    if total.points_since(since) < 5 or not total.fell_beyond_noise(total.held_high):
        return
    yield Evidence(
        f"reward/mean fell from {number(total.held_high)} to {number(total.level)} and stays there since step {since}",
        ("reward/mean",),
        since,
    )
