"""RAGEN: multi-turn agents on verl, in its 2025 and 2026 forms.

What differs from verl was read from 5eb79b8 (2025-09) and 20daedc (2026-04). The rewards that verl's keys see
are normalised inside the group, so their mean says nothing: `rollout/in_group_*` holds the episodes' own, before
the rollout filter, and `rollout/chosen_in_group_*` those of the groups it kept. A verl response is the
whole trajectory here, prompts and observations with it. Steps whose groups were all filtered train nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from vario.run import Declared, Floats, KnobSetting, Series, Setting
from vario.sources.dialects import verl
from vario.sources.dialects.base import (
    NEWEST,
    OLDEST,
    OWN_SAMPLES,
    Alias,
    Context,
    Dialect,
    Settled,
    Version,
    knobs_from,
)

_ROLLOUT = "actor_rollout_ref.rollout."
_SUCCESS = re.compile(r"train/[^/]+/success")
SECOND_FORM = frozenset({"rollout/filter_kept_count", "rollout/filter_kept_ratio", "rollout/filter_zero_count"})
"""Keys that every rollout filter of 2026 writes; there `in_group_*` is of whatever the filter ranks by."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Groups as RAGEN sees them, its environments, or the sections that verl does not have."""
    return (
        bool({"rollout/in_group_std", "rollout/in_group_reward_std"} & keys)
        or any(k.startswith("val-env/") for k in keys)
        or (any(_SUCCESS.fullmatch(k) for k in keys) and any(k.startswith(("actor/", "critic/")) for k in keys))
        or any(k.startswith(("es_manager.", "agent_proxy.")) for k in config)
    )


def versions(context: Context) -> tuple[Version, Version]:
    """RAGEN has no releases; the bounds of verl are not its own."""
    return OLDEST, NEWEST


def _filter_metric(context: Context) -> str | None:
    """What the rollout filter of 2026 ranks groups by."""
    value = context.config.get(_ROLLOUT + "rollout_filter_metric")
    return value if isinstance(value, str) else None


def _of_rewards(context: Context, _: Series) -> Settled:
    if "rollout/in_group_reward_mean" in context.keys:
        return Settled(True)
    metric = _filter_metric(context)
    if metric is not None and not metric.startswith("reward"):
        return Settled(False, f"statistics of {metric}, which the rollout filter ranks by, not of the reward")
    other = next((k for k in context.keys if re.fullmatch(r"rollout/in_group_(length|entropy)_mean", k)), None)
    if other is not None:
        return Settled(False, f"statistics of what {other} names, not of the reward")
    if metric is None and SECOND_FORM & context.keys:
        return Settled(None, "of whatever the rollout filter ranks by: rollout_filter_metric is not known")
    return Settled(True)


def _ranks_by_spread(context: Context, _: Series) -> Settled:
    """Only then are the groups that score 0 those without spread; `derive` makes the share."""
    metric = _filter_metric(context)
    if metric is None:
        return Settled(None, "groups that the filter scores 0, by what it ranks: rollout_filter_metric is not known")
    if metric != "reward_variance":
        return Settled(False, f"groups whose {metric} is 0, not groups without spread")
    return Settled(False)


def _not_printed_as_zero(context: Context, series: Series) -> Settled:
    if not series.values.any():
        return Settled(None, "0 everywhere: switched off, or a small rate printed with three decimals")
    return Settled(True)


def _no_environment(context: Context, _: Series) -> Settled:
    return Settled(not any(k.startswith("val-env/") for k in context.keys))


_OTHERWISE = ("critic/score/", "critic/rewards/", "response_length/", "prompt_length/", "actor/lr")
"""Keys of verl that mean something else here, or nothing."""

