"""Reward, KL and preference on real logs: each rule on a log that shows it, and on one that only looks like it."""

from __future__ import annotations

import numpy as np

from tests.real import Fault, OnRealLog, after, drawn
from vario.run import Floats, Ints

HEALTHY, HEALTHY_KL, RLOO = "golden/grpo-healthy", "golden/grpo-healthy-kl", "golden/rloo-healthy"
STILL, DRIFT, BROKEN = "golden/grpo-lr-too-low", "golden/grpo-drift", "golden/grpo-reward-bug"
PAIRS, OVERTRAINED = "golden/dpo-healthy", "golden/dpo-overtrain"


def swings(step: int, size: float) -> Fault:
    """Values from `step` on, times a random factor: log-normal with this sd."""
    rng = np.random.default_rng(1)
    return after(step, lambda v: v * np.exp(size * rng.standard_normal(v.size)))


def thrown_about(values: Floats, steps: Ints) -> Floats:
    """A policy that is thrown about by its updates from step 60 on."""
    return values - 0.5 * np.where(steps >= 60, np.random.default_rng(0).random(values.size), 0.0)


def form(t: Floats) -> Floats:
    return np.minimum(0.5 + 1.5 * t, 0.99)


def content(t: Floats) -> Floats:
    return 0.6 - 0.56 * np.clip((t - 0.3) / 0.4, 0.0, 1.0)


def spread(mean: Floats) -> Floats:
    """Spread of a 0/1 reward over 64 completions."""
    return np.sqrt(64 / 63 * mean * (1.0 - mean))


EMPTY_SHELLS = {
    "rewards/answer_format/mean": drawn(form, 0.0),
    "rewards/answer_format/std": drawn(lambda t: spread(form(t)), 0.0),
    "rewards/correctness/mean": drawn(content, 0.0),
    "rewards/correctness/std": drawn(lambda t: spread(content(t)), 0.0),
    "reward": drawn(lambda t: form(t) + 0.5 * content(t), 0.0),
    "completions/mean_length": drawn(lambda t: 18.0 - 10.0 * np.minimum(t / 0.7, 1.0), 0.3),
}
"""Form is paid twice as much as content, and content is given up for it (huggingface/open-r1 issue 255)."""

LOST_AGAIN = {
    "rewards/margins": drawn(lambda t: np.where(t < 0.4, 10.0 * t, np.maximum(4.0 - 10.0 * (t - 0.4), 0.5)), 0.3),
    "rewards/chosen": drawn(lambda t: np.where(t < 0.4, t, np.maximum(0.4 - 3.0 * (t - 0.4), -0.7)), 0.1),
    "rewards/rejected": drawn(lambda t: np.where(t < 0.4, -9.0 * t, np.minimum(-3.6 + 7.0 * (t - 0.4), -1.2)), 0.2),
    "eval_rewards/margins": drawn(lambda t: np.where(t < 0.4, 8.0 * t, np.maximum(3.2 - 8.0 * (t - 0.4), 0.4)), 0.1),
}

