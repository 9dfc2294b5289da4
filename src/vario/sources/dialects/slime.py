"""slime and its forks (miles): Megatron training, SGLang rollouts; standard output, W&B and TensorBoard.

What the keys mean was read from 0.3.1 (August 2026). Three counters run side by side: `train/…` by
optimiser steps, `rollout/…` and `perf/…` by rollouts, `eval/…` by rollouts. All of it is put on the axis
of rollouts: `train/…` is averaged over the updates of a rollout. With one update a rollout the counters
agree. Where the number of updates is neither configured nor visible, `train/…` stays unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from vario.run import Declared, Ints, KnobSetting, Series, Setting
from vario.sources.dialects.base import Alias, Axis, Context, Dialect, Settled, knobs_from

GROUP_ESTIMATORS = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
"""Estimators whose rewards are centred inside a group."""
OTHER_ESTIMATORS = ("ppo", "reinforce_plus_plus", "on_policy_distillation")
FLAGS = ("rollout_batch_size", "n_samples_per_prompt", "advantage_estimator", "eps_clip", "use_rollout_logprobs")
"""Arguments of the command line; three of them together are slime's."""
OPENRLHF_FLAGS = frozenset({"init_kl_coef", "actor_learning_rate", "pretrain"})
"""Arguments of OpenRLHF up to 0.9, which shares three of the above."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only slime writes, or several of its arguments."""
    decisive = (
        {"train/pg_clipfrac", "train/lr-pg_0"},
        {"rollout/raw_reward", "train/lr-pg_0"},
        {"rollout/raw_reward", "rollout/response_lengths"},
        {"train/pg_loss", "train/train_rollout_logprob_abs_diff"},
        {"rollout/truncated_ratio", "rollout/repetition_frac"},
    )
    flagged = sum(flag in config for flag in FLAGS) >= 3 and not OPENRLHF_FLAGS & config.keys()
    return any(d <= keys for d in decisive) or flagged


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The estimator as configured; without one a critic's loss tells PPO from GRPO."""
    estimator = config.get("advantage_estimator")
    if isinstance(estimator, str):
        return {"reinforce_plus_plus": "reinforce++", "reinforce_plus_plus_baseline": "reinforce++-baseline"}.get(
            estimator, estimator.replace("_", "-")
        )
    return "ppo" if any(k.startswith("train/critic-") for k in keys) else "grpo"


# one axis for both counters


def _steps_of(context: Context, prefix: str) -> Ints:
    """All steps at which keys of a prefix were logged, ascending; without the counters themselves."""
    found = [s.steps for k, s in context.series.items() if k.startswith(prefix) and not k.endswith("/step")]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def counts_train_steps(context: Context) -> bool:
    """Whether rollouts too are numbered by optimiser steps (wandb_always_use_train_step).

    Then their numbers go up by the updates of a rollout, and end where those of `train/…` end.
    """
    stated = context.config.get("wandb_always_use_train_step")
    if isinstance(stated, bool):
        return stated
    train, rollouts = _steps_of(context, "train/"), _steps_of(context, "rollout/")
    if train.size < 3 or rollouts.size < 3:
        return False
    gap = int(np.gcd.reduce(np.diff(rollouts)))
    return gap > 1 and abs(int(train[-1]) - int(rollouts[-1])) < 2 * gap and bool((np.diff(train) < gap).all())


