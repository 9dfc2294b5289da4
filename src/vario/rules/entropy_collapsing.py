"""EN101 entropy-collapsing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Reward
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, lower, number, percent, raise_, rule

LEFT = 0.25
SOLVED = 0.88
"""Share of the ceiling from which certainty is what one wants."""
"""Share of the starting entropy under which a fall is a collapse if reward is left on the table."""


@rule(
    "EN101",
    "entropy-collapsing",
    Severity.WARNING,
    holds=3,
    causes=("learning rate too high", "upper clip bound too tight", "no exploration left in the sampling"),
    turns=(
        raise_("entropy-bonus", "pays for choice"),
        lower("learning-rate", "slows the sharpening", 0.3),
        raise_("clip-high", "lets rare good tokens grow", 1.4),
        raise_("temperature", "samples more widely", 1.2),
    ),
    explains=(
        "few-groups-carry-signal",
        "length-diversity-collapsing",
        "outputs-lose-diversity",
        "outputs-duplicated",
        "metric-over-budget",
    ),
)
def entropy_collapsing(entropy: Entropy, reward: Reward | None) -> Iterator[Sign]:
    """Entropy has fallen to a fraction of its start while reward is left on the table.

    What it shows:
        Entropy below a quarter of its start, with the reward flat or falling below its ceiling.
    Why it matters:
        A policy that has stopped choosing cannot find what it has not tried: gains end here.
    Evidence:
        Entropy at the start and now, the share left, and where the reward stands.
    Looks like it but is not:
        A solved task (reward at its ceiling, groups tied: certainty is right), a reward still rising,
        sampling at low temperature, entropy that was never computed (exactly zero from step 1).
    What to change:
        A small entropy bonus; a lower learning rate; a higher upper clip bound.
    How sure:
        High when the ceiling is known; medium without.
    References:
        Cui et al. 2025, arXiv 2505.22617
    """
    mean = entropy.mean
    if mean.points < 30 or mean.start <= 0.0 or entropy.share_left > LEFT or not mean.falls():
        return
    since = mean.since_below(0.5 * mean.start) or int(mean.steps[0])
    if reward is None:
        yield Doubt("no reward to tell it from a solved task")
    else:
        total = reward.total
        share = reward.share_of_ceiling
        if share is None:
            # without a ceiling a solved task and a dead end look the same while the reward holds
            if total.level >= total.high - 2.0 * max(total.noise_sd, 0.02 * abs(total.high)):
                return
            yield Doubt("the ceiling of the reward is not known")
        elif share >= SOLVED or total.points < 30:
            return
        late = total.late
        if share is not None and late is not None and late.rises(0.05):
            return
        if total.shape is not None and total.shape.word in ("rising", "slowing", "jumped"):
            return
        if reward.ceiling is not None and reward.floor is not None:
            # a healthy fall of entropy turns into this only where reward is left on the table
            table = total.since_below(reward.floor + SOLVED * (reward.ceiling - reward.floor))
            since = max(since, table) if table is not None else since
        yield Excluded(
            f"not a solved task: reward/mean at {number(total.level)}"
            + (f", {percent(share)} of its ceiling" if share is not None else "")
        )
    yield Evidence(
        f"entropy fell from {number(mean.start)} to {number(mean.level)} nats/token: {percent(entropy.share_left)} is left",
        ("entropy/mean",),
        since,
    )
