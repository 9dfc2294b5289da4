"""RU101 policy-does-not-move."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Kl, Length, Record, Reward
from vario.instruments.reading import PATIENCE
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, percent, raise_, rule, too_early


@rule(
    "RU101",
    "policy-does-not-move",
    Severity.WARNING,
    holds=3,
    causes=("learning rate too low", "adapter not attached", "weights never reach the sampler"),
    turns=(raise_("learning-rate", "an order of magnitude; LoRA wants about ten times the full rate", 10.0),),
    explains=(
        "kl-pinned-near-zero",
        "reward-never-rises",
        "reward-is-noise",
        "clip-fraction-negligible",
        "signal-not-declining",
        "entropy-not-falling",
    ),
)
def policy_does_not_move(
    kl: Kl | None, reward: Reward, entropy: Entropy | None, length: Length | None, record: Record
) -> Iterator[Sign]:
    """Nothing moves: not the reward, not KL, not entropy, not length.

    What it shows:
        Flat reward over at least 100 points with KL below 1e-3 nats a token, or, where KL is not
        logged, with entropy and length within a tenth of their start.
    Why it matters:
        The run repeats the start model.
    Evidence:
        Each witness with its value.
    Looks like it but is not:
        A pinned policy (KL flat because its coefficient dominates), a solved task, no signal at all.
    What to change:
        A larger learning rate; then check what is trainable.
    How sure:
        High with KL; medium without. Information, and no warning, while KL (or without it the reward) may still climb
        slowly: at the fastest pace that the points allow, over 1,000 rows.
    References:
        taxonomy of public threads, lr_wrong (8 threads)
    """
    total = reward.total
    if total.points < 80 or total.constant or not total.flat():
        return
    if reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85:
        return
    if kl is not None:
        if kl.reference.high >= (1e-3 if kl.unit == "nats/token" else 0.05):
            return
        if not kl.stays_still:
            yield from too_early("that KL climbs slowly", kl.reference.gains_at_most())
        yield Evidence(
            f"kl never exceeds {number(kl.reference.high)} {kl.unit}", (kl.reference.name,), int(kl.reference.steps[0])
        )
    elif entropy is not None and length is not None:
        if abs(entropy.share_left - 1.0) > 0.1 or abs(length.growth - 1.0) > 0.1:
            return
        yield Doubt("KL is not logged")
        if not total.stays(rows=PATIENCE):
            yield from too_early("a slow rise", total.gains_at_most())
        yield Evidence(
            f"entropy is at {percent(entropy.share_left)} and length at {percent(length.growth)} of their start",
            ("entropy/mean", "length/mean"),
            int(total.steps[0]),
        )
    else:
        return
    yield Evidence(f"reward/mean stays near {number(total.level)}", ("reward/mean",))
    rate = record.find("learning-rate")
    if rate is not None:
        yield Evidence(f"learning-rate is {number(rate.level)}", ("learning-rate",))
