"""KL102 kl-rises-while-reward-falls."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, rule


@rule(
    "KL102",
    "kl-rises-while-reward-falls",
    Severity.CRITICAL,
    holds=3,
    causes=("learning rate too high", "over-optimisation", "sampler and trainer disagree"),
    explains=(
        "reward-collapsed",
        "reward-peaked-then-declined",
        "kl-runaway",
        "length-shrinking",
        "kl-penalty-outweighs-reward",
        "clip-fraction-high",
        "kl-spike",
        "length-jumped",
        "gradient-spike",
        "gradient-growing",
        "entropy-exploding",
        "component-dead",
        "signal-collapsed-unsolved",
        "few-groups-carry-signal",
        "truncation-high",
        "entropy-collapsing",
        "signal-dropped-suddenly",
        "ratio-far-from-one",
        "importance-weight-off-one",
        "clip-fraction-growing",
        "kl-over-budget",
    ),
    turns=(
        raise_("kl-coef", "holds the policy nearer to where the reward was"),
        lower("learning-rate", "the steps are too large"),
    ),
)
def kl_rises_while_reward_falls(kl: Kl, reward: Reward) -> Iterator[Sign]:
    """The policy drifts away and gets worse for it.

    What it shows:
        KL stands far above where the reward was best, and the reward has fallen from there.
    Why it matters:
        The worst of the regimes: you pay, and you lose. Every step makes the way back longer.
    Evidence:
        KL and reward at the reward's best and now.
    Looks like it but is not:
        A reward function that broke (KL does not move then), harder data (KL hardly moves), a dip of noise with
        memory (the fall must outlast it).
    What to change:
        Stop, go back to the best checkpoint; then a larger KL coefficient, a lower learning rate.
    How sure:
        High: two independent moves in the wrong direction.
    References:
        taxonomy of public threads, kl_explosion (15 threads)
    """
    total, reference = reward.total, kl.reference
    if total.points < 40 or kl.still or total.shape is None:
        return
    if not total.fell() or reward.lost() < 0.2 or total.high - total.level < 2.0 * total.noise_sd:
        return
    if not total.fell_beyond_noise(total.high):
        return
    best = total.best_step()
    then, now = reference.level_at(best), reference.level
    if now < 1.5 * max(then, 1e-12) or now - then < 3.0 * reference.noise_sd / max(1.0, reference.points / 40) ** 0.5:
        return
    yield Evidence(f"kl went from {number(then)} at step {best} to {number(now)} {kl.unit}", (reference.name,), best)
    yield Evidence(f"reward/mean fell from {number(total.high)} to {number(total.level)}", ("reward/mean",), best)
