"""TRL: GRPO, RLOO, their asynchronous and self-distilling kin, the pair trainers, distillation, PPO up to 1.12.

What the keys mean, and since when, was read from TRL's sources and tags (0.2 to 1.16). Supervised
fine-tuning and reward models are recognised and named, so that nobody takes them for an RL run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import (
    NEWEST,
    OLDEST,
    Alias,
    Context,
    Dialect,
    Settled,
    Version,
    hugging_face_spelling,
    one_minus,
)

GROUPED = ("grpo", "rloo", "async-grpo")
ASYNCHRONOUS = ("async-grpo", "async-distillation")
DISTILLED = ("sdpo", "sdft", "iw-opd", "gold", "gkd", "distillation", "async-distillation")
SAMPLED = (*GROUPED, *DISTILLED)
"""Trainers that sample completions and describe them under `completions/`."""
PAIRS = ("dpo", "kto", "orpo", "cpo", "tpo", "online-dpo", "nash-md", "xpo")
ONLINE_PAIRS = ("online-dpo", "nash-md", "xpo")
LEGACY_PPO = ("ppo", "rloo-legacy")
REWARD_STD_BATCH: Version = (0, 27)
"""Since 0.27 `reward_std` is taken over the whole batch, groups mixed."""
REWARD_STD_SCALED: Version = (0, 22)
"""From 0.22 on it follows `scale_rewards`."""
UNWEIGHTED: tuple[Version, Version] = ((0, 27), (0, 29))
"""Versions whose `reward` was logged without `reward_weights`."""

_DECISIVE: tuple[frozenset[str], ...] = tuple(
    map(
        frozenset,
        (
            {"frac_reward_zero_std"},
            {"completions/mean_length"},
            {"clip_ratio/region_mean"},
            {"rewards/margins", "rewards/chosen"},
            {"rewards/chosen", "logps/chosen"},
            {"rewards/rejected", "logps/rejected"},
            {"eval_rewards/margins", "eval_rewards/chosen"},
            {"rewards_test/margins", "rewards_test/chosen"},
            {"objective/rlhf_reward"},
            {"objective/kl", "val/contain_eos_token"},
            {"ppo/mean_scores", "ppo/loss/policy"},
            {"completion_length", "reward_std"},
            {"reward", "reward_std", "kl"},
            {"sample/staleness_mean", "perf/step_s"},
            {"iw_opd/mean_weight"},
            {"v_star", "implicit_reward"},
            {"on_policy_loss", "learning_rate"},
            {"off_policy_loss", "learning_rate"},
            {"jsd", "teacher_entropy"},
            {"mean_token_accuracy", "num_tokens"},
            {"mean_reward", "min_reward", "max_reward", "margin"},
        ),
    )
)
_SETTINGS: tuple[frozenset[str], ...] = tuple(
    frozenset({"per_device_train_batch_size", *names})
    for names in (
        ("num_generations",),
        ("beta", "loss_type"),
        ("beta", "desirable_weight"),
        ("beta", "disable_dropout"),
        ("num_ppo_epochs",),
        ("iw_opd_gamma",),
        ("num_value_samples", "beta2"),
        ("teacher_model_name_or_path",),
        ("teacher_server_urls",),
        ("max_staleness", "weight_sync_steps"),
        ("assistant_only_loss",),
        ("center_rewards_coefficient",),
    )
)
_LEGACY_SETTINGS = frozenset({"init_kl_coef", "adap_kl_ctrl", "ppo_epochs"})
"""Arguments of the PPO trainer up to 0.11, which was no subclass of the Trainer."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only TRL's trainers log, or its arguments in the configuration."""
    return (
        any(decisive <= keys for decisive in _DECISIVE)
        or any(k.startswith("self_distillation/") for k in keys)
        or any(settings <= config.keys() for settings in _SETTINGS)
        or config.keys() >= _LEGACY_SETTINGS
        or "trl_version" in config
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Which trainer wrote the log."""
    for tell in (_experimental, _with_pairs, _with_values, _supervised):
        found = tell(keys, config)
        if found:
            return found
    if "normalize_advantages" in config or "reward_clip_range" in config:
        return "rloo"
    return "grpo"


def _experimental(keys: frozenset[str], config: Mapping[str, Setting]) -> str | None:
    if "jsd" in keys or "teacher_server_urls" in config:
        return "async-distillation"
    if {"sample/staleness_mean", "rollout/inflight", "weight_sync_time_s"} & keys or "max_inflight_tasks" in config:
        return "async-grpo"
    if "sdft/distillation_loss" in keys or "generate_from_teacher" in config:
        return "sdft"
    if any(k.startswith(("self_distillation/", "sdpo/")) for k in keys) or "success_reward_threshold" in config:
        return "sdpo"
    if any(k.startswith(("iw_opd/", "completions/on_policy_")) for k in keys) or "iw_opd_gamma" in config:
        return "iw-opd"
    if "v_star" in keys or "num_value_samples" in config:
        return "a2po"
    if {"on_policy_loss", "off_policy_loss"} & keys or "use_uld_loss" in config:
        return "gold"
    if "teacher_model_name_or_path" in config:
        return "gkd" if "seq_kd" in config else "distillation"
    return None


def _with_pairs(keys: frozenset[str], config: Mapping[str, Setting]) -> str | None:
    if "loss/xpo" in keys or "objective/model_scores" in keys:
        return "xpo"
    if "rewards/probabilities" in keys or "mixture_coef" in keys:
        return "nash-md"
    if {"objective/scores_margin", "val/contain_eos_token"} & keys or {"rewards/margins", "objective/kl"} <= keys:
        return "online-dpo"
    prefixed = any(k.startswith(("rewards_test/", "eval_rewards/chosen", "eval_rewards/margins")) for k in keys)
    if not ({"rewards/chosen", "rewards/rejected", "rewards/margins"} & keys or prefixed):
        return next(
            (
                name
                for name, setting in (("kto", "desirable_weight"), ("cpo", "cpo_alpha"), ("tpo", "tpo_alpha"))
                if setting in config
            ),
            "dpo"
            if "precompute_ref_log_probs" in config and not {"reward", "completions/mean_length"} & keys
            else None,
        )
    if "log_odds_ratio" in keys:
        return "orpo"
    if "tpo_alpha" in config:
        return "tpo"
    if "nll_loss" in keys and "cpo_alpha" in config:
        return "cpo"
    return "kto" if "kl" in keys or "desirable_weight" in config else "dpo"


def _with_values(keys: frozenset[str], config: Mapping[str, Setting]) -> str | None:
    if "loss/value_avg" in keys or any(k.startswith("ppo/") for k in keys) or config.keys() >= _LEGACY_SETTINGS:
        return "ppo"
    if "num_ppo_epochs" in config and "cliprange_value" in config:
        return "ppo"
    return "rloo-legacy" if "objective/rlhf_reward" in keys else None


def _supervised(keys: frozenset[str], config: Mapping[str, Setting]) -> str | None:
    if {"min_reward", "max_reward", "margin"} <= keys or "center_rewards_coefficient" in config:
        return "reward-model"
    if "reward" in keys or "num_generations" in config:
        return None
    if "mean_token_accuracy" in keys or "assistant_only_loss" in config:
        return "sft"
    # a sampler that scores nothing: completions and an entropy, and no reward
    return "distillation" if {"completions/mean_length", "entropy", "loss"} <= keys else None


_KEY_BOUNDS: tuple[tuple[str, Version, Version], ...] = (
    # key, first version that logs it, last version that does
    ("completion_length", OLDEST, (0, 16)),
    ("completions/mean_length", (0, 17), NEWEST),
    ("frac_reward_zero_std", (0, 18), NEWEST),
    ("entropy", (0, 20), NEWEST),
    ("sampling/importance_sampling_ratio/mean", (0, 23), NEWEST),
    ("step_time", (0, 26), NEWEST),
    ("tools/call_frequency", (0, 26), NEWEST),
    ("entropy_coef", (1, 8), NEWEST),
    ("aux_loss", (1, 7), NEWEST),
    ("vespo/phi_seq_mean", (1, 0), NEWEST),
    ("cispo_clip_ratio", (0, 26), NEWEST),
    ("clip_ratio", (0, 16), (1, 14)),
    ("sample/staleness_mean", (1, 0), NEWEST),
    ("training_tok/s", (1, 0), (1, 9)),
)
_CONFIG_BOUNDS: tuple[tuple[str, Version, Version], ...] = (
    ("max_prompt_length", OLDEST, (0, 27)),
    ("multi_objective_aggregation", (0, 27), NEWEST),
    ("off_policy_mask_threshold", (0, 27), NEWEST),
    ("vllm_importance_sampling_correction", (0, 23), NEWEST),
    ("vllm_importance_sampling_clip_max", (1, 6), NEWEST),
    ("use_adaptive_entropy", (1, 8), NEWEST),
    ("vespo_k_pos", (1, 0), NEWEST),
    ("top_entropy_quantile", (0, 20), NEWEST),
    ("importance_sampling_level", (0, 20), NEWEST),
    ("use_bias_correction_kl", (0, 26), NEWEST),
)


_TRAINER_BOUNDS: dict[str, tuple[Version, Version]] = {
    # the versions that have the trainer, or its keys
    "rloo-legacy": ((0, 9), (0, 21)),
    "nash-md": ((0, 11), (1, 13)),
    "xpo": ((0, 11), (1, 13)),
    "async-grpo": ((1, 0), NEWEST),
}


def from_notebook(keys: frozenset[str]) -> bool:
    """Whether the log is a notebook's progress table, which hides some keys: none is missing for certain there."""
    return "Training Loss" in keys


def versions(context: Context, without: frozenset[str] = frozenset()) -> tuple[Version, Version]:
    """The range of versions that keys, settings and files leave open; the keys `without` say nothing."""
    stated = context.config.get("trl_version")
    if isinstance(stated, str) and len(parts := stated.split(".")) >= 2 and all(p.isdigit() for p in parts[:2]):
        exact = (int(parts[0]), int(parts[1]))
        return exact, exact
    keys = context.keys - without
    oldest, newest = _TRAINER_BOUNDS.get(context.algorithm, (OLDEST, NEWEST))
    if context.algorithm == "ppo":
        return (OLDEST, (0, 11)) if any(k.startswith("ppo/") for k in keys) else ((0, 9), (1, 12))
    if context.algorithm not in GROUPED:
        return oldest, newest
    for names, bounds in ((keys, _KEY_BOUNDS), (context.config.keys(), _CONFIG_BOUNDS)):
        for name, since, until in bounds:
            if name in names:
                oldest, newest = max(oldest, since), min(newest, until)
    if any(k.startswith("rewards/") and k.endswith("/mean") for k in keys):
        oldest = max(oldest, (0, 17))
    if "completions.parquet" in context.files:
        oldest = max(oldest, (0, 28))
    if (
        context.algorithm == "grpo"
        and {"reward", "reward_std"} <= keys
        and "frac_reward_zero_std" not in keys
        and not from_notebook(keys)
    ):
        newest = min(newest, (0, 17))
    if oldest > newest:
        return OLDEST, NEWEST
    return oldest, newest


def _within_group(context: Context, series: Series) -> Settled:
    if len(series) and context.algorithm != "rloo" and not np.nan_to_num(series.values, nan=1.0).any():
        return Settled(True)  # no spread over the batch leaves none inside its groups
    if context.algorithm == "async-grpo":
        return Settled(True)
    if context.algorithm == "rloo":
        return Settled(False)
    if context.between(until=(0, 21)):
        return Settled(True)
    if context.between(since=REWARD_STD_BATCH):
        return Settled(False)
    scaled = context.config.get("scale_rewards")
    if context.between(until=(0, 26)) and scaled is not None:
        return Settled(scaled != "batch")
    return Settled(None, "within the group up to TRL 0.26, over the batch from 0.27; the version is not known")


def _batch_wide(context: Context, series: Series) -> Settled:
    if context.algorithm == "rloo":
        return Settled(True)
    weighted = _as_weighted(context, series)
    if not weighted.holds:
        return weighted
    inside = _within_group(context, series)
    return Settled(None if inside.holds is None else not inside.holds, inside.why)


def _counts_groups(context: Context, series: Series) -> Settled:
    if context.algorithm == "rloo" and context.number("beta") != 0.0:
        return Settled(False, "computed on KL-penalised rewards, which hardly ever tie")
    if (
        context.config.get("scale_rewards") == "batch"
        or context.config.get("multi_objective_aggregation") == "normalize_then_sum"
    ):
        return Settled(False, "with batch scaling it is 0 or 1 for the whole batch, no share of groups")
    if len(series) and bool((series.values == 1.0).all()):
        return Settled(True)  # a batch without any spread has none in its groups: both meanings agree
    between = (series.values > 0.0) & (series.values < 1.0)
    if "scale_rewards" in context.config or bool(between.any()) or context.between(until=(0, 21)):
        return Settled(True)
    return Settled(None, "a share of groups, or 0/1 for the batch: scale_rewards is not known")


def _reference_kl(context: Context, series: Series) -> Settled:
    if context.number("beta") == 0.0:
        return Settled(False, "beta is 0: no reference")
    return Settled(True)


def _as_weighted(context: Context, _: Series) -> Settled:
    """From 0.27 to 0.29 `reward` (and `reward_std`) leave `reward_weights` out."""
    weights = context.config.get("reward_weights")
    uniform = weights is None or (isinstance(weights, str) and set(weights.strip("[]").split(", ")) <= {"1.0", "1"})
    if not uniform and context.algorithm == "grpo" and context.between(*UNWEIGHTED):
        return Settled(False, "TRL 0.27 to 0.29 log the plain sum of the reward functions, without reward_weights")
    return Settled(True)


def _mismatched_pairs(context: Context, _: Series) -> Settled:
    if context.config.get("loss_type") == "apo_zero_unpaired":
        return Settled(False, "written as 0 with apo_zero_unpaired, which takes no reference point")
    return Settled(True)


def _summed(context: Context, _: Series) -> Settled:
    """ORPO, and CPO with SimPO's or AlphaPO's loss, divide by the length."""
    if context.algorithm == "orpo" or (
        context.algorithm == "cpo" and context.config.get("loss_type") in ("simpo", "alphapo")
    ):
        return Settled(False, "a mean per token with this loss, not the sum over the answer")
    return Settled(True)


_SAMPLERS = ("GRPOTrainer", "RLOOTrainer")
_TIMED = "profiling/Time taken: "

ALIASES = (
    Alias("reward", "reward/mean", (*GROUPED, "a2po"), when=_as_weighted),
    Alias("self_distillation/reward_mean", "reward/mean", ("sdpo",)),
    Alias("self_distillation/reward_min", "reward/min", ("sdpo",)),
    Alias("self_distillation/reward_max", "reward/max", ("sdpo",)),
    Alias("reward/clipped-share", "reward/clipped-share", ("grpo",)),
    Alias("eval_reward", "eval/score/mean", (*GROUPED, "a2po"), when=_as_weighted),
    Alias("eval_self_distillation/reward_mean", "eval/score/mean", ("sdpo",)),
    Alias("reward_std", "reward/std/within-group", GROUPED, when=_within_group),
    Alias("reward_std", "reward/std/batch", GROUPED, when=_batch_wide),
    Alias("self_distillation/group_reward_std_mean", "reward/std/within-group", ("sdpo",)),
    Alias("self_distillation/reward_std", "reward/std/batch", ("sdpo",)),
    Alias("frac_reward_zero_std", "signal/zero-variance-share", GROUPED, when=_counts_groups),
    Alias("self_distillation/flat_group_fraction", "signal/zero-variance-share", ("sdpo",)),
    Alias(r"rewards/(?P<part>.+)/mean", "reward/component/*/mean", GROUPED),
    Alias(r"rewards/(?P<part>.+)/std", "reward/component/*/std", GROUPED),
    Alias(r"eval_rewards/(?P<part>.+)/mean", "eval/component/*/mean", GROUPED),
    Alias(r"rewards/(?P<part>(?!(?:chosen|rejected|margins|accuracies)$)[^/]+)", "reward/component/*/mean", GROUPED),
    Alias(r"self_distillation/rewards/(?P<part>.+)", "reward/component/*/mean", ("sdpo",)),
    Alias(r"eval_self_distillation/rewards/(?P<part>.+)", "eval/component/*/mean", ("sdpo",)),
    Alias("kl", "kl/update", ("async-grpo",)),
    Alias("kl", "kl/reference", ("grpo", "rloo"), when=_reference_kl),
    Alias("kl", "kl/reference/sequence", ("kto",), when=_mismatched_pairs),
    Alias("ratio", "ratio/mean", ("async-grpo",)),
    Alias("entropy", "entropy/mean"),
    Alias("clip_ratio/region_mean", "clip/fraction/total", GROUPED),
    Alias("clip_ratio", "clip/fraction/total", GROUPED),
    Alias("cispo_clip_ratio", "clip/fraction/high", GROUPED),
    Alias("clip_ratio/low_mean", "clip/fraction/low", GROUPED),
    Alias("clip_ratio/high_mean", "clip/fraction/high", GROUPED),
    Alias("clip_ratio/high_max", "clip/fraction/high-max", GROUPED),
    Alias("completions/mean_length", "length/mean", SAMPLED),
    Alias("completion_length", "length/mean", GROUPED),
    Alias("completions/min_length", "length/min", SAMPLED),
    Alias("completions/max_length", "length/max", SAMPLED),
    Alias("completions/mean_terminated_length", "length/terminated/mean", SAMPLED, zero_is_missing=True),
    Alias("completions/clipped_ratio", "length/truncated-share", SAMPLED),
    # IW-OPD mixes its own completions with those of the data set: only the sampled ones are the policy's
    Alias("completions/on_policy_mean_length", "length/mean", ("iw-opd",)),
    Alias("completions/on_policy_min_length", "length/min", ("iw-opd",)),
    Alias("completions/on_policy_max_length", "length/max", ("iw-opd",)),
    Alias("completions/truncated_fraction", "length/truncated-share", ("iw-opd",)),
    Alias("val/contain_eos_token", "length/truncated-share", ONLINE_PAIRS, transform=one_minus),
    Alias("val/model_contain_eos_token", "length/truncated-share", ONLINE_PAIRS, transform=one_minus),
    Alias("sampling/importance_sampling_ratio/mean", "behaviour-weight/mean", GROUPED),
    Alias("sampling/importance_sampling_ratio/min", "behaviour-weight/min", GROUPED),
    Alias("sampling/importance_sampling_ratio/max", "behaviour-weight/max", GROUPED),
    Alias("sampling/sampling_logp_difference/mean", "engine/logprob-gap/mean", GROUPED),
    Alias("sampling/sampling_logp_difference/max", "engine/logprob-gap/max", GROUPED),
    Alias("sample/staleness_mean", "staleness/mean", ASYNCHRONOUS),
    Alias("sample/staleness_max", "staleness/max", ASYNCHRONOUS),
    Alias("sample/dropped_stale_total", "staleness/dropped", ASYNCHRONOUS),
    Alias("rollout/turns_mean", "turns/mean", ASYNCHRONOUS),
    Alias("policy_loss", "loss/policy", GROUPED),
    Alias("self_distillation/policy_loss", "loss/policy", ("sdpo",)),
    # the pair trainers
    Alias("rewards/chosen", "preference/chosen-reward", PAIRS),
    Alias("rewards/rejected", "preference/rejected-reward", PAIRS),
    Alias("rewards/margins", "preference/margin", PAIRS),
    Alias("rewards/accuracies", "preference/accuracy", PAIRS),
    Alias("logps/chosen", "preference/chosen-logp", PAIRS, when=_summed),
    Alias("logps/rejected", "preference/rejected-logp", PAIRS, when=_summed),
    Alias("eval_rewards/margins", "eval/preference/margin", PAIRS),
    Alias("eval_rewards/accuracies", "eval/preference/accuracy", PAIRS),
    Alias("rewards_test/margins", "eval/preference/margin", PAIRS),
    Alias("rewards_test/accuracies", "eval/preference/accuracy", PAIRS),
    Alias("accuracy", "preference/accuracy", ("reward-model",)),
    Alias("eval_accuracy", "eval/preference/accuracy", ("reward-model",)),
    Alias("mean_token_accuracy", "text/token-accuracy", (*PAIRS, "sft")),
    # PPO, the older RLOO and online DPO: objective/* are sums over a sequence
    Alias("objective/scores", "reward/mean"),
    Alias("objective/model_scores", "reward/mean"),
    Alias("ppo/mean_scores", "reward/mean"),
    Alias("env/reward_mean", "reward/mean", ("ppo",)),
    Alias("ppo/std_scores", "reward/std/batch"),
    Alias("env/reward_std", "reward/std/batch", ("ppo",)),
    Alias("objective/rlhf_reward", "reward/penalised/mean"),
    Alias("objective/non_score_reward", "reward/kl-penalty/mean"),
    Alias("ppo/mean_non_score_reward", "reward/kl-penalty/mean"),
    Alias("objective/kl", "kl/reference/sequence"),
    Alias("objective/kl_coef", "kl/coefficient"),
    Alias("objective/entropy", "entropy/sequence"),
    Alias("policy/approxkl_avg", "kl/update"),
    Alias("ppo/policy/approxkl", "kl/update"),
    Alias("policy/clipfrac_avg", "clip/fraction/total"),
    Alias("ppo/policy/clipfrac", "clip/fraction/total"),
    Alias("policy/entropy_avg", "entropy/mean"),
    Alias("ppo/policy/entropy", "entropy/mean"),
    Alias("loss/policy_avg", "loss/policy"),
    Alias("ppo/loss/policy", "loss/policy"),
    Alias("loss/value_avg", "loss/value"),
    Alias("ppo/loss/value", "loss/value"),
    Alias("ppo/loss/total", "loss/total"),
    Alias("val/clipfrac_avg", "value/clip-fraction"),
    Alias("ppo/val/clipfrac", "value/clip-fraction"),
    Alias("ppo/val/var_explained", "value/explained-variance"),
    Alias("val/ratio", "ratio/mean"),
    Alias("val/ratio_var", "ratio/variance"),
    Alias("tokens/responses_len_mean", "length/mean"),
    Alias("tokens/responses_len_std", "length/std"),
    Alias("tokens/queries_len_mean", "length/prompt/mean"),
    # the base trainer; the last two spellings are the columns of a notebook's table
    Alias("eval_loss", "eval/loss"),
    Alias("loss", "loss/total"),
    Alias("grad_norm", "gradient/norm"),
    Alias("learning_rate", "learning-rate"),
    Alias("lr", "learning-rate"),
    Alias("ppo/learning_rate", "learning-rate"),
    Alias("num_tokens", "systems/tokens"),
    Alias("Training Loss", "loss/total"),
    Alias("Validation Loss", "eval/loss"),
    # wall time: what async GRPO counts itself, and what the profiler sends to W&B, MLflow and trackio
    Alias("step_time", "systems/step-time"),
    Alias("perf/step_s", "systems/step-time", ASYNCHRONOUS),
    Alias("iteration_time_s", "systems/step-time", ASYNCHRONOUS),
    Alias("perf/rollout_wait_s", "systems/wait-time", ASYNCHRONOUS),
    Alias("perf/weight_sync_s", "systems/sync-time", ASYNCHRONOUS),
    Alias("weight_sync_time_s", "systems/sync-time", ASYNCHRONOUS),
    Alias("perf/forwarded_tok_s_wall_clock", "systems/throughput", ASYNCHRONOUS),
    Alias("perf/mfu_wall_clock", "systems/mfu", ASYNCHRONOUS),
    Alias("time/ppo/forward_pass", "systems/logprob-time", ("ppo",)),
    Alias("time/ppo/optimize_step", "systems/train-time", ("ppo",)),
    *(
        Alias(f"{_TIMED}{trainer}.{function}", metric, GROUPED)
        for trainer in _SAMPLERS
        for function, metric in (
            ("vLLM.generate", "systems/rollout-time"),
            ("transformers.generate", "systems/rollout-time"),
            ("transformers.generate_batch", "systems/rollout-time"),
            ("_calculate_rewards", "systems/reward-time"),
            ("sync_weights", "systems/sync-time"),
        )
    ),
)


def derive(context: Context) -> Mapping[str, Series]:
    """The policy update of the asynchronous trainers: forward and backward passes, and the optimiser's step."""
    passes, step = context.series.get("perf/fwd_bwd_s"), context.series.get("perf/optimizer_s")
    if passes is None or step is None:
        return {}
    shared = np.intersect1d(passes.steps, step.steps)
    return {"systems/train-time": Series(passes.key, shared, _at(passes, shared) + _at(step, shared))}


IGNORED = {
    r"epoch|episode|step|global_step|train/global_step|max_steps": "a count of progress",
    r"eps": "episodes per second, no clip bound",
    r"num_input_tokens_seen": "a count of progress",
    r"(train|test)_(loss|runtime|samples_per_second|steps_per_second|tokens_per_second)|total_flos": "summary written once, at the end",
    r"eval_.*(runtime|samples_per_second|steps_per_second|tokens_per_second|num_tokens|model_preparation_time)": "cost of the evaluation",
    r"eval_.+_loss": "a part of the loss on held-out data, or one of several held-out sets",
    r"(before_init|[a-z]+)_mem_(cpu|gpu).*": "memory of the host at the Trainer's stages, once",
    r"eval_(entropy|entropy_coef|reward_std|clip_ratio.*|cispo_clip_ratio|completions/.*|completion_length|frac_.*|kl|ratio|rewards/.*|mean_token_accuracy)": "training quantities taken on held-out prompts; the score is read",
    r"eval_(logits|logps|sampling|vespo|tools|self_distillation|iw_opd)/.*|eval_log_odds_.*": "training quantities taken on held-out prompts; the score is read",
    r"eval_(margin|(min|mean|max)_reward|v_star|implicit_reward|advantage)": "training quantities taken on held-out data; accuracy or score is read",
    r"(logits|rewards|logps)_test/.*": "held-out pairs, as named up to 0.7; margin and accuracy are read",
    r"completions/(min|max)_terminated_length|clip_ratio/low_min": "extremes that no instrument uses",
    r"completions/off_policy_.*": "answers of the data set, which the policy did not write",
    r"logits/.*": "raw logits: no scale of their own",
    r"tools/.*": "use of tools: descriptive",
    r"aux_loss|nll_loss|log_odds_.*|loss/(kl|score|dpo|xpo)|(on|off)_policy_loss|(un)?matched_loss": "parts of the loss",
    r"(self_distillation|sdpo|sdft)/distillation_loss": "the loss against the teacher: no divergence from a reference",
    r"jsd|teacher_(jsd|entropy|token_frac|score_s)(/.*)?": "divergence from, and state of, the teacher that is trained towards: no reference to stay near",
    r"self_distillation/(success|feedback|reprompt)_.*": "which samples the self-teacher saw feedback for; a success is set by a threshold of its own",
    r"self_distillation/server_logprob_abs_diff": "student against the teacher's server, which sees another prompt",
    r"iw_opd/.*": "weights by position and advantages of the distillation loss: no probability ratios",
    r"vespo/.*": "VESPO's smooth weight, shaped by its own parameters: no ratio of probabilities",
    r"v_star|implicit_reward|advantage": "estimates of A2PO's regression: no reward of their own",
    r"(min|mean|max)_reward|margin": "scores of a reward model in training, not of a policy",
    r"rewards/probabilities": "chance to beat the mixture of policies, by the judge",
    r"objective/(scores_margin|ref_scores)": "spread between two answers, or scores of the reference's answers",
    r"val/(num_eos_tokens|ref_contain_eos_token)": "end tokens of a whole batch, padding included, or of the reference's answers",
    r"beta|alpha|mixture_coef|entropy_coef": "an echo of the configuration",
    r"objective/(kl_dist|logprobs|ref_logprobs)|ppo/policy/(ratio|advantages)|env/reward_dist|tokens/.*_dist": "a histogram",
    r"ppo/policy/(policykl|advantages_mean)|ppo/returns/.*|ppo/val/(vpred|error|mean|var)|tokens/queries_len_std": "normalised, or said by another key",
    r"time/ppo/.*": "timing of single phases; total leaves generation out",
    r"profiling/.*|rollout/.*|batch/.*|perf/.*|sample/.*|env/(reset|reward)_s": "timing and queues of single phases",
    r"forward_time_s|training_tok/s|train_seq_len": "timing of single phases, as named up to 1.9",
}


IDENTITY_ROWS = 400
"""Rows that the identity is solved on; it is exact, so more would say no more."""


def _weights(context: Context, series: Mapping[str, Series]) -> dict[str, float]:
    """Weights of the reward functions, from the identity reward = sum of weight x component.

    The order of `reward_weights` is not kept beside the names in a state file, the identity is:
    least squares over the steps that log them all, taken only where it explains the reward exactly.
    """
    names = [
        n.split("/", 2)[2][: -len("/mean")] for n in series if n.startswith("reward/component/") and n.endswith("/mean")
    ]
    total = series.get("reward/mean")
    if total is None or not names:
        return {}
    shared = set(total.steps[np.isfinite(total.values)].tolist())
    for name in names:
        part = series[f"reward/component/{name}/mean"]
        shared &= set(part.steps[np.isfinite(part.values)].tolist())
    if len(shared) < len(names) + 3:
        return {}
    steps = np.array(sorted(shared))
    if steps.size > IDENTITY_ROWS:
        steps = steps[np.linspace(0, steps.size - 1, IDENTITY_ROWS).astype(int)]
    x = np.column_stack([_at(series[f"reward/component/{n}/mean"], steps) for n in names])
    y = _at(total, steps)
    if np.linalg.matrix_rank(x) < len(names):
        return {}
    found, *_ = np.linalg.lstsq(x, y, rcond=None)
    with np.errstate(all="ignore"):
        off = float(np.abs(x @ found - y).max())
    if not off <= 1e-4 * float(np.abs(y).max()):  # NaN too
        return {}
    return {n: round(float(w), 4) + 0.0 for n, w in zip(names, found, strict=True)}


def _at(
    series: Series, steps: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return series.values[np.searchsorted(series.steps, steps)]


def _updates(context: Context) -> float | None:
    """Optimiser updates that are made from one rollout batch."""
    number = context.number
    accumulation = number("gradient_accumulation_steps")
    if context.algorithm == "ppo":
        epochs, parts = number("num_ppo_epochs"), number("num_mini_batches")
        if config_is_legacy(context):
            epochs, (whole, part) = number("ppo_epochs"), (number("batch_size"), number("mini_batch_size"))
            parts = whole / part if whole and part else None
        return epochs * parts if epochs and parts else None
    if context.algorithm in ("grpo", "rloo", "sdpo", "sdft") and accumulation:
        per_generation = number("steps_per_generation") or accumulation
        return max(1.0, per_generation / accumulation) * (number("num_iterations") or 1.0)
    return None


def config_is_legacy(context: Context) -> bool:
    """Whether the PPO trainer of 0.11 and before was configured."""
    return context.config.keys() >= _LEGACY_SETTINGS


def _kl_by_design(context: Context) -> bool | None:
    beta = context.number("beta")
    if context.algorithm in ("grpo", "rloo"):
        if beta is not None:
            return beta != 0.0
        if "kl" in context.keys:
            return True
        if context.algorithm == "grpo" and not from_notebook(context.keys) and context.between(since=(0, 19)):
            return False
    if context.algorithm in LEGACY_PPO:
        weight = context.number("init_kl_coef" if config_is_legacy(context) else "kl_coef")
        return None if weight is None else weight != 0.0
    return False if context.algorithm in ASYNCHRONOUS else None


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """What the configuration says of updates, caps, groups and the KL term."""
    number = context.number
    # one row of PPO is one batch of rollouts, whatever its epochs and minibatches
    by_rollout = context.algorithm in LEGACY_PPO
    return Declared(
        updates_per_rollout=_updates(context),
        max_length=number("max_completion_length") or number("response_length") or number("max_new_tokens"),
        kl_by_design=_kl_by_design(context),
        component_weights=_weights(context, series),
        batch_completions=number("generation_batch_size"),
        group_size=number("num_generations") if context.algorithm in (*GROUPED, "sdpo") else None,
        steps_per_row=1.0 if by_rollout else number("logging_steps") or number("state.logging_steps"),
        group_centred=context.algorithm in (*GROUPED, "sdpo"),
        step_unit="rollout" if by_rollout else "optimiser",
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default in 1.16)
    "kl-coef": ("beta", 0.0),
    "learning-rate": ("learning_rate", 1e-6),
    "warmup": ("warmup_steps", 0),
    "batch-size": ("gradient_accumulation_steps", 1),
    "group-size": ("num_generations", 8),
    "clip-low": ("epsilon", 0.2),
    "clip-high": ("epsilon_high", None),
    "minibatches": ("steps_per_generation", None),
    "epochs": ("num_iterations", 1),
    "temperature": ("temperature", 1.0),
    "entropy-bonus": ("entropy_coef", 0.0),
    "max-completion-length": ("max_completion_length", 512),
    "overlong-filter": ("mask_truncated_completions", False),
    "reward-scaling": ("scale_rewards", "group"),
    "component-weight": ("reward_weights", None),
    "behaviour-weight-cap": ("vllm_importance_sampling_clip_max", 3.0),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "loss-type": ("loss_type", "dapo"),
    "deterministic-kernels": ("full_determinism", False),
    "save-steps": ("save_steps", 500),
    "engine-memory": ("vllm_gpu_memory_utilization", 0.3),
}
_PPO_KNOBS: dict[str, tuple[str, Setting]] = {
    "kl-coef": ("kl_coef", 0.05),
    "learning-rate": ("learning_rate", 3e-6),
    "clip-low": ("cliprange", 0.2),
    "clip-high": ("cliprange", 0.2),
    "minibatches": ("num_mini_batches", 1),
    "epochs": ("num_ppo_epochs", 4),
    "temperature": ("temperature", 0.7),
    "max-completion-length": ("response_length", 53),
    "missing-eos-penalty": ("missing_eos_penalty", None),
    "value-coef": ("vf_coef", 0.1),
    "value-clip": ("cliprange_value", 0.2),
    "reward-scaling": ("whiten_rewards", False),
    "deterministic-kernels": ("full_determinism", False),
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}
_LEGACY_PPO_KNOBS: dict[str, tuple[str, Setting]] = {
    # PPOConfig of 0.11
    "kl-coef": ("init_kl_coef", 0.2),
    "learning-rate": ("learning_rate", 1.41e-5),
    "clip-low": ("cliprange", 0.2),
    "clip-high": ("cliprange", 0.2),
    "minibatches": ("mini_batch_size", 128),
    "epochs": ("ppo_epochs", 4),
    "batch-size": ("batch_size", 128),
    "value-coef": ("vf_coef", 0.1),
    "value-clip": ("cliprange_value", 0.2),
    "reward-bounds": ("score_clip", None),
    "reward-scaling": ("use_score_scaling", False),
    "max-grad-norm": ("max_grad_norm", None),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("beta", 0.1),
    "learning-rate": ("learning_rate", 1e-6),
    "warmup": ("warmup_steps", 0),
    "loss-type": ("loss_type", "sigmoid"),
    "sft-weight": ("rpo_alpha", None),
    "epochs": ("num_train_epochs", 3.0),
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}
_ASYNC_KNOBS: dict[str, tuple[str, Setting]] = {
    "learning-rate": ("learning_rate", 1e-6),
    "warmup": ("warmup_steps", 0),
    "batch-size": ("gradient_accumulation_steps", 1),
    "group-size": ("num_generations", 8),
    "clip-low": ("epsilon", 0.2),
    "clip-high": ("epsilon_high", None),
    "temperature": ("temperature", 1.0),
    "max-completion-length": ("max_completion_length", 2048),
    "staleness-bound": ("max_staleness", 4),
    "deterministic-kernels": ("full_determinism", False),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}
_PLAIN_KNOBS: dict[str, tuple[str, Setting]] = {
    # what every trainer has
    "learning-rate": ("learning_rate", 1e-6),
    "warmup": ("warmup_steps", 0),
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}
_SAMPLING_KNOBS: dict[str, tuple[str, Setting]] = {
    "temperature": ("temperature", 1.0),
    "max-completion-length": ("max_completion_length", 512),
}
_BY_TRAINER: dict[str, dict[str, tuple[str, Setting]]] = {
    # what a trainer sets otherwise, or has beside the table of its kind
    "rloo": {"kl-coef": ("beta", 0.05), "group-size": ("num_generations", 2), "reward-bounds": ("reward_clip_range", None),
             "reward-scaling": ("normalize_advantages", False)},
    "kto": {"loss-type": ("loss_type", "kto")},
    "cpo": {"sft-weight": ("cpo_alpha", 1.0)},
    "tpo": {"preference-beta": ("beta", 0.01), "learning-rate": ("learning_rate", 5e-7), "sft-weight": ("tpo_alpha", 1.0)},
    **{
        name: {"learning-rate": ("learning_rate", 5e-7), "temperature": ("temperature", 0.9),
               "max-completion-length": ("max_new_tokens", 64), "missing-eos-penalty": ("missing_eos_penalty", None),
               "component-weight": ("reward_weights", None)}
        for name in ONLINE_PAIRS
    },
    "sdpo": {"kl-coef": ("beta", 0.0), "group-size": ("num_generations", 8), "clip-low": ("epsilon", 0.2),
             "clip-high": ("epsilon_high", None), "epochs": ("num_iterations", 1),
             "minibatches": ("steps_per_generation", None), "max-completion-length": ("max_completion_length", 256),
             "reward-scaling": ("scale_rewards", "group"), "component-weight": ("reward_weights", None),
             "overlong-filter": ("mask_truncated_completions", False), "loss-type": ("loss_type", "dapo")},
    "sdft": {"group-size": ("num_generations", 8), "max-completion-length": ("max_completion_length", 256)},
    "a2po": {"kl-coef": ("beta2", 0.001), "max-completion-length": ("max_completion_length", 256),
             "component-weight": ("reward_weights", None), "dynamic-filter": ("filter_all_incorrect", True)},
    "gold": {"learning-rate": ("learning_rate", 1e-7), "temperature": ("temperature", 0.9),
             "max-completion-length": ("max_completion_length", 128)},
    "gkd": {"learning-rate": ("learning_rate", 2e-5), "temperature": ("temperature", 0.9),
            "max-completion-length": ("max_new_tokens", 128)},
    "async-distillation": {"max-completion-length": ("max_completion_length", 2048), "staleness-bound": ("max_staleness", 4)},
    "sft": {"learning-rate": ("learning_rate", 2e-5), "epochs": ("num_train_epochs", 3.0)},
    "reward-model": {"learning-rate": ("learning_rate", 1e-4), "epochs": ("num_train_epochs", 3.0)},
}  # fmt: skip
_NOT_IN: dict[str, tuple[str, ...]] = {
    # knobs of the table that the trainer does not have
    "rloo": ("loss-type", "entropy-bonus", "behaviour-weight-cap"),
    "orpo": ("loss-type", "sft-weight"),
    "kto": ("sft-weight",),
    **dict.fromkeys(ONLINE_PAIRS, ("sft-weight",)),
}


def _table(context: Context) -> dict[str, tuple[str, Setting]]:
    kind = context.algorithm
    if kind in LEGACY_PPO:
        old = config_is_legacy(context) or any(k.startswith("ppo/") for k in context.keys)
        return dict(_LEGACY_PPO_KNOBS if old else _PPO_KNOBS)
    if kind in PAIRS:
        table = dict(_PAIR_KNOBS)
    elif kind == "async-grpo":
        table = dict(_ASYNC_KNOBS)
    elif kind in ("grpo", "rloo"):
        table = dict(_KNOBS)
    else:
        table = _PLAIN_KNOBS | (_SAMPLING_KNOBS if kind in (*DISTILLED, "a2po") else {})
    table |= _BY_TRAINER.get(kind, {})
    return {knob: entry for knob, entry in table.items() if knob not in _NOT_IN.get(kind, ())}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """TRL's arguments for the canonical knobs, with this run's values."""
    return {
        knob: KnobSetting(
            knob,
            key,
            context.config.get(key, None if context.config else default),
            is_default=key not in context.config,
        )
        for knob, (key, default) in _table(context).items()
    }


_EVALUATED = "pass eval_dataset and set eval_strategy='steps'"


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be logged with TRL."""
    kind = context.algorithm
    if kind in ONLINE_PAIRS:
        return {
            "reward/mean": "logged as objective/scores when reward_funcs are given (with a judge there are no scores)"
        }
    if kind in PAIRS:
        return {
            "eval/preference/margin": _EVALUATED,
            "preference/margin": "logged by the trainer as rewards/margins",
        }
    if kind == "reward-model":
        return {"eval/preference/accuracy": _EVALUATED}
    if kind == "async-grpo":
        return {"reward/component/*/mean": "give reward functions apart (reward_funcs=[…]): each is logged"}
    if kind not in ("grpo", "rloo"):
        return {"eval/loss": _EVALUATED} if kind in ("sft", "gold", "distillation") else {}
    known = {
        "kl/reference": "set beta to a small value such as 1e-4: it loads a reference and logs kl, at almost no penalty",
        "reward/std/within-group": "log_completions=True writes completions/*.parquet (TRL 0.28 or later); reward_std is batch-wide there",
        "signal/zero-variance-share": "frac_reward_zero_std, TRL 0.18 or later, with scale_rewards='group'",
        "eval/score/mean": f"{_EVALUATED}; eval_reward is then logged",
        "entropy/mean": "logged as entropy from TRL 0.20 on",
        "length/mean": "logged as completions/mean_length from TRL 0.17 on",
        "length/truncated-share": "logged as completions/clipped_ratio from TRL 0.17 on",
        "engine/logprob-gap/mean": "logged with use_vllm=True and vllm_importance_sampling_correction=True",
        "behaviour-weight/mean": "logged with use_vllm=True and vllm_importance_sampling_correction=True",
        "clip/fraction/total": "logged as clip_ratio/region_mean for loss_type grpo, bnpo, dr_grpo, dapo, luspo",
        "reward/clipped-share": "log_metric('reward/clipped-share', share) in a reward function (GRPO, TRL 1.0 or later)",
        "systems/step-time": "logged as step_time from TRL 0.26 on",
        "systems/rollout-time": "profiling/Time taken: … goes to W&B, MLflow and trackio only (report_to)",
        "systems/memory-share": "sampled by W&B itself: report_to='wandb' with WANDB_MODE=offline, and read its run-*.wandb",
        "reward/component/*/mean": "give reward functions apart (reward_funcs=[…]): each is logged",
    }
    if kind == "rloo":
        for name in ("engine/logprob-gap/mean", "behaviour-weight/mean", "reward/clipped-share"):
            known.pop(name)
        known["signal/zero-variance-share"] = (
            "frac_reward_zero_std counts groups with beta=0 only: else it is taken after the KL penalty"
        )
        known["clip/fraction/total"] = "logged as clip_ratio/region_mean from TRL 0.22 on"
    return known


DIALECT = Dialect(
    "trl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    hugging_face_spelling,
    versions,
    declare,
    derive,
    knobs=knobs,
    enable=enable,
    patch="keywords",
    samples="log_completions=True writes completions/*.parquet (TRL 0.28 and later)",
)
