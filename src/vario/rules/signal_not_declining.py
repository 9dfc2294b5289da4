"""SG106 signal-not-declining."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record, Reward, Signal, Witness
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, required, rule, set_

LEAST = 150
"""Points: Unsloth's guide asks for 150 to 300 steps before a reward is judged."""
KEPT = 0.85
"""Share of the first spread that is still there: learning to prefer the better completions narrows it."""
WIDE = 0.2
"""Share of the reward's range from which there is a difference to learn from."""


@rule(
    "SG106",
    "signal-not-declining",
    Severity.INFO,
    holds=3,
    causes=("the reward does not depend on what the policy can change", "learning rate too low, or too high"),
    turns=(set_("learning-rate", None, "too low where KL stays near zero, too high where it climbs"),),
)
def signal_not_declining(signal: Signal, reward: Reward, witness: Witness | None, record: Record) -> Iterator[Sign]:
    """Rewards lie as far apart as at the start, over a long run that gains nothing.

    What it shows:
        A wide spread of rewards at 85 % or more of its start after 150 points, with the reward where it began.
    Why it matters:
        There is a difference between good and bad completions in every batch, and the policy does not come to
        prefer the good ones: either its steps are wrong, or what is rewarded cannot be learnt.
    Evidence:
        The spread then and now, the reward over the same steps.
    Looks like it but is not:
        A reward that rises (the spread may stay wide on the way); a spread that falls; a solved task; a held-out
        score that rises; groups resampled until they have spread; the first 150 points.
    What to change:
        Check the reward function by hand on stored completions; then the learning rate.
    How sure:
        High for the spread inside groups; medium for the batch's, which prompts of unequal difficulty keep wide.
    References:
        taxonomy of public threads, reward_plateau and shaped_or_noise_advantage
    """
    within = signal.within if signal.within is not None and signal.within.points >= LEAST else None
    spread, total = required(within or signal.batch or signal.within, "reward/std/within-group"), reward.total
    if total.points < LEAST or spread.points < LEAST or not reward.stands() or reward.solved:
        return
    if spread.falls() or spread.level < KEPT * spread.start or spread.level < WIDE * reward.span:
        return
    filtered = record.find("signal/groups-dropped")
    if record.declared.reward_filtered or (filtered is not None and filtered.level > 0.0):
        return
    if witness is not None and witness.score.rises():
        return
    if spread is not signal.within:
        yield Doubt("this is the spread of the whole batch: prompts of unequal difficulty keep it wide")
    if reward.share_of_ceiling is not None:
        yield Excluded(f"not solved: reward/mean at {number(total.level)} of {number(reward.ceiling or 0.0)}")
    yield Evidence(
        f"rewards spread by {number(spread.start)} at first and by {number(spread.level)} now",
        (spread.name,),
        int(spread.steps[0]),
    )
    yield Evidence(
        f"reward/mean stays near {number(total.level)} over {total.points} points",
        ("reward/mean",),
        int(total.steps[0]),
    )
