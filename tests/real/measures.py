"""What users measure a run by, on real logs: budgets, the model before RL, a healthy run; and what nothing explains."""

from __future__ import annotations

from tests.real import OnRealLog, after, drawn
from vario.run import Budget, Level

HEALTHY = "golden/grpo-healthy-kl"
BEFORE = {"length/mean": Level(23.0, 6.0, 64)}

REAL = (
    OnRealLog(
        "kl-over-budget",
        "fires",
        "golden/grpo-drift",
        "provoked",
        "a policy that drifts to more than a nat a token, under a budget of half of that",
        budgets=(Budget("kl/reference", most=0.5),),
    ),
    OnRealLog(
        "kl-over-budget",
        "clear",
        HEALTHY,
        "recorded",
        "KL that climbs with the reward, far below the budget",
        budgets=(Budget("kl/reference", most=0.5),),
    ),
    OnRealLog(
        "metric-over-budget",
        "fires",
        "golden/grpo-length-hack",
        "provoked",
        "completions that grow, under a budget that its owner set",
        budgets=(Budget("length/mean", most=30.0),),
    ),
    OnRealLog(
        "metric-over-budget",
        "clear",
        HEALTHY,
        "recorded",
        "completions within the same budget",
        budgets=(Budget("length/mean", most=30.0),),
    ),
    OnRealLog(
        "length-off-baseline",
        "fires",
        "golden/grpo-length-hack",
        "provoked",
        "completions much longer than those of the model before RL",
        baseline=BEFORE,
    ),
    OnRealLog("length-off-baseline", "clear", HEALTHY, "recorded", "completions as long as before", baseline=BEFORE),
    OnRealLog(
        "capability-lost",
        "fires",
        HEALTHY,
        "injected",
        "a second held-out set that the trainer evaluates falls while the reward rises",
        {"eval_code_reward": drawn(lambda t: 0.5 - 0.3 * t, 0.005), "eval_sums_reward": drawn(lambda t: 0.5 + 0.3 * t, 0.01)},
        mapping={"eval/set/code/mean": "eval_code_reward", "eval/score/mean": "eval_sums_reward"},
    ),
    OnRealLog(
        "capability-lost",
        "clear",
        HEALTHY,
        "injected",
        "a second held-out set that stays where it was",
        {"eval_code_reward": drawn(lambda t: 0.5 + 0.0 * t, 0.02), "eval_sums_reward": drawn(lambda t: 0.5 + 0.3 * t, 0.01)},
        mapping={"eval/set/code/mean": "eval_code_reward", "eval/score/mean": "eval_sums_reward"},
    ),
    OnRealLog(
        "metric-outside-reference",
        "fires",
        "golden/grpo-length-hack",
        "provoked",
        "lengths that the healthy run of the same recipe never had",
        reference={"length/mean": (15.0, 28.0)},
    ),
    OnRealLog(
        "metric-outside-reference",
        "clear",
        HEALTHY,
        "recorded",
        "lengths within the reference's",
        reference={"length/mean": (10.0, 35.0)},
    ),
    OnRealLog(
        "unexplained-change",
        "fires",
        HEALTHY,
        "injected",
        "two metrics of the machine and the data change together",
        {"step_time": after(100, lambda v: 0.5 * v), "completions/mean_length": after(100, lambda v: 2.0 * v)},
    ),
    OnRealLog("unexplained-change", "clear", HEALTHY, "recorded", "metrics that climb and fall together, slowly"),
)
