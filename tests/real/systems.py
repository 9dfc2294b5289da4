"""The systems family on real logs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.real import Fault, OnRealLog, after, drawn
from vario.run import Floats, Ints

FULLEST, EMPTIEST = "system/gpu/memoryAllocated/max", "system/gpu/memoryAllocated/min"


def times(factor: float) -> Fault:
    return lambda values, _: values * factor


def at_multiples(period: int, factor: float) -> Fault:
    """Slower at every so many steps, and at the step behind."""

    def fault(values: Floats, steps: Ints) -> Floats:
        return np.asarray(values * np.where((steps % period <= 1) & (steps >= period), factor, 1.0))

    return fault


def level(value: float) -> Callable[[Floats], Floats]:
    return lambda done: np.full(done.size, value)


REAL = (
    OnRealLog(
        "step-time-jumped",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "three times as long from one step to the next, at the same length",
        {"step_time": after(100, lambda v: v * 3.0)},
    ),
    OnRealLog("step-time-jumped", "clear", "golden/grpo-healthy", "recorded", "the noise of a small machine"),
    OnRealLog("step-time-jumped", "clear", "lab/length_hack-s0", "recorded", "steps take longer as answers get longer"),
    OnRealLog(
        "rollout-dominates-step",
        "fires",
        "corpus/verl-ppo-ulysp2",
        "injected",
        "generation takes three quarters of the step instead of three fifths",
        {"timing_s/gen": times(1.25)},
    ),
    OnRealLog(
        "rollout-dominates-step",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "what the profiler writes to trackers",
        {"profiling/Time taken: GRPOTrainer.vLLM.generate": drawn(level(0.26), 0.01)},
        beside="step_time",
    ),
    OnRealLog("rollout-dominates-step", "clear", "corpus/verl-ppo-ulysp2", "recorded", "three fifths of the step"),
    OnRealLog("rollout-dominates-step", "clear", "corpus/verl-dapo-q2-7b-test", "recorded", "a tenth of the step"),
    OnRealLog("rollout-dominates-step", "unknown", "golden/grpo-healthy", "recorded", "generation is not timed"),
    OnRealLog(
        "rollout-long-tail",
        "fires",
        "corpus/verl-gsm8k-q7b-base",
        "injected",
        "the tail it has, in a step that is mostly generation",
        {"timing_s/gen": times(9.0)},
    ),
    OnRealLog(
        "rollout-long-tail",
        "fires",
        "corpus/verl-ppo-ulysp2",
        "injected",
        "single requests are timed by the agent loop",
        {
            "timing_s/agent_loop/generate_sequences/mean": drawn(level(0.9), 0.05),
            "timing_s/agent_loop/generate_sequences/max": drawn(level(4.4), 0.2, seed=1),
        },
        beside="timing_s/gen",
    ),
    OnRealLog(
        "rollout-long-tail",
        "clear",
        "corpus/verl-gsm8k-q7b-base",
        "recorded",
        "the longest is six times the mean, and generation takes a fifteenth of the step",
    ),
    OnRealLog("rollout-long-tail", "clear", "golden/grpo-healthy", "recorded", "answers of about one length"),
    OnRealLog(
        "memory-near-capacity",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "what W&B samples of the devices",
        {FULLEST: drawn(lambda done: 88.0 + 10.0 * done, 0.3), EMPTIEST: drawn(lambda done: 86.0 + 10.0 * done, 0.3)},
    ),
    OnRealLog(
        "memory-near-capacity",
        "clear",
        "golden/grpo-healthy",
        "injected",
        "full in one phase, with headroom in the other",
        {FULLEST: drawn(level(97.0), 0.3), EMPTIEST: drawn(level(60.0), 2.0)},
    ),
    OnRealLog("memory-near-capacity", "unknown", "corpus/verl-q3b-fsdp-base", "recorded", "GiB of an unknown capacity"),
    OnRealLog(
        "memory-creeping",
        "fires",
        "corpus/verl-ppo-ulysp2",
        "injected",
        "a gibibyte every fifteen steps",
        {"perf/max_memory_allocated_gb": drawn(lambda done: 32.0 + 8.0 * done, 0.1)},
    ),
    OnRealLog(
        "memory-creeping", "clear", "corpus/verl-gsm8k-q7b-offppl", "recorded", "the highest value so far, with fewer steps"
    ),
    OnRealLog("memory-creeping", "clear", "corpus/verl-q7b-mcore-off", "recorded", "a high-water mark that settles"),
    OnRealLog(
        "background-contention",
        "fires",
        "golden/grpo-drift",
        "injected",
        "steps slow down where checkpoints were written",
        {"step_time": at_multiples(20, 4.0)},
    ),
    OnRealLog(
        "background-contention",
        "fires",
        "corpus/verl-q7b-mcore-off",
        "injected",
        "uploads behind the save, with evaluations inside the step",
        {"timing_s/step": at_multiples(20, 2.2)},
    ),
    OnRealLog("background-contention", "clear", "golden/grpo-drift", "recorded", "checkpoints that slow nothing down"),
    OnRealLog(
        "background-contention", "clear", "corpus/verl-gsm8k-q7b-base", "recorded", "the step counts the evaluation"
    ),
    OnRealLog(
        "background-contention",
        "clear",
        "corpus/verl-q3b-mcore-offppl",
        "recorded",
        "evaluations longer than the step, and shorter steps behind them",
    ),
    OnRealLog(
        "background-contention",
        "clear",
        "lab/offpolicy_multiepoch-s0",
        "recorded",
        "a batch is used for eight updates: every eighth step generates",
    ),
    OnRealLog(
        "run-stalled",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "the last steps take a hundred times as long",
        {"step_time": after(177, lambda v: v * 100.0)},
    ),
    OnRealLog(
        "run-stalled",
        "fires",
        "corpus/rhe-3b-easy-judge-long",
        "injected",
        "two hours for one of the last steps",
        {"time/total": after(48, lambda v: np.where(np.arange(v.size) == 0, 7300.0, v))},
    ),
    OnRealLog("run-stalled", "clear", "corpus/cse5525-tinker-dpo", "recorded", "single steps of a minute and a half"),
    OnRealLog("run-stalled", "clear", "corpus/rhe-3b-hard-judge", "recorded", "steps of five hours, early in the run"),
    OnRealLog("run-stalled", "clear", "golden/grpo-healthy", "recorded", "a steady run"),
)
