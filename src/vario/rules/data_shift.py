"""RU109 data-shift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Entropy, Length, Record, Reward
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule(
    "RU109",
    "data-shift",
    Severity.WARNING,
    holds=1,
    causes=("the data order or mixture changed there", "a curriculum stage began"),
    explains=(
        "reward-collapsed",
        "length-jumped",
        "entropy-spike",
        "reward-peaked-then-declined",
        "length-growing",
        "length-shrinking",
        "signal-dropped-suddenly",
        "entropy-exploding",
        "kl-spike",
        "step-time-jumped",
        "loss-discontinuity",
        "gradient-spike",
        "truncation-high",
        "kl-rises-without-reward",
        "kl-rises-while-reward-falls",
        "few-groups-carry-signal",
        "reward-never-rises",
        "reward-is-noise",
    ),
)
def data_shift(reward: Reward, length: Length | None, entropy: Entropy | None, record: Record) -> Iterator[Sign]:
    """Reward, length and entropy jump together at one step: the prompts changed.

    What it shows:
        Level shifts of the reward and of at least one of length and entropy within a few steps of each
        other, with learning going on afterwards.
    Why it matters:
        Levels before and after are not comparable; a best checkpoint across the seam is no best.
    Evidence:
        The step, and each jump.
    Looks like it but is not:
        A take-off (it takes a dozen steps, not one), a collapse (no re-learning, text degenerates), a broken reward (length and entropy stay), a resume.
    What to change:
        Nothing, if it is a curriculum; otherwise shuffle.
    How sure:
        Medium; the prompts themselves would prove it.
    References:
        taxonomy of public threads, data_order
    """
    if any(e.kind == "resume" for e in record.events):
        seams = [e.step for e in record.events if e.kind == "resume"]
    else:
        seams = []
    for shift in reward.total.shifts:
        if any(abs(shift.step - s) <= 3 for s in seams):
            continue
        together = []
        for name, reading in (
            ("length/mean", length.mean if length else None),
            ("entropy/mean", entropy.mean if entropy else None),
        ):
            near = [s for s in reading.shifts if abs(s.step - shift.step) <= 6] if reading is not None else []
            if near:
                together.append((name, near[0]))
        if not reward.total.sudden(shift):
            continue  # a take-off or a collapse takes its time; other prompts come from one batch to the next
        if not together or abs(shift.after - shift.before) < 0.15 * max(abs(shift.before), 1e-9):
            continue
        later = reward.total.values[int(np.searchsorted(reward.total.steps, shift.seen)) :]
        if (
            not shift.up
            and later.size >= 20
            and float(np.median(later[-10:])) < shift.after - 2.0 * reward.total.noise_sd
        ):
            continue
        yield Evidence(
            f"reward/mean went from {number(shift.before)} to {number(shift.after)} at step {shift.step}",
            ("reward/mean",),
            shift.step,
        )
        for name, other in together:
            yield Evidence(f"{name} went from {number(other.before)} to {number(other.after)} there", (name,))
        return
