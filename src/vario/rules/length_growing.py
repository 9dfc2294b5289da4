"""LN101 length-growing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length, Reward
from vario.rules.base import Aside, Evidence, Precedes, Severity, Sign, number, rule, set_

GROWTH = 1.3
"""The seeds' bound: a mean 30 % over its baseline."""

BENIGN_TRUNCATION = 0.05
"""ScaleRL: below 5 % for 90 % of stable runs."""


@rule(
    "LN101",
    "length-growing",
    Severity.INFO,
    holds=3,
    turns=(
        set_("length-penalty", None, "an explicit price on length, or less pay for it"),
        set_("overlong-filter", True, "if truncated samples enter the loss"),
    ),
    precedes=(Precedes("length-hacking", "reward/mean", "in 2 of 18 labelled runs, 25 rows ahead"),),
    explains=("metric-over-budget",),
)
def length_growing(length: Length, reward: Reward | None) -> Iterator[Sign]:
    """Completions keep getting longer.

    What it shows:
        The mean length rose beyond noise, to 1.3 times its start or more.
    Why it matters:
        Length costs compute and memory, and is the cheapest thing to exploit in many rewards.
    Evidence:
        Length then and now, distance to the cap.
    Looks like it but is not:
        Healthy thinking: the reward rises with it and truncation stays below 5 %.
    What to change:
        Only if the reward does not follow, or the cap is near.
    How sure:
        High for the growth; what it means depends on reward and truncation.
    References:
        taxonomy of public threads, length_explosion
    """
    mean = length.mean
    if (
        mean.points < 30
        or length.growth < GROWTH
        or not (
            mean.rises()
            or (mean.shape is not None and mean.shape.word == "peaked" and mean.level > GROWTH * mean.start)
        )
    ):
        return
    if (
        reward is not None
        and reward.rises()
        and (length.truncated is None or length.truncated.level < BENIGN_TRUNCATION)
    ):
        yield Aside("the reward rises with it and hardly anything is cut")
    text = f"mean length grew from {number(mean.start)} to {number(mean.level)} tokens"
    if length.cap:
        text += f" (cap {number(length.cap)})"
    yield Evidence(text, ("length/mean",), mean.onset_of_move())
