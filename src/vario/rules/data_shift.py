"""RU109 data-shift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Entropy, Length, Reading, Record, Reward
from vario.instruments.reading import StepShift
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, rule

APART_SDS = 4.5
"""Standard errors between a dozen points before and after, memory included."""
MATERIAL = 0.12
"""Share of its level by which each of them must move."""


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
        Medium; the prompts themselves would prove it. Information where the reward rose: a steep take-off looks alike.
    References:
        taxonomy of public threads, data_order
    """
    if any(e.kind == "resume" for e in record.events):
        seams = [e.step for e in record.events if e.kind == "resume"]
    else:
        seams = []
    readings = [reward.total]
    readings += [r for r in (length.mean if length else None, entropy.mean if entropy else None) if r is not None]
    prompts = record.find("length/prompt/mean")
    readings += [prompts] if prompts is not None else []
    for anchor in readings:
        for shift in anchor.shifts:
            if any(abs(shift.step - s) <= 3 for s in seams) or not anchor.sudden(shift):
                continue  # a take-off or a collapse takes its time; other prompts come from one batch to the next
            moved = {r.name: c for r in readings if (c := r.contrast(shift.step)) is not None and _apart(r, c)}
            if reward.total.name not in moved or len(moved) < 2 or _goes_on_falling(reward.total, shift):
                continue
            if moved[reward.total.name][1] > moved[reward.total.name][0]:
                yield Doubt("the reward rose there: a steep take-off looks alike")
                yield Grave(Severity.INFO)
            for name, (before, after, _) in moved.items():
                yield Evidence(
                    f"{name} went from {number(before)} to {number(after)} at step {shift.step}", (name,), shift.step
                )
            return


def _apart(reading: Reading, contrast: tuple[float, float, float]) -> bool:
    before, after, sds = contrast
    return abs(sds) > APART_SDS and abs(after - before) >= MATERIAL * max(abs(before), 1e-9) and reading.points >= 40


def _goes_on_falling(total: Reading, shift: StepShift) -> bool:
    """Whether the reward falls further after it fell: a collapse, not other prompts."""
    contrast = total.contrast(shift.step)
    later = total.values[int(np.searchsorted(total.steps, shift.seen)) :]
    return (
        contrast is not None
        and contrast[1] < contrast[0]
        and later.size >= 20
        and float(np.median(later[-10:])) < contrast[1] - 2.0 * total.noise_sd
    )
