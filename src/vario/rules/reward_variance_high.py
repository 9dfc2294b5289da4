"""RW114 reward-variance-high."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, lower, number, raise_, rule

LEAST = 60
"""Logged rewards: half of them give the thirty differences that a spread needs."""
UNSETTLED = 1.5
"""Scatter over the widest sampling error: the method note's bound for trouble beyond sampling (healthy runs here: .2 to .7)."""
LOUDER = 2.0
"""Above the sampling error, and this many times what it was in the first third: the run has become unsettled."""
SWAMPS = 0.25
"""Share of the range that one step moves the reward by, from which a curve without a larger gain tells nothing."""


@rule(
    "RW114",
    "reward-variance-high",
    Severity.WARNING,
    holds=3,
    causes=("batch too small", "learning rate too high", "prompts of unequal difficulty in an order of their own"),
    turns=(
        raise_("batch-size", "often enough by itself: the error of a batch mean falls with its root"),
        lower("learning-rate", "smaller steps, if the policy itself swings"),
        raise_("kl-coef", "holds the policy where it was"),
    ),
)
def reward_variance_high(reward: Reward) -> Iterator[Sign]:
    """The reward jumps from step to step by more than can be read through, or more than sampling explains.

    What it shows:
        A scatter over the last half above one and a half times the largest possible sampling error, or above it
        and twice what it was; as information, a scatter that is larger than all that was gained.
    Why it matters:
        What sampling does not explain, the policy does: it is thrown about by its updates. What sampling
        does explain hides the curve, and every choice of a checkpoint by it is luck.
    Evidence:
        The scatter, the error that sampling allows, or the gain.
    Looks like it but is not:
        A steep climb, a single jump or a spike (only differences over a few steps count, robustly); few
        completions a batch (their error is as large, so it explains the scatter); a reward that is all but
        tied, where the error is next to zero.
    What to change:
        A larger batch; then a smaller learning rate, or a larger KL coefficient.
    How sure:
        High where the batch's spread and size are known; low without.
    References:
        AReaL, docs/en/best_practices/algo_perf.md (batch size first); clustered errors, arXiv 2411.00640
    """
    total, excess, early = reward.total, reward.excess, reward.excess_at_start
    if total.points < LEAST or total.constant or total.shape is None:
        return
    half = int(total.steps[total.points // 2])
    if excess is not None:
        grown = excess > 1.0 and early is not None and excess > LOUDER * early
        if excess > UNSETTLED or grown:
            if excess <= UNSETTLED:
                yield Doubt("completions of one prompt that are all alike would explain most of it")
            yield Evidence(
                f"since step {half} reward/mean moves by {number(reward.unrest)} from step to step, {number(excess)} "
                f"times what sampling explains at most" + (f" ({number(early)} times at first)" if early else ""),
                ("reward/mean", "reward/std/batch"),
                half,
            )
            return
    gain = total.shape.top - total.shape.bottom
    if reward.unrest > max(gain, SWAMPS * reward.span):
        yield Grave(Severity.INFO)
        if excess is None:
            yield Doubt("spread or size of the batch is not known: it may be sampling alone")
        else:
            yield Excluded(f"no more than sampling explains ({number(excess)} of it): the batch is small for this task")
        yield Evidence(
            f"since step {half} reward/mean moves by {number(reward.unrest)} from step to step; all it gained is {number(gain)}",
            ("reward/mean",),
            half,
        )
