"""NVIDIA NeMo-RL: GRPO, PPO and DPO, synchronous and asynchronous.

What the keys mean was read from the main branch of August 2026 and the tags since 0.3. One row is one rollout batch.
No divergence between old and new policy and no clipped share is logged. The keys that end in `_error` compare the
trainer with the generation engine, `kl_penalty` is the reference's. Printed blocks have names of their own, four
decimals, and no key for the reference's divergence.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, Floats, KnobSetting, Series, Setting
from vario.sources.dialects.base import (
    NEWEST,
    OLDEST,
    Alias,
    Context,
    Dialect,
    Settled,
    Version,
    knobs_from,
    percent,
)

PAIRS = ("dpo", "reward-model")
_ESTIMATORS = {"reinforce_plus_plus": "reinforce++"}


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only NeMo-RL writes, or the sections of its configuration."""
    decisive = {
        "train/gen_kl_error",
        "train/token_mult_prob_error",
        "train/probs_ratio",
        "train/probs_ratio_clamped",
        "train/sampling_importance_ratio",
        "timing/train/total_step_time",
        "Generation KL Error",
    }
    return (
        bool(decisive & keys)
        or ("Mean Generation Length" in keys and bool({"Avg Reward", "Avg Total Reward"} & keys))
        or {"train/preference_loss", "train/rewards_chosen_mean"} <= keys
        or "policy.train_global_batch_size" in config
        or {"grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"} <= config.keys()
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The trainer by its keys, the variant by its configuration."""
    if "train/preference_loss" in keys or any(k.startswith("dpo.") for k in config):
        return "dpo"
    if "train/rewards_chosen_mean" in keys or any(k.startswith("rm.") for k in config):
        return "reward-model"
    if any(k.startswith("train/critic/") for k in keys) or any(k.startswith("ppo.") for k in config):
        return "ppo"
    if config.get("loss_fn.use_cispo") is True:
        return "cispo"
    if config.get("loss_fn.sequence_level_importance_ratios") is True:
        return "gspo"
    estimator = config.get("grpo.adv_estimator.name")
    return _ESTIMATORS.get(estimator, estimator) if isinstance(estimator, str) else "grpo"


def versions(context: Context) -> tuple[Version, Version]:
    """Bounds from keys that came."""
    if {"train/probs_ratio_min", "train/probs_ratio_max"} & context.keys:
        return (0, 5), NEWEST
    if {"train/gen_kl_error", "train/policy_kl_error", "Generation KL Error"} & context.keys:
        return (0, 4), NEWEST
    return OLDEST, NEWEST


def _reference_kl(context: Context, series: Series) -> Settled:
    if context.config.get("loss_fn.use_kl_in_reward") is True:
        return Settled(False, "with use_kl_in_reward the loss holds no KL: the key stays 0")
    if context.number("loss_fn.reference_policy_kl_penalty") == 0.0:
        return Settled(False, "reference_policy_kl_penalty is 0: no reference")
    if not np.nan_to_num(series.values).any():
        return Settled(False, "0 throughout: reference_policy_kl_penalty is 0, or the KL is in the reward")
    return Settled(True)


def _binary(context: Context, series: Series) -> Settled:
    """The shares count baselines of exactly 0 and 1, which says something of rewards 0 and 1 only."""
    for key in ("train/mean_total_reward", "train/total_reward/mean", "train/reward"):
        reward = context.series.get(key)
        if reward is not None and bool(((reward.values < 0.0) | (reward.values > 1.0)).any()):
            return Settled(False, "counts baselines of exactly 0 and 1; these rewards are not 0 or 1")
    mixed = context.series.get("train/baseline_reward/pct_mixed")
    if mixed is None or bool((mixed.values < 100.0).any()):
        return Settled(True)
    return Settled(None, "100 % throughout: all groups are mixed, or the rewards are not 0 and 1")


def _extreme(context: Context, series: Series) -> Settled:
    """Up to a repair in 0.5 the extremes were divided by the number of updates: the largest fell below the mean."""
    mean, largest = (context.series.get(f"train/probs_ratio{k}") for k in ("", "_max"))
    if mean is not None and largest is not None:
        _, ours, theirs = np.intersect1d(mean.steps, largest.steps, return_indices=True)
        measured = largest.values[theirs] != NO_TOKEN
        if bool((largest.values[theirs] < mean.values[ours] - 1e-6)[measured].any()):
            return Settled(
                False, "the largest ratio is below the mean: divided by the updates of a step in this version"
            )
    return Settled(True)


NO_TOKEN = -1.0
"""Written for an extreme where no token counted."""


def _measured(values: Floats) -> Floats:
    return np.where(values == NO_TOKEN, 0.0, values)


def _unmixed(values: Floats) -> Floats:
    return 1.0 - values / 100.0


def _one_set(context: Context, _: Series) -> Settled:
    sets = {k.split("/", 1)[0] for k in context.keys if k.startswith("validation-")}
    if len(sets) > 1:
        return Settled(None, "one of several held-out sets, and they are not averaged")
    return Settled(True)


ALIASES = (
    # the environment's reward, where it is logged, before scaling, shaping and penalties
    Alias("train/total_reward/mean", "reward/mean"),
    Alias("train/mean_total_reward", "reward/mean"),
    Alias("train/reward", "reward/mean"),
    Alias("train/filtered_reward", "reward/kept/mean"),
    Alias("train/advantages/max", "advantage/max"),
    Alias("train/advantages/min", "advantage/min"),
    Alias("train/total_reward/min", "reward/min"),
    Alias("train/min_total_reward", "reward/min"),
    Alias("train/total_reward/max", "reward/max"),
    Alias("train/max_total_reward", "reward/max"),
    Alias("train/total_reward/stddev", "reward/std/batch"),
    # by sample, against the mean of its siblings: a lone success or failure counts with the rest of its group
    Alias("train/baseline_reward/pct_mixed", "signal/zero-variance-share", when=_binary, transform=_unmixed),
    Alias("train/baseline_reward/pct_1", "signal/solved-share", when=_binary, transform=percent),
    Alias("train/baseline_reward/pct_0", "signal/unsolved-share", when=_binary, transform=percent),
    Alias("validation/accuracy", "eval/preference/accuracy", PAIRS),
    Alias(r"validation-(?P<part>[^/]+)/accuracy", "eval/preference/accuracy", PAIRS, when=_one_set),
    Alias("validation/loss", "eval/loss", PAIRS),
    Alias(r"validation-(?P<part>[^/]+)/loss", "eval/loss", PAIRS, when=_one_set),
    # mean reward, whatever its name
    Alias("validation/accuracy", "eval/score/mean"),
    Alias(r"validation-(?P<part>[^/]+)/accuracy", "eval/set/*/mean"),
    Alias("train/kl_penalty", "kl/reference", when=_reference_kl),
    Alias("train/gen_kl_error", "engine/kl"),
    Alias("train/probs_ratio", "ratio/mean"),
    Alias("train/probs_ratio_min", "ratio/min", when=_extreme, transform=_measured, zero_is_missing=True),
    Alias("train/probs_ratio_max", "ratio/max", when=_extreme, transform=_measured, zero_is_missing=True),
    Alias("train/sampling_importance_ratio", "behaviour-weight/mean"),
    Alias("train/is_oob_ratio", "behaviour-weight/capped-share"),
    Alias("train/approx_entropy", "entropy/mean"),
    Alias("train/loss", "loss/total"),
    Alias("train/grad_norm", "gradient/norm"),
    Alias("train/lr", "learning-rate"),
    Alias("train/gen_tokens_per_sample/mean", "length/mean"),
    Alias("train/mean_gen_tokens_per_sample", "length/mean"),
    Alias("train/mean_generation_length", "length/mean"),
    Alias("train/gen_tokens_per_sample/max", "length/max"),
    Alias("train/max_gen_tokens_per_sample", "length/max"),
    Alias("train/gen_tokens_per_sample/min", "length/min"),
    Alias("train/gen_tokens_per_sample/stddev", "length/std"),
    Alias("train/mean_prompt_length", "length/prompt/mean"),
    Alias("train/truncation_rate", "length/truncated-share"),
    Alias("train/turns_per_sample/mean", "turns/mean"),
    Alias("train/avg_turns_per_sample", "turns/mean"),
    Alias("train/avg_trajectory_age", "staleness/mean"),
    Alias("train/critic/loss", "loss/value"),
    Alias("train/critic/vf_clipfrac", "value/clip-fraction"),
    Alias("train/critic/explained_var", "value/explained-variance"),
    Alias("timing/train/total_step_time", "systems/step-time"),
    Alias("timing/train/generation", "systems/rollout-time"),
    Alias("timing/train/exposed_generation", "systems/wait-time"),
    Alias("timing/train/policy_training", "systems/train-time"),
    Alias("timing/train/policy_and_reference_logprobs", "systems/logprob-time"),
    Alias("timing/train/reward_calculation", "systems/reward-time"),
    Alias("timing/train/weight_sync", "systems/sync-time"),
    Alias("timing/train/prepare_for_generation/transfer_and_update_weights", "systems/sync-time"),
    Alias("timing/train/checkpointing", "systems/checkpoint-time"),
    Alias("timing/validation/total_validation_time", "systems/eval-time"),
    Alias("performance/tokens_per_sec", "systems/throughput"),
    Alias("performance/train_fp_utilization", "systems/mfu"),
    Alias("train/rewards_chosen_mean", "preference/chosen-reward", PAIRS),
    Alias("train/rewards_rejected_mean", "preference/rejected-reward", PAIRS),
    Alias("train/accuracy", "preference/accuracy", PAIRS),
    # as printed
    Alias("Avg Total Reward", "reward/mean"),
    Alias("Avg Reward", "reward/mean"),
    Alias("Avg Filtered Reward", "reward/kept/mean"),
    Alias("Validation/Accuracy", "eval/score/mean"),
    Alias("Generation KL Error", "engine/kl"),
    Alias("Loss", "loss/total"),
    Alias("Mean Generation Length", "length/mean"),
    Alias("Timing/Total step time", "systems/step-time"),
    Alias("Timing/generation", "systems/rollout-time"),
    Alias("Timing/exposed_generation", "systems/wait-time"),
    Alias("Timing/policy_training", "systems/train-time"),
    Alias("Timing/policy_and_reference_logprobs", "systems/logprob-time"),
    Alias("Timing/reward_calculation", "systems/reward-time"),
    Alias("Timing/weight_sync", "systems/sync-time"),
    Alias("Timing/prepare_for_generation/transfer_and_update_weights", "systems/sync-time"),
    Alias("Timing/checkpointing", "systems/checkpoint-time"),
    Alias("Validation/Timing/Total validation time", "systems/eval-time"),
)

_STATISTIC = r"(mean|max|min|median|stddev|histogram|p95|p99)"
IGNORED = {
    r"train/probs_ratio_clamped(_min|_max)?": "the ratio after clipping; no share of clipped tokens follows from it",
    r"train/token_mult_prob_error": "mean of exp|gap| to the engine, no mean gap; gen_kl_error is read",
    r"train/(policy_kl_error|js_divergence_error)": "the engine mismatch in other directions; gen_kl_error is read",
    r"train/(max|mean|min)_seq_mult_prob_error(_after_mask)?": "the engine mismatch by sequence; 0 where it was not computed",
    r"train/(num_masked_seqs_by_logprob_error|masked_correct_pct|num_mask_sample_filtered)": "what was masked, and why",
    r"train/(num_valid_samples|global_valid_seqs|global_valid_toks|total_num_tokens|total_turns|wd)": "counts, and the weight decay",
    r"train/(preference_loss|sft_loss|positive_nll_loss|draft_loss|draft_grad_norm|moe/.*|mtp/.*)": "parts of the loss, and what they belong to",
    r"train/advantages/.*": "normalised, of no trend of their own",
    r"train/baseline_reward/(pct_0|pct_1|pct_mixed|histogram)": "shares of samples by the reward of their siblings",
    r"train/(invalid_tool_call|malformed_thinking|reasoning_equal_to_final_answer|empty_final_answer|unwanted_token|malformed_think_tag)_rate": "how often single penalties applied, by message",
    r"train/(mean_length_reward_low|mean_reward_low|(mean|median)_length_(low|high))": "samples by how much reasoning was asked for",
    r"train/dynamic_sampling_(num_gen_batches|num_discarded_valid_samples)": "what it took to fill a batch; what was left over had spread",
    r"train/(buffer_size|trajectory_duration_s/.*)": "queues of asynchronous sampling",
    r"train/(natural_termination|max_turns_reached)_rate": "further causes of an end; truncation is read",
    r"train/(max_turns_per_sample|mean_total_tokens_per_sample|mean_env_tokens_per_sample)": "further sizes of an episode",
    rf"train/(.+/)?(max_gen_tokens_per_turn|gen_tokens_per_sample|total_tokens_per_sample|turns_per_sample|total_reward)/{_STATISTIC}": "further statistics of an episode, and those of single agents",
    r"train/.+/full_result": "a table",
    r"train/critic/(grad_norm|lr|returns_mean|values_(mean|min|max))": "the critic's own optimiser and values",
    r"validation(-[^/]+)?/(avg_length|pass_k|loss|sft_loss|preference_loss|rewards_(chosen|rejected)_mean|num_valid_samples|global_valid_(seqs|toks))": "held-out figures beyond the score",
    r"performance/.*|efficiency/.*|refit/.*": "use of hardware beyond the throughput",
    r"timing/(train|validation|setup)/.*|(Validation/)?Timing/.*": "phases beyond those read",
    r"Performance/.*": "use of hardware, by phase",
    r"Validation/Average response length": "held-out figures beyond the score",
    r"generation_metrics/.*": "engine internals",
    r"ray/.*": "a monitor of the hardware that counts by a clock of its own",
    r"rollout/(inflight|idle_s|train_steps)": "a watchdog of the single controller",
}


def derive(context: Context) -> Mapping[str, Series]:
    """Margins of the pair trainers, which log the two sides."""
    if context.algorithm not in PAIRS:
        return {}
    found = {}
    sides = [("train", "preference/margin"), ("validation", "eval/preference/margin")]
    held_out = {k.split("/", 1)[0] for k in context.keys if k.startswith("validation-")}
    if len(held_out) == 1:
        sides.append((held_out.pop(), "eval/preference/margin"))
    for scope, metric in sides:
        chosen, rejected = (context.series.get(f"{scope}/rewards_{k}_mean") for k in ("chosen", "rejected"))
        if chosen is not None and rejected is not None:
            steps, ours, theirs = np.intersect1d(chosen.steps, rejected.steps, return_indices=True)
            found[metric] = Series(chosen.key, steps, chosen.values[ours] - rejected.values[theirs])
    return found


def _section(context: Context) -> str:
    return "ppo" if any(k.startswith("ppo.") for k in context.config) else "grpo"


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    number = context.number
    if context.algorithm in PAIRS:
        return Declared(step_unit="optimiser", steps_per_row=1.0)
    section = _section(context)
    prompts, group = number(f"{section}.num_prompts_per_step"), number(f"{section}.num_generations_per_prompt")
    samples = prompts * group if prompts and group else None
    part = number("policy.train_global_batch_size")
    weight = number("loss_fn.reference_policy_kl_penalty")
    cap, whole = number("policy.generation.max_new_tokens"), number("policy.max_total_sequence_length")
    by_design: bool | None = None
    if weight is not None:
        by_design = weight != 0.0
    elif "kl/reference" in series:
        by_design = True
    centred: bool | None = None
    if context.algorithm in ("grpo", "gspo", "cispo"):
        centred = True
    elif context.algorithm == "ppo":
        centred = False
    return Declared(
        updates_per_rollout=max(1.0, samples / part) if samples and part else None,
        # a cap as long as prompt and completion together is never reached
        max_length=None if cap is None or (whole is not None and cap >= whole) else cap,
        kl_by_design=by_design,
        batch_completions=samples,
        group_size=group,
        group_centred=centred,
        steps_per_row=1.0,
        step_unit="rollout",
        # dynamic sampling logs both: `reward` of all rollouts, `filtered_reward` of the kept ones
        reward_filtered=False,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default of the GRPO example)
    "kl-coef": ("loss_fn.reference_policy_kl_penalty", 0.01),
    "clip-low": ("loss_fn.ratio_clip_min", 0.2),
    "clip-high": ("loss_fn.ratio_clip_max", 0.2),
    "minibatches": ("policy.train_global_batch_size", 512),
    "temperature": ("policy.generation.temperature", 1.0),
    "max-completion-length": ("policy.generation.max_new_tokens", 512),
    "length-penalty": ("grpo.reward_shaping.enabled", False),
    "missing-eos-penalty": ("grpo.reward_shaping.stop_properly_penalty_coef", None),
    "overlong-filter": ("grpo.overlong_filtering", False),
    "reward-scaling": ("grpo.normalize_rewards", True),
    "dynamic-filter": ("grpo.use_dynamic_sampling", False),
    "behaviour-weight-cap": ("loss_fn.truncated_importance_sampling_ratio", None),
    "decoupled-loss": ("loss_fn.use_importance_sampling_correction", False),
    "max-grad-norm": ("policy.max_grad_norm", 1.0),
    "loss-type": ("loss_fn.token_level_loss", True),
    "save-steps": ("checkpointing.save_period", 10),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """NeMo-RL's settings for the canonical knobs."""
    megatron = context.config.get("policy.megatron_cfg.enabled") is True
    rate = "policy.megatron_cfg.optimizer.lr" if megatron else "policy.optimizer.kwargs.lr"
    if context.algorithm in PAIRS:
        table: dict[str, tuple[str, Setting]] = {
            "learning-rate": (rate, 5e-6),
            "batch-size": ("policy.train_global_batch_size", None),
            "max-grad-norm": ("policy.max_grad_norm", 1.0),
            "save-steps": ("checkpointing.save_period", 10),
        }
        if context.algorithm == "dpo":
            table |= {
                "preference-beta": ("dpo.reference_policy_kl_penalty", None),
                "sft-weight": ("dpo.sft_loss_weight", None),
            }
        return knobs_from(context, table)
    section = _section(context)
    table = {k: (key.replace("grpo.", f"{section}.", 1), default) for k, (key, default) in _KNOBS.items()}
    table |= {
        "learning-rate": (rate, 5e-6),
        "batch-size": (f"{section}.num_prompts_per_step", 32),
        "group-size": (f"{section}.num_generations_per_prompt", 16),
    }
    if context.algorithm == "ppo":
        table["critic-warmup"] = ("ppo.policy_training_start_step", 0)
    if "train/avg_trajectory_age" in context.keys or context.config.get("grpo.async_grpo.enabled") is True:
        table["staleness-bound"] = ("grpo.async_grpo.max_trajectory_age_steps", 1)
    return knobs_from(context, table)


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from NeMo-RL."""
    if context.algorithm in PAIRS:
        return {"eval/preference/accuracy": "set val_period above 0: validation/accuracy is logged"}
    section = _section(context)
    dump = "the samples of each step lie in train_data_step<N>.jsonl"
    return {
        "kl/reference": "loss_fn.reference_policy_kl_penalty above 0 (1e-6 costs next to nothing), not in the reward: train/kl_penalty is logged",
        "reward/std/within-group": f"not logged by NeMo-RL; {dump}",
        "signal/zero-variance-share": f"train/baseline_reward/pct_mixed says it for rewards of 0 and 1; else {dump}",
        "eval/score/mean": f"{section}.val_period above 0 and {section}.val_at_start=true: validation/accuracy is logged",
        "entropy/mean": "logged as train/approx_entropy, from sampled tokens",
        "length/truncated-share": "logged as train/truncation_rate",
        "engine/kl": "logged as train/gen_kl_error from 0.4 on",
        "behaviour-weight/mean": "logged as train/sampling_importance_ratio",
        "behaviour-weight/capped-share": "set loss_fn.truncated_importance_sampling_type: train/is_oob_ratio is logged",
        "clip/fraction/total": "not logged by NeMo-RL; compare train/probs_ratio with train/probs_ratio_clamped",
        "ratio/mean": "logged as train/probs_ratio",
        "kl/update": "not logged by NeMo-RL; train/probs_ratio is its trace",
        "systems/step-time": "logged as timing/train/total_step_time",
    }


DIALECT = Dialect(
    "nemo-rl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    patch="yaml",
    devices=(("cluster.gpus_per_node", "cluster.num_nodes"),),
    samples="written anyway: train_data_step{N}.jsonl and val_data_step{N}.jsonl below logger.log_dir",
)
