"""VF102 value-explains-nothing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Value
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, raise_, rule, set_


@rule(
    "VF102",
    "value-explains-nothing",
    Severity.WARNING,
    holds=3,
    causes=("rewards not scaled", "the critic was never warmed up", "critic learning rate too low"),
    turns=(set_("reward-scaling", True, "returns of unit scale"), raise_("value-coef", "teaches the critic faster")),
)
def value_explains_nothing(value: Value, reward: Reward | None) -> Iterator[Sign]:
    """The value function predicts returns no better than a constant.

    What it shows:
        Explained variance at or below zero for long; or, where it is not logged, a value loss larger
        than predicting zero for every return would cost, and not falling.
    Why it matters:
        Without a critic PPO's advantages are noise with the reward's name on it.
    Evidence:
        Explained variance; or the value loss against the square of the largest reward.
    Looks like it but is not:
        The first tens of steps; returns that contain a large KL penalty.
    What to change:
        Scale rewards, warm the critic up, a larger value coefficient.
    How sure:
        High with explained variance; medium by the loss.
    References:
        taxonomy of public threads, value_failure
    """
    if value.explained is not None and value.explained.points >= 40:
        if value.explained.level <= 0.0 and not value.explained.rises():
            yield Evidence(
                f"explained variance is {number(value.explained.level)}",
                ("value/explained-variance",),
                value.explained.since_below(0.05),
            )
        return
    loss = value.loss
    if reward is None or loss.points < 40 or loss.falls():
        return
    # 0.5 x mean squared error; predicting 0 costs at most half the square of the largest return
    largest = max(abs(reward.total.high), abs(reward.total.low), abs(float(reward.total.values.max())))
    if 2.0 * loss.level > 4.0 * largest**2 and loss.level > 0.5 * loss.start:
        yield Doubt("explained variance is not logged")
        yield Evidence(
            f"loss/value stays at {number(loss.level)}; predicting 0 everywhere would cost about {number(0.5 * largest**2)}",
            ("loss/value", "reward/mean"),
            int(loss.steps[0]),
        )
