"""rLLM: the unified trainer on its verl, Tinker and Fireworks back ends, and the older trainers on verl.

What the keys mean was read from 9beb6e0f (2026-08, 0.3.0-pre). Metrics are kept by role: the name of a
trajectory, `default` for a single agent. Where several roles are trained, none of them is the run's.
Rows of the verl back end are merged steps; `episode/*`, `batch/*` and `reward/*` are of trajectories.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects import verl
from vario.sources.dialects.base import (
    NEWEST,
    OLDEST,
    Alias,
    Context,
    Dialect,
    Settled,
    Version,
    knobs_from,
    one_minus,
)

_ROLE = re.compile(r"reward/([^/]+)/mean")
_GROUPS = re.compile(r"batch/[^/]+/fractions/(effective|too_easy|too_hard)")


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Groups by role, counts of what the trainer dropped, or the section `rllm` of the configuration."""
    return (
        bool({"groups/num_groups", "offpolicy/kl", "reward/default/mean"} & keys)
        or any(_GROUPS.fullmatch(k) for k in keys)
        or {"batch/solve_none", "batch/solve_all", "batch/solve_partial"} <= keys
        or any(k.startswith("rllm.") for k in config)
    )


def _estimator(config: Mapping[str, Setting]) -> str | None:
    for key in ("rllm.algorithm.adv_estimator", "algorithm.adv_estimator"):
        value = config.get(key)
        if isinstance(value, str):
            return value
    return None


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The unified trainer's estimator, else verl's."""
    estimator = _estimator(config)
    return verl.algorithm(keys, {"algorithm.adv_estimator": estimator} if estimator else {})


def versions(context: Context) -> tuple[Version, Version]:
    """The bounds of the verl below are not rLLM's own."""
    return OLDEST, NEWEST


def _roles(context: Context) -> frozenset[str]:
    return frozenset(found[1] for key in context.keys if (found := _ROLE.fullmatch(key)))


def _single_role(context: Context, series: Series) -> Settled:
    if len(_roles(context)) > 1:
        return Settled(
            None, "one of several roles, and they are not averaged: name the trained one with --map METRIC=KEY"
        )
    return Settled(True)


def _no_role(context: Context, series: Series) -> Settled:
    """The older trainers log the reward under verl's key alone."""
    return Settled(not _roles(context))


def _measured(context: Context, series: Series) -> Settled:
    bypass = context.config.get("rllm.algorithm.rollout_correction.bypass_mode")
    if bypass is True or not series.values.any():
        return Settled(
            False, "0 by construction in bypass mode: the sampler's log-probabilities stand in for the trainer's"
        )
    return Settled(True)


_ENDED = ("batch/termination_reason/", "episode/termination_reason/", "batch/")
_OTHERWISE = ("critic/score/", "critic/rewards/", "response_length/", "prompt_length/", "val/test_score/")
"""Keys of verl that are of merged steps here, or hold pass@k beside the score."""

ALIASES = (
    Alias(r"reward/(?P<part>[^/]+)/mean", "reward/mean", when=_single_role),
    Alias(r"reward/(?P<part>[^/]+)/max", "reward/max", when=_single_role),
    Alias(r"reward/(?P<part>[^/]+)/min", "reward/min", when=_single_role),
    Alias(r"reward/(?P<part>[^/]+)/std", "reward/std/batch", when=_single_role),
    Alias("critic/score/mean", "reward/mean", when=_no_role),
    # percentiles over the groups: the middle one stands for the mean
    Alias(r"batch/(?P<part>[^/]+)/group_reward_std/p50", "reward/std/within-group", when=_single_role),
    Alias(
        r"batch/(?P<part>[^/]+)/fractions/effective",
        "signal/zero-variance-share",
        when=_single_role,
        transform=one_minus,
    ),
    Alias(r"batch/(?P<part>[^/]+)/fractions/too_easy", "signal/solved-share", when=_single_role),
    Alias(r"batch/(?P<part>[^/]+)/fractions/too_hard", "signal/unsolved-share", when=_single_role),
    Alias(r"advantage/(?P<part>[^/]+)/max", "advantage/max", when=_single_role),
    Alias(r"advantage/(?P<part>[^/]+)/min", "advantage/min", when=_single_role),
    Alias("groups/dropped_zero_adv", "signal/groups-dropped"),
    Alias(r"val/(?P<part>.+)/pass@1", "eval/set/*/mean"),
    Alias("episode/response_tokens", "length/mean"),
    Alias("batch/step_response_length/mean", "length/mean"),
    Alias("response_length/mean", "length/mean"),
    Alias("batch/step_response_length/min", "length/min"),
    Alias("batch/step_response_length/max", "length/max"),
    Alias("response_length/min", "length/min"),
    Alias("response_length/max", "length/max"),
    Alias("episode/prompt_tokens", "length/prompt/mean"),
    Alias("prompt_length/mean", "length/prompt/mean"),
    *(Alias(f"{where}max_response_length_exceeded", "length/truncated-share") for where in _ENDED),
    Alias("episode/num_turns", "turns/mean"),
    Alias("batch/steps_per_traj/mean", "turns/mean"),
    Alias("async/staleness_mean", "staleness/mean"),
    Alias("async/staleness_max", "staleness/max"),
    Alias("offpolicy/kl", "engine/kl", when=_measured),
    Alias("offpolicy/logprob_abs_diff/mean", "engine/logprob-gap/mean", when=_measured),
    Alias(
        "train/kl_sample_train_v1", "engine/logprob-gap/mean"
    ),  # the mean of absolute differences, in spite of its name
    Alias("offpolicy/logprob_abs_diff/max", "engine/logprob-gap/max", when=_measured),
    Alias("offpolicy/prob_abs_diff/mean", "engine/probability-gap/mean", when=_measured),
    Alias("offpolicy/prob_abs_diff/max", "engine/probability-gap/max", when=_measured),
    Alias("offpolicy/prob_pearson_corr", "engine/correlation"),
    *(
        Alias(f"rollout_correction/rollout_is_{key}", f"behaviour-weight/{metric}")
        for key, metric in (
            ("mean", "mean"),
            ("min", "min"),
            ("max", "max"),
            ("eff_sample_size", "effective-share"),
            ("ratio_fraction_high", "capped-share"),
        )
    ),
    Alias("train/entropy", "entropy/mean"),
    Alias("optim/lr", "learning-rate"),
    Alias("time/step", "systems/step-time"),
    Alias("time/buffer_wait", "systems/wait-time"),
    Alias("time/weight_sync", "systems/sync-time"),
    Alias(r"val/test_score/(?P<part>(?!pass@).+)", "eval/set/*/mean"),
    *(alias for alias in verl.ALIASES if not alias.key.startswith(_OTHERWISE)),
)

