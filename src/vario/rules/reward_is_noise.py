"""RW106 reward-is-noise."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, rule


@rule("RW106", "reward-is-noise", Severity.INFO, holds=3, pedantic=True)
def reward_is_noise(reward: Reward) -> Iterator[Sign]:
    """What the reward does is no more than sampling noise.

    What it shows:
        A flat shape whose scatter is as large as the standard error of a batch mean.
    Why it matters:
        Peaks and dips in such a curve mean nothing; choosing a checkpoint by them is choosing by luck.
    Evidence:
        Scatter against the expected standard error, or against the level.
    Looks like it but is not:
        A rise too slow for the points so far.
    What to change:
        Larger batches, or a held-out score with error bars.
    How sure:
        Medium.
    References:
        clustered standard errors, arXiv 2411.00640
    """
    total = reward.total
    if total.points < 24 or not total.flat() or total.constant:
        return
    if total.points < 60:
        yield Doubt("few points")
    text = (
        f"reward/mean moves by {number(total.noise_sd)} from step to step around {number(total.level)}, without a shape"
    )
    if reward.standard_error is not None:
        text += f"; sampling alone explains up to {number(reward.standard_error)}"
    yield Evidence(text, ("reward/mean",), int(total.steps[0]))
