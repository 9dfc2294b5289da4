"""GR103 gradient-vanished."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Gradient, Reading, Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, percent, rule

TIED = 0.9
"""Share of tied groups from which on they, and nothing else, are why there is no gradient."""


@rule(
    "GR103",
    "gradient-vanished",
    Severity.WARNING,
    holds=2,
    causes=("no advantage: all groups tied", "weights of zero", "a cut gradient path"),
)
def gradient_vanished(gradient: Gradient, reward: Reward | None, signal: Signal | None) -> Iterator[Sign]:
    """The gradient is zero, or a thousandth of what it was.

    What it shows:
        At least ten logged steps at zero, or a lasting fall below a thousandth of the early level.
    Why it matters:
        Nothing is learnt; compute is spent on sampling alone.
    Evidence:
        The norm then and now, in how many rows, and the share of tied groups.
    Looks like it but is not:
        The end of a solved task, where most groups are tied and single batches still teach.
    What to change:
        Find why there is no advantage: tied groups, zero rewards, masks.
    How sure:
        High.
    References:
        taxonomy of public threads, zero_advantage and no_gradient_bug
    """
    norm = gradient.norm
    if norm.points < 10 or (
        reward is not None and reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.9
    ):
        return
    if reward is not None and reward.ceiling is None and reward.total.level >= 0.98 * reward.total.high > 0.4:
        return
    bound = max(1e-3 * norm.start, 1e-12)
    since = norm.since_below(bound)
    if since is not None and norm.points_since(since) >= 10:
        yield Evidence(_told(norm, since, bound), ("gradient/norm",), since)
        if signal is not None and signal.dead_share is not None and signal.dead_share >= TIED:
            yield Evidence(
                f"{percent(signal.dead_share)} of the groups are tied: they have no advantage, and so no gradient"
            )


def _told(norm: Reading, since: int, bound: float) -> str:
    """The norm since a step: in all rows, or in most of them with the last one that was not small."""
    here = norm.steps >= since
    values, steps = norm.values[here], norm.steps[here]
    above = values > bound
    before = f" (at the start {number(norm.start)})" if norm.start > norm.level else ""
    if not above.any():
        return f"gradient/norm is {number(norm.level)} since step {since}{before}"
    last = above.nonzero()[0][-1]
    return (
        f"gradient/norm is {number(norm.level)} in {int((~above).sum())} of {values.size} rows since step {since}{before}; "
        f"the last one above was {number(float(values[last]))} at step {steps[last]}"
    )
