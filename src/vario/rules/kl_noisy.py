"""KL110 kl-noisy."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.rules.base import Evidence, Excluded, Grave, Severity, Sign, lower, number, percent, raise_, rule

LEAST = 60
NOISY = 1.0
"""Scatter from point to point over the level: as large as the level itself. Recorded healthy runs: .05 to .75."""
LOUDER = 2.0


@rule(
    "KL110",
    "kl-noisy",
    Severity.WARNING,
    holds=3,
    causes=("learning rate too high for this KL penalty", "few samples a step"),
    turns=(
        lower("learning-rate", "probably too high for the present KL penalty"),
        raise_("kl-coef", "pulls the policy back after each step"),
    ),
)
def kl_noisy(kl: Kl, reward: Reward | None) -> Iterator[Sign]:
    """KL swings from step to step by as much as it measures.

    What it shows:
        A scatter over the last half as large as KL's level, and twice what it was at the start; a warning where
        the reward has fallen too, or moves beyond its sampling error.
    Why it matters:
        The distance from the reference is the policy's own: when it jumps, single updates are too large.
    Evidence:
        Scatter and level, now and at first.
    Looks like it but is not:
        An estimate that was as noisy from the start (a signed k1, few tokens); a policy that has hardly left its
        reference; single spikes (kl-spike); a climb, a fall or a jump of the level.
    What to change:
        A smaller learning rate; then a larger KL coefficient.
    How sure:
        Medium: k3 is an exponential, and single tokens move it.
    References:
        KL estimators, joschu.net/blog/kl-approx.html
    """
    reference, unrest = kl.reference, kl.unrest()
    if unrest is None or reference.points < LEAST or kl.still:
        return
    early, late = unrest
    if late < NOISY or early > NOISY or late < LOUDER * early:
        return
    half = int(reference.steps[reference.points // 2])
    if reward is None or not (reward.total.fell() or (reward.excess or 0.0) > 1.0):
        yield Grave(Severity.INFO)
    if reference.spikes:
        yield Excluded(f"not the {len(reference.spikes)} isolated spikes: the usual scatter is taken, not the largest")
    yield Evidence(
        f"since step {half} kl moves by {percent(late)} of its level from step to step ({percent(early)} at first)",
        (reference.name,),
        half,
    )
    if reward is not None and reward.total.fell():
        yield Evidence(
            f"reward/mean fell from {number(reward.total.high)} to {number(reward.total.level)}", ("reward/mean",)
        )
