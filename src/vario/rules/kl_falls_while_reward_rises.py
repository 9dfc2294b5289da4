"""KL111 kl-falls-while-reward-rises."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, rule

LEAST = 60
RETURNED = 0.7
"""KL stands at this share of its highest level, or below."""


@rule(
    "KL111",
    "kl-falls-while-reward-rises",
    Severity.INFO,
    holds=3,
    causes=("the policy finds a nearer way to the same reward", "the reference follows the policy"),
)
def kl_falls_while_reward_rises(kl: Kl, reward: Reward) -> Iterator[Sign]:
    """The policy comes back towards its reference, and still gains.

    What it shows:
        KL that falls through the last half to less than 70 % of its highest level, while the reward rises.
    Why it matters:
        Rare and good: what was bought dearly is held more cheaply. Or the reference has moved, and KL means
        another distance now.
    Evidence:
        KL at its highest and now, and what the reward gained over the same steps.
    Looks like it but is not:
        A reference that was replaced from one step to the next (kl-reset says so); a policy that returns and
        loses its reward; noise around a level.
    What to change:
        Nothing; make sure that the reference is not synchronised.
    How sure:
        Medium: a reference that follows the policy looks the same.
    References:
        rlhfbook.com, chapter on regularisation (what KL is measured against)
    """
    reference, total = kl.reference, reward.total
    if kl.still or reference.points < LEAST or total.points < LEAST:
        return
    falling, rising = reference.late, total.late
    if falling is None or rising is None or not falling.falls() or not rising.rises():
        return
    if reference.level > RETURNED * reference.high or reference.level <= 0.0:
        return
    if any(s.abrupt and not s.up for s in reference.shifts):
        return
    since = int(reference.steps[reference.points // 2])
    yield Doubt("a reference that is synchronised with the policy looks the same")
    yield Evidence(
        f"kl fell from {number(reference.high)} to {number(reference.level)} {kl.unit}", (reference.name,), since
    )
    yield Evidence(f"reward/mean gained {number(rising.change)} since step {since}", ("reward/mean",), since)
