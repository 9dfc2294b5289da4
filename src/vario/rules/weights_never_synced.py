"""OP105 weights-never-synced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import EngineGap, Kl, Length, Reading, Reward, Staleness
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, number, rule, set_

LEAST = 40
GROWN = 10.0
"""From 0.015 to 0.2 within two updates in the case that was measured best: a gap of numerics does not do that."""
RESET = 0.3
"""A gap that falls below this share of its usual size and grows again: weights arrive, only late."""
MOVED = 0.15
"""Samples whose mean length has changed by this share come from a sampler that has changed."""
SWING = 4.0
"""Noises between highest and lowest: what slow noise alone reaches in nine of ten runs."""
LAGS = 2.0
"""Policy versions from which an asynchronous trainer's own lag explains a gap."""
SAME_SIZE = 2.0


@rule(
    "OP105",
    "weights-never-synced",
    Severity.CRITICAL,
    holds=3,
    causes=(
        "an adapter that is not merged into what is sent",
        "an engine that sleeps and wakes with its first weights",
        "a synchronisation that is skipped or fails without a word",
    ),
    turns=(set_("staleness-bound", 0, "synchronous sampling: a gap that grows all the same is no lag"),),
    explains=(
        "engine-mismatch",
        "behaviour-weight-off-one",
        "rollouts-too-stale",
        "importance-weight-off-one",
        "ratio-far-from-one",
        "reward-never-rises",
        "reward-is-noise",
        "kl-rises-without-reward",
    ),
)
def weights_never_synced(
    gap: EngineGap, reward: Reward | None, length: Length | None, staleness: Staleness | None, kl: Kl | None
) -> Iterator[Sign]:
    """The sampler still runs the weights it started with.

    What it shows:
        The gap between trainer and sampler begins as small as numerics make it, grows tenfold and keeps growing
        as the policy moves, never returns, and nothing that is measured on the samples moves with it.
    Why it matters:
        Every sample comes from the first model: the policy is trained, and never tried.
    Evidence:
        The gap at first and now; the reward and the length, which stand; the distance to the reference.
    Looks like it but is not:
        A constant gap of numerics or of sampling settings; the lag of an asynchronous trainer, where the gap
        settles or falls back at each hand-over; a policy that moves away with its samples (a collapse).
    What to change:
        Look at the hand-over of weights: merge adapters before sending, check engine and trainer versions. Train
        ten steps at learning rate 0: the gap must stay where it was. Sample synchronously to rule lag out.
    How sure:
        High where the samples stand and the gap equals the distance to the reference; medium without a reward.
    References:
        taxonomy of public threads, stale_weights (13); huggingface/trl issues 5312, 2698, 2856
    """
    reading = gap.gap
    if reading.points < LEAST or reading.start > gap.bounds.grown:
        return
    if reading.level <= gap.bounds.large or reading.level < GROWN * reading.start:
        return
    if not reading.rises() or reading.late is None or not reading.late.rises(0.1) or _falls_back(gap):
        return
    if staleness is not None and staleness.mean.level > LAGS:
        return
    if (reward is not None and _moves(reward.total)) or (
        length is not None and abs(length.mean.level - length.mean.start) > MOVED * length.mean.start
    ):
        return
    yield Evidence(
        f"{reading.name} was {number(reading.start)} at first and is {number(reading.level)}, and never fell back",
        (reading.name,),
        reading.since_above(gap.bounds.grown),
    )
    if reward is not None:
        yield Evidence(
            f"the samples do not change: reward/mean stays near {number(reward.total.level)}", ("reward/mean",)
        )
    else:
        yield Grave(Severity.WARNING)
        yield Doubt("no reward is logged that could show whether the samples change")
    if staleness is not None:
        yield Excluded(
            f"not the lag of asynchronous sampling: samples count as {number(staleness.mean.level)} versions old"
        )
    yield from _as_far_as_the_reference(reading, kl)


def _moves(reward: Reading) -> bool:
    """Whether it went further than its noise swings; True while it is too short to say."""
    shape = reward.shape
    return shape is None or (shape.moved and shape.top - shape.bottom > SWING * shape.noise_sd)


def _falls_back(gap: EngineGap) -> bool:
    """Whether the gap closed now and then after it had opened."""
    late = gap.gap.values[gap.gap.points // 2 :]
    return bool(np.any(late < RESET * np.median(late)))


def _as_far_as_the_reference(reading: Reading, kl: Kl | None) -> Iterator[Sign]:
    """A sampler that still is the first model lies as far from the trainer as the reference does.

    A mean absolute gap is about 0.8 sqrt(2 KL) for small Gaussian differences.
    """
    if (
        kl is None
        or kl.unit != "nats/token"
        or kl.reference.level <= 0.0
        or reading.name == "engine/probability-gap/mean"
    ):
        return
    distance = kl.reference.level
    expected = distance if reading.name == "engine/kl" else 0.8 * float(np.sqrt(2.0 * distance))
    times = reading.level / expected
    if 1.0 / SAME_SIZE <= times <= SAME_SIZE:
        yield Evidence(
            f"it is as large as the distance to the reference makes it ({kl.reference.name} is {number(distance)})",
            (kl.reference.name,),
        )
