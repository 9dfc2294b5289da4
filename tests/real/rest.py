"""What is counted from completions, and what nobody logged, on real logs.

No trainer logs most of what is counted from completions, so here the user's own callback wrote it into the trainer's
log, and the user says with `--map` what it is. `tests/test_real_samples.py` counts it from completions that a trainer
wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.real import Fault, OnRealLog, drawn

HEALTHY, HEALTHY_KL, STILL = "golden/grpo-healthy", "golden/grpo-healthy-kl", "golden/grpo-lr-too-low"
DRIFT, LENGTH, PROXY = "golden/grpo-drift", "golden/grpo-length-hack", "golden/grpo-proxy-hack"
OPEN_INSTRUCT = "corpus/olmo3-rl0-7b"


def counted(
    rule: str, says: str, log: str, why: str, values: Mapping[str, Fault], until: int | None = None
) -> OnRealLog:
    """A log to which the user's callback added metrics that it counted from the completions."""
    keys = {metric: f"completions/{metric}" for metric in values}
    faults = {keys[metric]: fault for metric, fault in values.items()}
    return OnRealLog(rule, says, log, "injected", why, faults, mapping=keys, until=until)


REAL = (
    # the text
    counted(
        "outputs-lose-diversity",
        "fires",
        DRIFT,
        "the completions become alike as the policy drifts away and the reward falls",
        {"text/group-diversity": drawn(lambda t: 0.8 - 0.6 * t, 0.01)},
    ),
    counted(
        "outputs-lose-diversity",
        "clear",
        HEALTHY,
        "the same completions agree because they become right",
        {"text/group-diversity": drawn(lambda t: 0.8 - 0.6 * t, 0.01)},
    ),
    counted(
        "outputs-lose-diversity",
        "clear",
        STILL,
        "alike from the first batch",
        {"text/distinct-share": drawn(lambda t: 0.2 + 0.0 * t, 0.02)},
    ),
    OnRealLog("outputs-lose-diversity", "unknown", HEALTHY, "recorded", "TRL logs nothing of the text"),
    counted(
        "outputs-repeat",
        "fires",
        LENGTH,
        "longer and longer answers, and what is added are loops",
        {"text/repetition-share": drawn(lambda t: 0.05 + 0.7 * t, 0.02)},
    ),
    counted(
        "outputs-repeat",
        "clear",
        HEALTHY,
        "a task whose answers repeat a little, from first to last",
        {"text/repetition-share": drawn(lambda t: 0.08 + 0.0 * t, 0.02)},
    ),
    counted(
        "outputs-garbled",
        "fires",
        DRIFT,
        "other scripts come in as the policy drifts away",
        {"text/garbled-share": drawn(lambda t: np.maximum(t - 0.4, 0.0), 0.005)},
    ),
    counted(
        "outputs-garbled",
        "clear",
        HEALTHY,
        "names in another script, as many as at the start",
        {"text/garbled-share": drawn(lambda t: 0.1 + 0.0 * t, 0.02)},
    ),
    counted(
        "outputs-duplicated",
        "fires",
        DRIFT,
        "one answer for every prompt",
        {"text/duplicate-share/across-prompts": drawn(lambda t: np.clip(2.0 * t - 0.8, 0.02, 0.98), 0.01)},
    ),
    counted(
        "outputs-duplicated",
        "clear",
        HEALTHY_KL,
        "a task with few possible answers: copies from the start",
        {"text/duplicate-share/across-prompts": drawn(lambda t: 0.6 + 0.1 * t, 0.02)},
    ),
    # the length
    counted(
        "lengths-bimodal",
        "fires",
        HEALTHY,
        "short guesses and long padding, and less and less between them",
        {
            "length/bimodality/within-group": drawn(lambda t: 0.4 + 0.35 * t, 0.01),
            "length/bimodality/separation": drawn(lambda t: 4.0 * t, 0.1),
        },
    ),
    counted(
        "lengths-bimodal",
        "clear",
        HEALTHY,
        "a long tail: a large coefficient, and one mode",
        {
            "length/bimodality/within-group": drawn(lambda t: 0.5 + 0.2 * t, 0.01),
            "length/bimodality/separation": drawn(lambda t: 0.0 * t, 0.0),
        },
    ),
    OnRealLog(
        "length-buys-reward",
        "fires",
        OPEN_INSTRUCT,
        "injected",
        "right answers become twice as long as wrong ones, and all become longer",
        {
            "objective/verifiable_reward": drawn(lambda t: 3.0 + 3.0 * t, 0.3),
            "val/sequence_lengths": drawn(lambda t: 900.0 + 900.0 * t, 30.0),
            "val/sequence_lengths_solved": drawn(lambda t: 900.0 + 1500.0 * t, 30.0),
            "val/sequence_lengths_unsolved": drawn(lambda t: 900.0 + 300.0 * t, 30.0, seed=1),
        },
        beside="objective/verifiable_reward",
    ),
    OnRealLog(
        "length-buys-reward",
        "clear",
        OPEN_INSTRUCT,
        "injected",
        "all become longer, right and wrong alike",
        {
            "objective/verifiable_reward": drawn(lambda t: 3.0 + 3.0 * t, 0.3),
            "val/sequence_lengths": drawn(lambda t: 900.0 + 900.0 * t, 30.0),
            "val/sequence_lengths_solved": drawn(lambda t: 900.0 + 900.0 * t, 30.0),
            "val/sequence_lengths_unsolved": drawn(lambda t: 900.0 + 900.0 * t, 30.0, seed=1),
        },
        beside="objective/verifiable_reward",
    ),
    counted(
        "length-buys-reward",
        "fires",
        LENGTH,
        "length decides the reward inside groups, and correctness is given up for it",
        {
            "length/reward-correlation/within-group": drawn(lambda t: 0.2 + 0.7 * t, 0.02),
            "length/reward-correlation/se": drawn(lambda t: 0.05 + 0.0 * t, 0.002),
        },
        until=100,
    ),
    counted(
        "length-buys-reward",
        "clear",
        HEALTHY,
        "right answers show their working: they are a little longer, and every score rises",
        {
            "length/reward-correlation/within-group": drawn(lambda t: 0.35 + 0.0 * t, 0.02),
            "length/reward-correlation/se": drawn(lambda t: 0.05 + 0.0 * t, 0.002),
        },
    ),
    counted(
        "truncation-biases-reward",
        "fires",
        PROXY,
        "running into the cap is what the proxy pays",
        {
            "reward/truncated-gap/within-group": drawn(lambda t: 0.3 + 0.0 * t, 0.02),
            "reward/truncated-gap/se": drawn(lambda t: 0.03 + 0.0 * t, 0.002),
            "reward/std/within-group": drawn(lambda t: 0.3 + 0.0 * t, 0.01),
        },
    ),
    counted(
        "truncation-biases-reward",
        "clear",
        HEALTHY,
        "as large a gap where hardly any completion is cut",
        {
            "reward/truncated-gap/within-group": drawn(lambda t: 0.3 + 0.0 * t, 0.02),
            "reward/truncated-gap/se": drawn(lambda t: 0.03 + 0.0 * t, 0.002),
            "reward/std/within-group": drawn(lambda t: 0.3 + 0.0 * t, 0.01),
        },
    ),
    # what nobody logged
    OnRealLog("instrument-missing", "fires", PROXY, "provoked", "200 rows, and no score on held-out prompts"),
    OnRealLog(
        "instrument-missing",
        "clear",
        PROXY,
        "injected",
        "evaluated all along",
        {"eval_reward": drawn(lambda t: 0.5 + 0.0 * t, 0.02)},
    ),
    OnRealLog("instrument-missing", "clear", HEALTHY, "recorded", "180 rows: too short a run to ask for it"),
    OnRealLog("instrument-missing", "clear", "lab/dpo_overtrain-s0", "provoked", "pairs have no reward to go astray"),
)
