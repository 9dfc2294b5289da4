"""ms-swift: `logging.jsonl` of its Trainer, Megatron and Ray back-ends, and what it reports elsewhere.

What the keys mean was read from 4.6.0. Most are TRL's; what differs is the spread of rewards, the KL term
inside the reward, entropy, and the trainer/sampler weights. A step is an optimiser step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects import trl
from vario.sources.dialects.base import (
    NEWEST,
    OLDEST,
    Alias,
    Context,
    Dialect,
    Settled,
    Version,
    hugging_face_spelling,
    knobs_from,
)

GROUPED = ("grpo", "rloo", "reinforce++")
PENALISED = ("rloo", "reinforce_plus_plus")
"""Estimators that take the KL term into the reward, unless told otherwise."""
EXACT = 3e-6
"""Rewards add up to the total within this share of its size, as far as single precision goes."""
TELLING_KL = 1e-3
"""A divergence that moves less would not show in the reward."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """The columns that ms-swift adds to every row, keys of its own trainers, or its arguments."""
    decisive = (
        {"entropy/entropy_mean"},
        {"entropy/mean", "frac_reward_zero_std"},
        {"reward_std", "rollout_correction/kl"},
        {"adv_nonzero", "reward"},
    )
    return (
        any(k.startswith("train_speed(") for k in keys)
        or any(d <= keys for d in decisive)
        or bool({"rlhf_type", "swift_version", "rollout_importance_sampling_mode"} & config.keys())
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The configured algorithm and estimator; without them, what TRL's trainers log under these keys."""
    stated = config.get("rlhf_type")
    if isinstance(stated, str) and stated != "grpo":
        return {"simpo": "cpo"}.get(stated, stated.lower())
    estimator = config.get("advantage_estimator")
    if isinstance(estimator, str):
        return {"reinforce_plus_plus": "reinforce++"}.get(estimator, estimator)
    if stated == "grpo":
        return "grpo"
    rewarded = any(k in {"reward", "eval_reward"} or k.startswith(("rewards/", "eval_rewards/")) for k in keys)
    return trl.algorithm(keys, config) if rewarded or "objective/kl" in keys else "unknown"


def versions(context: Context) -> tuple[Version, Version]:
    """As stated in the arguments; the speed was given in steps a second up to 3.x."""
    stated = context.config.get("swift_version")
    if isinstance(stated, str) and len(parts := stated.split(".")) >= 2 and all(p.isdigit() for p in parts[:2]):
        exact = (int(parts[0]), int(parts[1]))
        return exact, exact
    return OLDEST, (3, 99) if "train_speed(iter/s)" in context.keys else NEWEST


def _is_configured(context: Context) -> bool:
    """Whether arguments are known, so that one that is absent has its default."""
    return bool({"rlhf_type", "num_generations"} & context.config.keys())


def _weights(context: Context, *also: str) -> list[float] | None:
    """Weights with which the reward functions, and the keys in `also`, add up to the reward; None if they do not."""
    total = context.series.get("reward")
    parts = [s for k, s in context.series.items() if k in also or (k.startswith("rewards/") and k.endswith("/mean"))]
    if total is None or not parts:
        return None
    steps = total.steps[np.isfinite(total.values)]
    for part in parts:
        steps = np.intersect1d(steps, part.steps[np.isfinite(part.values)])
    if steps.size < len(parts) + 3:
        return None
    x = np.column_stack([p.values[np.searchsorted(p.steps, steps)] for p in parts])
    y = total.values[np.searchsorted(total.steps, steps)]
    with np.errstate(all="ignore"):
        weights = np.linalg.lstsq(x, y, rcond=None)[0]
        exact = float(np.abs(x @ weights - y).max()) <= EXACT * float(np.abs(y).max())
    return [float(w) for w in weights] if exact else None


def _kl_in_reward(context: Context) -> bool | None:
    """Whether the KL term is taken from the reward; `kl` is then a sum over each sequence."""
    divergence = context.series.get("kl")
    if divergence is None or context.number("beta") == 0.0:
        return False
    stated, estimator = context.config.get("kl_in_reward"), context.config.get("advantage_estimator")
    if isinstance(stated, bool):
        return stated
    if estimator is not None or _is_configured(context):
        return estimator in PENALISED
    _, values = divergence.finite()
    if values.size and float(values.min()) < -1e-9:
        return True  # the estimate inside the loss is never negative
    if values.size and float(values.max() - values.min()) >= TELLING_KL:
        if _weights(context) is not None:
            return False
        if _weights(context, "kl") is not None:
            return True
    return None


