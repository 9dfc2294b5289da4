"""EN102 entropy-exploding."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Reward
from vario.rules.base import Doubt, Evidence, Severity, Sign, lower, number, raise_, rule


@rule(
    "EN102",
    "entropy-exploding",
    Severity.WARNING,
    holds=3,
    causes=(
        "entropy bonus too strong",
        "learning rate too high",
        "upper clip bound too wide",
        "training on truncated samples",
    ),
    explains=(
        "reward-collapsed",
        "truncation-high",
        "length-growing",
        "length-shrinking",
        "kl-rises-without-reward",
        "component-dead",
        "kl-spike",
        "outputs-garbled",
        "metric-over-budget",
    ),
    turns=(
        lower("entropy-bonus", "the first suspect when it is on", 0.0),
        lower("learning-rate", "smaller steps"),
        lower("clip-high", "less room for unlikely tokens", 0.7),
        raise_("kl-coef", "holds to the reference"),
    ),
)
def entropy_exploding(entropy: Entropy, reward: Reward | None) -> Iterator[Sign]:
    """Entropy climbs far above its start and the text turns to noise.

    What it shows:
        Entropy at least twice its start, and above 0.3 nats a token more, without the reward rising.
    Why it matters:
        Near-uniform tokens are noise: reward and format go with them.
    Evidence:
        Entropy then and now, and the reward.
    Looks like it but is not:
        Exploration that flattens out while the reward rises; a base model that learns a longer style.
    What to change:
        Entropy bonus to zero; smaller learning rate; tighter upper clip; some KL.
    How sure:
        High when the reward falls with it.
    References:
        taxonomy of public threads, entropy_explosion (13 threads)
    """
    mean = entropy.mean
    if mean.points < 20 or mean.level < 2.0 * mean.start or mean.level - mean.start < 0.3:
        return
    if reward is not None:
        if reward.rises() and reward.total.level > reward.total.high - 2.0 * reward.total.noise_sd:
            return
        if reward.total.falls() or reward.lost() > 0.3:
            yield Evidence(
                f"reward/mean fell from {number(reward.total.high)} to {number(reward.total.level)}", ("reward/mean",)
            )
        else:
            yield Doubt("the reward does not fall with it")
    since = mean.since_above(1.5 * mean.start) or int(mean.steps[0])
    yield Evidence(
        f"entropy rose from {number(mean.start)} to {number(mean.level)} nats/token", ("entropy/mean",), since
    )
