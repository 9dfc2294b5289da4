"""KL101 kl-rises-without-reward."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.instruments.reading import PATIENCE
from vario.rules.base import Doubt, Evidence, Severity, Sign, lower, number, raise_, rule

DRIFTS = 0.35
"""Share of its level that KL gained in the last half, once it is beyond what recipes spend."""
SPEEDS_UP = 2.0 / 3.0
"""The same below that: twice what the first half cost. A steady drift, the price of learning, gains half."""


@rule(
    "KL101",
    "kl-rises-without-reward",
    Severity.WARNING,
    holds=5,
    causes=("learning rate too high for what the reward can teach", "reward is noise", "too many updates per batch"),
    turns=(
        lower("learning-rate", "each step moves the policy more than the reward can pay for"),
        raise_("kl-coef", "makes further drift cost something"),
    ),
    explains=("reward-never-rises", "reward-plateaued", "reward-is-noise", "kl-over-budget"),
)
def kl_rises_without_reward(kl: Kl, reward: Reward) -> Iterator[Sign]:
    """The policy leaves its reference and the reward does not answer.

    What it shows:
        KL to the reference climbs beyond noise over a long stretch in which the reward is flat.
    Why it matters:
        Drift is a price; here it buys nothing, and it is spent from what the model could do before.
    Evidence:
        KL's rise and the reward's interval over the same steps.
    Looks like it but is not:
        Healthy learning (reward rises with KL, or slowly: while less KL is spent than recipes spend, 0.1 nats a token,
        a rise within 1,000 rows must be excluded, or KL speed up where the reward stopped), a reward at its ceiling,
        the steep first steps from KL 0.
    What to change:
        Lower the learning rate; then a larger KL coefficient. Compare checkpoints at equal KL.
    How sure:
        High over 200 points, medium over 100.
    References:
        taxonomy of public threads, kl_drift_no_gain
    """
    total, reference = reward.total, kl.reference
    if total.points < 60 or reference.points < 60 or kl.still:
        return
    if reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85:
        return
    never = (
        total.stays(rows=0 if kl.beyond_usual else PATIENCE)
        and not total.constant
        and reference.level > 4.0 * max(reference.start, 1e-12)
        and reference.level > 0.02 * (1.0 if kl.unit == "nats/token" else 50.0)
    )
    late = total.late
    stands = (
        late is not None
        and not late.rises(0.1)
        and not late.falls(0.05)
        and late.high * late.points < max(total.noise_sd, 0.05 * abs(total.level))
    )
    if never and total.points >= 100:
        since = reference.onset_of_move()
    elif (
        kl.rises_late()
        and stands
        and (total.rises() or kl.beyond_usual)
        and reference.late is not None
        and reference.late.change > (DRIFTS if kl.beyond_usual else SPEEDS_UP) * reference.level
    ):
        since = int(reference.steps[reference.points // 2])
        yield Doubt("the reward rose earlier in the run" if total.rises() else "seen over the last half alone")
    else:
        return
    yield Evidence(
        f"kl rose from {number(reference.level_at(since))} at step {since} to {number(reference.level)} {kl.unit}",
        (reference.name,),
        since,
    )
    yield Evidence(f"reward/mean stays near {number(total.level)} over the same steps", ("reward/mean",), since)
