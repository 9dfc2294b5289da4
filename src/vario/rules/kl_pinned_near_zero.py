"""KL104 kl-pinned-near-zero."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, lower, number, raise_, rule, too_early


@rule(
    "KL104",
    "kl-pinned-near-zero",
    Severity.WARNING,
    holds=3,
    causes=("KL coefficient so large that it outweighs the reward", "learning rate too low"),
    explains=(
        "reward-never-rises",
        "reward-is-noise",
        "signal-not-declining",
        "entropy-not-falling",
    ),
    turns=(
        lower("kl-coef", "lets the policy move", 0.1),
        raise_("learning-rate", "if the coefficient is small already", 3.0),
    ),
)
def kl_pinned_near_zero(kl: Kl, reward: Reward) -> Iterator[Sign]:
    """The policy does not leave its reference and the reward does not rise.

    What it shows:
        KL below 5e-3 nats a token throughout, while the reward is flat and not at its ceiling.
    Why it matters:
        The run repeats the start model at the price of a training.
    Evidence:
        KL's highest level, the coefficient, and the reward's shape.
    Looks like it but is not:
        A run that learns with little drift (reward rises), a solved task, the first hundred rows.
    What to change:
        A tenth of the KL coefficient; a larger learning rate.
    How sure:
        High when KL stopped climbing; medium, and information only, while it still creeps or may: at the fastest pace
        that its points allow it would leave within 1,000 rows.
    References:
        taxonomy of public threads, C016 to C018 and lr_wrong
    """
    total = reward.total
    if not kl.still or total.points < 80 or kl.reference.points < 80 or not total.flat():
        return
    if reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85:
        return
    if total.constant:
        return
    if kl.reference.rises() and kl.reference.shape is not None and kl.reference.shape.word in ("rising", "slowing"):
        yield Doubt("KL still creeps up")
        yield Grave(Severity.INFO)
    elif not kl.stays_still:
        yield from too_early("that KL climbs slowly", kl.reference.gains_at_most())
    elif not total.stays():
        yield from too_early("a rise", total.gains_at_most(total.points), total.points)
    text = f"kl never exceeds {number(kl.reference.high)} {kl.unit}"
    if kl.coefficient:
        text += f" at a coefficient of {number(kl.coefficient)}"
    yield Evidence(text, (kl.reference.name,), int(kl.reference.steps[0]))
    yield Evidence(f"reward/mean stays near {number(total.level)}", ("reward/mean",), int(total.steps[0]))