REAL = (
    # the reward
    OnRealLog("reward-never-rises", "fires", STILL, "provoked", "a learning rate 350 times too low"),
    OnRealLog("reward-never-rises", "clear", HEALTHY, "recorded", "a reward that rises and slows"),
    OnRealLog("reward-constant", "fires", "golden/grpo-all-zero", "provoked", "exactly 0 in every row"),
    OnRealLog("reward-constant", "clear", STILL, "provoked", "flat, yet with the noise of a living reward"),
    OnRealLog("reward-plateaued", "fires", HEALTHY_KL, "recorded", "a rise, then flat over the last half"),
    OnRealLog("reward-plateaued", "clear", STILL, "provoked", "flat, and it never rose"),
    OnRealLog("reward-peaked-then-declined", "fires", DRIFT, "provoked", "1.09 at its best, .30 at the end"),
    OnRealLog("reward-peaked-then-declined", "clear", HEALTHY, "recorded", "a rise that slows"),
    OnRealLog("reward-collapsed", "fires", BROKEN, "provoked", "from .87 to exactly 0 in one row"),
    OnRealLog("reward-collapsed", "clear", HEALTHY_KL, "recorded", "a plateau with its noise"),
    OnRealLog("reward-is-noise", "fires", STILL, "provoked", "nothing but sampling moves it"),
    OnRealLog("reward-is-noise", "clear", HEALTHY, "recorded", "the same noise around a rise"),
    OnRealLog(
        "reward-variance-high",
        "fires",
        HEALTHY,
        "injected",
        "swings of half a point that 64 completions cannot explain",
        {"reward": thrown_about},
    ),
    OnRealLog(
        "reward-variance-high", "fires", "corpus/unsloth-gptoss-20b", "recorded", "groups of two: a scatter of the whole range"
    ),
    OnRealLog("reward-variance-high", "clear", HEALTHY, "recorded", "what eight prompts a batch scatter by"),
    OnRealLog("reward-variance-high", "clear", BROKEN, "provoked", "one fall, and no noise beside it"),
    OnRealLog("reward-saturated", "fires", "lab/saturation-s0", "provoked", "at 1.23 of 1.25 from step 5 on"),
    OnRealLog("reward-saturated", "clear", STILL, "provoked", "as flat, at two thirds of its ceiling"),
    OnRealLog(
        "reward-grows-without-bound",
        "fires",
        "lab/ppo_healthy-s0",
        "injected",
        "a reward model's score from .6 to 60 while KL costs more and more",
        {
            "objective/scores": drawn(lambda t: 0.6 + 60.0 * t, 1.0),
            "objective/kl": drawn(lambda t: np.where(t < 0.35, 6.0 * t, 2.1 + 120.0 * (t - 0.35)), 0.3),
        },
        beside="objective/scores",
    ),
    OnRealLog(
        "reward-grows-without-bound",
        "clear",
        "corpus/unsloth-llama32-3b-adv",
        "recorded",
        "from -.7 to 7.5 without a known ceiling: KL settles and lengths shrink",
    ),
    OnRealLog("reward-grows-without-bound", "clear", HEALTHY, "recorded", "0/1 functions have a ceiling"),
    OnRealLog("reward-up-eval-not", "fires", "golden/grpo-proxy-hack", "provoked", "the truth, logged with weight 0, falls"),
    OnRealLog(
        "reward-up-eval-not", "clear", "corpus/verl-getting-started", "recorded", "the validation score rises as well"
    ),
    OnRealLog(
        "reward-scale-drifts",
        "fires",
        "corpus/unsloth-llama31-3b-adv",
        "injected",
        "the recorded spread of groups, .9 to 2.4, in a run that was told not to scale",
        config={"scale_rewards": "none"},
    ),
    OnRealLog(
        "reward-scale-drifts", "clear", "corpus/unsloth-llama31-3b-adv", "injected", "the same spread, divided out",
        config={"scale_rewards": "group"},
    ),
    OnRealLog("reward-scale-drifts", "clear", RLOO, "recorded", "not scaled, and the spread of a 0/1 reward closes"),
    OnRealLog(
        "reward-clipped-often",
        "fires",
        RLOO,
        "injected",
        "rewards of up to 1.25 behind bounds of -1 and 1",
        config={"reward_clip_range": "[-1.0, 1.0]"},
    ),
    OnRealLog(
        "reward-clipped-often",
        "clear",
        RLOO,
        "injected",
        "bounds that no reward reaches",
        config={"reward_clip_range": "[-5.0, 5.0]"},
    ),
    OnRealLog("reward-clipped-often", "unknown", RLOO, "recorded", "no bounds are set"),
    OnRealLog(
        "reward-missing",
        "fires",
        HEALTHY,
        "injected",
        "a verifier that timed out at one step",
        {"reward": after(100, lambda v: np.concatenate((np.full(1, np.nan), v[1:])))},
    ),
    OnRealLog("reward-missing", "clear", "lab/offpolicy_multiepoch-s0", "provoked", "rows of reuse have no reward at all"),
    OnRealLog("component-saturated", "fires", "lab/healthy_grpo-s0", "recorded", "format at .99 from step 46 on"),
    OnRealLog("component-saturated", "clear", "golden/grpo-length-hack", "provoked", "neither is at its ceiling"),
    OnRealLog("component-dominates", "fires", "lab/truncation-s0", "provoked", "all of the gain is format"),
    OnRealLog("component-dominates", "clear", "lab/healthy_grpo-s0", "recorded", "format first, correctness for most of it"),
    OnRealLog(
        "component-falls-while-total-rises", "fires", "golden/grpo-length-hack", "provoked", "correctness .77 to .16"
    ),
    OnRealLog("component-falls-while-total-rises", "clear", HEALTHY, "recorded", "both rise"),
    OnRealLog("component-dead", "fires", BROKEN, "provoked", "correctness exactly 0 for 60 rows"),
    OnRealLog("component-dead", "clear", DRIFT, "provoked", "all but 0, and not exactly"),
    # the learning signal and entropy
    OnRealLog("signal-not-declining", "fires", "lab/lr_too_low-s0", "provoked", "spread .56 from first to last"),
    OnRealLog("signal-not-declining", "fires", "lab/reward_noise-s0", "provoked", "a reward that is random"),
    OnRealLog("signal-not-declining", "clear", HEALTHY, "recorded", "the spread halves as the reward rises"),
    OnRealLog("signal-not-declining", "clear", "lab/saturation-s0", "provoked", "flat at the ceiling"),
    OnRealLog("entropy-not-falling", "fires", "lab/lr_too_low-s0", "provoked", "entropy .30 to .27, reward where it was"),
    OnRealLog("entropy-not-falling", "clear", HEALTHY, "recorded", "entropy halves"),
    OnRealLog(
        "entropy-not-falling", "clear", "lab/lr_too_low-s0", "injected", "held up by a bonus", config={"entropy_coef": 0.01}
    ),
    # KL to the reference (kl-spike: tests/real/kl.py)
    OnRealLog("kl-rises-without-reward", "fires", "lab/reward_noise-s0", "provoked", "KL to 4 for a random reward"),
    OnRealLog("kl-rises-without-reward", "clear", HEALTHY_KL, "recorded", "drift that is paid for, then rest"),
    OnRealLog("kl-rises-while-reward-falls", "fires", DRIFT, "provoked", "KL .05 to 1.1, reward 1.1 to .3"),
    OnRealLog("kl-rises-while-reward-falls", "clear", BROKEN, "provoked", "the reward function broke, KL rests"),
    OnRealLog("kl-runaway", "fires", "lab/lr_too_high-s0", "provoked", "5 nats a token within ten steps"),
    OnRealLog("kl-runaway", "clear", "golden/grpo-proxy-hack", "provoked", "KL .7, and the reward pays for it"),
    OnRealLog("kl-pinned-near-zero", "fires", STILL, "provoked", "never above 4e-6"),
    OnRealLog("kl-pinned-near-zero", "clear", HEALTHY_KL, "recorded", "small, and the policy learns"),
    OnRealLog("kl-reset", "fires", "lab/resume_discontinuity-s0", "provoked", "resumed with another reference"),
    OnRealLog("kl-reset", "clear", "golden/grpo-resumed", "recorded", "resumed with the same reference"),
    OnRealLog(
        "kl-noisy",
        "fires",
        HEALTHY_KL,
        "injected",
        "swings as large as KL itself from step 70 on",
        {"kl": swings(70, 1.6)},
    ),
    OnRealLog("kl-noisy", "clear", HEALTHY_KL, "recorded", "k3 as it is: .4 of its level throughout"),
    OnRealLog("kl-noisy", "clear", RLOO, "recorded", "a signed k1 that was noisier at first"),
    OnRealLog(
        "kl-negative",
        "fires",
        RLOO,
        "injected",
        "samples that do not come from the policy that is scored",
        {"kl": after(60, lambda v: v - 0.06)},
    ),
    OnRealLog("kl-negative", "clear", RLOO, "recorded", "two early rows of a signed estimate"),
    OnRealLog("kl-nonzero-at-start", "fires", "corpus/km-ppo-v1-2025", "recorded", "10 nats a sequence at step 1"),
    OnRealLog("kl-nonzero-at-start", "clear", HEALTHY_KL, "recorded", "from zero"),
    OnRealLog(
        "kl-falls-while-reward-rises",
        "fires",
        HEALTHY,
        "injected",
        "back to a third of its highest level, while the reward goes on",
        {"kl": drawn(lambda t: np.where(t < 0.4, 0.5 * t, 0.2 - 0.25 * (t - 0.4)), 0.01)},
        config={"beta": 0.03},
    ),
    OnRealLog("kl-falls-while-reward-rises", "clear", "corpus/unsloth-qwen25-3b", "recorded", "KL rises with the reward"),
    OnRealLog("kl-falls-while-reward-rises", "clear", "lab/resume_discontinuity-s0", "provoked", "a reset is no return"),
    OnRealLog("kl-penalty-outweighs-reward", "fires", "corpus/km-ppo-v1-2025", "recorded", "costs .31 where the score spans .1"),
    OnRealLog("kl-penalty-outweighs-reward", "clear", "lab/ppo_healthy-s0", "recorded", "a small part of the score"),
    # preference
    OnRealLog(
        "margin-plateaued",
        "fires",
        PAIRS,
        "injected",
        "the margin rests from a third of the run on",
        {"rewards/margins": drawn(lambda t: 7.5 * np.minimum(t, 0.35), 0.2)},
    ),
    OnRealLog("margin-plateaued", "clear", "corpus/tunix-dpo-demo", "recorded", "a margin that goes on"),
    OnRealLog("margin-grows-without-bound", "fires", "lab/dpo_overtrain-s0", "provoked", "96 pairs, 100 epochs"),
    OnRealLog("margin-grows-without-bound", "clear", "lab/dpo_healthy-s0", "recorded", "settles below 6"),
    OnRealLog(
        "chosen-reward-falls",
        "fires",
        PAIRS,
        "injected",
        "chosen answers are unlearnt nearly as fast as the rejected ones",
        {
            "rewards/chosen": drawn(lambda t: -6.0 * t, 0.1),
            "rewards/rejected": drawn(lambda t: -9.3 * t, 0.15),
        },
    ),
    OnRealLog("chosen-reward-falls", "clear", OVERTRAINED, "provoked", "chosen falls by .7 at a margin of 7"),
    OnRealLog("preference-saturated", "fires", OVERTRAINED, "provoked", "every training pair is right from step 16 on"),
    OnRealLog("preference-saturated", "clear", "corpus/cse5525-tinker-dpo", "recorded", "seven pairs in ten"),
    OnRealLog(
        "accuracy-at-chance",
        "fires",
        PAIRS,
        "injected",
        "labels that are noise",
        {
            "rewards/accuracies": drawn(lambda t: 0.5 + 0.0 * t, 0.06),
            "rewards/margins": drawn(lambda t: 0.0 * t, 0.05),
        },
    ),
    OnRealLog("accuracy-at-chance", "clear", PAIRS, "recorded", "only the first row ties"),
    OnRealLog("rewards-converge", "fires", OVERTRAINED, "injected", "told apart, and lost again", LOST_AGAIN),
    OnRealLog("rewards-converge", "clear", OVERTRAINED, "provoked", "overtrained, and never lost"),
    OnRealLog(
        "rewards-converge",
        "clear",
        OVERTRAINED,
        "injected",
        "harder pairs: the held-out margin holds",
        {k: v for k, v in LOST_AGAIN.items() if not k.startswith("eval")},
    ),
    OnRealLog(
        "chosen-reward-grows-without-bound",
        "fires",
        OVERTRAINED,
        "injected",
        "the chosen answers learnt by heart, while the held-out margin stands as recorded",
        {
            "rewards/chosen": drawn(lambda t: 12.0 * t, 0.2),
            "rewards/margins": drawn(lambda t: 0.5 + 20.0 * t, 0.3),
        },
    ),
    OnRealLog("chosen-reward-grows-without-bound", "clear", OVERTRAINED, "provoked", "the rejected side falls"),
    OnRealLog(
        "chosen-reward-grows-without-bound", "clear", "corpus/unsloth-zephyr-dpo", "recorded", "chosen rises, to .9"
    ),
    # form and content
    OnRealLog("format-hacking", "fires", HEALTHY, "injected", "trained components alone: a suspicion", EMPTY_SHELLS),
    OnRealLog(
        "format-hacking",
        "fires",
        HEALTHY,
        "injected",
        "a held-out score tells",
        EMPTY_SHELLS | {"eval_reward": drawn(lambda t: 0.7 * content(t), 0.03)},
    ),
    OnRealLog("format-hacking", "clear", HEALTHY, "recorded", "form and correctness rise together"),
    OnRealLog("format-hacking", "clear", DRIFT, "provoked", "a collapse that leaves only the form"),
    OnRealLog("format-hacking", "clear", "lab/format_only_hack-s0", "provoked", "nothing but form could be learnt: no content is lost"),
)
