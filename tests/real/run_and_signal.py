"""The run as a whole and its learning signal on real logs: each rule where it shows, and where it only seems to."""

from __future__ import annotations

import numpy as np

from tests.real import OnRealLog, after, drawn
from tests.real.reward_and_kl import spread
from vario.run import Floats, Ints

HEALTHY, HEALTHY_KL, STILL = "golden/grpo-healthy", "golden/grpo-healthy-kl", "golden/grpo-lr-too-low"
ZERO, DRIFT, BROKEN = "golden/grpo-all-zero", "golden/grpo-drift", "golden/grpo-reward-bug"
LENGTH, PROXY, RESUMED = "golden/grpo-length-hack", "golden/grpo-proxy-hack", "golden/grpo-resumed"
PAIRS, OVERTRAINED = "golden/dpo-healthy", "golden/dpo-overtrain"


def unsolvable(values: Floats, _: Ints) -> Floats:
    """A reward function that no completion ever earns."""
    return np.zeros_like(values)


def correct(values: Floats) -> Floats:
    """The share of right answers as in the last twenty steps, of 64 completions a batch."""
    return np.random.default_rng(0).binomial(64, 0.92, values.size) / 64


def formed(values: Floats) -> Floats:
    """The same of well-formed answers."""
    return np.random.default_rng(1).binomial(64, 0.97, values.size) / 64


def lost_again(values: Floats, _: Ints) -> Floats:
    """A held-out margin that peaks at the third evaluation."""
    peak = values[2]
    return np.concatenate((values[:3], np.linspace(peak, 0.3 * peak, values.size - 2)[1:]))


