"""open-instruct: `grpo_fast` (two generations of names), the cached DPO trainer, the older PPO.

What the keys mean was read from the sources at e6c3044 and from earlier ones. One row is one rollout batch.
Its batch statistics are taken after groups without spread were dropped, and `val/*` is training data.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import Alias, Context, Dialect, Settled, knobs_from, one_minus, percent

GROUPED = ("grpo",)
PAIRS = ("dpo",)
FIRST_NUMBERING = frozenset({"objective/kl_avg", "objective/kl4_avg"})
"""Keys of the time when the four estimators were counted from 1: there `kl3` is k3, now `kl2` is."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only open-instruct writes, or the arguments of its trainers."""
    decisive = (
        {"batch/filtered_prompts"},
        {"unsolved_batch_size_ratio"},
        {"objective/verifiable_reward"},
        {"objective/kl0_avg"},
        {"objective/kl4_avg"},
        {"scores", "val/sequence_lengths"},
        {"val/stop_token_rate"},
        {"other/real_batch_size_ratio"},
        {"rewards/margin", "rewards/accuracy"},
    )
    return (
        any(d <= keys for d in decisive)
        or bool({"num_unique_prompts_rollout", "num_samples_per_prompt_rollout"} & config.keys())
        or {"dpo_loss_type", "dpo_beta"} <= config.keys()
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Which trainer wrote the log; the loss functions `dapo` and `cispo` are both forms of GRPO here."""
    if {"rewards/margin", "rewards/chosen"} & keys or "dpo_loss_type" in config:
        return "dpo"
    if {"objective/rlhf_reward", "loss/value_avg"} & keys:
        return "ppo"
    return "grpo"


def _filter(context: Context) -> bool | None:
    """Whether groups without spread are dropped; None when neither settings nor counts say."""
    stated = context.config.get("filter_zero_std_samples")
    if isinstance(stated, bool):
        return stated
    dropped = context.series.get("batch/filtered_prompts")
    return True if dropped is not None and bool((dropped.values > 0.0).any()) else None


def _counted(context: Context, _: Series) -> Settled:
    filtered = _filter(context)
    if filtered is False:
        return Settled(False, "filter_zero_std_samples is off: nothing is dropped, and nothing counted")
    if filtered is None:
        return Settled(None, "0 throughout: no group tied, or filter_zero_std_samples is off; the setting is not known")
    return Settled(True)


def _reference(context: Context, series: Series) -> Settled:
    if context.config.get("load_ref_policy") is False:
        return Settled(False, "load_ref_policy is off: written as 0, not measured")
    if context.config.get("load_ref_policy") is None and not series.values.any():
        return Settled(None, "0 throughout: written so without a reference too; load_ref_policy is not known")
    return Settled(True)


def _third_estimator_now(context: Context, series: Series) -> Settled:
    if FIRST_NUMBERING & context.keys:
        return Settled(False)  # k2, half the squared log-ratio
    return _reference(context, series)


def _third_estimator_then(context: Context, series: Series) -> Settled:
    if not FIRST_NUMBERING & context.keys:
        return Settled(False)  # the log-ratio times the probability ratio
    return _reference(context, series)


def _first_estimator(context: Context, series: Series) -> Settled:
    """k1, for logs that hold no k3; an alias further up wins where k3 is there."""
    return _reference(context, series)


def _both_sides(context: Context, _: Series) -> Settled:
    return Settled(context.config.get("loss_fn") != "cispo")


def _high_side(context: Context, _: Series) -> Settled:
    return Settled(context.config.get("loss_fn") == "cispo")


def _against_the_old_policy(context: Context, _: Series) -> Settled:
    if context.config.get("use_vllm_logprobs") is True:
        return Settled(False, "use_vllm_logprobs: taken against the sampling engine, not against the old policy")
    return Settled(True)


def _untruncated_too(context: Context, series: Series) -> Settled:
    masked = context.config.get("mask_truncated_completions")
    if masked is True:
        return Settled(False, "mask_truncated_completions: truncated ones are dropped before it is taken")
    if masked is None and bool((series.values == 1.0).all()):
        return Settled(None, "1 throughout: so it is with mask_truncated_completions too, and that is not known")
    return Settled(True)


def _all_completions(context: Context, _: Series) -> Settled:
    return Settled(context.config.get("mask_truncated_completions") is not True)


def _terminated_only(context: Context, _: Series) -> Settled:
    return Settled(context.config.get("mask_truncated_completions") is True)


def _applied(context: Context) -> bool:
    """Whether the trainer/sampler weight is in use: without it all its keys are written as 0."""
    weight = context.series.get("val/rho_weight")
    return weight is not None and bool(weight.values.any())


def _capped(context: Context, _: Series) -> Settled:
    if not _applied(context):
        return Settled(False, "use_rho_correction is off: written as 0")
    dropped = context.series.get("val/rho_drop_frac")
    if dropped is not None and dropped.values.any():
        clamped = context.series.get("val/rho_clipfrac")
        both = clamped is not None and bool(clamped.values.any())
        return Settled(False, "clamped and dropped overlap; their union is not logged" if both else "")
    return Settled(True)


def _dropped(context: Context, series: Series) -> Settled:
    if not _applied(context):
        return Settled(False, "use_rho_correction is off: written as 0")
    clamped = context.series.get("val/rho_clipfrac")
    if clamped is not None and clamped.values.any():
        overlap = "clamped and dropped overlap; their union is not logged"
        return Settled(False, overlap if series.values.any() else "")
    return Settled(True)


def _is_the_total(context: Context, _: Series) -> Settled:
    return Settled(not {"scores", "objective/scores", "val/format_scores"} & context.keys)


def _kept_groups(context: Context, _: Series) -> Settled:
    return Settled(bool(len(_of_all_groups(context))))


ALIASES = (
    # scores are those of the kept groups; where the dropped ones can be added, reward/mean is derived
    Alias("scores", "reward/kept/mean", GROUPED, when=_kept_groups),
    Alias("scores", "reward/mean", GROUPED),
    Alias("objective/scores", "reward/mean"),
    Alias("objective/verifiable_reward", "reward/mean", GROUPED, when=_is_the_total),
    Alias("objective/rlhf_reward", "reward/penalised/mean"),
    Alias("objective/non_score_reward", "reward/kl-penalty/mean"),
    Alias(r"objective/(?P<part>.+)_reward", "reward/component/*/mean"),
    Alias(r"val/(?P<part>format)_scores", "reward/component/*/mean"),
    Alias("eval/scores", "eval/score/mean"),
    Alias(r"eval/objective/(?P<part>.+)_reward", "eval/component/*/mean"),
    Alias("batch/filtered_prompts_pct", "signal/zero-variance-share", when=_counted),
    Alias("batch/filtered_prompts", "signal/groups-dropped", when=_counted),
    Alias("objective/kl2_avg", "kl/reference", when=_third_estimator_now),
    Alias("objective/kl3_avg", "kl/reference", when=_third_estimator_then),
    Alias("objective/kl0_avg", "kl/reference", when=_first_estimator),
    Alias("objective/kl_avg", "kl/reference", when=_first_estimator),
    Alias("objective/kl", "kl/reference/sequence"),
    Alias("objective/entropy", "entropy/sequence"),
    Alias("policy/approxkl_avg", "kl/update"),
    Alias("policy/clipfrac_avg", "clip/fraction/total", when=_both_sides),
    Alias("policy/clipfrac_avg", "clip/fraction/high", when=_high_side),
    Alias("policy/entropy_avg", "entropy/mean"),
    Alias("val/ratio", "ratio/mean", when=_against_the_old_policy),
    Alias("val/ratio_var", "ratio/variance", when=_against_the_old_policy),
    Alias("val/rho_weight", "behaviour-weight/mean", zero_is_missing=True),
    Alias("val/rho_clipfrac", "behaviour-weight/capped-share", when=_capped),
    Alias("val/rho_drop_frac", "behaviour-weight/capped-share", when=_dropped),
    Alias("debug/vllm_vs_local_logprob_diff_mean", "engine/logprob-gap/mean", zero_is_missing=True),
    Alias("debug/vllm_vs_local_logprob_diff_max", "engine/logprob-gap/max", zero_is_missing=True),
    Alias("num_steps_off_policy", "staleness/mean"),
    Alias("stale_results_dropped", "staleness/dropped"),
    Alias("val/sequence_lengths", "length/mean", when=_all_completions),
    Alias("val/sequence_lengths", "length/terminated/mean", when=_terminated_only),
    Alias("val/sequence_lengths_solved", "length/solved/mean", zero_is_missing=True),
    Alias("val/sequence_lengths_unsolved", "length/unsolved/mean", zero_is_missing=True),
    Alias("val/advantages_max", "advantage/max"),
    Alias("val/advantages_min", "advantage/min"),
    Alias("val/sequence_lengths_min", "length/min", when=_all_completions),
    Alias("val/sequence_lengths_max", "length/max", when=_all_completions),
    Alias("val/stop_rate", "length/truncated-share", when=_untruncated_too, transform=one_minus),
    Alias("val/stop_token_rate", "length/truncated-share", when=_untruncated_too, transform=one_minus),
    Alias("loss/policy_avg", "loss/policy"),
    Alias("loss/total_avg", "loss/total"),
    Alias("loss/value_avg", "loss/value"),
    Alias("val/clipfrac_avg", "value/clip-fraction"),
    Alias("optim/grad_norm", "gradient/norm"),
    Alias("lr", "learning-rate"),
    Alias("learning_rate", "learning-rate"),
    Alias("time/total", "systems/step-time"),
    Alias("time/training", "systems/train-time"),
    Alias("time/trainer_waiting_for_data", "systems/wait-time"),
    Alias("time/weight_sync", "systems/sync-time"),
    Alias("time/saving", "systems/checkpoint-time"),
    Alias("learner_tokens_per_second_step", "systems/throughput"),
    # a request here is a prompt with its whole group
    Alias("time/group_generation_mean", "systems/request-time/mean"),
    Alias("time/group_generation_max", "systems/request-time/max"),
    Alias("learner_mfu", "systems/mfu", transform=percent),
    Alias("val/num_total_tokens", "systems/tokens"),
    # DPO
    Alias("rewards/chosen", "preference/chosen-reward", PAIRS),
    Alias("rewards/rejected", "preference/rejected-reward", PAIRS),
    Alias("rewards/margin", "preference/margin", PAIRS),
    Alias("rewards/accuracy", "preference/accuracy", PAIRS),
    Alias("logps/chosen", "preference/chosen-logp", PAIRS),
    Alias("logps/rejected", "preference/rejected-logp", PAIRS),
    Alias("train_loss", "loss/total", PAIRS),
)

IGNORED = {
    r"episode|epoch|global_step|train/token_count|token_count|val/num_step_tokens|val/total_reward_groups": "a count of progress or of the batch's size",
    r"model_step_(min|max|mean)": "the version that sampled; num_steps_off_policy is its distance",
    r"real_batch_size_ratio|other/real_batch_size_ratio|packed_ratio|train/padding_fraction": "how full the batch is",
    r"unsolved_batch_size_ratio": "completions below the full reward, counted singly and after groups were dropped",
    r"(val/solve_rate|batch/percent_solved)_hist|batch/(prompt_lengths|response_lengths|per_group_generation_times)(/.*)?|val/.*_hist": "a histogram",
    r"batch/percent_solved_mean": "the mean of the kept groups over the largest reward: scores, rescaled",
    r"batch/filtered_prompts_(zero|solved|nonzero)|batch/total_prompts": "parts of the shares that are derived from them",
    r"batch/no_resampled_prompts": "prompts taken out of the data for being solved",
    r"val/advantages_mean|val/advantage_abs_mean": "centred in each group: no trend of their own",
    r"objective/.+_correct_rate": "the share of rewards above 0 beside the reward itself",
    r"eval/objective/.+": "counts and shares beside the evaluation's rewards",
    r"objective/kl[1-4]_avg": "other estimators of the same divergence; k3 is read",
    r"loss/kl_avg": "the divergence times beta: a part of the loss",
    r"val/rho_drop_(low|high)_frac": "the two sides of the dropped share",
    r"val/num_eos_tokens": "counts end tokens of a whole batch, padding included",
    r"debug/vllm_vs_local_logprob_diff_std": "the spread of the gap that is read",
    r"debug/vllm_local_reverse_kl": "each sampled gap weighted by its own probability once more: no estimate of a divergence",
    r"(tools|env|evolving_rubrics)/.*": "use of tools and environments: descriptive",
    r"opd/.*|time/opd_.*": "distillation from a teacher",
    r"eval/(sequence_lengths(_min|_max)?|stop_rate|actor_tokens_per_second)": "properties of the evaluation's completions and its cost",
    r"eval/pass_at_\d+(_unbiased)?": "pass@k of the evaluation; eval/scores is its mean score",
    r"time/(group_generation_(mean|max|min)|generation_waiting_for_trainer|health_check|weight_sync_(mean|min|max|median))": "parts of other times, or of work beside the trainer",
    r"val/actor_tokens_per_second|learner_tokens_per_second_overall|(actor|learner)_(mfu|mbu)|perf/.*|.*tokens_per_second.*": "further rates of throughput",
    r"rewards/average": "the mean of the chosen and the rejected reward",
    r"aux_loss": "a part of the loss",
    r"ema_span|.*_ema": "a smoothed copy, added when the log was exported",
}


def _column(context: Context, *keys: str) -> tuple[Series, ...] | None:
    """The series of these keys at the steps they share; None unless all are there."""
    found = [context.series[k] for k in keys if k in context.series]
    if len(found) < len(keys):
        return None
    steps = found[0].steps
    for one in found[1:]:
        steps = np.intersect1d(steps, one.steps)
    return tuple(Series(one.key, steps, one.values[np.searchsorted(one.steps, steps)]) for one in found)


EMPTY = Series("", np.empty(0, dtype=np.int64), np.empty(0))


def _largest_reward(context: Context) -> float | None:
    """The full reward, which the trainer knows: scores are the share of it times it, row by row."""
    columns = _column(context, "scores", "batch/percent_solved_mean")
    if columns is None:
        return None
    scores, share = columns
    ok = np.isfinite(scores.values) & (share.values > 1e-6)
    if int(ok.sum()) < 2:
        return None
    each = scores.values[ok] / share.values[ok]
    middle = float(np.median(each))
    return middle if middle > 0.0 and bool((np.abs(each / middle - 1.0) < 1e-4).all()) else None


def _of_all_groups(context: Context) -> Series:
    """The mean reward of every group, kept or dropped; empty where it cannot be had exactly.

    A dropped group has one reward throughout: 0, the full one, or another that is not logged.
    """
    columns = _column(context, "scores", *(f"batch/{k}" for k in ("total_prompts", "filtered_prompts", "filtered_prompts_solved", "filtered_prompts_nonzero")))  # fmt: skip
    largest = _largest_reward(context)
    if columns is None or largest is None or not _filter(context):
        return EMPTY
    scores, kept, dropped, solved, other = columns
    if other.values.any():
        return EMPTY
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (scores.values * kept.values + largest * solved.values) / (kept.values + dropped.values)
    return Series("scores", scores.steps, mean)


def derive(context: Context) -> Mapping[str, Series]:
    """Shares of all groups from the counts of the dropped ones, and the age of the oldest sample."""
    made: dict[str, Series] = {}
    if len(whole := _of_all_groups(context)):
        made["reward/mean"] = whole
    counts = _column(context, "batch/total_prompts", "batch/filtered_prompts", "batch/filtered_prompts_zero", "batch/filtered_prompts_solved")  # fmt: skip
    if counts is not None and _filter(context):
        kept, dropped, zero, solved = counts
        with np.errstate(invalid="ignore", divide="ignore"):
            seen = kept.values + dropped.values
            made["signal/unsolved-share"] = Series(zero.key, zero.steps, zero.values / seen)
            made["signal/solved-share"] = Series(solved.key, solved.steps, solved.values / seen)
    ages = _column(context, "num_steps_off_policy", "model_step_mean", "model_step_min")
    if ages is not None:
        mean, version, oldest = ages
        made["staleness/max"] = Series(oldest.key, oldest.steps, mean.values + version.values - oldest.values)
    return made


def _step_unit(context: Context) -> str:
    """Rows come once a training step; steps that skip are counts of samples, as `global_step` is."""
    episode = context.series.get("episode")
    if episode is not None and len(episode) > 1 and bool((episode.values == episode.steps).all()):
        return "unknown"
    longest = max(context.series.values(), key=len, default=EMPTY)
    return "rollout" if len(longest) > 1 and float(np.median(np.diff(longest.steps))) == 1.0 else "unknown"


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    number, grouped = context.number, context.algorithm in GROUPED
    prompts, group = number("num_unique_prompts_rollout"), number("num_samples_per_prompt_rollout")
    parts, epochs = number("num_mini_batches"), number("num_epochs")
    loaded = context.config.get("load_ref_policy")
    by_design: bool | None = loaded if isinstance(loaded, bool) else None
    if by_design is None and {"kl/reference", "kl/reference/sequence"} & series.keys():
        by_design = True
    return Declared(
        updates_per_rollout=parts * (epochs or 1.0) if parts and grouped else None,
        max_length=number("response_length"),
        kl_by_design=by_design if context.algorithm not in PAIRS else None,
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=True if grouped else None,
        steps_per_row=1.0 if grouped else None,
        step_unit=_step_unit(context) if grouped else "optimiser" if context.algorithm in PAIRS else "unknown",
        reward_filtered=True if _filter(context) and "reward/kept/mean" not in series else None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default at e6c3044; None where there is none of its own)
    "kl-coef": ("beta", 0.05),
    "learning-rate": ("learning_rate", None),
    "batch-size": ("num_unique_prompts_rollout", 16),
    "group-size": ("num_samples_per_prompt_rollout", 4),
    "clip-low": ("clip_lower", 0.2),
    "clip-high": ("clip_higher", 0.272),
    "minibatches": ("num_mini_batches", 1),
    "epochs": ("num_epochs", 1),
    "temperature": ("temperature", 1.0),
    "max-completion-length": ("response_length", 256),
    "missing-eos-penalty": ("non_stop_penalty", False),
    "overlong-filter": ("mask_truncated_completions", False),
    "reward-scaling": ("advantage_normalization_type", "centered"),
    "dynamic-filter": ("active_sampling", False),
    "staleness-bound": ("async_steps", 8),
    "behaviour-weight-cap": ("rho_clamp_upper_bound", 2.0),
    "decoupled-loss": ("use_rho_correction", True),
    "loss-type": ("loss_denominator", "token"),
    "save-steps": ("save_freq", 200),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("dpo_beta", 0.1),
    "loss-type": ("dpo_loss_type", "dpo"),
    "learning-rate": ("learning_rate", None),
    "batch-size": ("gradient_accumulation_steps", None),
    "epochs": ("num_train_epochs", None),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Arguments of open-instruct for the canonical knobs; the older PPO had others, which are not known."""
    tables = {"grpo": _KNOBS, "dpo": _PAIR_KNOBS}
    return knobs_from(context, tables.get(context.algorithm, {}))


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from open-instruct."""
    if context.algorithm in PAIRS:
        return {
            "preference/margin": "logged as rewards/margin by the loss types that compute rewards",
            "eval/preference/margin": "not logged by open-instruct: its DPO trainer has no evaluation",
        }
    if context.algorithm == "ppo":
        return {}  # a trainer that is no longer there
    traces = "set save_traces and rollouts_save_path: the kept samples of each step are written there"
    return {
        "kl/reference": "load_ref_policy=True, with beta near 0 for almost no penalty: objective/kl2_avg is logged",
        "reward/std/within-group": f"not logged by open-instruct; {traces}",
        "signal/zero-variance-share": "filter_zero_std_samples=True: batch/filtered_prompts_pct counts the groups that tie",
        "eval/score/mean": "give an evaluation dataset and set local_eval_every: eval/scores is logged",
        "entropy/mean": "record_entropy=True: policy/entropy_avg is logged (off by default)",
        "length/truncated-share": "1 - val/stop_rate; set mask_truncated_completions=False, which counts all completions",
        "engine/logprob-gap/mean": "logged as debug/vllm_vs_local_logprob_diff_mean",
        "engine/kl": "not logged as a divergence; debug/vllm_vs_local_logprob_diff_mean is the gap",
        "behaviour-weight/mean": "use_rho_correction=True: val/rho_weight is logged",
        "clip/fraction/total": "logged as policy/clipfrac_avg",
        "ratio/mean": "logged as val/ratio; set use_vllm_logprobs=False, or it is taken against the sampling engine",
        "systems/step-time": "logged as time/total",
    }


DIALECT = Dialect(
    "open-instruct",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    patch="flags",
    samples="--save_traces --rollouts_save_path DIR writes {run_name}_rollouts_*.jsonl: token ids, rewards and advantages, no text",
)
