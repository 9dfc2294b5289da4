"""OP102 behaviour-weight-off-one."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import BehaviourWeight, Reading
from vario.rules.base import Evidence, Excluded, Severity, Sign, lower, number, percent, rule, set_

LOW, HIGH = 0.7, 1.3
CAPPED = 0.3
"""A share of rejected weights that takes the mean of what is left in the batch below the lower bound."""
SLIGHT = 0.85, 1.15
EFFECTIVE = 0.3
"""verl's guide to rollout correction calls a smaller effective share degenerate."""


@rule(
    "OP102",
    "behaviour-weight-off-one",
    Severity.WARNING,
    holds=2,
    causes=("samples that are too old", "a sampling engine with other numerics or settings", "stale weights"),
    turns=(
        set_("behaviour-weight-cap", None, "make sure that one is set: AReaL recommends 5, others start from 2 or 3"),
        lower("staleness-bound", "fresher samples"),
    ),
)
def behaviour_weight_off_one(weight: BehaviourWeight) -> Iterator[Sign]:
    """The trainer/sampler weight is far from one.

    What it shows:
        The mean applied weight is below 0.7 or above 1.3; or, where only that is logged, more than 0.3 of the
        weights are capped or rejected.
    Why it matters:
        With rejection the missing part is samples thrown away; without, the gradient is biased.
    Evidence:
        The mean and the smallest weight, the share that was capped, the share of the batch that still counts.
    Looks like it but is not:
        A mean a little below one with top-p sampling or masks; one batch that was far off; a few capped tokens.
    What to change:
        First a cap or a rejection of outlying weights; then a lower bound on staleness. Where that does not help
        look at engine-mismatch.
    How sure:
        High.
    References:
        AReaL, guide to diagnosing RL performance; verl, guide to rollout correction
        statistics note on weights: E[w] = 1 when the log-probabilities are the true ones
    """
    off = _off(weight.mean) or _rejected(weight)
    if off is None:
        return
    yield off
    if weight.smallest is not None and weight.smallest.level == 0.0:
        yield Evidence("the smallest is 0: samples are masked out", (weight.smallest.name,))
    if weight.capped is not None and weight.mean is not None and weight.capped.level > 0.0:
        yield Evidence(f"{percent(weight.capped.level)} of the weights are capped or rejected", (weight.capped.name,))
    if weight.effective is not None:
        text = f"{percent(weight.effective.level)} of the batch still counts"
        if weight.effective.level < EFFECTIVE:
            yield Evidence(f"only {text}", (weight.effective.name,))
        else:
            yield Excluded(f"not degenerate: {text}")


def _off(mean: Reading | None) -> Evidence | None:
    if mean is None or LOW <= mean.level <= HIGH:
        return None
    since = mean.since_below(SLIGHT[0]) if mean.level < 1.0 else mean.since_above(SLIGHT[1])
    return Evidence(f"mean weight is {number(mean.level)}", (mean.name,), since)


def _rejected(weight: BehaviourWeight) -> Evidence | None:
    capped = weight.capped
    if weight.mean is not None or capped is None or capped.level <= CAPPED:
        return None
    text = f"{percent(capped.level)} of the weights are capped or rejected"
    return Evidence(text, (capped.name,), capped.since_above(CAPPED))
