"""TRL: GRPO, RLOO, DPO, KTO, ORPO, CPO, online DPO, async GRPO, and PPO up to 1.12.

What the keys mean, and since when, was read from TRL's sources and tags (0.2 to 1.16).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import NEWEST, OLDEST, Alias, Context, Dialect, Settled, Version

GROUPED = ("grpo", "rloo", "async-grpo")
PAIRS = ("dpo", "kto", "orpo", "cpo", "online-dpo")
REWARD_STD_BATCH: Version = (0, 27)
"""Since 0.27 `reward_std` is taken over the whole batch, groups mixed."""
REWARD_STD_SCALED: Version = (0, 22)
"""From 0.22 on it follows `scale_rewards`."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only TRL's trainers log, or its arguments in the configuration."""
    decisive = (
        {"frac_reward_zero_std"},
        {"completions/mean_length"},
        {"clip_ratio/region_mean"},
        {"rewards/margins", "rewards/chosen"},
        {"rewards/chosen", "logps/chosen"},
        {"eval_rewards/margins", "eval_rewards/chosen"},
        {"objective/rlhf_reward"},
        {"completion_length", "reward_std"},
        {"reward", "reward_std", "kl"},
    )
    return any(d <= keys for d in decisive) or {"num_generations", "per_device_train_batch_size"} <= config.keys()


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Which trainer wrote the log."""
    if "sample/staleness_mean" in keys or "rollout/inflight" in keys:
        return "async-grpo"
    if "objective/scores_margin" in keys or {"rewards/margins", "objective/kl"} <= keys:
        return "online-dpo"
    if "loss/value_avg" in keys or ("num_ppo_epochs" in config and "cliprange_value" in config):
        return "ppo"
    if "objective/rlhf_reward" in keys:
        return "rloo-legacy"
    if "rewards/chosen" in keys or "rewards/margins" in keys or "eval_rewards/chosen" in keys:
        if "log_odds_ratio" in keys:
            return "orpo"
        if "nll_loss" in keys and "cpo_alpha" in config:
            return "cpo"
        if "kl" in keys or "desirable_weight" in config:
            return "kto"
        return "dpo"
    if "normalize_advantages" in config or "reward_clip_range" in config:
        return "rloo"
    return "grpo"


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


def versions(context: Context) -> tuple[Version, Version]:
    """The range of versions that keys, settings and files leave open."""
    stated = context.config.get("trl_version")
    if isinstance(stated, str) and len(parts := stated.split(".")) >= 2 and all(p.isdigit() for p in parts[:2]):
        exact = (int(parts[0]), int(parts[1]))
        return exact, exact
    if context.algorithm not in GROUPED:
        return OLDEST, NEWEST
    oldest, newest = OLDEST, NEWEST
    for names, bounds in ((context.keys, _KEY_BOUNDS), (context.config.keys(), _CONFIG_BOUNDS)):
        for name, since, until in bounds:
            if name in names:
                oldest, newest = max(oldest, since), min(newest, until)
    if "completions.parquet" in context.files:
        oldest = max(oldest, (0, 28))
    if (
        context.algorithm == "grpo"
        and {"reward", "reward_std"} <= context.keys
        and "frac_reward_zero_std" not in context.keys
    ):
        newest = min(newest, (0, 17))
    if oldest > newest:
        return OLDEST, NEWEST
    return oldest, newest


def _within_group(context: Context, _: Series) -> Settled:
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
    between = (series.values > 0.0) & (series.values < 1.0)
    if "scale_rewards" in context.config or bool(between.any()):
        return Settled(True)
    return Settled(None, "a share of groups, or 0/1 for the batch: scale_rewards is not known")


def _reference_kl(context: Context, series: Series) -> Settled:
    if context.number("beta") == 0.0:
        return Settled(False, "beta is 0: no reference")
    return Settled(True)


ALIASES = (
    Alias("reward", "reward/mean", GROUPED),
    Alias("eval_reward", "eval/score/mean", GROUPED),
    Alias("reward_std", "reward/std/within-group", GROUPED, when=_within_group),
    Alias("reward_std", "reward/std/batch", GROUPED, when=_batch_wide),
    Alias("frac_reward_zero_std", "signal/zero-variance-share", GROUPED, when=_counts_groups),
    Alias(r"rewards/(?P<part>.+)/mean", "reward/component/*/mean", GROUPED),
    Alias(r"rewards/(?P<part>.+)/std", "reward/component/*/std", GROUPED),
    Alias(r"eval_rewards/(?P<part>.+)/mean", "eval/component/*/mean", GROUPED),
    Alias(r"rewards/(?P<part>(?!chosen|rejected|margins|accuracies)[^/]+)", "reward/component/*/mean", GROUPED),
    Alias("kl", "kl/update", ("async-grpo",)),
    Alias("kl", "kl/reference", ("grpo", "rloo"), when=_reference_kl),
    Alias("kl", "kl/reference/sequence", ("kto",)),
    Alias("ratio", "ratio/mean", ("async-grpo",)),
    Alias("entropy", "entropy/mean"),
    Alias("clip_ratio/region_mean", "clip/fraction/total", GROUPED),
    Alias("clip_ratio", "clip/fraction/total", GROUPED),
    Alias("cispo_clip_ratio", "clip/fraction/high", GROUPED),
    Alias("clip_ratio/low_mean", "clip/fraction/low", GROUPED),
    Alias("clip_ratio/high_mean", "clip/fraction/high", GROUPED),
    Alias("clip_ratio/high_max", "clip/fraction/high-max", GROUPED),
    Alias("completions/mean_length", "length/mean", GROUPED),
    Alias("completion_length", "length/mean", GROUPED),
    Alias("completions/min_length", "length/min", GROUPED),
    Alias("completions/max_length", "length/max", GROUPED),
    Alias("completions/mean_terminated_length", "length/terminated/mean", GROUPED, zero_is_missing=True),
    Alias("completions/clipped_ratio", "length/truncated-share", GROUPED),
    Alias("sampling/importance_sampling_ratio/mean", "behaviour-weight/mean", GROUPED),
    Alias("sampling/importance_sampling_ratio/min", "behaviour-weight/min", GROUPED),
    Alias("sampling/importance_sampling_ratio/max", "behaviour-weight/max", GROUPED),
    Alias("sampling/sampling_logp_difference/mean", "engine/logprob-gap/mean", GROUPED),
    Alias("sampling/sampling_logp_difference/max", "engine/logprob-gap/max", GROUPED),
    Alias("sample/staleness_mean", "staleness/mean", ("async-grpo",)),
    Alias("policy_loss", "loss/policy", GROUPED),
    # the pair trainers
    Alias("rewards/chosen", "preference/chosen-reward", PAIRS),
    Alias("rewards/rejected", "preference/rejected-reward", PAIRS),
    Alias("rewards/margins", "preference/margin", PAIRS),
    Alias("rewards/accuracies", "preference/accuracy", PAIRS),
    Alias("logps/chosen", "preference/chosen-logp", PAIRS),
    Alias("logps/rejected", "preference/rejected-logp", PAIRS),
    Alias("eval_rewards/margins", "eval/preference/margin", PAIRS),
    Alias("eval_rewards/accuracies", "eval/preference/accuracy", PAIRS),
    Alias("mean_token_accuracy", "text/token-accuracy", PAIRS),
    # PPO, the older RLOO and online DPO: objective/* are sums over a sequence
    Alias("objective/scores", "reward/mean"),
    Alias("ppo/mean_scores", "reward/mean"),
    Alias("objective/rlhf_reward", "reward/penalised/mean"),
    Alias("objective/non_score_reward", "reward/kl-penalty/mean"),
    Alias("ppo/mean_non_score_reward", "reward/kl-penalty/mean"),
    Alias("objective/kl", "kl/reference/sequence"),
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
    Alias("val/clipfrac_avg", "value/clip-fraction"),
    Alias("ppo/val/clipfrac", "value/clip-fraction"),
    Alias("ppo/val/var_explained", "value/explained-variance"),
    Alias("val/ratio", "ratio/mean"),
    Alias("val/ratio_var", "ratio/variance"),
    Alias("tokens/responses_len_mean", "length/mean"),
    # the base trainer
    Alias("eval_loss", "eval/loss"),
    Alias("loss", "loss/total"),
    Alias("grad_norm", "gradient/norm"),
    Alias("learning_rate", "learning-rate"),
    Alias("lr", "learning-rate"),
    Alias("step_time", "systems/step-time"),
    Alias("num_tokens", "systems/tokens"),
)

IGNORED = (
    r"epoch", r"train_(loss|runtime|samples_per_second|steps_per_second|tokens_per_second)", r"total_flos",
    r"num_input_tokens_seen", r"eval_(runtime|samples_per_second|steps_per_second|num_tokens|entropy|clip_ratio.*|completions.*|frac_.*|kl|reward_std|rewards/.*|logits/.*|logps/.*|mean_token_accuracy)",
    r"completions/(min|max)_terminated_length", r"clip_ratio/low_min", r"logits/.*", r"tools/.*", r"aux_loss",
    r"episode", r"eps", r"val/num_eos_tokens", r"log_odds_.*", r"nll_loss", r"beta", r"entropy_coef", r"profiling/.*",
    r"global_step", r"max_steps", r"rollout/.*", r"batch/.*", r"perf/.*", r"sample/.*",
)  # fmt: skip


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


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """What the configuration says of updates, caps, groups and the KL term."""
    number = context.number
    accumulation = number("gradient_accumulation_steps")
    updates: float | None = None
    if context.algorithm == "ppo":
        epochs, parts = number("num_ppo_epochs"), number("num_mini_batches")
        updates = epochs * parts if epochs and parts else None
    elif context.algorithm in GROUPED and accumulation:
        per_generation = number("steps_per_generation") or accumulation
        updates = max(1.0, per_generation / accumulation) * (number("num_iterations") or 1.0)
    beta = number("beta")
    by_design: bool | None = None
    if context.algorithm in ("grpo", "rloo"):
        if beta is not None:
            by_design = beta != 0.0
        elif "kl" in context.keys:
            by_design = True
        elif context.between(since=(0, 19)):
            by_design = False
    return Declared(
        updates_per_rollout=updates,
        max_length=number("max_completion_length") or number("response_length"),
        kl_by_design=by_design,
        component_weights=_weights(context, series),
        batch_completions=number("generation_batch_size"),
        group_size=number("num_generations") if context.algorithm in GROUPED else None,
        steps_per_row=number("logging_steps") or number("state.logging_steps"),
        group_centred=context.algorithm in GROUPED,
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
    "save-steps": ("save_steps", 500),
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
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
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


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """TRL's arguments for the canonical knobs, with this run's values."""
    if context.algorithm in ("ppo", "rloo-legacy"):
        table = _PPO_KNOBS
    elif context.algorithm in PAIRS:
        table = _PAIR_KNOBS
    else:
        table = dict(_KNOBS)
        if context.algorithm == "rloo":
            table |= {"kl-coef": ("beta", 0.05), "group-size": ("num_generations", 2)}
            table.pop("loss-type")
            table.pop("reward-scaling")
    return {
        knob: KnobSetting(
            knob,
            key,
            context.config.get(key, None if context.config else default),
            is_default=key not in context.config,
        )
        for knob, (key, default) in table.items()
    }


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be logged with TRL."""
    if context.algorithm in PAIRS:
        return {
            "eval/preference/margin": "pass eval_dataset and set eval_strategy='steps'",
            "preference/margin": "logged by the trainer as rewards/margins",
        }
    return {
        "kl/reference": "set beta to a small value such as 1e-4: it loads a reference and logs kl, at almost no penalty",
        "reward/std/within-group": "log_completions=True writes completions/*.parquet (TRL 0.28 or later); reward_std is batch-wide there",
        "signal/zero-variance-share": "frac_reward_zero_std, TRL 0.18 or later, with scale_rewards='group'",
        "eval/score/mean": "pass eval_dataset and set eval_strategy='steps'; eval_reward is then logged",
        "entropy/mean": "logged as entropy from TRL 0.20 on",
        "length/mean": "logged as completions/mean_length from TRL 0.17 on",
        "length/truncated-share": "logged as completions/clipped_ratio from TRL 0.17 on",
        "engine/logprob-gap/mean": "logged with use_vllm=True and vllm_importance_sampling_correction=True",
        "behaviour-weight/mean": "logged with use_vllm=True and vllm_importance_sampling_correction=True",
        "clip/fraction/total": "logged as clip_ratio/region_mean for loss_type grpo, bnpo, dr_grpo, dapo",
        "systems/step-time": "logged as step_time from TRL 0.26 on",
        "systems/rollout-time": "profiling/Time taken: … goes to W&B, MLflow and trackio only (report_to)",
        "reward/component/*/mean": "give reward functions apart (reward_funcs=[…]): each is logged",
    }


DIALECT = Dialect("trl", recognises, algorithm, ALIASES, IGNORED, versions, declare, knobs, enable)
