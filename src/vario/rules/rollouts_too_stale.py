"""OP103 rollouts-too-stale."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Staleness
from vario.rules.base import Evidence, Severity, Sign, number, rule, set_


@rule(
    "OP103",
    "rollouts-too-stale",
    Severity.WARNING,
    holds=3,
    turns=(
        set_("staleness-bound", 0, "samples in step with training: shows whether staleness is the cause"),
        set_("recompute-logprob", False, "in step, the sampler's log-probabilities are the old ones"),
        set_("decoupled-loss", None, "off: in step, the plain loss does"),
    ),
)
def rollouts_too_stale(staleness: Staleness) -> Iterator[Sign]:
    """The samples are several policy versions old and getting older.

    What it shows:
        Mean staleness above four versions, rising.
    Why it matters:
        Off-policy error grows between linearly and quadratically with the lag.
    Evidence:
        Versions then and now.
    Looks like it but is not:
        A constant small lag of an asynchronous trainer, corrected by weights.
    What to change:
        Sample synchronously to see whether it is the cause; then a lower bound on staleness, or more rollout capacity.
    How sure:
        Medium.
    References:
        Hilton et al., arXiv 2110.00641
    """
    mean = staleness.mean
    if mean.level > 4.0 and mean.points >= 30 and mean.rises():
        yield Evidence(f"samples are {number(mean.level)} versions old on average", (mean.name,), mean.onset_of_move())
