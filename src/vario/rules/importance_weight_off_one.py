"""OP104 importance-weight-off-one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vario.instruments import EngineGap, Ratio, Reading, Staleness
from vario.rules.base import Apart, Doubt, Evidence, Excluded, Grave, Severity, Sign, lower, number, rule, set_

BEYOND_ROUNDING = 1e-3
"""Log-probabilities that are 0.03 apart, as bf16 leaves them, move a mean weight by half their variance: 0.0005."""
CLEARLY = 1e-2
"""A mean that is a hundredth off where it must be 1: per-token errors of 0.14 nats, which no rounding makes."""
DRIFTED = 0.05
"""With several updates the weight moves by design, and hardly in the mean: PPO runs that learn hold 0.99 to 1.01."""
LEAST = 10
MOSTLY = 0.8


@rule(
    "OP104",
    "importance-weight-off-one",
    Severity.WARNING,
    holds=2,
    causes=(
        "too many minibatches of one rollout batch",
        "kernels whose result depends on the batch (mixture of experts, tensor parallelism)",
        "old log-probabilities that came from the sampling engine",
    ),
    turns=(
        lower("minibatches", "fewer updates between the old and the new policy; at 1 the weight is exactly 1"),
        set_("deterministic-kernels", True, "at one update the rest is numerics: two passes must give the same values"),
        set_("recompute-logprob", True, "then the gap to the engine: old log-probabilities by the trainer itself"),
    ),
    explains=("ratio-far-from-one",),
)
def importance_weight_off_one(ratio: Ratio, staleness: Staleness | None, gap: EngineGap | None) -> Iterator[Sign]:
    """The weight between the old and the new policy is not 1 on average.

    What it shows:
        With one update per rollout batch, a mean weight that is off 1 by more than rounding (0.001). With
        several, one that stays off by more than 0.05 over the last third.
    Why it matters:
        The expectation of the weight is 1. With one update old and new policy are the same weights, so that any
        difference is a defect of the computation; with several it says that the last minibatches are trained far
        from the policy that sampled them.
    Evidence:
        The mean weight, the updates per rollout, and the gap to the sampling engine where it is logged.
    Looks like it but is not:
        Rounding in bf16; a weight that scatters around 1 within a run of several updates; an asynchronous trainer
        whose ratio is taken against the sampler, where lag moves it.
    What to change:
        Above one minibatch, fewer of them. At one: deterministic kernels, above all for mixtures of experts; then
        the gap between trainer and engine (see engine-mismatch).
    How sure:
        High with one update; medium where the number of updates is not known.
    References:
        AReaL, guide to diagnosing RL performance: reduce ppo_n_minibatches; at 1 the weight is 1 in theory
        verl and NeMo-RL documentation on kernels that are not batch-invariant
    """
    mean = ratio.mean
    if mean.points < LEAST:
        return
    once = ratio.updates == 1.0
    bound = BEYOND_ROUNDING if once else DRIFTED
    apart = np.abs(mean.values - 1.0)
    last = apart[-max(LEAST, mean.points // 3) :]
    if float(np.mean(last > bound)) < MOSTLY:
        return
    if once and mean.name == "ratio/mean" and staleness is not None and staleness.mean.level > 0.0:
        return
    off, since = float(np.median(last)), _since(mean, apart > bound)
    if once:
        yield Evidence(
            f"{mean.name} is {number(off)} away from 1 with one update per rollout, where it must be exactly 1",
            (mean.name,),
            since,
        )
        yield Apart("kl-rises-while-reward-falls", "with one update no drift moves it")
        if off < CLEARLY:
            yield Grave(Severity.INFO)
        yield from _engine(gap)
        return
    text = f"{mean.name} lies {number(off)} away from 1 over the last third"
    if ratio.updates is None:
        yield Doubt("the updates per rollout are not known: with one, any deviation is a defect")
    else:
        text += f", with {number(ratio.updates)} updates per rollout"
    yield Evidence(text, (mean.name,), since)


def _since(mean: Reading, outside: NDArray[np.bool_]) -> int:
    """First step from which it lies outside in most steps until now, on whichever side."""
    share = np.cumsum(outside[::-1])[::-1] / np.arange(outside.size, 0, -1)
    return int(mean.steps[int(np.flatnonzero((share >= MOSTLY) & outside)[0])])


def _engine(gap: EngineGap | None) -> Iterator[Sign]:
    if gap is None:
        return
    text = f"{gap.gap.name} is {number(gap.gap.level)}"
    if gap.gap.level > gap.bounds.grown:
        yield Evidence(f"{text}: trainer and engine disagree as well", (gap.gap.name,))
    else:
        yield Excluded(f"not the sampling engine: {text}")