REAL = (
    # the run
    OnRealLog("policy-does-not-move", "fires", STILL, "provoked", "a learning rate 350 times too low"),
    OnRealLog("policy-does-not-move", "clear", HEALTHY_KL, "recorded", "a small KL, and the reward pays for it"),
    OnRealLog("policy-does-not-move", "clear", ZERO, "provoked", "no signal at all: nothing could move"),
    OnRealLog("policy-does-not-move", "clear", "lab/saturation-s0", "provoked", "a solved task"),
    OnRealLog("policy-does-not-move", "clear", "lab/beta_too_high-s0", "provoked", "pinned, and yet it moved"),
    OnRealLog(
        "task-too-hard",
        "fires",
        HEALTHY,
        "injected",
        "no answer is ever right; the format is still learnt",
        {"rewards/correctness/mean": unsolvable, "rewards/correctness/std": unsolvable},
    ),
    OnRealLog("task-too-hard", "fires", "lab/format_only_hack-s0", "provoked", "prompts out of reach of the model"),
    OnRealLog("task-too-hard", "clear", BROKEN, "provoked", "a reward function that fell to zero"),
    OnRealLog("task-too-hard", "clear", DRIFT, "provoked", "a policy that lost what it could"),
    OnRealLog(
        "run-has-converged",
        "fires",
        HEALTHY,
        "injected",
        "where its last twenty steps lie, from half of the run on",
        {
            "rewards/correctness/mean": after(90, correct),
            "rewards/correctness/std": after(90, lambda v: spread(correct(v))),
            "rewards/answer_format/mean": after(90, formed),
            "rewards/answer_format/std": after(90, lambda v: spread(formed(v))),
            "reward": after(90, lambda v: correct(v) + 0.3 * formed(v)),
        },
    ),
    OnRealLog(
        "run-has-converged", "fires", "lab/healthy_long-s0", "recorded", "1.2 of 1.25, three groups in four tied"
    ),
    OnRealLog("run-has-converged", "clear", HEALTHY, "recorded", "nearly there, and still rising"),
    OnRealLog("run-has-converged", "clear", STILL, "provoked", "flat in the middle: two thirds of the ceiling"),
    OnRealLog("run-has-converged", "clear", LENGTH, "provoked", "flat, at three quarters of what could be had"),
    OnRealLog("reward-function-broke", "fires", BROKEN, "provoked", "a verifier that accepts nothing from step 90 on"),
    OnRealLog("reward-function-broke", "clear", DRIFT, "provoked", "the policy fell, not the measurement"),
    OnRealLog("reward-function-broke", "clear", "lab/data_shift-s0", "provoked", "harder prompts: length jumps too"),
    OnRealLog("reward-hacking", "fires", PROXY, "provoked", "the proxy .17 to .97, the truth (weight 0) .61 to 0"),
    OnRealLog("reward-hacking", "clear", "lab/reward_noise-s0", "provoked", "the truth falls, and no reward rises"),
    OnRealLog("reward-hacking", "clear", "corpus/verl-getting-started", "recorded", "validation rises as well"),
    OnRealLog(
        "reward-hacking",
        "clear",
        HEALTHY,
        "injected",
        "a small held-out set: its noise, around a rise",
        {"eval_reward": drawn(lambda t: 0.8 + 0.3 * t, 0.15)},
    ),
    OnRealLog("reward-hacking", "unknown", LENGTH, "provoked", "no score stands apart from the reward"),
    OnRealLog(
        "length-hacking", "fires", LENGTH, "provoked", "length is paid, and answers are given up for it", until=100
    ),
    OnRealLog("length-hacking", "fires", "lab/length_hack-s0", "provoked", "18 to 32 tokens, and the score stands"),
    OnRealLog("length-hacking", "clear", HEALTHY, "recorded", "lengths that stay"),
    OnRealLog(
        "length-hacking",
        "clear",
        HEALTHY,
        "injected",
        "thinking longer: correctness rises with the length",
        {"completions/mean_length": drawn(lambda t: 18.0 + 20.0 * t, 0.5)},
    ),
    OnRealLog(
        "mode-collapse",
        "fires",
        HEALTHY_KL,
        "injected",
        "one wrong answer to everything from two thirds of the run on",
        {
            "entropy": after(100, lambda v: 0.02 * v),
            "frac_reward_zero_std": after(100, np.ones_like),
            "reward": after(100, lambda v: 0.25 + 0.01 * v),
        },
    ),
    OnRealLog("mode-collapse", "clear", "lab/saturation-s0", "provoked", "one answer to everything, and it is right"),
    OnRealLog("mode-collapse", "clear", "lab/entropy_collapse-s0", "provoked", "narrow, and half of the groups differ"),
    OnRealLog("mode-collapse", "clear", BROKEN, "provoked", "all groups tied at zero, and the policy is well"),
    OnRealLog("policy-collapse", "fires", PROXY, "provoked", "the truth is gone; KL, entropy and length went with it"),
    OnRealLog("policy-collapse", "fires", "lab/lr_too_high-s0", "provoked", "5 nats a token within ten steps"),
    OnRealLog("policy-collapse", "clear", BROKEN, "provoked", "a reward that broke: the text is as before"),
    OnRealLog("policy-collapse", "clear", "lab/data_shift-s0", "provoked", "harder data, and relearning"),
    OnRealLog(
        "data-shift",
        "fires",
        HEALTHY,
        "injected",
        "longer prompts from step 90 on: less is right, answers are longer",
        {
            "reward": after(90, lambda v: 0.6 * v),
            "completions/mean_length": after(90, lambda v: 1.7 * v),
            "entropy": after(90, lambda v: 2.0 * v),
        },
    ),
    OnRealLog("data-shift", "fires", "lab/data_shift-s0", "provoked", "three digits instead of one from step 101 on"),
    OnRealLog("data-shift", "clear", BROKEN, "provoked", "the reward alone fell"),
    OnRealLog("data-shift", "clear", DRIFT, "provoked", "a collapse, from which nothing is learnt again"),
    OnRealLog("data-shift", "clear", RESUMED, "recorded", "a resume, and nothing jumps"),
    OnRealLog(
        "resume-discontinuity",
        "fires",
        RESUMED,
        "injected",
        "the schedule starts anew and the policy is another one",
        {
            "entropy": after(61, lambda v: 2.5 * v),
            "kl": after(61, lambda v: 8.0 * v),
            "completions/mean_length": after(61, lambda v: 1.5 * v),
        },
    ),
    OnRealLog("resume-discontinuity", "clear", RESUMED, "recorded", "fifty steps ran twice, and all levels go on"),
    OnRealLog(
        "resume-discontinuity",
        "clear",
        RESUMED,
        "injected",
        "a jump forty steps behind the seam",
        {"entropy": after(101, lambda v: 2.5 * v)},
    ),
    OnRealLog("resume-discontinuity", "clear", BROKEN, "provoked", "a fall in one row, and no resume"),
    OnRealLog(
        "train-eval-overfit",
        "fires",
        OVERTRAINED,
        "injected",
        "the held-out margin peaks at the third evaluation and is lost again",
        {"eval_rewards/margins": lost_again},
    ),
    OnRealLog("train-eval-overfit", "clear", OVERTRAINED, "provoked", "half as large as in training, and it stands"),
    OnRealLog("train-eval-overfit", "clear", PAIRS, "recorded", "held-out pairs in step with training"),
    # the learning signal
    OnRealLog("signal-collapsed-solved", "fires", "lab/saturation-s0", "provoked", "at 1.23 of 1.25 from step 5 on"),
    OnRealLog(
        "signal-collapsed-solved",
        "fires",
        HEALTHY,
        "injected",
        "ties that this run's three reward levels hid in rounding",
        {"frac_reward_zero_std": drawn(lambda t: 0.1 + 0.8 * t, 0.02)},
    ),
    OnRealLog("signal-collapsed-solved", "clear", ZERO, "provoked", "all tied at the floor"),
    OnRealLog("signal-collapsed-solved", "clear", HEALTHY_KL, "recorded", "two groups in five, not four"),
    OnRealLog("signal-collapsed-unsolved", "fires", ZERO, "provoked", "no completion is ever rewarded"),
    OnRealLog("signal-collapsed-unsolved", "clear", PROXY, "provoked", "seven groups in ten, at the ceiling"),
    OnRealLog("signal-collapsed-unsolved", "clear", "lab/saturation-s0", "provoked", "a solved task"),
    OnRealLog("signal-dropped-suddenly", "fires", BROKEN, "provoked", "three groups in ten are tied, then all of them"),
    OnRealLog(
        "signal-dropped-suddenly", "clear", HEALTHY_KL, "recorded", "the slow decline of a task that gets solved"
    ),
    OnRealLog("signal-dropped-suddenly", "clear", "lab/healthy_long-s0", "recorded", "500 steps of the same"),
    OnRealLog("few-groups-carry-signal", "fires", ZERO, "provoked", "none does"),
    OnRealLog("few-groups-carry-signal", "fires", PROXY, "provoked", "three in ten, once the proxy is at its ceiling"),
    OnRealLog(
        "few-groups-carry-signal", "clear", HEALTHY_KL, "recorded", "three in five do, in the tail of a good run"
    ),
    OnRealLog("few-groups-carry-signal", "clear", STILL, "provoked", "no group is tied"),
    OnRealLog(
        "gradient-zero-despite-signal",
        "fires",
        HEALTHY,
        "injected",
        "an update that reaches no weights from step 120 on",
        {"grad_norm": after(120, np.zeros_like)},
    ),
    OnRealLog("gradient-zero-despite-signal", "clear", ZERO, "provoked", "all groups tied: zero is right"),
    OnRealLog("gradient-zero-despite-signal", "clear", STILL, "provoked", "a learning rate near zero has a gradient"),
)