IGNORED = {
    r"critic/score/.*": "scores of merged steps; reward/<role> is of trajectories",
    r"advantage/.*": "advantages: normalised, of no trend of their own",
    r"batch/[^/]+/(total|informative|fractions/effective)": "counts of groups, and of those with spread",
    r"batch/[^/]+/group_reward_(mean|std)/p\d+": "percentiles over groups",
    r"batch/(solve_(none|all|partial)|num_tasks|groups_(before|after)_filter|groups_dropped_insufficient_trajs)": "tasks and groups as rejection sampling counted them; shares of tasks are made of them",
    r"(batch|episode)/termination_reason/.*|batch/(max_prompt_length_exceeded|env_done|max_turns_exceeded|timeout|unknown|error)": "other ends of an episode; those at the length cap are read",
    r"batch/(steps_per_traj|step_response_length|action_token_ratio)/.*|batch/(merge_compression_ratio|dropped_malformed_sequences)": "extremes, and how steps were merged into rows",
    r"batch/(rows_pre_pad|rows_post_pad)|actor/(num_updates_per_epoch|mini_batch_rows|global_batch_rollouts)": "geometry of the batch; the number of updates is read",
    r"batch/[^/]+|episode/[^/]+": "what the workflow reports of its episodes",
    r"groups/.*": "trajectories and groups before and after filters",
    r"async/.*": "state of the pipeline; staleness is read",
    r"time/.*": "further timers of the back end",
    r"val/.*": "pass@n, rewards by role and the workflow's own metrics; pass@1 is read",
    r"rollout_correction/.*": "further statistics of the trainer/sampler weight, of sequences and spreads",
    r"offpolicy/log_ppl_(abs_)?diff(_max|_min)?": "gaps between the means of sequences: inside a sequence differences of both signs cancel, so no gap a token",
    r"offpolicy/.*": "further forms of the trainer/sampler mismatch, of ratios as measured and not as applied",
    r"train/(kl_sample_train_v2|perplexity)": "half the mean square of the same gap; the exponential of the entropy",
    r"progress/.*": "a count of progress",
    **verl.IGNORED,
}


def _first(context: Context, *names: str) -> str:
    """The name that the configuration has; the first when it has none."""
    return next((name for name in names if name in context.config), names[0])


def _group_key(context: Context) -> str:
    return _first(context, "rllm.rollout.n", "actor_rollout_ref.rollout.n")


def _batch_key(context: Context) -> str:
    return _first(context, "rllm.data.train_batch_size", "data.train_batch_size")


def _length_key(context: Context) -> str:
    return _first(context, "rllm.data.max_response_length", "data.max_response_length")


