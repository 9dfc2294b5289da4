"""KL103 kl-runaway."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Reward
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, rule

GROWTH = 30.0


@rule(
    "KL103",
    "kl-runaway",
    Severity.CRITICAL,
    holds=2,
    causes=("learning rate far too high", "KL coefficient too small to matter", "numerical trouble in the reference"),
    explains=(
        "reward-collapsed",
        "reward-never-rises",
        "reward-is-noise",
        "signal-collapsed-unsolved",
        "component-dead",
        "few-groups-carry-signal",
        "kl-spike",
        "gradient-vanished",
        "truncation-high",
        "length-jumped",
        "gradient-spike",
        "entropy-exploding",
        "kl-nonzero-at-start",
        "mode-collapse",
        "kl-over-budget",
        "ratio-far-from-one",
        "clip-fraction-high",
        "clip-fraction-growing",
    ),
    turns=(
        raise_("kl-coef", "holds the policy back; only delays, if the learning rate is the cause"),
        lower("learning-rate", "each step is far too large", 0.1),
    ),
)
def kl_runaway(kl: Kl, reward: Reward | None) -> Iterator[Sign]:
    """KL has grown out of all proportion and nothing was gained for it.

    What it shows:
        KL at the size of another model (above 1 nat a token, or 60 a sequence), or grown thirtyfold
        over its early level, without a reward above where it began.
    Why it matters:
        There is no policy gradient worth the name that far out; samples degenerate.
    Evidence:
        The level now, the early level, and the reward.
    Looks like it but is not:
        A steady rise that the reward pays for; the first steps, where KL starts from zero; one spike.
    What to change:
        Restore a checkpoint from before; a larger KL coefficient and a tenth of the learning rate.
    How sure:
        High above 1 nat a token.
    References:
        taxonomy of public threads, kl_explosion
    """
    reference = kl.reference
    if reference.points < 10:
        return
    early = max(reference.level_at(int(reference.steps[min(19, reference.points - 1)]), 10), 1e-9)
    now = reference.level
    gained = reward is not None and reward.rises()
    if gained or (reward is not None and reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85):
        return
    large = kl.large
    if not large and (
        now < GROWTH * early or now < 0.1 * (1.0 if kl.unit == "nats/token" else 60.0) or reference.points < 40
    ):
        return
    if reference.late is not None and reference.points >= 48 and not large and not kl.rises_late():
        return
    middle = early + 0.5 * (now - early) if now > 2 * early else 0.5 * now
    since = reference.since_above(0.5 * middle) or int(reference.steps[0])
    if reference.points_since(since) < 5:
        return
    yield Evidence(f"kl is {number(now)} {kl.unit} (in the first steps {number(early)})", (reference.name,), since)
    if reward is not None:
        yield Evidence(
            f"reward/mean is {number(reward.total.level)}, it began at {number(reward.total.start)}", ("reward/mean",)
        )