_OPEN = "with kl_in_reward it holds the KL term, a sum over each sequence; the setting is not known"


def _loss_side(context: Context, _: Series) -> Settled:
    inside = _kl_in_reward(context)
    return Settled(None if inside is None else not inside, _OPEN if inside is None else "")


def _reward_side(context: Context, _: Series) -> Settled:
    inside = _kl_in_reward(context)
    return Settled(inside, _OPEN if inside is None else "")


def _token_mean(context: Context, series: Series) -> Settled:
    if context.number("beta") == 0.0:
        return Settled(False, "beta is 0: no reference")
    return _loss_side(context, series)


def _counts_groups(context: Context, series: Series) -> Settled:
    if context.number("num_generations") == 1.0:
        return Settled(False, "written as 1 for groups of one completion")
    if _kl_in_reward(context):
        return Settled(False, "computed on KL-penalised rewards, which hardly ever tie")
    return _loss_side(context, series)


def _is_batch_wide(context: Context) -> bool | None:
    """Whether `reward_std` mixes the groups, as it does with scale_rewards='batch' alone."""
    scaled = context.config.get("scale_rewards")
    if scaled is not None:
        return scaled == "batch"
    if _is_configured(context):
        return None if context.config.get("advantage_estimator") == "reinforce_plus_plus" else False
    spreads = [s for k, s in context.series.items() if k.startswith("rewards/") and k.endswith("/std")]
    total = context.series.get("reward_std")
    weights = _weights(context)
    if len(spreads) != 1 or total is None or weights is None or len(weights) != 1:
        return None
    # one function: its spread is taken over the batch, and the reward's is the same up to the weight, or smaller
    steps = np.intersect1d(spreads[0].steps, total.steps)
    batch = spreads[0].values[np.searchsorted(spreads[0].steps, steps)]
    own = total.values[np.searchsorted(total.steps, steps)]
    ok = np.isfinite(batch) & np.isfinite(own) & (batch > 0.0)
    if int(ok.sum()) < 5:
        return None
    return bool((np.abs(own[ok] - abs(weights[0]) * batch[ok]) <= 1e-4 * batch[ok]).all())


def _within_group(context: Context, _: Series) -> Settled:
    mixed = _is_batch_wide(context)
    if context.number("num_generations") == 1.0:
        return Settled(False, "written as 0 for groups of one completion" if not mixed else "")
    if mixed is None:
        return Settled(None, "within the group, or over the batch with scale_rewards='batch'; the setting is not known")
    return Settled(not mixed)


def _over_batch(context: Context, _: Series) -> Settled:
    return Settled(_is_batch_wide(context) is True)


def _unmasked(context: Context, _: Series) -> Settled:
    mode = context.config.get("rollout_importance_sampling_mode")
    if isinstance(mode, str) and mode.endswith("_mask"):
        return Settled(
            False, "with a mask the dropped weights are counted as 1/threshold, not as 0: the share is too large"
        )
    return Settled(True)


def _ray(context: Context, _: Series) -> Settled:
    if "adv_nonzero" in context.keys:
        return Settled(True)
    return Settled(False, "a bare name is a reward function with the Ray back-end only, which logs adv_nonzero")


_OWN = frozenset({"reward", "eval_reward", "reward_std", "frac_reward_zero_std"})


def _means_the_same(alias: Alias) -> bool:
    """Whether a key of TRL's means the same here."""
    return alias.key not in _OWN and not (alias.key == "kl" and "kto" not in alias.algorithms)


def _as_trl(context: Context) -> Context:
    """The run with TRL's names for what ms-swift calls otherwise, and nothing said of TRL's version."""
    config = dict(context.config)
    if config.get("rlhf_type") == "simpo" and config.get("loss_type") is None:
        config["loss_type"] = "simpo"
    return replace(context, config=config, oldest=OLDEST, newest=NEWEST)


