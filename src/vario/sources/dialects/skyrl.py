"""SkyRL: the synchronous, one-step-off and fully asynchronous trainers; step-wise and multi-turn runs.

What the keys mean was read from the main branch of August 2026 and the wheel 0.3.0. One row is one
rollout batch; the fully asynchronous trainer writes two rows a step, with different keys. SkyRL logs no
spread inside groups, no truncated share and no old-against-new divergence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import Alias, Context, Dialect, Settled, knobs_from

ALGORITHM = "trainer.algorithm."
GROUP_ESTIMATORS = ("grpo", "rloo")
"""Advantage estimators whose advantages are centred inside a group."""
UNCLIPPED = ("sapo", "cross_entropy", "importance_sampling")
"""Losses that write the clipped share as a constant 0."""
OTHER_CLIPS = ("clip_cov", "kl_cov")
"""Losses that pick tokens by covariance: their share is none of a clipped ratio."""
DIVERGENCES = ("k1", "k2", "k3")
"""Estimators of a divergence; `abs` is a mean absolute log-ratio."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only SkyRL writes, or the sections of its configuration."""
    decisive = {
        "policy/final_loss",
        "reward/avg_raw_reward",
        "generate/avg_num_tokens",
        "loss/avg_final_rewards",
        "avg_final_rewards",
    }
    return bool(decisive & keys) or any(
        k.startswith(ALGORITHM) or k == "generator.n_samples_per_prompt" for k in config
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The loss where it has a name of its own, else the estimator; without a configuration a critic's loss."""
    loss, estimator = config.get(ALGORITHM + "policy_loss_type"), config.get(ALGORITHM + "advantage_estimator")
    if loss in ("gspo", "cispo", "sapo", "dppo") and estimator in (None, *GROUP_ESTIMATORS):
        return str(loss)
    if isinstance(estimator, str):
        return "ppo" if estimator == "gae" else estimator.replace("_", "-")
    return "ppo" if "critic/critic_loss" in keys else "grpo"


def is_fully_async(context: Context) -> bool:
    """Whether the fully asynchronous trainer wrote the log."""
    return any(k.startswith("async/") for k in context.keys)


def _loss_type(context: Context) -> str | None:
    loss = context.config.get(ALGORITHM + "policy_loss_type")
    return loss if isinstance(loss, str) else None


def _estimates_divergence(context: Context, _: Series) -> Settled:
    kind = context.config.get(ALGORITHM + "kl_estimator_type")
    if kind is not None and kind not in DIVERGENCES:
        return Settled(False, f"kl_estimator_type {kind} is the mean absolute log-ratio, no divergence")
    return Settled(True)


def _reference_kl(context: Context, series: Series) -> Settled:
    used = context.config.get(ALGORITHM + "use_kl_loss")
    if used is False:
        return Settled(False, "use_kl_loss is off: the Megatron worker writes 0 and nothing is measured")
    if used is None and not np.nan_to_num(series.values).any():
        return Settled(None, "0 throughout, as the Megatron worker writes where use_kl_loss is off")
    return _estimates_divergence(context, series)


def _clips(context: Context, _: Series) -> Settled:
    loss = _loss_type(context)
    if loss in UNCLIPPED:
        return Settled(False, f"a constant 0 with policy_loss_type {loss}, which does not clip")
    if loss in OTHER_CLIPS:
        return Settled(False, f"with policy_loss_type {loss} it is the share of tokens that the method picks")
    return Settled(True)


def _anchored_on_old(context: Context, _: Series) -> Settled:
    if context.config.get(ALGORITHM + "cispo.cispo_anchor") == "rollout":
        return Settled(False, "cispo_anchor is rollout: the ratio holds the trainer/sampler mismatch too")
    return Settled(True)


_CAPPED = (
    "tis_token_clip_high_ratio",
    "tis_seq_clip_high_ratio",
    "token_mask_ratio",
    "token_mask_masked_ratio",
    "geo_sequence_mask_masked_ratio",
    "product_sequence_mask_masked_ratio",
    "outlier_seq_masked_ratio",
)

ALIASES = (
    Alias("reward/avg_raw_reward", "reward/mean"),
    Alias("loss/avg_final_rewards", "reward/penalised/mean"),
    Alias("reward/num_zero_variance_filtered", "signal/groups-dropped"),
    Alias("async/num_groups_dropped", "signal/groups-dropped"),
    Alias("eval/all/avg_score", "eval/score/mean"),
    Alias(r"eval/(?P<part>(?!all/).+)/avg_score", "eval/set/*/mean"),
    Alias("policy/policy_kl", "kl/reference", when=_reference_kl),
    Alias("loss/avg_kl", "kl/reference", when=_estimates_divergence),
    Alias("loss/kl_loss_coef", "kl/coefficient"),
    Alias("policy/policy_entropy", "entropy/mean"),
    Alias("policy/loss_metrics/clip_ratio", "clip/fraction/total", when=_clips),
    Alias("policy/loss_metrics/importance_ratio", "ratio/mean"),
    *(
        Alias(f"policy/loss_metrics/cispo/ratio_{part}", f"ratio/{part}", when=_anchored_on_old)
        for part in ("mean", "max", "min")
    ),
    Alias("policy/policy_loss", "loss/policy"),
    Alias("policy/final_loss", "loss/total"),
    Alias("policy/grad_norm", "gradient/norm"),
    Alias("policy/policy_lr", "learning-rate"),
    Alias("critic/critic_loss", "loss/value"),
    Alias("critic/values_clipfrac", "value/clip-fraction"),
    # in runs of several turns the tokens the policy wrote, without what the environment answered
    *(
        Alias(f"generate/{key}_{what}_tokens", f"length/{part}")
        for what in ("assistant", "num")
        for key, part in (("avg", "mean"), ("min", "min"), ("max", "max"), ("std", "std"))
    ),
    Alias("generate/avg_tokens_non_zero_rewards", "length/solved/mean", zero_is_missing=True),
    Alias("generate/avg_tokens_zero_rewards", "length/unsolved/mean", zero_is_missing=True),
    Alias("policy/rollout_train_logprobs_abs_diff_mean", "engine/logprob-gap/mean"),
    Alias("policy/rollout_train_logprobs_abs_diff_max", "engine/logprob-gap/max"),
    Alias("policy/loss_metrics/is_ratio_mean", "behaviour-weight/mean"),
    Alias("policy/loss_metrics/is_ratio_max", "behaviour-weight/max"),
    *(Alias(f"policy/loss_metrics/{key}", "behaviour-weight/capped-share") for key in _CAPPED),
    Alias("async/staleness_mean", "staleness/mean"),
    Alias("async/staleness_max", "staleness/max"),
    Alias("timing/step", "systems/step-time"),
    Alias("timing/generate", "systems/rollout-time"),
    Alias("timing/policy_train", "systems/train-time"),
    Alias("timing/train_critic_and_policy", "systems/train-time"),
    Alias("timing/fwd_logprobs_values_reward", "systems/logprob-time"),
    Alias("timing/sync_weights", "systems/sync-time"),
    Alias("timing/save_checkpoints", "systems/checkpoint-time"),
    Alias("timing/eval", "systems/eval-time"),
    *(
        Alias(f"generate/{key}_{part}", f"systems/request-time/{part}")
        for key in ("trajectory_time_completion", "group_completion_time")
        for part in ("mean", "max")
    ),
    # as printed beside every tracker
    Alias("avg_final_rewards", "reward/penalised/mean"),
    Alias("avg_response_length", "length/mean"),
)

IGNORED = {
    r"_runtime|_timestamp": "a clock",
    r"trainer/(epoch|global_step)": "a count of progress",
    r"policy/response_length": "the width of the padded batch, no mean length",
    r"policy/loss_metrics/is_ratio_(std|min)": "taken over masked positions too, which count as 0: the smallest is always about 0",
    r"policy/loss_metrics/cispo/ratio_clamped_mean": "the ratio after its cap; the one before is read",
    r"policy/loss_metrics/.*_(over_high|under_low)_ratio": "the two sides of a mask whose whole share is read",
    r"policy/minibatch_rollout_logprobs_abs_diff_(mean|std|max|min)": "the mismatch and the drift over minibatches in one",
    r"policy/rollout_train_logprobs_abs_diff_(std|min)": "the mean and the largest gap are read",
    r"critic/(values_mean|critic_lr|grad_norm)": "the critic's own optimiser and level",
    r"reward/avg_pass_at_\d+": "any reward above 0 passes, which penalties and partial scores pass too",
    r"reward/mean_positive_reward": "the positive part of the reward, no score",
    r"reward/num_zero_variance_groups": "a count that only means a share beside the size of the batch",
    r"loss/avg_raw_advantages(_abs)?": "advantages: normalised, of no trend of their own",
    r"loss/avg_kl_max": "the largest token of each sequence, averaged",
    r"generate/tokens_per_turn_(mean|std|max)": "lengths of single turns",
    r"generate/(trajectory_time|group_completion_time|intra_group_completion_time)_.*": "stragglers of generation: times of single trajectories and groups",
    r"generate/(batch_num_seq|batch_padded_seq_len|num_seq_before_merge|num_seq_after_merge)": "the shape of the batch",
    r"environment/.*": "what the environment reports of itself: of no known scale",
    r"vllm/(train|eval)/.*": "gauges of the serving engine",
    r"eval/.*/(pass_at_\d+|mean_positive_reward)": "any reward above 0 passes, and the positive part of the score: avg_score is read",
    r"eval/.*/generate/.*": "lengths of held-out answers",
    r"timing/(eval_generate|critic_train|postprocess_generator_output|convert_to_training_input|apply_reward_kl_penalty)": "short phases inside those that are read",
    r"timing/(compute_advantages_and_returns|save_hf_model|update_ref_with_policy|cleanup_old_checkpoints)": "short or rare phases",
    r"trainer/tokens_per_second_per_gpu": "tokens over the training time alone and a single device",
    r"async/(staleness_min|staleness_ratio|staleness_violation_count|keep_rate|gen_buffer_qsize_at_wait_start)": "further views of queue and staleness",
    r"ray/.*": "use of the cluster's hardware, over hosts that do not train too",
}


def _ratio_over_groups(context: Context) -> Series | None:
    """Share of tied groups from their count, where the number of groups of a step is known and fixed.

    A count above the number of groups shows that it is of something else: nothing is said then.
    """
    groups = context.number("trainer.train_batch_size")
    counted = context.series.get("reward/num_zero_variance_groups") or context.series.get(
        "reward/num_zero_variance_filtered"
    )
    resampled = context.config.get(ALGORITHM + "dynamic_sampling.type") not in (None, "None")
    if counted is None or not groups or resampled or is_fully_async(context):
        return None
    share = Series(counted.key, counted.steps, counted.values / groups)
    return share if len(share) and float(np.nanmax(share.values, initial=0.0)) <= 1.0 else None


def derive(context: Context) -> Mapping[str, Series]:
    """The share of groups without spread, from their count and the size of the batch."""
    share = _ratio_over_groups(context)
    return {} if share is None else {"signal/zero-variance-share": share}


def _by_design(context: Context) -> bool | None:
    stated = [context.config.get(ALGORITHM + k) for k in ("use_kl_loss", "use_kl_in_reward")]
    if any(s is True for s in stated):
        return True
    if stated[0] is False:
        return False  # the other is off by default
    if "loss/avg_kl" in context.keys:
        return True
    logged = context.series.get("policy/policy_kl")
    return True if logged is not None and np.nan_to_num(logged.values).any() else None


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    number = context.number
    prompts, part = number("trainer.train_batch_size"), number("trainer.policy_mini_batch_size")
    epochs = number("trainer.update_epochs_per_batch") or 1.0
    if is_fully_async(context):
        prompts = part  # a step takes one minibatch from the buffer
    group = number("generator.n_samples_per_prompt")
    estimator = context.config.get(ALGORITHM + "advantage_estimator")
    centred: bool | None = None
    if isinstance(estimator, str):
        centred = estimator in GROUP_ESTIMATORS
    elif "critic/critic_loss" in context.keys:
        centred = False
    updates = max(1.0, math.floor(prompts / part)) * epochs if prompts and part else None
    return Declared(
        updates_per_rollout=updates,
        max_length=number("generator.sampling_params.max_generate_length"),
        kl_by_design=_by_design(context),
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=centred,
        steps_per_row=updates,  # a row holds the mean over all minibatches and epochs of its batch
        step_unit="rollout",
        reward_filtered=True if context.config.get(ALGORITHM + "dynamic_sampling.type") == "filter" else None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default)
    "kl-coef": (ALGORITHM + "kl_loss_coef", 0.001),
    "learning-rate": ("trainer.policy.optimizer_config.lr", 1e-6),
    "warmup": ("trainer.policy.optimizer_config.num_warmup_steps", 0),
    "batch-size": ("trainer.train_batch_size", 1024),
    "group-size": ("generator.n_samples_per_prompt", 5),
    "clip-low": (ALGORITHM + "eps_clip_low", 0.2),
    "clip-high": (ALGORITHM + "eps_clip_high", 0.2),
    "minibatches": ("trainer.policy_mini_batch_size", 256),
    "epochs": ("trainer.update_epochs_per_batch", 1),
    "temperature": ("generator.sampling_params.temperature", 1.0),
    "entropy-bonus": (ALGORITHM + "entropy_loss_coef", 0.01),
    "max-completion-length": ("generator.sampling_params.max_generate_length", 1024),
    "overlong-filter": ("generator.apply_overlong_filtering", False),
    "reward-scaling": (ALGORITHM + "grpo_norm_by_std", True),
    "dynamic-filter": (ALGORITHM + "dynamic_sampling.type", None),
    "behaviour-weight-cap": (ALGORITHM + "off_policy_correction.token_tis_ratio_clip_high", 2.0),
    "max-grad-norm": ("trainer.policy.optimizer_config.max_grad_norm", 1.0),
    "loss-type": (ALGORITHM + "loss_reduction", "token_mean"),
    "save-steps": ("trainer.ckpt_interval", 10),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """SkyRL's settings for the canonical knobs."""
    table = dict(_KNOBS)
    if context.config.get(ALGORITHM + "off_policy_correction.tis_ratio_type") == "sequence":
        table["behaviour-weight-cap"] = (ALGORITHM + "off_policy_correction.sequence_tis_ratio_clip_high", 5.0)
    if _loss_type(context) == "cispo":
        for side in ("low", "high"):  # their defaults changed between versions
            table[f"clip-{side}"] = (f"{ALGORITHM}cispo.cispo_eps_clip_{side}", None)
    if context.algorithm == "ppo":
        table |= {"value-clip": (ALGORITHM + "value_clip", 0.2)}
        table["critic-learning-rate"] = ("trainer.critic.optimizer_config.lr", None)
        table.pop("reward-scaling")
    if is_fully_async(context):
        table["staleness-bound"] = ("trainer.fully_async.max_staleness_steps", 4)
    found = knobs_from(context, table)
    # coefficients stand in the configuration and weigh nothing while their switch is off
    switched = {
        "entropy-bonus": context.config.get(ALGORITHM + "use_entropy_loss") is True,
        "kl-coef": _by_design(context) is not False,
    }
    for knob, on in switched.items():
        if not on:
            found[knob] = replace(found[knob], current=0.0)
    return found


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from SkyRL."""
    correction = f"{ALGORITHM}off_policy_correction.tis_ratio_type=token"
    return {
        "kl/reference": f"{ALGORITHM}use_kl_loss=true with a kl_loss_coef near 0 logs policy/policy_kl at almost no penalty",
        "reward/std/within-group": "not logged by SkyRL",
        "signal/zero-variance-share": f"{ALGORITHM}zero_variance_filter=true logs reward/num_zero_variance_filtered; give the configuration for the share",
        "eval/score/mean": "give data.val_data and trainer.eval_interval: eval/<data set>/avg_score is logged",
        "entropy/mean": "logged as policy/policy_entropy",
        "length/truncated-share": "not logged by SkyRL; stop_reason in dumped_evals (trainer.dump_eval_results) says it for held-out prompts",
        "engine/logprob-gap/mean": "generator.sampling_params.logprobs=1 logs policy/rollout_train_logprobs_abs_diff_mean",
        "behaviour-weight/mean": f"{correction} logs policy/loss_metrics/is_ratio_mean",
        "clip/fraction/total": "logged as policy/loss_metrics/clip_ratio by the losses that clip",
        "clip/fraction/low": "not logged apart; policy/loss_metrics/clip_ratio holds both sides",
        "kl/update": "not logged by SkyRL",
        "ratio/mean": "logged with policy_loss_type=cispo only; policy/loss_metrics/clip_ratio is its trace",
        "staleness/mean": "logged by the fully asynchronous trainer",
        "systems/step-time": "logged as timing/step",
    }


DIALECT = Dialect(
    "skyrl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    samples="trainer.dump_eval_results=true (the default) writes dumped_evals/*/*.jsonl below trainer.export_path: held-out prompts only; of training, W&B shows a few",
)
