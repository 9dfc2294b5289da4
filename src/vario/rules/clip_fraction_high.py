"""CL102 clip-fraction-high."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping, Reward
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, lower, number, percent, raise_, rule

HIGH = 0.1
"""A tenth of all tokens: recipes hold 0.001 to 0.05."""
HIGH_IN_REUSE = 0.02
EARLY = 24
"""Rewards from which a rise can be told from noise: one that does not rise before says nothing."""


@rule(
    "CL102",
    "clip-fraction-high",
    Severity.WARNING,
    holds=3,
    causes=("too many updates per rollout", "learning rate too high"),
    turns=(
        lower("learning-rate", "smaller steps"),
        raise_("clip-high", "with care: a wider bound clips less and lets the policy move further", 1.25),
        lower("epochs", "fewer updates per rollout"),
        lower("minibatches", "fewer updates per rollout"),
    ),
    explains=("clip-fraction-growing", "metric-over-budget"),
)
def clip_fraction_high(clipping: Clipping, reward: Reward | None) -> Iterator[Sign]:
    """A large share of tokens is clipped.

    What it shows:
        Over a tenth of all tokens; or over 2 % with four or more updates per rollout while the reward
        does not rise. Most tokens of a language model are certain and never clip: 2 % of all is a large
        share of those that could.
    Why it matters:
        Clipped tokens give no gradient: the batch is used up, the rest is drift.
    Evidence:
        The share, the updates per rollout, the reward.
    Looks like it but is not:
        A high first step; balanced clipping of a few percent in a run that learns.
    What to change:
        A smaller learning rate, or (with care) a wider bound; then fewer updates per rollout.
    How sure:
        High above a tenth; medium below.
    References:
        TRL GRPO documentation on clip_ratio
    """
    level = clipping.total.level
    if clipping.total.points < 20:
        return
    reuse = clipping.updates is not None and clipping.updates >= 4
    recent = float(np.mean(clipping.total.values[-max(10, clipping.total.points // 3) :]))
    if recent > HIGH:
        bound = HIGH
    elif reuse and recent > HIGH_IN_REUSE and reward is not None and _does_not_rise(clipping, reward):
        bound = HIGH_IN_REUSE
        yield Doubt("high for the number of uncertain tokens, not in itself")
        yield Grave(Severity.INFO)
        yield Evidence(f"reward/mean does not rise (now {number(reward.total.level)})", ("reward/mean",))
    else:
        return
    text = f"{percent(recent)} of tokens are clipped on average over the last third (now {percent(level)})"
    if clipping.updates:
        text += f", with {number(clipping.updates)} updates per rollout"
    yield Evidence(text, (clipping.total.name,), clipping.total.since_above(bound / 2) or int(clipping.total.steps[0]))


def _does_not_rise(clipping: Clipping, reward: Reward) -> bool:
    """Whether the reward has had its time, and does not rise."""
    return clipping.total.points >= EARLY and reward.total.points >= 20 and not reward.rises()