def _in_swift(alias: Alias) -> Alias:
    """TRL's alias, for the estimators of ms-swift too, its condition asked in TRL's words."""
    algorithms = (*alias.algorithms, "reinforce++") if "grpo" in alias.algorithms else alias.algorithms
    when = alias.when
    return replace(
        alias,
        algorithms=algorithms,
        when=None if when is None else lambda context, series: when(_as_trl(context), series),
    )


ALIASES = (
    Alias("reward", "reward/mean", GROUPED, when=_loss_side),
    Alias("reward", "reward/penalised/mean", GROUPED, when=_reward_side),
    Alias("eval_reward", "eval/score/mean", GROUPED, when=_loss_side),
    Alias("reward_std", "reward/std/batch", GROUPED, when=_over_batch),
    Alias("reward_std", "reward/std/within-group", GROUPED, when=_within_group),
    Alias("frac_reward_zero_std", "signal/zero-variance-share", GROUPED, when=_counts_groups),
    Alias("kl", "kl/reference", GROUPED, when=_token_mean),
    Alias("kl", "kl/reference/sequence", GROUPED, when=_reward_side),
    Alias("entropy/mean", "entropy/mean"),
    Alias("entropy/entropy_mean", "entropy/mean"),
    Alias("num_turns", "turns/mean"),
    Alias("rollout_correction/kl", "engine/kl"),
    Alias("rollout_correction/is_weight_mean", "behaviour-weight/mean"),
    Alias("rollout_correction/ess", "behaviour-weight/effective-share", when=_unmasked),
    Alias("rollout_correction/clipped_frac", "behaviour-weight/capped-share"),
    Alias("token_acc", "text/token-accuracy"),
    *map(_in_swift, filter(_means_the_same, trl.ALIASES)),
    # the Ray back-end writes reward functions under their bare class names
    Alias(r"(?P<part>(?!MFU$)[A-Z]\w*)", "reward/component/*/mean", GROUPED, when=_ray),
)  # fmt: skip

IGNORED = {
    **trl.IGNORED,
    r"train_speed\((s/it|iter/s)\)": "a running mean since the start; the time of each step is worked out of it",
    r"entropy/(entropy_)?(max|min|threshold)": "extremes over sequences, and the threshold of the entropy mask",
    r"rollout_correction/log_ppl_(abs_)?diff(_max|_min)?": "gaps between the means of sequences: inside a sequence differences of both signs cancel, so no gap a token",
    r"rollout_correction/.*": "further forms of the trainer/sampler mismatch",
    r"adv_nonzero": "counts completions, and one at its group's mean has no advantage in a group with spread",
    r"MFU": "use of hardware, as a mean since the start",
    r"memory\(GiB\)": "the most that the allocator has held since the start; what is in use is not logged",
    r"(eval_)?(teacher_kl|rlsd_lambda|sdar/.*|fipo/.*)": "distillation and parts of losses that few runs have",
    r"eval_(entropy/.*|num_turns|rollout_correction/.*|token_acc|adv_nonzero|acc)": "training quantities taken on held-out prompts",
    r"best_metric|memory": "summary written once, at the end",
    r"acc": "the older name of the token accuracy of fine-tuning",
    r"(eval_)?logps_mean/(chosen|rejected)": "log-probabilities a token, for the loss ipo; the sums over an answer are read",
    r"(eval_)?center_rewards_loss": "a part of the loss of a reward model",
    r"(eval_)?loss_.+": "the loss on one channel of the data (enable_channel_loss)",
}