def derive(context: Context) -> Mapping[str, Series]:
    """Shares of tasks that every episode solved, or none: counts in older trainers, shares since."""
    none, some, every = (context.series.get(f"batch/solve_{part}") for part in ("none", "partial", "all"))
    if none is None or some is None or every is None:
        return {}
    if not (np.array_equal(none.steps, some.steps) and np.array_equal(none.steps, every.steps)):
        return {}
    total = none.values + some.values + every.values
    ok = total > 0.0
    return {
        metric: Series(series.key, series.steps[ok], series.values[ok] / total[ok])
        for metric, series in (("signal/solved-share", every), ("signal/unsolved-share", none))
    }


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Verl's reading, with rLLM's own section where it has one."""
    number = context.number
    declared = verl.declare(context, series)
    group, prompts = number(_group_key(context)), number(_batch_key(context))
    logged = context.series.get("actor/num_updates_per_epoch")
    updates = declared.updates_per_rollout
    if logged is not None and len(logged.finite()[1]):
        updates = float(np.median(logged.finite()[1])) * (number("actor_rollout_ref.actor.ppo_epochs") or 1.0)
    coefficient = number("rllm.algorithm.kl_beta")
    by_design = declared.kl_by_design
    if coefficient is not None:
        by_design = coefficient != 0.0 or by_design is True
    estimator = _estimator(context.config)
    centred = estimator in (*verl.GROUP_ESTIMATORS, "echo") if estimator else declared.group_centred
    rejects = ("rllm.rejection_sample.enable", "rllm.rejection_sample.filter_uniform_groups")
    return dataclasses.replace(
        declared,
        updates_per_rollout=updates,
        max_length=number(_length_key(context)),
        kl_by_design=by_design,
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=centred,
        reward_filtered=any(context.config.get(key) is True for key in rejects) or declared.reward_filtered,
    )


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """RLLM's own settings, which it hands to the back end; verl's where it has none."""
    of_verl = any(k.startswith(("actor_rollout_ref.", "critic.")) for k in context.config) or any(
        k.startswith(("actor/", "critic/")) for k in context.keys
    )
    inherited = dict(verl.knobs(context)) if of_verl else {}
    for knob in ("staleness-bound", "length-penalty"):
        inherited.pop(knob, None)
    ours: dict[str, tuple[str, Setting]] = {
        # knob: (key, default in config/rllm/base.yaml)
        "batch-size": (_batch_key(context), 64),
        "group-size": (_group_key(context), 8),
        "temperature": (
            _first(context, "rllm.rollout.train.temperature", "actor_rollout_ref.rollout.temperature"),
            1.0,
        ),
        "max-completion-length": (_length_key(context), 30720),
        "kl-coef": ("rllm.algorithm.kl_beta", 0.0),
        "clip-low": ("rllm.algorithm.eps_clip", 0.2),
        "clip-high": ("rllm.algorithm.eps_clip_high", None),
        "reward-scaling": (
            _first(context, "rllm.algorithm.norm_adv_by_std_in_grpo", "algorithm.norm_adv_by_std_in_grpo"),
            True,
        ),
        "loss-type": ("rllm.algorithm.loss_agg_mode", None),
        "overlong-filter": ("rllm.compact_filtering.enable", False),
        "dynamic-filter": ("rllm.rejection_sample.filter_uniform_groups", False),
        "behaviour-weight-cap": ("rllm.algorithm.rollout_correction.tis_cap", 2.0),
        "decoupled-loss": ("rllm.algorithm.rollout_correction.bypass_mode", None),
        "save-steps": (_first(context, "rllm.trainer.save_freq", "trainer.save_freq"), 20),
    }
    if "async/staleness_mean" in context.keys or context.config.get("rllm.async_training.enable") is True:
        ours["staleness-bound"] = ("rllm.async_training.staleness_threshold", 0.0)
    for knob, names in (
        ("clip-low", ("rllm.algorithm.eps_clip", "actor_rollout_ref.actor.clip_ratio_low")),
        ("clip-high", ("rllm.algorithm.eps_clip_high", "actor_rollout_ref.actor.clip_ratio_high")),
        ("kl-coef", ("rllm.algorithm.kl_beta", "actor_rollout_ref.actor.kl_loss_coef")),
        ("loss-type", ("rllm.algorithm.loss_agg_mode", "actor_rollout_ref.actor.loss_agg_mode")),
    ):
        ours[knob] = (_first(context, *names), ours[knob][1])
    return inherited | knobs_from(context, ours)


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from rLLM."""
    grouped = "logged by the unified trainer, whose advantages are rLLM's own (batch/<role>/…)"
    return dict(verl.enable(context)) | {
        "kl/reference": "verl back end: rllm.algorithm.kl_beta, or actor_rollout_ref.actor.use_kl_loss=True with a kl_loss_coef near 0, logs actor/kl_loss",
        "reward/std/within-group": f"{grouped}: group_reward_std",
        "signal/zero-variance-share": f"{grouped}: fractions/effective",
        "eval/score/mean": "rllm.trainer.test_freq above 0: val/<data set>/pass@1 is logged",
        "entropy/mean": "verl back end: actor/entropy, not in bypass mode; Tinker and Fireworks: train/entropy, from the sampled tokens",
        "length/truncated-share": "logged as batch/termination_reason/max_response_length_exceeded",
        "engine/kl": "logged as offpolicy/kl by the verl and Fireworks back ends; not in bypass mode",
        "behaviour-weight/mean": "rllm.algorithm.rollout_correction.tis_mode=token; not in bypass mode",
        "systems/step-time": "logged as timing_s/step (verl) or time/step (asynchronous)",
    }


DIALECT: Dialect = dataclasses.replace(
    verl.DIALECT,
    name="rllm",
    recognises=recognises,
    algorithm=algorithm,
    aliases=ALIASES,
    ignored=IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    samples="rllm.episode_logging.log_episodes=true writes episodes/*/episode_*.json",
)
