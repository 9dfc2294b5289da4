"""TX101 outputs-lose-diversity."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Diversity, Reward
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, lower, number, percent, raise_, rule

LEFT = 0.5
"""Share of the diversity at the start below which it is said. Four distinct texts of eight read .56 by compression."""
LEAST, LEAST_REWARDS = 12, 30
SOLVED = 0.85
BROKE = 0.3
"""Of the best reward, lost from one batch to the next: a reward function or the data, not what the policy does."""
LOST = 0.15
"""Share of the best reward that must be gone before the fall of diversity is held to be its price."""


@rule(
    "TX101",
    "outputs-lose-diversity",
    Severity.WARNING,
    holds=3,
    causes=("updates that sharpen faster than the reward can tell", "one template that pays everywhere", "no KL"),
    turns=(
        raise_("temperature", "samples more widely", 1.2),
        raise_("entropy-bonus", "pays for choice"),
        lower("learning-rate", "slows the sharpening"),
    ),
)
def outputs_lose_diversity(diversity: Diversity, reward: Reward) -> Iterator[Sign]:
    """The completions have become alike, and the reward is not what they agree on.

    What it shows:
        Diversity of the completions under half of its start (a group's compressed size, or distinct texts), while
        the reward is flat or falling; information where it rose before and rests below its ceiling.
    Why it matters:
        Groups without differences have no advantage: what the policy no longer tries it cannot learn.
    Evidence:
        Diversity then and now, the reward over the same steps.
    Looks like it but is not:
        A task being learnt: answers agree because they become right (the reward rises, or is near its ceiling);
        a reward that broke, or harder data, after the answers had come to agree (it fell between two batches);
        sampling that was narrow from the first batch; answers that get longer or shorter but keep differing.
    What to change:
        A higher temperature, an entropy bonus, a smaller learning rate; read samples of one group.
    How sure:
        High where the reward fell with it; lower where its ceiling is not known.
    References:
        seed texts of the project (response diversity)
        compression as a measure of diversity: https://arxiv.org/abs/2403.00553
    """
    measure, left = diversity.least_left
    total = reward.total
    if measure.points < LEAST or total.points < LEAST_REWARDS or left > LEFT:
        return
    if measure.start - measure.level < 2.0 * measure.noise_sd:
        return
    broken = max((s.step for s in total.shifts if s.abrupt and s.before - s.after > BROKE * total.high), default=None)
    if broken is not None and (
        diversity.left(measure, broken) <= LEFT or total.level > total.level_at(broken + 1) + 2.0 * total.noise_sd
    ):
        return
    share = reward.share_of_ceiling
    late = total.late
    if (share is not None and share > SOLVED) or (late is not None and late.rises(0.1)):
        return
    if total.rises() and reward.lost() < LOST:
        yield Grave(Severity.INFO)
        if share is None:
            yield Doubt("the reward's ceiling is not known: this may be all there is to gain")
    else:
        yield Excluded("answers that agree because they are right: the reward does not rise")
    since = measure.since_below(0.5 * (measure.start + measure.level))
    yield Evidence(
        f"{measure.name} fell from {number(measure.start)} to {number(measure.level)}"
        f" ({percent(max(left, 0.0))} of what it was)",
        (measure.name,),
        since,
    )
    yield Evidence(
        f"reward/mean stands at {number(total.level)}; its best level was {number(total.high)}", ("reward/mean",)
    )