ALIASES = (
    Alias("rollout/in_group_reward_mean", "reward/mean"),
    Alias("rollout/in_group_mean", "reward/mean", when=_of_rewards),
    Alias("rollout/in_group_reward_std", "reward/std/within-group"),
    Alias("rollout/in_group_std", "reward/std/within-group", when=_of_rewards),
    Alias("rollout/in_group_length_std", "length/std/within-group"),
    Alias("rollout/filter_zero_count", "signal/zero-variance-share", when=_ranks_by_spread),
    Alias(r"val-env/(?P<part>[^/]+)/success", "eval/set/*/mean"),
    Alias("train/response_length", "length/mean"),
    Alias("actor/lr", "learning-rate", when=_not_printed_as_zero),
    *(
        dataclasses.replace(alias, when=_no_environment) if alias.metric.startswith("eval/") else alias
        for alias in verl.ALIASES
        if not alias.key.startswith(_OTHERWISE)
    ),
    Alias("timing_s/train_step", "systems/step-time"),
    Alias("timing_s/eval_step", "systems/eval-time"),
)

IGNORED = {
    r"critic/score/.*": "rewards as normalised inside the group: a mean near 0, whatever is learnt",
    r"rollout/in_group_(reward_)?(max|sum)": "means over groups of their best and of their sum",
    r"rollout/chosen_in_group_.*": "the same over the groups that the filter kept; their mean reward is read",
    r"rollout/in_group_(length|entropy)_.*": "lengths and entropies inside groups, where the filter ranks by them",
    r"rollout/filter_kept_(count|ratio)|rollout/(consecutive_)?empty_after_filter.*": "how many groups the rollout filter kept",
    r"rollout/(old|ref)_log_prob": "log-probabilities of the sampled tokens; their difference is read",
    r"rollout/(reward_table|group_rv_table)": "tables",
    r"train/[^/]+/.*": "what one environment reports of its episodes; the reward is read",
    r"train/(batch_size|num_mini_batches|rollout_attempts|soft_reweight_(min|max|mean))": "sizes of the batch and weights of prompts",
    r"val-env/.*": "what else the environments report; success is read",
    r"collapse/.*": "mutual information of prompt and reasoning, and retrieval of one from the other",
    r"early_stopped/.*": "which of RAGEN's own stops ended the run",
    r"grad_analysis/.*": "gradient norms by the spread of the group",
    **verl.IGNORED,
}


def _common(a: Series, b: Series) -> tuple[Series, Floats, Floats]:
    """The values of two series at the steps that have both; the first of the three holds the steps."""
    steps, at, to = np.intersect1d(a.steps, b.steps, return_indices=True)
    return dataclasses.replace(a, steps=steps, values=a.values[at]), a.values[at], b.values[to]


def _where(series: Series, keep: np.ndarray[tuple[int], np.dtype[np.bool_]], key: str, values: Floats) -> Series:
    return Series(key, series.steps[keep], values[keep])


