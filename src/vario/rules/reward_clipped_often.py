"""RW117 reward-clipped-often."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Reading, RewardBounds
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, percent, rule, set_

LEAST = 20
NOTABLE = 0.05
HIGH = 0.2
"""A fifth of the batch at a bound: what is learnt from a batch is a comparison, and so many are equal in it."""
TOUCHES = 0.9
"""Share of batches whose extreme lies at or beyond a bound."""
EDGE = 1e-6
GRADES = 5
"""Values of the extreme, other than the bound, that tell a graded score from one of a few marks."""


@rule(
    "RW117",
    "reward-clipped-often",
    Severity.WARNING,
    causes=("bounds too narrow for this reward", "rewards have outgrown bounds that fitted at first"),
    turns=(set_("reward-bounds", None, "wide enough for the range that rewards have by now"),),
)
def reward_clipped_often(bounds: RewardBounds) -> Iterator[Sign]:
    """Many rewards are cut at their bounds.

    What it shows:
        A fifth or more of the rewards at a bound, as logged, or because their mean lies at it; as information,
        a twentieth, or a best or worst sample beyond a bound in nearly every batch.
    Why it matters:
        Beyond the bound everything is equal: the best are not told from the good, and no gradient says so.
    Evidence:
        The share; else the bound and where mean and extremes lie.
    Looks like it but is not:
        A 0/1 reward, or one of a few marks, whose best is the bound itself: nothing is cut there; rewards
        inside the bounds, with an extreme that touches one now and then.
    What to change:
        Wider bounds, or rewards scaled to fit them.
    How sure:
        High where the share is logged, or the mean passes a bound; low from extremes alone.
    References:
        N+ implementation details of RLHF with PPO, arXiv 2403.17031 (reward normalisation and clipping)
    """
    clipped = bounds.clipped
    if clipped is not None:
        if clipped.points >= LEAST and clipped.level > NOTABLE:
            if clipped.level <= HIGH:
                yield Grave(Severity.INFO)
            yield Evidence(
                f"{percent(clipped.level)} of rewards are cut at a bound", (clipped.name,), clipped.since_above(NOTABLE)
            )
        return
    low, high, mean = bounds.low, bounds.high, bounds.mean
    if low is None or high is None or mean is None:
        raise NotReadable("reward/clipped-share", reason="no bounds of the reward are known")
    if mean.points < LEAST:
        return
    edge = EDGE * (high - low)
    doubt = Doubt("the bounds are the framework's default, not this run's word")
    for bound, sign, extreme in ((high, 1.0, bounds.largest), (low, -1.0, bounds.smallest)):
        side = "above" if sign > 0 else "below"
        if sign * (mean.level - bound) > edge:
            if bounds.assumed:
                yield doubt
            yield Evidence(
                f"reward/mean is {number(mean.level)}, {side} the bound {number(bound)}: most rewards are cut there",
                (mean.name,),
                mean.since_above(bound) if sign > 0 else mean.since_below(bound),
            )
        elif extreme is not None and extreme.points >= LEAST:
            passed = sign * (extreme.values[extreme.points // 2 :] - bound)
            beyond = float((passed > edge).mean()) >= TOUCHES
            pinned = float((abs(passed) <= edge).mean()) >= TOUCHES and _graded(extreme, bound, edge)
            if beyond or pinned:
                yield Grave(Severity.INFO)
                yield Doubt("how many samples lie there is not logged")
                yield Evidence(
                    f"{extreme.name} is {number(extreme.level)}, {'beyond' if beyond else 'exactly at'} the bound "
                    f"{number(bound)}, in nearly every batch",
                    (extreme.name,),
                    extreme.since_above(bound - edge) if sign > 0 else extreme.since_below(bound + edge),
                )


def _graded(extreme: Reading, bound: float, edge: float) -> bool:
    """Whether it took many values before it came to the bound: a 0/1 reward takes two, and is cut nowhere."""
    return len({round(v, 6) for v in extreme.values.tolist() if abs(v - bound) > edge}) >= GRADES
