"""RW115 reward-grows-without-bound."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Length, Record, Reward, RewardBounds, Witness
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, number, raise_, rule, set_

LEAST = 100
FAR = 5.0
"""Times its early scale (level and spread at the start, whichever is larger) that the reward has climbed."""
STEADY = 0.8
"""A last half that climbs at this share of the whole run's rate has not slowed."""
DEARER = 1.5
"""KL for a unit of reward in the last half over that in the first: each gain costs more."""
LONGER = 1.5


@rule(
    "RW115",
    "reward-grows-without-bound",
    Severity.WARNING,
    holds=3,
    causes=("the score pays for something that can be had without end", "a reward model far outside its data"),
    turns=(
        raise_("kl-coef", "if KL is high by now: it holds the policy where the score still means something"),
        set_("reward-bounds", None, "a bound takes away what can be gained beyond it"),
    ),
)
def reward_grows_without_bound(
    reward: Reward,
    bounds: RewardBounds | None,
    kl: Kl | None,
    length: Length | None,
    witness: Witness | None,
    record: Record,
) -> Iterator[Sign]:
    """The reward climbs and climbs, far beyond its early scale, and nothing else says that this is progress.

    What it shows:
        A climb that has not slowed, of more than five times the early scale, while a held-out score stands or
        falls, KL costs more with each gain, or length grows; or while none of them is logged.
    Why it matters:
        Tasks have an end, loopholes have none: a score without a ceiling that never slows is more often
        an exploited scorer than a policy that gets better for ever.
    Evidence:
        The reward then and now, and the witness that disagrees.
    Looks like it but is not:
        A score with a ceiling: 0/1 functions, values within [-1, 1], configured bounds, a best sample that
        stays the same; a climb that slows; a held-out score that climbs along; KL and length at rest.
    What to change:
        Look at KL first, then read the samples with the highest reward; bound the score.
    How sure:
        High with a held-out score; low where no witness is logged.
    References:
        Gao et al. 2022, arXiv 2210.10760
    """
    total = reward.total
    if total.points < LEAST or not _climbs(reward) or _has_ceiling(reward, record):
        return
    if bounds is not None and bounds.low is not None:
        return
    since = total.onset_of_move()
    climb = Evidence(
        f"reward/mean rose from {number(total.start)} to {number(total.level)} and has not slowed",
        ("reward/mean",),
        since,
    )
    if witness is not None:
        score = witness.score
        if score.rises() and not (score.late is not None and score.late.falls()):
            return  # what nobody optimises climbs along
        if score.shape is None:
            yield Doubt(f"too few points of the {witness.source}")
            yield Grave(Severity.INFO)
        yield climb
        yield Evidence(
            f"{score.name} ({witness.source}) went from {number(score.start)} to {number(score.level)}", (score.name,)
        )
        return
    against = [*_dearer(kl, reward), *_longer(length)]
    if kl is not None and not against:
        return  # KL is at rest, or pays at a steady price
    if kl is None:
        yield Doubt("no KL and no held-out score is logged")
    if kl is None or len(against) < 2:
        yield Grave(Severity.INFO)
    yield Excluded("no ceiling is known: neither 0/1 functions nor bounds")
    yield climb
    yield from against


def _climbs(reward: Reward) -> bool:
    total, late = reward.total, reward.total.late
    if total.shape is None or not total.rises() or late is None or not late.rises():
        return False
    if late.slope < STEADY * (total.shape.end - total.shape.start) / total.points:
        return False
    scale = max(abs(total.start), total.noise_sd, reward.spread.start if reward.spread is not None else 0.0)
    return total.level - total.start > FAR * scale


def _has_ceiling(reward: Reward, record: Record) -> bool:
    """Whether 0/1 functions prove it, all values lie within [-1, 1], or the best sample has long been the same."""
    values, best = reward.total.values, record.find("reward/max")
    if reward.ceiling is not None or (float(values.min()) >= -1.0 - 1e-6 and float(values.max()) <= 1.0 + 1e-6):
        return True
    same = best.constant_since if best is not None else None
    return best is not None and same is not None and best.points_since(same) >= best.points / 2


def _dearer(kl: Kl | None, reward: Reward) -> Iterator[Evidence]:
    if kl is None:
        return
    reference = kl.reference
    half = int(reference.steps[reference.points // 2])
    first, last = reference.level_at(half) - reference.start, reference.level - reference.level_at(half)
    total = reward.total
    gained, gains = total.level_at(half) - total.start, total.level - total.level_at(half)
    # KL for a unit of reward: a climb that began late has its KL late as well
    dearer = kl.rises_late() and gained > 0.0 and last * gained > DEARER * max(first, 0.0) * gains
    if kl.large or dearer:
        yield Evidence(
            f"kl rose from {number(reference.start)} over {number(reference.level_at(half))} to {number(reference.level)} {kl.unit}",
            (reference.name,),
        )


def _longer(length: Length | None) -> Iterator[Evidence]:
    if length is None:
        return
    mean = length.mean
    if mean.rises() and length.growth > LONGER and mean.late is not None and mean.late.rises():
        yield Evidence(f"mean length grew from {number(mean.start)} to {number(mean.level)} tokens", ("length/mean",))
