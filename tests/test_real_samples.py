"""The rules on samples, asked about completions that a real trainer wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.real import PLACES
from tests.real.text import Alter, Batch, sampled, with_samples
from vario.catalogue.metric import lookup
from vario.rules import find_rule
from vario.testing import verdict

pytest.importorskip("polars")

ONSET = 80


def garbled(step: int, batch: Batch) -> Batch:
    """Half of the completions lose their last characters to a broken decoder."""
    if step < ONSET:
        return batch
    texts = [t[:-2] + "\ufffd\ufffd" if i % 2 else t for i, t in enumerate(batch.texts)]
    return replace(batch, texts=texts)


def crumbs(step: int, batch: Batch) -> Batch:
    """A style score of a thousandth, different for every completion, is added to the reward."""
    if step < ONSET:
        return batch
    noise = np.random.default_rng(step).uniform(0.0, 1e-3, batch.rewards.shape)
    return replace(batch, rewards=batch.rewards + noise)


def padded(step: int, batch: Batch) -> Batch:
    """Every other completion is four times as long."""
    if step < ONSET:
        return batch
    long = np.arange(batch.lengths.shape[1]) % 2 == 1
    return replace(batch, lengths=np.where(long, 4.0 * batch.lengths, batch.lengths), cut=np.zeros_like(batch.cut))


@dataclass(frozen=True)
class OnSamples:
    """What a rule says at the end of a recorded run, with its completions counted (and a fault in them)."""

    rule: str
    says: str
    run: str
    why: str
    alter: Alter | None = None
    until: int | None = None


CASES = (
    OnSamples("outputs-lose-diversity", "fires", "lr_too_high-s0", "one loop for every prompt, at reward 0"),
    OnSamples("outputs-lose-diversity", "fires", "entropy_collapse-s0", "alike, past the peak of the reward", until=170),
    OnSamples("outputs-lose-diversity", "clear", "healthy_grpo-s0", "alike because right"),
    OnSamples("outputs-lose-diversity", "clear", "healthy_long-s0", "a solved task: one right answer a prompt"),
    OnSamples("outputs-lose-diversity", "clear", "temperature_low-s0", "alike from the first batch"),
    OnSamples("outputs-lose-diversity", "clear", "reward_parser_bug_midrun-s0", "alike while right, then a parser broke"),
    OnSamples("outputs-lose-diversity", "clear", "data_shift-s0", "harder data, and relearning"),
    OnSamples("outputs-repeat", "fires", "reward_noise-s0", "sevens up to the cap"),
    OnSamples("outputs-repeat", "fires", "lr_too_high-s0", "one tag, over and over"),
    OnSamples("outputs-repeat", "clear", "peak_then_decline-s0", "padded to the cap without a loop"),
    OnSamples("outputs-repeat", "clear", "healthy_long-s0", "no loops"),
    OnSamples("outputs-garbled", "fires", "healthy_grpo-s0", "replacement characters from step 80 on", garbled),
    OnSamples("outputs-garbled", "clear", "healthy_grpo-s0", "clean text"),
    OnSamples("outputs-duplicated", "fires", "brevity_hack-s0", "a short guess for every prompt, and it pays"),
    OnSamples("outputs-duplicated", "fires", "lr_too_high-s0", "one loop for every prompt"),
    OnSamples("outputs-duplicated", "clear", "saturation-s0", "copies inside groups alone: solved"),
    OnSamples("outputs-duplicated", "clear", "temperature_low-s0", "copies inside groups alone: sampled narrowly"),
    OnSamples("lengths-bimodal", "fires", "healthy_grpo-s0", "every other answer four times as long", padded),
    OnSamples("lengths-bimodal", "clear", "healthy_grpo-s0", "all but converged, with a few strays"),
    OnSamples("lengths-bimodal", "clear", "lr_too_low-s0", "two habits that overlap"),
    OnSamples("length-buys-reward", "fires", "length_hack-s0", "padding is paid"),
    OnSamples("length-buys-reward", "fires", "peak_then_decline-s0", "length is paid and the task's score is gone"),
    OnSamples("length-buys-reward", "clear", "healthy_grpo-s0", "right answers show their working"),
    OnSamples("length-buys-reward", "clear", "healthy_offpolicy_mild-s0", "right answers show their working"),
    OnSamples("length-buys-reward", "clear", "resume_discontinuity-s0", "right answers show their working"),
    OnSamples("truncation-biases-reward", "fires", "peak_then_decline-s0", "running into the cap wins"),
    OnSamples("truncation-biases-reward", "clear", "reward_noise-s0", "most are cut, and a random reward does not mind"),
    OnSamples("truncation-biases-reward", "unknown", "healthy_grpo-s0", "hardly any group holds a cut completion"),
    OnSamples("signal-from-shaping-only", "fires", "reward_noise-s0", "nobody is right, and noise makes advantages"),
    OnSamples("signal-from-shaping-only", "clear", "healthy_grpo-s0", "right and wrong answers differ"),
    OnSamples("signal-from-shaping-only", "clear", "healthy_long-s0", "tied groups are solved"),
    OnSamples("tiny-spread-amplified", "fires", "healthy_long-s0", "solved groups differ by a thousandth", crumbs),
    OnSamples("tiny-spread-amplified", "clear", "healthy_long-s0", "solved groups are tied"),
    OnSamples("metric-contradicts-samples", "fires", "brevity_hack-s0", "TRL misses ties that float32 has rounded apart"),
    OnSamples("metric-contradicts-samples", "clear", "healthy_grpo-s0", "both count the same"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule} {c.says}: {c.run}{' +' if c.alter else ''}")
def test_on_real_samples(case: OnSamples) -> None:
    if not (PLACES["lab"] / case.run).exists():
        pytest.skip("no labelled runs here (set VARIO_SHARED)")
    run = with_samples(f"lab/{case.run}", case.alter)
    end = case.until or run.last_step
    assert end is not None
    assert verdict(find_rule(case.rule), run, end) == case.says, case.why


def test_counted_series_are_metrics_of_the_catalogue() -> None:
    if not (PLACES["lab"] / "length_hack-s0").exists():
        pytest.skip("no labelled runs here (set VARIO_SHARED)")
    for name, series in sampled(PLACES["lab"] / "length_hack-s0").items():
        metric = lookup(name)
        assert np.isfinite(series.values).all(), name
        assert metric.low <= series.values.min() <= series.values.max() <= metric.high + 1e-9, name
