"""More on the golden runs: they lie beside the tests, so these are asked wherever the tests run.

What other files show on a labelled run beside the checkout is shown here once more, mostly injected.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.real import Fault, OnRealLog, after, drawn
from tests.real.reward_and_kl import spread
from vario.run import Floats, Ints

HEALTHY, HEALTHY_KL, RLOO = "golden/grpo-healthy", "golden/grpo-healthy-kl", "golden/rloo-healthy"
STILL, DRIFT, BROKEN = "golden/grpo-lr-too-low", "golden/grpo-drift", "golden/grpo-reward-bug"
LENGTH, ZERO, RESUMED = "golden/grpo-length-hack", "golden/grpo-all-zero", "golden/grpo-resumed"
PAIRS, OVERTRAINED = "golden/dpo-healthy", "golden/dpo-overtrain"
GAP, WEIGHT = "sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/mean"
FULLEST = "system/gpu/memoryAllocated/max"
GENERATION = "profiling/Time taken: GRPOTrainer.vLLM.generate"


def level(value: float, noise: float = 0.0, *, seed: int = 0) -> Fault:
    """A key that stays where it is."""
    return drawn(lambda t: value + 0.0 * t, noise, seed=seed)


def share_of(rate: float, seed: int) -> Floats:
    """How many of 64 answers earn a 0/1 reward, over a golden run of 160 steps."""
    return np.random.default_rng(seed).binomial(64, rate, 160) / 64


def at_one(step: int, value: float) -> Fault:
    """One row holds another value."""

    def fault(values: Floats, steps: Ints) -> Floats:
        values[steps == step] = value
        return values

    return fault


RIGHT, FORMED = share_of(0.985, 0), share_of(0.995, 1)
SOLVED: Mapping[str, Fault] = {
    "rewards/correctness/mean": lambda _v, _s: RIGHT,
    "rewards/correctness/std": lambda _v, _s: spread(RIGHT),
    "rewards/answer_format/mean": lambda _v, _s: FORMED,
    "rewards/answer_format/std": lambda _v, _s: spread(FORMED),
    "reward": lambda _v, _s: RIGHT + 0.25 * FORMED,
}
"""A task that the start model can all but do."""
OFF_POLICY = {"num_iterations": 4}
CLIPPED = ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean")

REAL = (
    # the reward
    OnRealLog("reward-saturated", "fires", HEALTHY_KL, "injected", "at its ceiling from the first step on", SOLVED),
    OnRealLog("reward-up-eval-not", "clear", BROKEN, "provoked", "the reward fell, and the score beside it stands"),
    OnRealLog("reward-missing", "clear", HEALTHY, "recorded", "a reward in every row"),
    OnRealLog("component-saturated", "fires", HEALTHY_KL, "injected", "a format that is there from the start", SOLVED),
    OnRealLog("component-dominates", "fires", LENGTH, "provoked", "thoroughness is all that rises"),
    OnRealLog("component-dominates", "clear", HEALTHY, "recorded", "both rise, correctness by more"),
    OnRealLog(
        "reward-grows-without-bound",
        "fires",
        HEALTHY_KL,
        "injected",
        "a reward model's score instead: without a ceiling, at a price that grows faster",
        {
            "reward": drawn(lambda t: 0.6 + 60.0 * t, 1.0),
            "kl": drawn(lambda t: np.where(t < 0.35, 0.06 * t, 0.021 + 1.2 * (t - 0.35)), 0.003),
        },
    ),
    OnRealLog(
        "reward-scale-drifts",
        "fires",
        DRIFT,
        "injected",
        "a reward model's scores, which spread five times as far as at the start and are not scaled",
        {"reward_std": drawn(lambda t: 0.3 + 1.2 * t, 0.02), "reward": drawn(lambda t: 3.0 + 3.0 * t, 0.3)},
        config={"scale_rewards": "none"},
    ),
    # the learning signal
    OnRealLog(
        "signal-not-declining",
        "fires",
        HEALTHY,
        "injected",
        "nothing is learnt: reward and spread as at the start",
        {"reward": level(0.83, 0.06), "reward_std": level(0.56, 0.02, seed=1)},
    ),
    OnRealLog(
        "tiny-spread-amplified",
        "fires",
        HEALTHY_KL,
        "injected",
        "a callback counts groups that differ by crumbs of style, at advantages of full size",
        {
            "groups/tiny_spread": drawn(lambda t: 0.05 + 0.6 * t, 0.02),
            "advantages/max": level(2.2, 0.05),
        },
        mapping={"signal/tiny-spread-share": "groups/tiny_spread", "advantage/max": "advantages/max"},
    ),
    OnRealLog("tiny-spread-amplified", "clear", ZERO, "provoked", "no spread at all"),
    # KL
    OnRealLog(
        "kl-rises-without-reward",
        "fires",
        STILL,
        "injected",
        "the policy moves away, and the reward stays",
        {"kl": drawn(lambda t: 0.4 * t, 0.01)},
    ),
    OnRealLog("kl-runaway", "fires", DRIFT, "provoked", "1.5 nats a token at the end, and faster and faster"),
    OnRealLog(
        "kl-reset",
        "fires",
        DRIFT,
        "injected",
        "the reference was replaced by the policy at step 100",
        {"kl": after(100, lambda v: 0.01 * v)},
    ),
    OnRealLog(
        "kl-nonzero-at-start",
        "fires",
        HEALTHY_KL,
        "injected",
        "another reference than the model that is trained",
        {"kl": lambda v, _: v + 0.5},
    ),
    OnRealLog("kl-falls-while-reward-rises", "clear", HEALTHY_KL, "recorded", "KL rises with the reward and settles"),
    # clipping
    OnRealLog(
        "clip-fraction-high",
        "fires",
        HEALTHY_KL,
        "injected",
        "four updates a batch: a third of the tokens are clipped",
        {"clip_ratio/region_mean": level(0.35, 0.02)},
        config=OFF_POLICY,
    ),
    OnRealLog("clip-fraction-high", "clear", HEALTHY_KL, "recorded", "one update: nothing can be clipped"),
    OnRealLog(
        "clip-fraction-growing",
        "fires",
        HEALTHY_KL,
        "injected",
        "updates that become more aggressive",
        {"clip_ratio/region_mean": drawn(lambda t: 0.01 + 0.15 * t, 0.004)},
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clip-fraction-growing",
        "clear",
        HEALTHY_KL,
        "injected",
        "a steady share",
        {"clip_ratio/region_mean": level(0.03, 0.004)},
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clipping-one-sided-high",
        "fires",
        HEALTHY_KL,
        "injected",
        "only tokens with an advantage clip, and entropy falls to a third",
        {
            "entropy": drawn(lambda t: 0.3 - 0.2 * t, 0.01),
            "clip_ratio/high_mean": level(0.02, 0.003),
            "clip_ratio/low_mean": level(0.001, 0.0001),
        },
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clipping-one-sided-high",
        "clear",
        HEALTHY_KL,
        "injected",
        "as much on either side",
        {"clip_ratio/high_mean": level(0.02, 0.003), "clip_ratio/low_mean": level(0.018, 0.003, seed=1)},
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clipping-one-sided-low",
        "fires",
        DRIFT,
        "injected",
        "the policy is only pushed away from what it does",
        {"clip_ratio/low_mean": level(0.05, 0.005), "clip_ratio/high_mean": level(0.002, 0.0002)},
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clipping-one-sided-low",
        "clear",
        HEALTHY_KL,
        "injected",
        "bad answers are unlearnt while the reward rises",
        {"clip_ratio/high_mean": level(0.018, 0.003), "clip_ratio/low_mean": level(0.02, 0.003, seed=1)},
        config=OFF_POLICY,
    ),
    OnRealLog(
        "clip-fraction-negligible",
        "fires",
        HEALTHY_KL,
        "injected",
        "four updates a batch, and never a clipped token",
        dict.fromkeys(CLIPPED, level(0.0)),
        config=OFF_POLICY,
    ),
    OnRealLog("clip-fraction-negligible", "clear", HEALTHY_KL, "recorded", "one update: 0 is right"),
    # entropy
    OnRealLog(
        "entropy-collapsing",
        "fires",
        DRIFT,
        "injected",
        "no choice is left, and the reward falls",
        {"entropy": drawn(lambda t: 0.3 * np.exp(-6.0 * t), 0.0005)},
    ),
    OnRealLog("entropy-collapsing", "clear", HEALTHY, "recorded", "it halves as the task is learnt, and levels off"),
    OnRealLog(
        "entropy-exploding",
        "fires",
        DRIFT,
        "injected",
        "an entropy bonus that wins",
        {"entropy": drawn(lambda t: 0.3 * np.exp(3.0 * t), 0.02)},
    ),
    OnRealLog("entropy-exploding", "clear", HEALTHY, "recorded", "it falls"),
    OnRealLog(
        "entropy-not-falling",
        "fires",
        HEALTHY,
        "injected",
        "nothing is learnt: reward and entropy as at the start",
        {"reward": level(0.83, 0.06), "entropy": level(0.28, 0.004, seed=1)},
    ),
    # length
    OnRealLog("length-shrinking", "fires", DRIFT, "provoked", "shorter and shorter as the policy breaks"),
    OnRealLog("length-shrinking", "clear", HEALTHY, "recorded", "17.7 to 19.1 tokens"),
    OnRealLog(
        "length-jumped",
        "fires",
        HEALTHY,
        "injected",
        "other prompts from step 100 on",
        {"completions/mean_length": after(100, lambda v: 2.0 * v)},
    ),
    OnRealLog("length-jumped", "clear", LENGTH, "provoked", "a slope from 17 to 43 tokens, no jump"),
    OnRealLog(
        "length-diversity-collapsing",
        "fires",
        STILL,
        "injected",
        "every completion becomes as long as the next",
        {
            "completions/min_length": drawn(lambda t: 10.0 + 8.9 * np.minimum(2.0 * t, 1.0), 0.05),
            "completions/mean_length": level(19.0, 0.05),
            "completions/max_length": drawn(lambda t: 30.0 - 10.9 * np.minimum(2.0 * t, 1.0), 0.05),
        },
    ),
    OnRealLog("length-diversity-collapsing", "clear", HEALTHY, "recorded", "short and long answers"),
    OnRealLog("truncation-high", "clear", HEALTHY, "recorded", "next to none is cut"),
    OnRealLog(
        "truncation-never-ends",
        "fires",
        LENGTH,
        "injected",
        "an end token that is never sampled",
        {"completions/clipped_ratio": level(1.0), "completions/mean_length": level(48.0)},
    ),
    OnRealLog("truncation-never-ends", "clear", LENGTH, "provoked", "three in four are cut, after none was"),
    # the sampling engine
    OnRealLog(
        "engine-mismatch",
        "fires",
        DRIFT,
        "injected",
        "samples from weights that fall behind",
        {GAP: drawn(lambda t: 0.01 + 0.5 * t, 0.01)},
    ),
    OnRealLog("engine-mismatch", "clear", HEALTHY, "injected", "another engine's numerics", {GAP: level(0.01, 0.001)}),
    OnRealLog(
        "behaviour-weight-off-one",
        "fires",
        DRIFT,
        "injected",
        "weights of a third on average: most tokens hardly count",
        {WEIGHT: drawn(lambda t: 1.0 - 0.7 * t, 0.02), GAP: drawn(lambda t: 0.01 + 0.5 * t, 0.01)},
    ),
    OnRealLog(
        "behaviour-weight-off-one",
        "clear",
        HEALTHY,
        "injected",
        "top-p 0.95 keeps a mass of 0.954",
        {WEIGHT: level(0.954, 0.01)},
    ),
    # losses and gradients
    OnRealLog("non-finite", "fires", HEALTHY, "injected", "a loss that became NaN", {"loss": at_one(170, np.nan)}),
    OnRealLog("non-finite", "clear", HEALTHY, "recorded", "every value is finite"),
    OnRealLog("gradient-spike", "fires", OVERTRAINED, "provoked", "swapped pairs that are met again"),
    OnRealLog("gradient-spike", "clear", HEALTHY, "recorded", "ordinary scatter"),
    OnRealLog(
        "gradient-growing",
        "fires",
        DRIFT,
        "injected",
        "gradients that grow fiftyfold",
        {"grad_norm": drawn(lambda t: 0.5 * np.exp(4.0 * t), 0.02)},
    ),
    OnRealLog("gradient-growing", "clear", HEALTHY, "recorded", ".47 to .66 throughout"),
    OnRealLog(
        "learning-rate-zero",
        "fires",
        HEALTHY,
        "injected",
        "the schedule ends 60 steps before the run",
        {"learning_rate": after(120, lambda v: 0.0 * v)},
    ),
    OnRealLog("learning-rate-zero", "clear", HEALTHY, "recorded", "a schedule that lasts"),
    OnRealLog(
        "loss-discontinuity",
        "fires",
        HEALTHY,
        "injected",
        "another loss scale from step 100 on",
        {"loss": after(100, lambda v: v + 1.5)},
    ),
    OnRealLog("loss-discontinuity", "clear", RLOO, "recorded", "a loss that is 0 by construction"),
    OnRealLog(
        "policy-loss-without-direction",
        "fires",
        HEALTHY,
        "injected",
        "four updates a batch, and a loss that swings around zero",
        {"loss": drawn(lambda t: 0.0 * t, 0.004, memory=0.2)},
        config=OFF_POLICY,
    ),
    OnRealLog("policy-loss-without-direction", "clear", HEALTHY, "recorded", "one update: no sign of its own"),
    OnRealLog(
        "policy-loss-changed-sign",
        "fires",
        HEALTHY,
        "injected",
        "longer answers had the better advantage, and shorter ones have it since",
        {"loss": drawn(lambda t: np.where(t < 0.5, -0.1, 0.08), 0.03)},
    ),
    OnRealLog("policy-loss-changed-sign", "clear", HEALTHY, "recorded", "as it was"),
    OnRealLog(
        "attention-entropy-collapsing",
        "fires",
        DRIFT,
        "injected",
        "measured by a callback of the user's own",
        {"attention": drawn(lambda t: 2.8 - 2.4 * np.clip(2.0 * t - 0.6, 0.0, 1.0), 0.05)},
        mapping={"attention/entropy/mean": "attention"},
    ),
    OnRealLog(
        "attention-entropy-collapsing",
        "clear",
        HEALTHY,
        "injected",
        "a slow decline by a tenth",
        {"attention": drawn(lambda t: 2.8 - 0.3 * t, 0.05)},
        mapping={"attention/entropy/mean": "attention"},
    ),
    # preference
    OnRealLog("margin-plateaued", "clear", PAIRS, "recorded", "still rising"),
    OnRealLog("margin-grows-without-bound", "clear", PAIRS, "recorded", "it slows, and held-out pairs gain as well"),
    OnRealLog(
        "margin-grows-without-bound",
        "fires",
        OVERTRAINED,
        "injected",
        "ten times the learning rate: a margin of 60",
        {
            "rewards/margins": drawn(lambda t: 1.0 + 60.0 * t, 0.5),
            "rewards/chosen": drawn(lambda t: -10.0 * t, 0.3),
            "rewards/rejected": drawn(lambda t: -1.0 - 70.0 * t, 0.5),
        },
    ),
    OnRealLog("preference-saturated", "clear", PAIRS, "recorded", "pairs of which some are still wrong"),
    # systems
    OnRealLog(
        "rollout-dominates-step",
        "clear",
        HEALTHY,
        "injected",
        "a tenth of the step",
        {GENERATION: level(0.02, 0.001), "step_time": level(0.2, 0.005)},
        beside="step_time",
    ),
    OnRealLog(
        "memory-creeping",
        "fires",
        STILL,
        "injected",
        "what W&B samples of the devices, a little more with every step",
        {FULLEST: drawn(lambda done: 50.0 + 30.0 * done, 0.3)},
    ),
    OnRealLog("memory-creeping", "clear", HEALTHY, "injected", "as full as before", {FULLEST: level(60.0, 0.3)}),
    OnRealLog(
        "rollout-long-tail",
        "fires",
        HEALTHY,
        "injected",
        "one answer of forty times the usual length, in a step that is mostly generation",
        {
            "completions/max_length": level(800.0, 20.0),
            GENERATION: level(0.8, 0.01),
            "step_time": level(1.0, 0.01),
        },
        beside="step_time",
    ),
    # the configuration beside the log
    OnRealLog(
        "config-contradicts-log",
        "fires",
        HEALTHY,
        "injected",
        "another run's configuration: a cap of 20 tokens",
        config={"max_completion_length": 20},
    ),
    OnRealLog("config-contradicts-log", "clear", HEALTHY, "recorded", "all as it was set"),
)