def derive(context: Context) -> Mapping[str, Series]:
    """What takes two keys: the reference KL (k1), the share of tied groups, the reward of the groups kept."""
    series = context.series
    found: dict[str, Series] = {}
    new, reference = series.get("rollout/old_log_prob"), series.get("rollout/ref_log_prob")
    if new is not None and reference is not None:
        at, ours, theirs = _common(new, reference)
        found["kl/reference"] = Series("rollout/old_log_prob - rollout/ref_log_prob", at.steps, ours - theirs)
    kept, share = series.get("rollout/filter_kept_count"), series.get("rollout/filter_kept_ratio")
    tied = series.get("rollout/filter_zero_count")
    if tied is not None and _filter_metric(context) == "reward_variance":
        key = "rollout/filter_zero_count / groups"
        groups = context.number("es_manager.train.env_groups")
        if groups:
            found["signal/zero-variance-share"] = Series(key, tied.steps, tied.values / groups)
        elif kept is not None and share is not None:
            at, count, ratio = _common(kept, share)
            ok = ratio > 0.0
            total = _where(at, ok, key, count / np.where(ok, ratio, 1.0))
            at, zero, all_groups = _common(tied, total)
            found["signal/zero-variance-share"] = Series(key, at.steps, zero / all_groups)
    chosen = series.get("rollout/chosen_in_group_reward_mean")
    if chosen is None and (plain := series.get("rollout/chosen_in_group_mean")) is not None:
        chosen = plain if _of_rewards(context, plain).holds else None
    if chosen is not None and kept is not None:
        at, values, count = _common(chosen, kept)  # written as 0 where no group was kept
        found["reward/kept/mean"] = _where(at, count > 0.0, chosen.key, values)
    elif chosen is not None:
        found["reward/kept/mean"] = chosen
    return found


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Groups come from the environment manager; the filter decides how many updates a batch makes."""
    number = context.number
    groups, size = number("es_manager.train.env_groups"), number("es_manager.train.group_size")
    parts = context.series.get("train/num_mini_batches")
    part = number("actor_rollout_ref.actor.ppo_mini_batch_size") or number("ppo_mini_batch_size")
    kept = number(_ROLLOUT + "rollout_filter_ratio")  # 2025: a fixed share of the groups
    epochs = number("actor_rollout_ref.actor.ppo_epochs") or 1.0
    updates: float | None = None
    if parts is not None and len(parts.finite()[1]):
        updates = float(np.median(parts.finite()[1])) * epochs
    elif groups and size and part and kept:
        updates = max(1.0, groups * size * kept / part) * epochs
    return dataclasses.replace(
        verl.declare(context, series),
        updates_per_rollout=updates,
        # a cap on one turn says nothing of the trajectory, unless there is one turn only
        max_length=number(_ROLLOUT + "response_length") if number("agent_proxy.max_turn") == 1.0 else None,
        batch_completions=groups * size if groups and size else None,
        group_size=size,
        reward_filtered=None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default in config/base.yaml)
    "batch-size": ("es_manager.train.env_groups", 8),
    "group-size": ("es_manager.train.group_size", 16),
    "clip-high": ("actor_rollout_ref.actor.clip_ratio_high", 0.28),
    "entropy-bonus": ("actor_rollout_ref.actor.entropy_coeff", 0.001),
    "minibatches": ("actor_rollout_ref.actor.ppo_mini_batch_size", 32),
    "max-completion-length": (_ROLLOUT + "response_length", 400),
    "save-steps": ("trainer.save_freq", 100),
}
_NOT_HERE = ("dynamic-filter", "staleness-bound", "length-penalty", "deterministic-kernels")
"""The rollout filter ranks groups and has no switch; the rest of these belongs to verl's own trainers."""


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Verl's settings, with those that RAGEN keeps elsewhere or starts from another value."""
    ours = {knob: setting for knob, setting in verl.knobs(context).items() if knob not in _NOT_HERE}
    table = dict(_KNOBS)
    if ours["kl-coef"].key == "actor_rollout_ref.actor.kl_loss_coef":
        table["kl-coef"] = ("actor_rollout_ref.actor.kl_loss_coef", 0.0)
    else:
        table["kl-coef"] = ("algorithm.kl_ctrl.kl_coef", 0.0)
    return ours | knobs_from(context, table)


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from RAGEN."""
    grouped = f"logged as rollout/in_group_reward_*, with {_ROLLOUT}rollout_filter_metric=reward_variance"
    return dict(verl.enable(context)) | {
        "reward/mean": grouped,
        "reward/std/within-group": grouped,
        "signal/zero-variance-share": f"rollout/filter_zero_count, with {_ROLLOUT}rollout_filter_metric=reward_variance in the configuration beside the log",
        "eval/score/mean": "set trainer.test_freq (10 by default): val-env/<environment>/success is logged",
        "length/mean": "logged as train/response_length",
        "length/truncated-share": "not logged: a verl response is the whole trajectory here, so its clip_ratio is no truncation",
        "entropy/mean": "logged as actor/entropy or actor/entropy_loss",
    }


DIALECT: Dialect = dataclasses.replace(
    verl.DIALECT,
    name="ragen",
    recognises=recognises,
    aliases=ALIASES,
    ignored=IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    samples=f"RAGEN logs a few to W&B (the tables generations/*); {OWN_SAMPLES}",
)
