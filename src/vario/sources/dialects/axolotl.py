"""axolotl: TRL's trainers with its own GRPO (asynchronous, context-parallel) and EBFT.

What the keys mean was read from 0.19.0 and 0.21.0, which pin TRL 1.9 and 1.14. TRL's own keys keep TRL's meaning;
its arguments stand in a block `trl` of the configuration. A step is an optimiser step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects import trl
from vario.sources.dialects.base import (
    Alias,
    Condition,
    Context,
    Dialect,
    Settled,
    Version,
    hugging_face_spelling,
    knobs_from,
)

ASYNC_KEYS = frozenset(
    {"replay_buffer_size", "replay_buffer_replacements", "reroll_buffered", "reroll_buffer_size", "skipped_zero_adv_batches"}
)  # fmt: skip
"""Keys of the asynchronous GRPO trainer."""
ASYNC_SETTINGS = frozenset({"async_prefetch", "use_data_producer"})
SINCE_ASYNC: Version = (1, 0)
"""The asynchronous trainer came with a TRL no older than this."""
EBFT = ("ebft",)
TRAINERS = {"ipo": "dpo", "simpo": "cpo", "gdpo": "grpo"}
"""`rl` values that are a loss of another trainer."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only axolotl's trainers write, or its configuration.

    Its DPO, KTO and plain GRPO runs log TRL's keys alone: only the configuration tells the two apart.
    """
    return (
        bool(ASYNC_KEYS & keys)
        or any(k.startswith(("ebft/", "tokens/train_per_sec_per_gpu")) or k.endswith(" (GiB)") for k in keys)
        or any(k.startswith("trl.") for k in config)
        or {"rl", "base_model"} <= config.keys()
        or "rl_beta" in config
        or "axolotl_config_path" in config
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """`rl` as configured; else what the keys show. Fine-tuning has none."""
    stated = config.get("rl")
    if isinstance(stated, str):
        return TRAINERS.get(stated, stated)
    if any(k.startswith("ebft/") for k in keys):
        return "ebft"
    rewarded = any(k in {"reward", "eval_reward"} or k.startswith(("rewards/", "eval_rewards/")) for k in keys)
    return trl.algorithm(keys, config) if rewarded else "unknown"


def _setting(config: Mapping[str, Setting]) -> dict[str, Setting]:
    """The configuration under TRL's names: the block `trl`, and what axolotl renames."""
    known = dict(config)
    block = {key[len("trl.") :]: value for key, value in config.items() if key.startswith("trl.")}
    if block:
        known |= {"scale_rewards": True} | block
    if "rl_beta" in config and config.get("rl") != "grpo":
        known["beta"] = config["rl_beta"]
    if config.get("rl") in ("simpo", "ipo"):
        known["loss_type"] = config["rl"]
    return known


def _is_async(context: Context) -> bool:
    return bool(ASYNC_KEYS & context.keys) or any(
        context.config.get(f"trl.{name}") not in (None, False) for name in ASYNC_SETTINGS
    )


def _as_trl(context: Context) -> Context:
    """The run as TRL would see it, with what its keys and settings say of TRL's version."""
    plain = replace(context, config=_setting(context.config))
    oldest, newest = trl.versions(plain)
    if _is_async(context):
        oldest = max(oldest, SINCE_ASYNC)
    return replace(plain, oldest=oldest, newest=max(oldest, newest))


def _split_contexts(context: Context) -> bool | None:
    """Whether sequences are split over devices, which changes what reward_std means."""
    degree = context.number("context_parallel_size") or context.number("sequence_parallel_degree")
    if degree is not None:
        return degree > 1.0
    return False if any(k.startswith("trl.") for k in context.config) or "rl" in context.config else None


def _trls(key: str, metric: str) -> Condition:
    """When TRL takes the key for that metric, asked in TRL's words."""
    when = next(a.when for a in trl.ALIASES if (a.key, a.metric) == (key, metric))
    return lambda context, series: Settled(True) if when is None else when(_as_trl(context), series)


_WITHIN_GROUP_IN_TRL = _trls("reward_std", "reward/std/within-group")
_WEIGHTED_IN_TRL = _trls("reward", "reward/mean")


