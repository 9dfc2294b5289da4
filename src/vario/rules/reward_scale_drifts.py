"""RW116 reward-scale-drifts."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Gradient, Reward, RewardScale
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, rule, set_

LEAST = 60
WIDER = 2.0
"""Times its start that the spread must be: unscaled advantages are then twice as large at the same learning rate."""
MUCH_WIDER = 4.0


@rule(
    "RW116",
    "reward-scale-drifts",
    Severity.WARNING,
    holds=3,
    causes=("raw rewards go into the advantages", "the reward function's range opens up as the policy improves"),
    turns=(
        set_("reward-scaling", None, "divide advantages by a spread, of the group or of the batch"),
        set_("reward-bounds", None, "fit the bounds to where the rewards lie by now"),
    ),
    explains=("gradient-growing",),
)
def reward_scale_drifts(scale: RewardScale, reward: Reward, gradient: Gradient | None) -> Iterator[Sign]:
    """Raw rewards lie further and further apart, and nothing scales them.

    What it shows:
        A spread of rewards that has grown to twice its start or more, in a run that does not divide advantages
        by it; a warning from four times, or where the gradient norm has doubled with it.
    Why it matters:
        Unscaled advantages are as large as the rewards lie apart: the learning rate that fitted the first
        steps is by now that much too large.
    Evidence:
        The spread then and now, the setting, and the gradient norm.
    Looks like it but is not:
        Advantages that are divided by a spread; 0/1 rewards, whose spread opens and closes with the share
        solved; a spread that shrinks as groups are solved; a single wild batch.
    What to change:
        Scale rewards; or bound them and set the learning rate anew.
    How sure:
        High where the run's own configuration says so; medium where it is the framework's default.
    References:
        Liu et al. 2025, arXiv 2503.20783 (what dividing by the spread does, and what leaving it out does)
    """
    spread = scale.spread
    if scale.scaled is None:
        raise NotReadable(spread.name, reason="the configuration does not say whether rewards are scaled")
    if scale.scaled or reward.ceiling is not None or spread.points < LEAST or not spread.rises():
        return
    start = max(spread.start, 0.1 * spread.high)
    if spread.level < WIDER * start or spread.level - start < 3.0 * spread.noise_sd / spread.points**0.5:
        return
    if spread.level - start < spread.noise_sd:
        return
    steeper = gradient is not None and gradient.norm.rises() and gradient.norm.level > WIDER * gradient.norm.start
    if spread.level < MUCH_WIDER * start and not steeper:
        yield Grave(Severity.INFO)
    if scale.assumed:
        yield Doubt("that rewards are not scaled is the framework's default, not this run's word")
    yield Evidence(
        f"rewards spread by {number(spread.start)} at first and by {number(spread.level)} now, with {scale.setting}",
        (spread.name,),
        spread.onset_of_move(),
    )
    if gradient is not None and steeper:
        yield Evidence(
            f"the gradient norm went from {number(gradient.norm.start)} to {number(gradient.norm.level)}",
            ("gradient/norm",),
        )
