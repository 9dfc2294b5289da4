"""VF101 value-loss-diverging."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Value
from vario.rules.base import Evidence, Severity, Sign, lower, number, rule, set_


@rule(
    "VF101",
    "value-loss-diverging",
    Severity.WARNING,
    holds=3,
    turns=(
        lower("value-coef", "if it drowns the policy's gradient"),
        set_("reward-scaling", True, "returns of unit scale"),
        lower("learning-rate", "smaller steps"),
    ),
)
def value_loss_diverging(value: Value) -> Iterator[Sign]:
    """The value loss grows instead of falling.

    What it shows:
        A significant rise to twice the early level or more.
    Why it matters:
        Advantages are built on values: a critic that gets worse makes every update worse.
    Evidence:
        The loss then and now.
    Looks like it but is not:
        Returns whose scale grows with the reward; a few first steps.
    What to change:
        Scale rewards; warm the critic up before the first policy update.
    How sure:
        Medium.
    References:
        taxonomy of public threads, value_failure
    """
    loss = value.loss
    if loss.points >= 40 and loss.rises() and loss.level > 2.0 * loss.start:
        yield Evidence(
            f"loss/value grew from {number(loss.start)} to {number(loss.level)}", ("loss/value",), loss.onset_of_move()
        )