def _within_group(context: Context, series: Series) -> Settled:
    if _is_async(context):
        return Settled(False)
    split = _split_contexts(context)
    if split is None:
        return Settled(None, "within the group with context_parallel_size above 1, else as in TRL; it is not known")
    return Settled(True) if split else _WITHIN_GROUP_IN_TRL(context, series)


def _batch_wide(context: Context, series: Series) -> Settled:
    if _is_async(context):
        return Settled(True)
    inside = _within_group(context, series)
    return Settled(None if inside.holds is None else not inside.holds, inside.why)


def _is_the_objective(context: Context, series: Series) -> Settled:
    if not _is_async(context):
        return _WEIGHTED_IN_TRL(context, series)
    weights = context.config.get("trl.reward_weights")
    functions = {k for k in context.keys if k.startswith("rewards/") and k.endswith("/mean")}
    if len(functions) == 1 or (weights is None and any(k.startswith("trl.") for k in context.config)):
        return Settled(True)
    if weights is None:
        return Settled(
            None, "the asynchronous trainer adds the functions without weights; whether there are any is not known"
        )
    if isinstance(weights, str) and set(weights.strip("[]").replace(" ", "").split(",")) <= {"1", "1.0"}:
        return Settled(True)
    return Settled(False, "the asynchronous trainer logs the sum without reward_weights: not what is trained on")


def _in_trl(alias: Alias) -> Alias:
    """TRL's alias, its condition asked with TRL's names for the settings."""
    when = alias.when
    return alias if when is None else replace(alias, when=lambda context, series: when(_as_trl(context), series))


_OWN = frozenset({"reward", "eval_reward", "reward_std"})

ALIASES = (
    Alias("reward", "reward/mean", trl.GROUPED, when=_is_the_objective),
    Alias("eval_reward", "eval/score/mean", trl.GROUPED, when=_is_the_objective),
    Alias("reward_std", "reward/std/within-group", trl.GROUPED, when=_within_group),
    Alias("reward_std", "reward/std/batch", trl.GROUPED, when=_batch_wide),
    Alias("ebft/reward", "reward/mean", EBFT),
    Alias("ebft/mean_reward", "reward/mean", EBFT),
    Alias(r"ebft/(?P<part>alignment|diversity)", "reward/component/*/mean", EBFT),
    Alias("ebft/rl_loss", "loss/policy", EBFT),
    Alias("memory/max_active (GiB)", "systems/memory"),
    Alias("memory/max_allocated (GiB)", "systems/memory"),
    Alias("tokens/train_per_sec_per_gpu", "systems/throughput"),
    Alias("tokens/total", "systems/tokens"),
    *(_in_trl(a) for a in trl.ALIASES if a.key not in _OWN),
)

