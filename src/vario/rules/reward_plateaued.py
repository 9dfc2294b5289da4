"""RW103 reward-plateaued."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule("RW103", "reward-plateaued", Severity.INFO, holds=3)
def reward_plateaued(reward: Reward) -> Iterator[Sign]:
    """The reward rose and is flat now.

    What it shows:
        A rise, then a stretch of at least a quarter of the run without one.
    Why it matters:
        From here on each step costs as much and brings less: decide, do not drift.
    Evidence:
        Where the flat stretch began and its level.
    Looks like it but is not:
        A slow rise under the noise; a reward filtered to mixed groups, flat by construction.
    What to change:
        Harder prompts, or stop; see the verdict for the best checkpoint.
    How sure:
        High with a hundred points or more.
    References:
        shape test of the statistics bench
    """
    total = reward.total
    shape = total.shape
    knot = total.knot_step()
    if shape is None or shape.word != "plateau" or knot is None or total.points_since(knot) < 0.25 * total.points:
        return
    yield Evidence(
        f"reward/mean rose from {number(total.start)} to {number(total.level)} and is flat since step {knot}",
        ("reward/mean",),
        knot,
    )
