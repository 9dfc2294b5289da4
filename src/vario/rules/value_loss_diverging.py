"""VF101 value-loss-diverging."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reading, Reward, Value
from vario.rules.base import Doubt, Evidence, Severity, Sign, lower, number, rule, set_

LEAST = 40
DOUBLED = 2.0


@rule(
    "VF101",
    "value-loss-diverging",
    Severity.WARNING,
    holds=3,
    causes=("returns that are not scaled", "a critic that was never warmed up", "a critic that learns too slowly"),
    turns=(
        set_("reward-scaling", True, "returns of unit scale"),
        set_("critic-warmup", None, "ten updates or more: the critic sees returns before the policy uses it"),
        set_("critic-learning-rate", None, "about five times the policy's"),
        lower("value-coef", "if it drowns the policy's gradient"),
        lower("learning-rate", "returns that move more slowly can be followed"),
    ),
)
def value_loss_diverging(value: Value, reward: Reward | None) -> Iterator[Sign]:
    """The value loss grows instead of falling.

    What it shows:
        A significant rise to twice the early level or more, further than the growth of the rewards explains.
    Why it matters:
        Advantages are built on values: a critic that gets worse makes every update worse.
    Evidence:
        The loss then and now.
    Looks like it but is not:
        Rewards whose scale grows: the loss goes with their square; the first steps; one bad batch; a loss that
        falls, whatever its size.
    What to change:
        Scale rewards (and discount a little); warm the critic up before the first policy update; give it a larger
        learning rate than the policy's.
    How sure:
        High; medium where no reward is logged to compare with.
    References:
        taxonomy of public threads, value_failure (6): reward scaling and a critic warm-up are the confirmed cures
    """
    loss = value.loss
    if loss.points < LEAST or not loss.rises() or loss.level <= DOUBLED * loss.start:
        return
    if reward is not None and loss.level <= DOUBLED * loss.start * max(1.0, _growth(reward.total)) ** 2:
        return
    if reward is None:
        yield Doubt("no reward is logged whose growth could explain it")
    yield Evidence(
        f"loss/value grew from {number(loss.start)} to {number(loss.level)}", ("loss/value",), loss.onset_of_move()
    )


def _growth(reward: Reading) -> float:
    """How many times larger rewards are by now than they were; 1 where they began at nothing."""
    return abs(reward.level) / abs(reward.start) if reward.start else 1.0