IGNORED = {
    **trl.IGNORED,
    r"(eval_)?ppl": "the exponential of the loss",
    r"memory/device_reserved \(GiB\)": "memory held by the allocator; what is in use is read",
    r"tokens/trainable": "the trained ones among tokens/total",
    r"replay_buffer_(replacements|size)|reroll_buffered|reroll_buffer_size": "how full the buffers of kept groups are",
    r"skipped_zero_adv_batches": "1 wherever it is written: that it is there, not its value, says a batch was skipped",
    r"ebft/(cfm_loss|ce_loss)": "parts of the loss",
    r"ebft/(num_blocks|advantages_std|anchor_offset)": "the size and place of the blocks, and the spread of normalised advantages",
    r"(chosen|rejected)_geometric_mean": "mean log-probabilities a token (orpo_alpha), not sums over an answer",
    r"log_odds": "what the odds-ratio part of the loss is made of",
    r"accuracy": "outside the preference trainers the share of positive rewards (hatchery)",
    r"mean_abs_advantage": "the size of normalised advantages (hatchery)",
    r"train_reward": "summary written once, at the end",
    r"(eval_)?(mask_ratio|num_masked_tokens|avg_p_mask|ce_loss|answer_ratio|avg_answer_length|importance_weight_avg)": "fine-tuning of a diffusion model",
}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """As TRL, with axolotl's names; the asynchronous trainer's reward says nothing of the weights."""
    seen = _as_trl(context)
    declared = trl.declare(seen, series)
    if _is_async(context):
        declared = replace(declared, component_weights={})
    return declared if context.algorithm in (*trl.GROUPED, *trl.PAIRS) else replace(declared, group_centred=None)


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (setting, default in 0.19.0, which is TRL 1.9's where axolotl has none)
    "kl-coef": ("trl.beta", None),
    "learning-rate": ("learning_rate", None),
    "warmup": ("warmup_steps", None),
    "batch-size": ("gradient_accumulation_steps", 1),
    "group-size": ("trl.num_generations", None),
    "clip-low": ("trl.epsilon", None),
    "clip-high": ("trl.epsilon_high", None),
    "epochs": ("trl.num_iterations", None),
    "temperature": ("trl.temperature", None),
    "entropy-bonus": ("trl.entropy_coef", None),
    "max-completion-length": ("trl.max_completion_length", None),
    "overlong-filter": ("trl.mask_truncated_completions", False),
    "reward-scaling": ("trl.scale_rewards", True),
    "component-weight": ("trl.reward_weights", None),
    "behaviour-weight-cap": ("trl.vllm_importance_sampling_cap", None),
    "max-grad-norm": ("max_grad_norm", None),
    "loss-type": ("trl.loss_type", None),
    "save-steps": ("save_steps", None),
}
_ASYNC_KNOBS: dict[str, tuple[str, Setting]] = {
    "staleness-bound": ("trl.prefetch_depth", None),
    "dynamic-filter": ("trl.reroll_start_fraction", 1.0),  # the share of training after which they are; 1 is never
    "behaviour-weight-cap": ("trl.vllm_importance_sampling_cap", 3.0),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("rl_beta", None),
    "learning-rate": ("learning_rate", None),
    "warmup": ("warmup_steps", None),
    "epochs": ("num_epochs", None),
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", None),
    "save-steps": ("save_steps", None),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Axolotl's settings for the canonical knobs."""
    if context.algorithm in trl.PAIRS:
        table = dict(_PAIR_KNOBS)
        if context.algorithm == "orpo":
            table["preference-beta"] = ("orpo_alpha", None)
        elif context.algorithm == "cpo":
            table["sft-weight"] = ("cpo_alpha", None)
        return knobs_from(context, table)
    if context.algorithm in trl.GROUPED:
        return knobs_from(context, _KNOBS | (_ASYNC_KNOBS if _is_async(context) else {}))
    return knobs_from(context, {k: v for k, v in _KNOBS.items() if not v[0].startswith("trl.")})


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be logged with axolotl."""
    if context.algorithm in trl.PAIRS:
        return {
            "preference/margin": "logged by the trainer as rewards/margins",
            "eval/preference/margin": "give test_datasets or val_set_size and set eval_steps",
        }
    if context.algorithm not in trl.GROUPED:
        return {}
    return {
        "kl/reference": "set trl.beta to a small value such as 1e-4: it loads a reference and logs kl, at almost no penalty",
        "reward/std/within-group": "reward_std is within the group with context_parallel_size above 1 only; trl.log_completions: true keeps the samples",
        "signal/zero-variance-share": "logged as frac_reward_zero_std with trl.scale_rewards: true",
        "eval/score/mean": "give test_datasets and set eval_steps: eval_reward is logged",
        "entropy/mean": "logged as entropy, but not by the fused (Liger) loss of the asynchronous trainer",
        "length/truncated-share": "logged as completions/clipped_ratio",
        "engine/logprob-gap/mean": "trl.use_vllm: true and trl.vllm_importance_sampling_correction: true",
        "behaviour-weight/mean": "trl.use_vllm: true and trl.vllm_importance_sampling_correction: true",
        "clip/fraction/total": "logged as clip_ratio/region_mean, by the fused (Liger) loss as clip_ratio",
        "systems/step-time": "logged as step_time",
    }


DIALECT = Dialect(
    "axolotl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    hugging_face_spelling,
    declare=declare,
    knobs=knobs,
    enable=enable,
    patch="yaml",
    samples="trl.log_completions: true writes completions/*.parquet",
)
