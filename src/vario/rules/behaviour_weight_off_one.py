"""OP102 behaviour-weight-off-one."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import BehaviourWeight
from vario.rules.base import Evidence, Severity, Sign, lower, number, rule, set_


@rule(
    "OP102",
    "behaviour-weight-off-one",
    Severity.WARNING,
    holds=2,
    turns=(
        lower("staleness-bound", "fresher samples"),
        set_("behaviour-weight-cap", None, "with masking, a low mean is the share thrown away"),
    ),
)
def behaviour_weight_off_one(weight: BehaviourWeight) -> Iterator[Sign]:
    """The trainer/sampler weight is far from one.

    What it shows:
        The mean applied weight is below 0.7 or above 1.3.
    Why it matters:
        With masking the missing part is samples thrown away; without, the gradient is biased.
    Evidence:
        The mean and the smallest weight.
    Looks like it but is not:
        A mean a little below one with top-p sampling or masks.
    What to change:
        See engine-mismatch.
    How sure:
        High.
    References:
        statistics note on weights: E[w] = 1 when the log-probabilities are the true ones
    """
    level = weight.mean.level
    if level < 0.7 or level > 1.3:
        yield Evidence(
            f"mean weight is {number(level)}",
            (weight.mean.name,),
            weight.mean.since_below(0.85) if level < 1 else weight.mean.since_above(1.15),
        )
        if weight.smallest is not None and weight.smallest.level == 0.0:
            yield Evidence("the smallest is 0: samples are masked out", (weight.smallest.name,))
