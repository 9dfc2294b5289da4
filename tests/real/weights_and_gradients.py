"""Weights between policies, losses and gradients, the value function, clipping, entropy and length on real logs."""

from __future__ import annotations

import numpy as np

from tests.real import Fault, OnRealLog, after, drawn
from vario.run import Floats, Ints

ONE_UPDATE = {"num_ppo_epochs": 1, "num_mini_batches": 1}
GAP = "sampling/sampling_logp_difference/mean"


def spike(step: int, factor: float) -> Fault:
    """One value, that many times what it was."""

    def fault(values: Floats, steps: Ints) -> Floats:
        values[steps == step] *= factor
        return values

    return fault


REAL = (
    # importance weights, the sampling engine, staleness
    OnRealLog("engine-mismatch", "fires", "lab/stale_rollouts-s0", "provoked", "samples from weights 25 steps old"),
    OnRealLog(
        "engine-mismatch",
        "clear",
        "lab/healthy_grpo-s0",
        "injected",
        "the constant gap of another engine's numerics",
        {GAP: drawn(lambda t: 0.01 + 0.0 * t, 0.001)},
    ),
    OnRealLog("engine-mismatch", "unknown", "lab/healthy_grpo-s0", "recorded", "sampled without an engine: no gap"),
    OnRealLog(
        "behaviour-weight-off-one",
        "fires",
        "lab/stale_rollouts-s0",
        "provoked",
        "most sequences are masked out",
        until=120,
    ),
    OnRealLog(
        "behaviour-weight-off-one",
        "clear",
        "lab/healthy_grpo-s0",
        "injected",
        "top-p 0.95 keeps a mass of 0.954",
        {"sampling/importance_sampling_ratio/mean": drawn(lambda t: 0.954 + 0.0 * t, 0.01)},
    ),
    OnRealLog(
        "rollouts-too-stale",
        "fires",
        "corpus/verl-gsm8k-q7b-async",
        "injected",
        "a queue that grows",
        {"training/off_policy/trajectory_staleness/mean": drawn(lambda t: 1.0 + 7.0 * t, 0.3)},
        beside="actor/pg_loss",
    ),
    OnRealLog(
        "rollouts-too-stale",
        "clear",
        "corpus/verl-gsm8k-q7b-async",
        "injected",
        "one version of lag throughout",
        {"training/off_policy/trajectory_staleness/mean": drawn(lambda t: 1.0 + 0.0 * t, 0.2)},
        beside="actor/pg_loss",
    ),
    OnRealLog(
        "importance-weight-off-one",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "one update per rollout, and kernels that depend on the batch",
        {"val/ratio": drawn(lambda t: 1.03 + 0.0 * t, 0.004)},
        config=ONE_UPDATE,
    ),
    OnRealLog(
        "importance-weight-off-one",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "four epochs that move the policy far from its samples",
        {"val/ratio": drawn(lambda t: 1.0 + 0.15 * t, 0.01)},
    ),
    OnRealLog(
        "importance-weight-off-one", "clear", "lab/ppo_healthy-s0", "recorded", "four epochs, a mean within 0.005 of 1"
    ),
    OnRealLog(
        "importance-weight-off-one",
        "clear",
        "corpus/km-ppo-v2-2025",
        "recorded",
        "a ratio that scatters around 1 by 0.01",
    ),
    OnRealLog(
        "weights-never-synced",
        "fires",
        "golden/grpo-lr-too-low",
        "injected",
        "reward and length stand while the gap to the sampler grows from numerics to a nat",
        {GAP: drawn(lambda t: 0.01 + np.maximum(t - 0.05, 0.0), 0.004)},
    ),
    OnRealLog(
        "weights-never-synced", "clear", "lab/stale_rollouts-s0", "provoked", "late, not never: the samples change"
    ),
    OnRealLog(
        "weights-never-synced",
        "clear",
        "golden/grpo-healthy-kl",
        "injected",
        "the gap grows, and so does the reward: the sampler learns",
        {GAP: drawn(lambda t: 0.01 + np.maximum(t - 0.05, 0.0), 0.004)},
    ),
    # losses and gradients
    OnRealLog("non-finite", "fires", "lab/nan_midrun-s0", "provoked", "a loss that became NaN"),
    OnRealLog("non-finite", "clear", "lab/healthy_grpo-s0", "recorded", "every value is finite"),
    OnRealLog("gradient-spike", "fires", "lab/grad_spike_midrun-s0", "provoked", "one gradient of 232"),
    OnRealLog("gradient-spike", "clear", "lab/healthy_long-s0", "recorded", "500 steps of ordinary scatter"),
    OnRealLog("gradient-vanished", "fires", "golden/grpo-all-zero", "provoked", "no completion is ever rewarded"),
    OnRealLog("gradient-vanished", "clear", "golden/grpo-healthy", "recorded", "a gradient in every step"),
    OnRealLog("gradient-growing", "fires", "lab/brevity_hack-s0", "provoked", "gradients grow as answers shrink"),
    OnRealLog("gradient-growing", "clear", "lab/healthy_beta-s0", "recorded", "gradients that fall"),
    OnRealLog(
        "learning-rate-zero",
        "fires",
        "lab/healthy_beta-s0",
        "injected",
        "the schedule ends 50 steps before the run",
        {"learning_rate": after(150, lambda v: 0.0 * v)},
    ),
    OnRealLog("learning-rate-zero", "clear", "lab/healthy_beta-s0", "recorded", "a schedule that lasts"),
    OnRealLog(
        "loss-discontinuity",
        "fires",
        "lab/healthy_beta-s0",
        "injected",
        "another loss scale from step 100 on",
        {"loss": after(100, lambda v: v + 1.5)},
    ),
    OnRealLog("loss-discontinuity", "clear", "lab/rloo_healthy-s0", "recorded", "a loss that is 0 by construction"),
    OnRealLog(
        "policy-loss-without-direction",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "four epochs a batch, and a loss that swings around zero",
        {"loss/policy_avg": drawn(lambda t: 0.0 * t, 0.004, memory=0.2)},
    ),
    OnRealLog(
        "policy-loss-without-direction", "clear", "lab/ppo_healthy-s0", "recorded", "small, and below zero throughout"
    ),
    OnRealLog(
        "policy-loss-without-direction", "clear", "lab/saturation-s0", "provoked", "one update: no sign of its own"
    ),
    OnRealLog(
        "policy-loss-without-direction",
        "unknown",
        "corpus/verl-gsm8k-q7b-base",
        "recorded",
        "no configuration: the updates per rollout are not known",
    ),
    OnRealLog(
        "policy-loss-changed-sign",
        "fires",
        "lab/healthy_grpo-s0",
        "injected",
        "longer answers had the better advantage, and shorter ones have it since",
        {"loss": drawn(lambda t: np.where(t < 0.5, -0.1, 0.08), 0.03)},
    ),
    OnRealLog(
        "policy-loss-changed-sign", "clear", "lab/healthy_grpo-s0", "recorded", "it fades with the spread of rewards"
    ),
    OnRealLog("policy-loss-changed-sign", "clear", "lab/saturation-s0", "provoked", "the sign of a rounding error"),
    OnRealLog(
        "policy-loss-changed-sign", "unknown", "lab/healthy_beta-s0", "recorded", "a total that holds the KL term"
    ),
    OnRealLog("policy-loss-changed-sign", "clear", "lab/ppo_healthy-s0", "recorded", "one sign throughout"),
    OnRealLog(
        "attention-entropy-collapsing",
        "fires",
        "corpus/cs336tx-base",
        "injected",
        "a hand-written trainer that logs it",
        {"attention_entropy": drawn(lambda t: 2.8 - 2.4 * np.clip(2.0 * t - 0.6, 0.0, 1.0), 0.05)},
        beside="rl_loss",
    ),
    OnRealLog(
        "attention-entropy-collapsing",
        "clear",
        "corpus/cs336tx-base",
        "injected",
        "a slow decline by a tenth",
        {"attention_entropy": drawn(lambda t: 2.8 - 0.3 * t, 0.05)},
        beside="rl_loss",
    ),
    OnRealLog(
        "attention-entropy-collapsing", "unknown", "lab/healthy_grpo-s0", "recorded", "no trainer logs it by itself"
    ),
    # the value function
    OnRealLog(
        "value-loss-diverging",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "a critic that gets worse while the scores stand",
        {"loss/value_avg": drawn(lambda t: 0.05 + 0.6 * t, 0.02)},
    ),
    OnRealLog("value-loss-diverging", "clear", "lab/ppo_healthy-s0", "recorded", "it falls to a twentieth"),
    OnRealLog("value-loss-diverging", "clear", "lab/ppo_value_fail-s0", "provoked", "large from the start, and level"),
    OnRealLog(
        "value-clipping-high",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "a clip range that freezes the critic",
        {"val/clipfrac_avg": drawn(lambda t: 0.5 + 0.0 * t, 0.04)},
    ),
    OnRealLog("value-clipping-high", "clear", "lab/ppo_healthy-s0", "recorded", "hardly any value is clipped"),
    OnRealLog("value-explains-nothing", "fires", "lab/ppo_value_fail-s0", "provoked", "a critic that is not trained"),
    OnRealLog("value-explains-nothing", "clear", "lab/ppo_healthy-s0", "recorded", "a value loss of 0.01"),
    # ratio and clipping
    OnRealLog(
        "ratio-far-from-one",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "updates that are too large",
        {"val/ratio": drawn(lambda t: 1.0 + 0.6 * t, 0.03)},
    ),
    OnRealLog("ratio-far-from-one", "clear", "lab/ppo_healthy-s0", "recorded", "a ratio of 1"),
    OnRealLog("clip-fraction-high", "fires", "lab/offpolicy_multiepoch-s0", "provoked", "eight updates a batch"),
    OnRealLog("clip-fraction-high", "clear", "lab/healthy_offpolicy_mild-s0", "recorded", "two updates a batch"),
    OnRealLog(
        "clip-fraction-growing",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "updates that become more aggressive",
        {"policy/clipfrac_avg": drawn(lambda t: 0.002 + 0.05 * t, 0.002)},
    ),
    OnRealLog("clip-fraction-growing", "clear", "lab/ppo_healthy-s0", "recorded", "clipping that fades"),
    OnRealLog(
        "clipping-one-sided-high",
        "fires",
        "lab/healthy_offpolicy_mild-s0",
        "injected",
        "only tokens with an advantage clip, and entropy falls to a third",
        {
            "entropy": drawn(lambda t: 0.3 - 0.2 * t, 0.01),
            "clip_ratio/high_mean": drawn(lambda t: 0.02 + 0.0 * t, 0.003),
            "clip_ratio/low_mean": drawn(lambda t: 0.001 + 0.0 * t, 0.0001),
        },
    ),
    OnRealLog(
        "clipping-one-sided-high",
        "clear",
        "lab/offpolicy_multiepoch-s0",
        "provoked",
        "much clipping, most of it on the low side",
    ),
    OnRealLog(
        "clipping-one-sided-low",
        "fires",
        "lab/offpolicy_multiepoch-s0",
        "injected",
        "the policy is only pushed away from what it does",
        {
            "clip_ratio/low_mean": drawn(lambda t: 0.05 + 0.0 * t, 0.005),
            "clip_ratio/high_mean": drawn(lambda t: 0.002 + 0.0 * t, 0.0002),
        },
    ),
    OnRealLog("clipping-one-sided-low", "clear", "lab/healthy_offpolicy_mild-s0", "recorded", "a run that learns"),
    OnRealLog(
        "clip-fraction-negligible",
        "fires",
        "lab/healthy_offpolicy_mild-s0",
        "injected",
        "two updates a batch, and never a clipped token",
        {"clip_ratio/region_mean": drawn(lambda t: 0.0 * t, 0.0)},
    ),
    OnRealLog("clip-fraction-negligible", "clear", "lab/healthy_grpo-s0", "recorded", "one update: 0 is right"),
    # entropy
    OnRealLog("entropy-collapsing", "fires", "lab/entropy_collapse-s0", "provoked", "no choice is left"),
    OnRealLog("entropy-collapsing", "clear", "lab/saturation-s0", "provoked", "certainty about a task that is solved"),
    OnRealLog("entropy-exploding", "fires", "lab/entropy_explosion-s0", "provoked", "an entropy bonus that wins"),
    OnRealLog("entropy-exploding", "clear", "lab/healthy_grpo-s0", "recorded", "entropy that falls as it learns"),
    OnRealLog(
        "entropy-spike",
        "fires",
        "golden/grpo-healthy-kl",
        "injected",
        "one batch at which the policy was at a loss",
        {"entropy": spike(100, 25.0)},
    ),
    OnRealLog("entropy-spike", "clear", "golden/grpo-healthy-kl", "recorded", "ordinary scatter"),
    # length
    OnRealLog("length-growing", "fires", "golden/grpo-length-hack", "provoked", "length is paid"),
    OnRealLog("length-growing", "clear", "golden/grpo-lr-too-low", "provoked", "nothing moves"),
    OnRealLog("length-shrinking", "fires", "lab/brevity_hack-s0", "provoked", "brevity is paid, and accuracy falls"),
    OnRealLog("length-shrinking", "clear", "lab/healthy_grpo-s0", "recorded", "answers that grow with their score"),
    OnRealLog("length-jumped", "fires", "lab/data_shift-s0", "provoked", "other prompts from step 100 on"),
    OnRealLog("length-jumped", "clear", "lab/healthy_long-s0", "recorded", "a slope, no jump"),
    OnRealLog(
        "length-diversity-collapsing",
        "fires",
        "corpus/unsloth-ministral3-sudoku",
        "recorded",
        "every completion becomes as long as the next",
    ),
    OnRealLog("length-diversity-collapsing", "clear", "lab/healthy_grpo-s0", "recorded", "short and long answers"),
    OnRealLog("truncation-high", "fires", "golden/grpo-length-hack", "provoked", "three answers in four are cut"),
    OnRealLog("truncation-high", "clear", "lab/healthy_grpo-s0", "recorded", "hardly any answer is cut"),
    OnRealLog("truncation-never-ends", "fires", "corpus/km-grpo-v1-2025", "recorded", "no completion ever ends"),
    OnRealLog("truncation-never-ends", "clear", "lab/healthy_grpo-s0", "recorded", "answers that end"),
    # the configuration beside the log
    OnRealLog(
        "config-contradicts-log",
        "fires",
        "lab/healthy_grpo-s0",
        "injected",
        "another run's configuration: a cap of 20 tokens",
        config={"max_completion_length": 20},
    ),
    OnRealLog(
        "config-contradicts-log",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "a coefficient of 0.2, where the penalty is 0.05 times the KL",
        config={"kl_coef": 0.2},
    ),
    OnRealLog(
        "config-contradicts-log",
        "fires",
        "lab/healthy_beta-s0",
        "injected",
        "weights that the logged reward leaves out",
        config={"reward_weights": "[1.0, 5.0]"},
    ),
    OnRealLog("config-contradicts-log", "clear", "lab/healthy_grpo-s0", "recorded", "all as it was set"),
    OnRealLog("config-contradicts-log", "clear", "lab/healthy_beta-s0", "recorded", "weights of 1 and 0.25, as set"),
    OnRealLog("config-contradicts-log", "clear", "lab/ppo_healthy-s0", "recorded", "the penalty is 0.05 times the KL"),
    OnRealLog("config-contradicts-log", "unknown", "corpus/cs336tx-base", "recorded", "no configuration beside it"),
)