def updates(context: Context) -> int | None:
    """Optimiser updates of one rollout: as configured, else as the two counters show; None if neither says."""
    number = context.number
    stated = number("num_steps_per_rollout")
    prompts, group, batch = number("rollout_batch_size"), number("n_samples_per_prompt"), number("global_batch_size")
    if stated is None and prompts and group and batch:
        stated = prompts * group / batch
    if stated is not None and stated >= 1.0:
        return int(stated)
    train, rollouts = _steps_of(context, "train/"), _steps_of(context, "rollout/")
    if not train.size or not rollouts.size:
        return None
    first, last = int(rollouts[0]), int(rollouts[-1])
    if counts_train_steps(context):
        return int(np.gcd.reduce(np.diff(rollouts))) if rollouts.size > 1 else None
    if last < 1:
        return None  # the first rollout may still be under way
    # update u belongs to rollout u // n; training may be one rollout behind what was sampled
    most = int(train[-1]) // max(1, last - 1) + 1
    fitting = [
        n
        for n in range(1, most + 1)
        if int(train[-1]) // n in (last, last - 1) and int(train[0]) // n in (first, first + 1)
    ]
    if len(fitting) > 1 and (written := _written_after(context)) is not None:
        update, rollout = written
        fitting = [n for n in fitting if bool((update // n == rollout).all())]
    return fitting[0] if len(fitting) == 1 else None


def _written_after(context: Context) -> tuple[Ints, Ints] | None:
    """Each update, and the last rollout whose row stands before its own; None where the rows' order is not known."""
    counters = []
    for key in ("train/step", "rollout/step"):
        counter = context.series.get(key)
        if counter is None or not np.isfinite(counter.values).any():
            return None
        known = np.isfinite(counter.values)
        counters.append((counter.steps[known], counter.values[known].astype(np.int64)))
    (when, update), (before, rollout) = counters
    place = np.searchsorted(before, when, side="right") - 1
    return update[place >= 0], np.maximum.accumulate(rollout)[place[place >= 0]]


def _on_one_axis(context: Context) -> bool:
    """Whether nothing has to be moved: one counter alone is there, or both count the same."""
    if not any(k.startswith("rollout/") for k in context.keys):
        return True
    return updates(context) == 1


def _per_rollout(context: Context, series: Series, each: int) -> Series:
    """The mean over the updates of each rollout, at the rollout's own number."""
    at = series.steps // each * (each if counts_train_steps(context) else 1)
    steps, place, count = np.unique(at, return_inverse=True, return_counts=True)
    return Series(series.key, steps, np.bincount(place, weights=series.values) / count)


Condition = Callable[[Context, Series], Settled]
_NO_RATIO = (
    "how many updates a rollout has is not known, so it cannot be put beside the rollouts: "
    "give the configuration (num_steps_per_rollout, or the batch sizes)"
)


def _when(own: Condition | None) -> Condition:
    """The key's own condition; then whether it can stand as it is, or is averaged by `derive`."""

    def settle(context: Context, series: Series) -> Settled:
        settled = own(context, series) if own else Settled(True)
        if settled.holds is not True or _on_one_axis(context):
            return settled
        return Settled(None, _NO_RATIO) if updates(context) is None else Settled(False)

    return settle


def _trainer_against_sampler(context: Context, _: Series) -> Settled:
    if context.config.get("use_rollout_logprobs") is True and updates(context) != 1:
        return Settled(
            False, "use_rollout_logprobs: taken from the current policy, so the drift of the updates is in it"
        )
    return Settled(True)


def _long_enough(_: Context, series: Series) -> Settled:
    """A loop was counted at least once: until then 0 says no more than that answers are short."""
    return Settled(bool((series.values > 0.0).any()))


_TRAIN: tuple[tuple[str, str, Condition | None], ...] = (
    ("train/kl_loss", "kl/reference", None),
    ("train/ppo_kl", "kl/update", None),
    ("train/entropy_loss", "entropy/mean", None),
    ("train/pg_clipfrac", "clip/fraction/total", None),
    ("train/ois", "ratio/mean", None),
    ("train/train_rollout_logprob_abs_diff", "engine/logprob-gap/mean", _trainer_against_sampler),
    ("train/tis", "behaviour-weight/mean", None),
    ("train/tis_clipfrac", "behaviour-weight/capped-share", None),
    ("train/opsm_clipfrac", "behaviour-weight/capped-share", None),
    ("train/pg_loss", "loss/policy", None),
    ("train/loss", "loss/total", None),
    ("train/grad_norm", "gradient/norm", None),
    ("train/lr-pg_0", "learning-rate", None),
    ("train/critic-value_loss", "loss/value", None),
    ("train/critic-value_clipfrac", "value/clip-fraction", None),
)
"""Counted by optimiser steps."""

ALIASES = (
    *(Alias(key, metric, when=_when(own)) for key, metric, own in _TRAIN),
    Alias("rollout/raw_reward", "reward/mean"),
    Alias("rollout/response_len/mean", "length/mean"),
    Alias("rollout/response_len/max", "length/max"),
    Alias("rollout/response_len/min", "length/min"),
    Alias("rollout/response_lengths", "length/mean"),
    Alias("rollout/truncated_ratio", "length/truncated-share"),
    Alias("rollout/truncated", "length/truncated-share"),
    Alias("rollout/repetition_frac", "text/looping-share", when=_long_enough),
    Alias("multi_turn/multi_turn_metric/round_number_mean", "turns/mean"),
    Alias(r"eval/(?P<part>(?!step$|.*-truncated_ratio$|.*-pass@\d+$)[^/]+)", "eval/set/*/mean"),
    Alias("perf/step_time", "systems/step-time"),
    Alias("perf/rollout_time", "systems/rollout-time"),
    Alias("perf/actor_train_time", "systems/train-time"),
    Alias("perf/log_probs_time", "systems/logprob-time"),
    Alias("perf/update_weights_time", "systems/sync-time"),
    Alias("perf/train_wait_time", "systems/wait-time"),
    Alias("perf/save_model_time", "systems/checkpoint-time"),
    Alias("perf/actor_train_tok_per_s", "systems/throughput"),
)

_ZERO_STD = re.compile(r"rollout/zero_std/count_-?[\d.]+")
_DROPPED = re.compile(r"rollout/dynamic_filter/drop_zero_std_.+")

IGNORED = {
    r"(train|rollout|eval)/step": "a counter; what it counts was put at it",
    r"_runtime|_timestamp": "a clock",
    r"train/(critic-)?global_batch_size": "the size of the batch",
    r"train/lr-pg_[1-9]\d*": "further groups of parameters, which share the schedule of the first",
    r"train/critic-(grad_norm|lr-pg_\d+)": "the critic's own optimiser",
    r"train/tis_abs": "the mean distance of the weight from 1; the weight itself is read",
    r"(train|rollout)/opd_reverse_kl|rollout/teacher_log_probs": "distillation: the distance to a teacher, no reference",
    r"train/mtp_(\d+_)?loss": "loss of the multi-token head",
    r"rollout/rewards": "after normalisation inside the group: 0 by construction, no progress",
    r"rollout/(advantages|returns|values)": "means over tokens: normalised, of no trend of their own",
    r"rollout/(log_probs|ref_log_probs|rollout_log_probs)": "levels; their differences are read",
    r"rollout/total_lengths": "prompt and answer together; the difference to the answer is read",
    r"rollout/response_len/median": "mean and extremes are read",
    r"rollout/repetition_frac": "only answers above 10 000 characters count: 0 for all others, whatever they repeat",
    r"rollout/zero_std/count_.+": "a count by reward; the share of all of them is read, where the batch size is known",
    r"rollout/dynamic_filter/.+": "a count by reason; the sum for lack of spread is read",
    r"rollout/(spec_accept_rate|spec_accept_length|prefix_cache_hit_rate|avg_cached_tokens_per_sample)": "engine internals",
    r"rollout/top_p_kept_vocab_per_token": "how much of the vocabulary sampling kept",
    r"rollout/error_cat/.+": "shares of categories that the reward names itself",
    r"rollout/correct_(response_lengths|entropy)|rollout/correct_length/.+": "the part of the batch with reward 1",
    r"passrate/pass@\d+": "best of k on training prompts",
    r"multi_turn/(raw|wo_obs)_response_length/response_length_(mean|max|min|clip_ratio)": "lengths with and without what tools answered; response_len is read",
    r"multi_turn/multi_turn_metric/round_number_(max|min)": "extremes of the turns",
    r"eval/[^/]+/.+": "training quantities taken on held-out prompts; the score is read",
    r"eval/[^/]+-(truncated_ratio|pass@\d+)": "cut answers and best of k on held-out prompts; the score is read",
    r"perf/(tokens_per_gpu_per_sec|effective_tokens_per_gpu_per_sec)": "tokens of the sampling engine per device",
    r"perf/longest_.*": "the longest answer alone",
    r"perf/(non_generation_time|request|prefill|decode)/.+": "times of single requests and tools",
    r"perf/(train_time|ref_log_probs_time|data_preprocess_time|ref_model_update_time|sleep_time|wake_up_time)": "phases inside step_time beyond those that are read",
    r"perf/wait_time_ratio": "the wait as a share of the step; the wait itself is read",
    r"perf/(actor_train|log_probs|ref_log_probs)_tflops": "use of hardware",
}

AXES = (
    Axis("train/", "train/step"),
    Axis("rollout/", "rollout/step"),
    Axis("perf/", "rollout/step"),
    Axis("passrate/", "rollout/step"),
    Axis("multi_turn/", "rollout/step"),
    Axis("eval/", "eval/step"),
)


def _difference(context: Context, one: str, other: str) -> Series | None:
    """`one` less `other` at the steps that log both."""
    a, b = context.series.get(one), context.series.get(other)
    if a is None or b is None:
        return None
    steps, here, there = np.intersect1d(a.steps, b.steps, assume_unique=True, return_indices=True)
    return Series(f"{one} - {other}", steps, a.values[here] - b.values[there])


def _sum(context: Context, pattern: re.Pattern[str], beside: str) -> Series | None:
    """Sum over keys that come and go (absent: 0), at the steps that log `beside`, written in the same row."""
    parts = [s for k, s in context.series.items() if pattern.fullmatch(k)]
    rows = context.series.get(beside)
    if not parts or rows is None:
        return None
    total = np.zeros(len(rows))
    for part in parts:
        _, here, there = np.intersect1d(rows.steps, part.steps, assume_unique=True, return_indices=True)
        total[here] += part.values[there]
    return Series(f"{parts[0].key.rpartition('_')[0]}_*", rows.steps, total)


def derive(context: Context) -> Mapping[str, Series]:
    """What takes two keys, or several updates."""
    found: dict[str, Series] = {}
    each = updates(context)
    if each is not None and not _on_one_axis(context):
        for key, metric, own in _TRAIN:
            values = context.series.get(key)
            if values is not None and (own is None or own(context, values).holds is True):
                found.setdefault(metric, _per_rollout(context, values, each))
    differences = {
        # the same tokens under the policy that is about to be trained, its reference and the sampling engine
        "kl/reference": ("rollout/log_probs", "rollout/ref_log_probs"),
        "engine/kl": ("rollout/rollout_log_probs", "rollout/log_probs"),
        "length/prompt/mean": ("rollout/total_lengths", "rollout/response_lengths"),
    }
    for metric, (one, other) in differences.items():
        if (values := _difference(context, one, other)) is not None:
            found.setdefault(metric, values)
    tied, groups = _sum(context, _ZERO_STD, "rollout/response_len/mean"), context.number("rollout_batch_size")
    if tied is not None and groups and float(tied.values.max(initial=0.0)) <= groups:
        found["signal/zero-variance-share"] = Series(tied.key, tied.steps, tied.values / groups)
    if (dropped := _sum(context, _DROPPED, "rollout/response_len/mean")) is not None:
        found["signal/groups-dropped"] = dropped
    return found


def _by_design(context: Context) -> bool | None:
    used, in_reward = context.config.get("use_kl_loss"), context.number("kl_coef")
    if used is True or in_reward:
        return True
    if used is False and in_reward is not None:
        return False
    return True if "train/kl_loss" in context.keys else None


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per rollout, caps, groups and the KL term, as configured."""
    number = context.number
    prompts, group = number("rollout_batch_size"), number("n_samples_per_prompt")
    each, alone = updates(context), not any(k.startswith("rollout/") for k in context.keys)
    estimator = context.config.get("advantage_estimator")
    centred: bool | None = None
    if context.config.get("rewards_normalization") is False or estimator in OTHER_ESTIMATORS:
        centred = False
    elif estimator in GROUP_ESTIMATORS:
        centred = True
    elif any(k.startswith("train/critic-") for k in context.keys):
        centred = False
    filtered = context.config.get("dynamic_sampling_filter_path") is not None or any(
        k.startswith("rollout/dynamic_filter/") for k in context.keys
    )
    return Declared(
        updates_per_rollout=float(each) if each is not None else None,
        max_length=number("rollout_max_response_len"),
        kl_by_design=_by_design(context),
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=centred,
        steps_per_row=1.0 if alone else (float(each) if each is not None else None),
        step_unit="optimiser" if alone or counts_train_steps(context) else "rollout",
        reward_filtered=filtered or None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default in 0.3.1)
    "kl-coef": ("kl_loss_coef", 0.0),
    "deterministic-kernels": ("deterministic_mode", False),  # Megatron's own argument
    "learning-rate": ("lr", 1e-6),
    "warmup": ("lr_warmup_iters", 0),
    "batch-size": ("global_batch_size", None),
    "group-size": ("n_samples_per_prompt", 1),
    "clip-low": ("eps_clip", 0.2),
    "clip-high": ("eps_clip_high", None),
    "minibatches": ("num_steps_per_rollout", None),
    "temperature": ("rollout_temperature", 1.0),
    "entropy-bonus": ("entropy_coef", 0.0),
    "max-completion-length": ("rollout_max_response_len", None),
    "reward-scaling": ("grpo_std_normalization", True),
    "dynamic-filter": ("dynamic_sampling_filter_path", None),
    "behaviour-weight-cap": ("tis_clip", 2.0),
    "max-grad-norm": ("clip_grad", 1.0),
    "loss-type": ("calculate_per_token_loss", False),
    "save-steps": ("save_interval", None),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Slime's arguments for the canonical knobs."""
    table = dict(_KNOBS)
    if context.number("kl_coef"):
        table["kl-coef"] = ("kl_coef", 0.0)
    if context.algorithm == "ppo":
        table |= {"value-clip": ("value_clip", 0.2), "reward-scaling": ("normalize_advantages", False)}
        table["critic-warmup"] = ("num_critic_only_steps", 0)
    found = knobs_from(context, table)
    if _by_design(context) is False:
        found["kl-coef"] = replace(found["kl-coef"], current=0.0)  # the coefficient weighs nothing without its switch
    return found


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from slime."""
    samples = "--save-debug-rollout-data keeps the samples"
    return {
        "kl/reference": "--use-kl-loss with --kl-loss-coef 0 loads a reference and logs train/kl_loss without a penalty",
        "reward/std/within-group": f"not logged by slime; {samples}",
        "signal/zero-variance-share": "rollout/zero_std/count_* are logged, except by PPO; give the configuration (rollout_batch_size) for the share",
        "clip/fraction/low": "not logged apart; train/pg_clipfrac holds both sides",
        "eval/score/mean": "--eval-interval with --eval-prompt-data: eval/<name> is logged",
        "entropy/mean": "logged as train/entropy_loss",
        "length/truncated-share": "logged as rollout/truncated_ratio",
        "engine/logprob-gap/mean": "logged as train/train_rollout_logprob_abs_diff; --use-rollout-logprobs mixes the drift of the updates into it",
        "engine/kl": "logged as the difference of rollout/rollout_log_probs and rollout/log_probs, unless --use-rollout-logprobs",
        "behaviour-weight/mean": "--use-tis logs train/tis and applies it; --get-mismatch-metrics with --custom-tis-function-path only logs it",
        "ratio/mean": "logged as train/ois with --use-tis or --get-mismatch-metrics",
        "turns/mean": "--log-multi-turn",
        "systems/step-time": "logged as perf/step_time",
    }


DIALECT = Dialect(
    "slime",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    axes=AXES,
    patch="dashed-flags",
    samples="--save-debug-rollout-data PATH/{rollout_id}.pt saves them, and those of evaluations as eval_{rollout_id}.pt",
)
