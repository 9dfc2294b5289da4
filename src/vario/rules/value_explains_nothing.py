"""VF102 value-explains-nothing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record, Reward, Value
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, raise_, rule, set_

LEAST = 40
SOME = 0.05
BEYOND = 4.0
"""Times the cost of predicting 0 everywhere: batches hide the largest returns behind their mean."""


@rule(
    "VF102",
    "value-explains-nothing",
    Severity.WARNING,
    holds=3,
    causes=("rewards not scaled", "the critic was never warmed up", "critic learning rate too low"),
    turns=(
        set_("reward-scaling", True, "returns of unit scale"),
        set_("critic-warmup", None, "ten updates or more: the critic sees returns before the policy uses it"),
        set_("critic-learning-rate", None, "about five times the policy's"),
        raise_("value-coef", "teaches the critic faster; at 0 it learns nothing"),
    ),
)
def value_explains_nothing(value: Value, reward: Reward | None, record: Record) -> Iterator[Sign]:
    """The value function predicts returns no better than a constant.

    What it shows:
        Explained variance at or below zero for long; or, where it is not logged, a value loss larger
        than predicting zero for every return would cost, and not falling.
    Why it matters:
        Without a critic PPO's advantages are noise with the reward's name on it.
    Evidence:
        Explained variance; or the value loss against the square of the largest reward. The weight of the value
        loss where it is 0.
    Looks like it but is not:
        The first tens of steps; a loss that is large and falls; returns that contain a large KL penalty.
    What to change:
        Scale rewards, warm the critic up, give it its own learning rate, a larger value coefficient.
    How sure:
        High with explained variance; medium by the loss.
    References:
        taxonomy of public threads, value_failure; verl issue 498 (explained variance -72)
    """
    if value.explained is not None and value.explained.points >= LEAST:
        if value.explained.level <= 0.0 and not value.explained.rises():
            yield Evidence(
                f"explained variance is {number(value.explained.level)}",
                ("value/explained-variance",),
                value.explained.since_below(SOME),
            )
            yield from _switched_off(value)
        return
    loss = value.loss
    if reward is None or loss.points < LEAST or loss.falls():
        return
    # returns are rewards and what the KL penalty takes off them
    parts = (reward.total, record.find("reward/penalised/mean"), record.find("reward/kl-penalty/mean"))
    largest = max(max(abs(r.high), abs(r.low), abs(float(r.values.max()))) for r in parts if r is not None)
    # 0.5 x mean squared error; predicting 0 costs at most half the square of the largest return
    if 2.0 * loss.level > BEYOND * largest**2 and loss.level > 0.5 * loss.start:
        yield Doubt("explained variance is not logged")
        if parts[1] is not None or parts[2] is not None:
            yield Excluded("not the KL penalty: returns with it are no larger")
        yield Evidence(
            f"loss/value stays at {number(loss.level)}; predicting 0 everywhere would cost about {number(0.5 * largest**2)}",
            ("loss/value", "reward/mean"),
            int(loss.steps[0]),
        )
        yield from _switched_off(value)


def _switched_off(value: Value) -> Iterator[Sign]:
    if value.weight == 0.0:
        yield Evidence("the value loss weighs 0: the critic is not trained", ("loss/value",))
