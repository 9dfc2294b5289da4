"""EN104 entropy-not-falling."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Record, Reward
from vario.rules.base import Evidence, Excluded, Severity, Sign, number, percent, rule, set_

LEAST = 150
SAME = 0.1
"""Share of the start by which entropy may differ and still be where it was."""
LOW = 0.05
"""Nats a token, one in e**20 choices open: a policy that is decided has nothing left to fall by."""


@rule(
    "EN104",
    "entropy-not-falling",
    Severity.INFO,
    holds=3,
    causes=("the reward has no spread to learn from", "learning rate too low"),
    turns=(set_("learning-rate", None, "larger, if the spread of rewards is there and KL stays near zero"),),
)
def entropy_not_falling(entropy: Entropy, reward: Reward, record: Record) -> Iterator[Sign]:
    """Entropy stays where it began, and so does the reward: the policy does not commit to anything.

    What it shows:
        Entropy within a tenth of its start after 150 points, with a flat reward below its ceiling.
    Why it matters:
        Learning a preference narrows the choice. Where nothing narrows, nothing was preferred.
    Evidence:
        Entropy and reward, then and now, and the spread of rewards.
    Looks like it but is not:
        A reward that rises without it; an entropy bonus or target, which holds it up by design; a solved task; a
        policy that was decided from the start; entropy that rises (entropy-exploding).
    What to change:
        First see that rewards differ inside groups; then the learning rate.
    How sure:
        Medium: it says that nothing happens, not why.
    References:
        taxonomy of public threads, lr_wrong and zero_advantage
    """
    mean, total = entropy.mean, reward.total
    if mean.points < LEAST or total.points < LEAST or mean.start <= LOW or mean.rises() or mean.falls():
        return
    if abs(entropy.share_left - 1.0) > SAME or (entropy.bonus or 0.0) > 0.0:
        return
    if not reward.stands() or reward.solved:
        return
    if entropy.bonus is not None:
        yield Excluded("no entropy bonus holds it up")
    yield Evidence(
        f"entropy is {number(mean.level)} nats/token, {percent(entropy.share_left)} of its start, after {mean.points} points",
        ("entropy/mean",),
        int(mean.steps[0]),
    )
    yield Evidence(f"reward/mean stays near {number(total.level)}", ("reward/mean",), int(total.steps[0]))
    for name in ("reward/std/within-group", "reward/std/batch"):
        spread = record.find(name)
        if spread is not None:
            yield Evidence(f"rewards spread by {number(spread.level)}", (name,))
            return
