"""GR103 gradient-vanished."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Gradient, Reward
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule(
    "GR103",
    "gradient-vanished",
    Severity.WARNING,
    holds=2,
    causes=("no advantage: all groups tied", "weights of zero", "a cut gradient path"),
)
def gradient_vanished(gradient: Gradient, reward: Reward | None) -> Iterator[Sign]:
    """The gradient is zero, or a thousandth of what it was.

    What it shows:
        At least ten logged steps at zero, or a lasting fall below a thousandth of the early level.
    Why it matters:
        Nothing is learnt; compute is spent on sampling alone.
    Evidence:
        The norm then and now.
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
        yield Evidence(
            f"gradient/norm is {number(norm.level)} since step {since} (at the start {number(norm.start)})",
            ("gradient/norm",),
            since,
        )