def derive(context: Context) -> Mapping[str, Series]:
    """The time of each step (with evaluations and saving), from the running mean since the start.

    Only where the log begins at the start of the run: after a resume the mean has another origin.
    """
    for key in ("train_speed(s/it)", "train_speed(iter/s)"):
        speed = context.series.get(key)
        if speed is None or len(speed) < 3:
            continue
        steps, values = speed.finite()
        if steps.size < 3 or float(values.min()) <= 0.0:
            continue
        gaps = np.diff(steps)
        if steps[0] > max(1.0, float(np.median(gaps))):
            continue
        elapsed = steps * values if key.endswith("(s/it)") else steps / values
        each = np.diff(elapsed) / gaps
        if float(each.min()) > 0.0:
            return {"systems/step-time": Series(key, steps[1:], each)}
    return {}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates, caps and groups as TRL has them; the KL term is on by default here."""
    grouped = context.algorithm in GROUPED
    seen = _as_trl(context)
    declared = trl.declare(replace(seen, algorithm="grpo") if grouped else seen, series)
    if not grouped:
        return declared
    beta = context.number("beta")
    by_design: bool | None = None
    if beta is not None:
        by_design = beta != 0.0
    elif "kl" in context.keys or _is_configured(context):
        by_design = True
    return replace(
        declared, kl_by_design=by_design, reward_filtered=context.config.get("dynamic_sample") is True or None
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default in 4.6.0; None where it depends on other arguments)
    "kl-coef": ("beta", 0.04),
    "learning-rate": ("learning_rate", None),
    "warmup": ("warmup_ratio", 0.0),
    "batch-size": ("gradient_accumulation_steps", None),
    "group-size": ("num_generations", 8),
    "clip-low": ("epsilon", 0.2),
    "clip-high": ("epsilon_high", None),
    "minibatches": ("steps_per_generation", None),
    "epochs": ("num_iterations", 1),
    "temperature": ("temperature", 0.9),
    "max-completion-length": ("max_completion_length", 512),
    "overlong-filter": ("overlong_filter", False),
    "length-penalty": ("soft_cache_length", None),
    "reward-scaling": ("scale_rewards", None),
    "component-weight": ("reward_weights", None),
    "dynamic-filter": ("dynamic_sample", False),
    "behaviour-weight-cap": ("rollout_importance_sampling_threshold", 2.0),
    "decoupled-loss": ("rollout_importance_sampling_mode", None),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "loss-type": ("loss_type", None),
    "save-steps": ("save_steps", 500),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("beta", None),
    "learning-rate": ("learning_rate", None),
    "warmup": ("warmup_ratio", 0.0),
    "loss-type": ("loss_type", None),
    "sft-weight": ("rpo_alpha", None),
    "epochs": ("num_train_epochs", None),
    "batch-size": ("gradient_accumulation_steps", None),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """ms-swift's arguments for the canonical knobs."""
    if context.algorithm in GROUPED:
        return knobs_from(context, _KNOBS)
    if context.algorithm == "ppo":
        return trl.knobs(context)
    return knobs_from(context, _PAIR_KNOBS) if context.algorithm in trl.PAIRS else {}


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be logged with ms-swift."""
    if context.algorithm not in GROUPED:
        return trl.enable(context) if context.algorithm in trl.PAIRS else {}
    return {
        "kl/reference": "a beta near 0, such as 1e-4, logs kl at almost no penalty; with kl_in_reward=False it is a token mean",
        "reward/std/within-group": "logged as reward_std, unless scale_rewards is 'batch'; --log_completions true keeps the samples",
        "signal/zero-variance-share": "logged as frac_reward_zero_std, of raw rewards with kl_in_reward=False",
        "eval/score/mean": "give a val_dataset and set eval_strategy='steps': eval_reward is logged",
        "entropy/mean": "--log_entropy true (off by default)",
        "length/truncated-share": "logged as completions/clipped_ratio",
        "engine/kl": "--log_rollout_offpolicy_metrics true: rollout_correction/kl is logged",
        "engine/logprob-gap/mean": "not logged as a mean over tokens (log_ppl_abs_diff is of whole sequences); rollout_correction/kl is its trace",
        "behaviour-weight/mean": "--rollout_importance_sampling_mode token_truncate: rollout_correction/is_weight_mean is logged",
        "clip/fraction/total": "logged as clip_ratio/region_mean for loss types other than cispo, sapo and real",
        "systems/step-time": "worked out of train_speed in logging.jsonl, where that starts with the run",
        "reward/component/*/mean": "give reward functions apart (--reward_funcs): each is logged",
    }


DIALECT = Dialect(
    "ms-swift",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    hugging_face_spelling,
    versions,
    declare,
    derive,
    knobs,
    enable,
    patch="flags",
    samples="--log_completions true writes completions.jsonl",
)
