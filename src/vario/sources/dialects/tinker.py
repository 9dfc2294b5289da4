"""Tinker cookbook: the RL loops (synchronous, streaming, asynchronous), DPO, and loops written on its client.

What the keys mean was read from the wheel 0.6.1. Training runs on a remote service that hands back neither
gradient norm nor clip fraction nor ratios. A row holds the evaluation of the weights before its update,
rollouts with those weights, then the update. A length is that of one turn, and so is the cap on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import Alias, Context, Dialect, Settled, knobs_from, one_minus

RL_LOOP = "env/all/"
"""Every RL loop of the cookbook logs its rollouts below this prefix."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only the cookbook's loops write, or the fields of its configuration."""
    decisive = (
        {"env/all/reward/total"},
        {"progress/done_frac", "optim/lr"},
        {"dpo_loss", "chosen_reward", "rejected_reward"},
        {"kl_policy_base"},
        {"train_mean_nll", "progress"},
    )
    if any(d <= keys for d in decisive) or any(k.startswith("optim/kl_sample_train_") for k in keys):
        return True
    builds_data = any(k.startswith("dataset_builder") for k in config)
    return {"log_path", "lora_rank"} <= config.keys() and (builds_data or "base_url" in config)


_NAMES = {"importance_sampling": "grpo", "ppo": "grpo", "stable_reinforce": "reinforce"}
"""Advantages are centred inside groups whatever the loss; with a plain or clipped ratio that is GRPO."""


def _loss(context_config: Mapping[str, Setting]) -> str | None:
    """Asynchronous runs have a loss function of their own."""
    for key in ("async_config.loss_fn", "loss_fn"):
        value = context_config.get(key)
        if isinstance(value, str):
            return value
    return None


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """DPO and fine-tuning have keys of their own; the RL losses are told apart by the configuration."""
    if "dpo_loss" in keys or "dpo_beta" in config:
        return "dpo"
    if "train_mean_nll" in keys:
        return "sft"
    loss = _loss(config)
    return _NAMES.get(loss, loss.replace("_", "-")) if loss else "grpo"


def _filters(context: Context) -> bool | None:
    """Whether groups without spread are taken out before anything is logged."""
    setting = context.config.get("remove_constant_reward_groups")
    if isinstance(setting, bool):
        return setting
    mixed = context.series.get("env/all/by_group/frac_mixed")
    if mixed is not None and bool((mixed.values < 1.0).any()):
        return False
    return None


def _counts_groups(context: Context, _: Series) -> Settled:
    filters = _filters(context)
    if filters:
        return Settled(False, "always 1: remove_constant_reward_groups takes the other groups out before")
    if filters is None:
        return Settled(None, "1 everywhere: every group has spread, or remove_constant_reward_groups hides the others")
    return Settled(True)


def _at_the_ends(context: Context, series: Series) -> Settled:
    """Tied groups are split at 0.5, which tells solved from unsolved only where rewards are 0 or 1."""
    counted = _counts_groups(context, series)
    if not counted.holds:
        return counted
    total = context.series.get("env/all/reward/total")
    good = context.series.get("env/all/by_group/frac_all_good")
    bad = context.series.get("env/all/by_group/frac_all_bad")
    if total is None or good is None or bad is None:
        return Settled(None, "tied groups are split at a reward of 0.5, and the rewards are not known to be 0 or 1")
    if not np.array_equal(total.steps, good.steps) or not np.array_equal(total.steps, bad.steps):
        return Settled(None, "tied groups are split at a reward of 0.5, and steps are missing to check the rewards by")
    inside = (total.values >= good.values - 1e-6) & (total.values <= 1.0 - bad.values + 1e-6)
    if bool(inside.all()):
        return Settled(True)
    return Settled(False, "tied groups are split at a reward of 0.5, and the rewards are not 0 or 1")


def _no_loop(context: Context, _: Series) -> Settled:
    return Settled(not any(k.startswith(RL_LOOP) for k in context.keys))


ALIASES = (
    Alias("env/all/reward/total", "reward/mean"),
    # the short loops, and loops written by hand on the client
    Alias("reward/total", "reward/mean", when=_no_loop),
    Alias("reward/mean", "reward/mean", when=_no_loop),
    Alias("policy/entropy", "entropy/mean", when=_no_loop),
    Alias("env/all/by_group/frac_mixed", "signal/zero-variance-share", when=_counts_groups, transform=one_minus),
    Alias("env/all/by_group/frac_all_good", "signal/solved-share", when=_at_the_ends),
    Alias("env/all/by_group/frac_all_bad", "signal/unsolved-share", when=_at_the_ends),
    Alias(r"(?P<part>(?!eval/by_).+)/env/all/reward/total", "eval/set/*/mean"),
    Alias(r"(?:test/)?eval/(?P<part>(?!by_)[^/]+)/score", "eval/set/*/mean"),
    Alias(r"(?P<part>win_rate)", "eval/set/*/mean"),
    Alias("kl_policy_base", "kl/reference"),
    Alias("kl_pre_post_v1", "kl/update"),
    Alias("optim/kl_sample_train_v1", "engine/kl"),
    Alias("optim/entropy", "entropy/mean"),
    Alias("optim/lr", "learning-rate"),
    Alias("env/all/ac_tokens_per_turn", "length/mean"),
    Alias("env/all/ob_tokens_per_turn", "length/prompt/mean"),
    Alias("env/all/turns_per_episode", "turns/mean"),
    Alias("async/staleness_mean", "staleness/mean"),
    Alias("async/staleness_max", "staleness/max"),
    # pairs
    Alias("chosen_reward", "preference/chosen-reward", ("dpo",)),
    Alias("rejected_reward", "preference/rejected-reward", ("dpo",)),
    Alias("margin", "preference/margin", ("dpo",)),
    Alias("accuracy", "preference/accuracy", ("dpo",)),
    Alias("dpo_loss", "loss/total", ("dpo",)),
    Alias("train_mean_nll", "loss/total", ("sft",)),
    Alias("test/nll", "eval/loss", ("dpo", "sft")),
    Alias("learning_rate", "learning-rate", ("dpo", "sft")),
    # spans of an iteration
    Alias("time/total", "systems/step-time"),
    Alias("time/sampling", "systems/rollout-time"),
    Alias("time/train_step", "systems/train-time"),
    Alias("time/step", "systems/train-time"),
    Alias("time/get_ref_logprobs", "systems/logprob-time"),
    Alias("time/save_checkpoint", "systems/checkpoint-time"),
    Alias("time/run_evals", "systems/eval-time"),
    Alias("time/evals", "systems/eval-time"),
    # a request here is a prompt with its whole group
    Alias("time/sampling_time_mean", "systems/request-time/mean"),
    Alias("time/sampling_time_max", "systems/request-time/max"),
)

IGNORED = {
    r"progress(/.*)?|epoch|training_client/step|timestamp": "a count of progress, or a clock",
    r"(.+/)?env/all/stop/.*": "a one-hot that is averaged over the entries that have it: 1 whenever it is there, no share",
    r"(.+/)?env/all/total_.*": "sums over the batch, which follow its size",
    r"env/all/(?!reward/total|by_group/).*": "what the environment reports, over the entries that have it",
    r"env/(?!all/).*": "one tag's part of the batch; env/all holds the whole",
    r"(test/)?eval/([^/]+)/(num_correct|num_examples|num_errors|\2/.+)": "how a benchmark's score comes about, and its own further figures",
    r"(?!env/)[^/]+/(nll|bpb)": "the loss on held-out data, also by bytes",
    r"stderr": "the error of the share of comparisons won",
    r"teacher_kl(/.*)?|sdft/.*": "the distance to a teacher, which distillation trains on: no reference",
    r"time_total|batch_size": "spans and sizes of the short loops",
    r"(?!eval/).+/env/.*": "what else an evaluation measures; its reward is read",
    r"eval/(by_[a-z]+|snapshot|timing)/.*|eval/completed_elapsed_seconds": "copies and coordinates of an asynchronous evaluation",
    r"optim/kl_sample_train_v2|kl_pre_post_v2": "half the mean square: a second estimate of what _v1 measures",
    r"sampling_client/step_.*|async/staleness_min": "versions of the samplers; their distance is read",
    r"rollout_errors/.*": "errors since the start, by type",
    r"time/.*|batch_time": "further spans; with :total, :count, :mean, :max when one comes several times an iteration",
    r"(tokens|cost)/.*": "tokens and dollars by kind",
    r"num_pairs|num_tokens|num_sequences|num_loss_tokens|state_path": "sizes of the batch, and where a checkpoint went",
    r"(train/)?(?!time/)[a-z_]+:(sum|mean|min|max|unique)": "what the service returns with an update, summed or averaged by it",
    r"train_mean_bpb": "the loss again, by bytes",
}


def _first(context: Context, *names: str) -> str:
    """The name that the configuration has; the first when it has none."""
    return next((name for name in names if name in context.config), names[0])


def _groups_key(context: Context) -> str:
    return _first(
        context,
        "async_config.groups_per_batch",
        "stream_minibatch_config.groups_per_batch",
        "dataset_builder.groups_per_batch",
        "dataset_builder.batch_size",
        "groups_per_batch",
        "batch_size",
    )


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Substeps, groups and the KL term as configured."""
    number = context.number
    if context.algorithm in ("dpo", "sft"):
        return Declared(steps_per_row=1.0, step_unit="optimiser")
    coefficient = number("kl_penalty_coef")
    by_design: bool | None = None
    if coefficient is not None:
        by_design = coefficient != 0.0
    elif "kl_policy_base" in context.keys:
        by_design = True
    elif any(k.startswith(RL_LOOP) for k in context.keys):
        by_design = False  # the cookbook's loops log it whenever there is a penalty
    group = number(_first(context, "dataset_builder.group_size", "group_size"))
    groups = number(_groups_key(context))
    return Declared(
        updates_per_rollout=number("num_substeps"),
        max_length=number("max_tokens"),
        kl_by_design=by_design,
        batch_completions=groups * group if groups and group else None,
        group_size=group,
        group_centred=True,
        steps_per_row=1.0,
        step_unit="rollout",
        reward_filtered=_filters(context) or None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (field, default in 0.6.1)
    "kl-coef": ("kl_penalty_coef", 0.0),
    "learning-rate": ("learning_rate", None),
    "minibatches": ("num_substeps", 1),
    "temperature": ("temperature", 1.0),
    "max-completion-length": ("max_tokens", None),
    "dynamic-filter": ("remove_constant_reward_groups", False),
    "save-steps": ("save_every", 20),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("dpo_beta", 0.1),
    "learning-rate": ("learning_rate", 1e-5),
    "epochs": ("num_epochs", 1),
    "batch-size": ("dataset_builder.common_config.batch_size", None),
    "save-steps": ("save_every", 20),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """The cookbook's fields for the canonical knobs.

    Clip thresholds are left out: they are bounds of the ratio itself, not distances from 1.
    """
    if context.algorithm in ("dpo", "sft"):
        return knobs_from(context, _PAIR_KNOBS)
    table = dict(_KNOBS)
    table["batch-size"] = (_groups_key(context), None)
    table["group-size"] = (_first(context, "dataset_builder.group_size", "group_size"), None)
    if "async_config.max_steps_off_policy" in context.config or "async/staleness_mean" in context.keys:
        table["staleness-bound"] = ("async_config.max_steps_off_policy", None)
    return knobs_from(context, table)


_SUMMARIES = "rollout_json_export=True (the default) writes iteration_*/train_rollout_summaries.jsonl"


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from the cookbook."""
    if context.algorithm in ("dpo", "sft"):
        return {
            "preference/margin": "logged by preference/train_dpo as margin",
            "eval/preference/margin": "not logged: a dataset_builder with a test set gives its likelihood only; write an evaluator and list it in evaluator_builders",
        }
    return {
        "kl/reference": "kl_penalty_coef above 0 (1e-4 costs almost nothing) with a kl_reference_config logs kl_policy_base",
        "kl/update": "compute_post_kl=True logs kl_pre_post_v1",
        "reward/std/within-group": f"not logged; {_SUMMARIES} with the reward of each trajectory and its group",
        "signal/zero-variance-share": "logged as env/all/by_group/frac_mixed; of use only with remove_constant_reward_groups=False",
        "eval/score/mean": "a dataset_builder that returns a test set, and eval_every above 0: test/env/all/reward/total is logged",
        "entropy/mean": "logged by the RL loops as optim/entropy, an estimate from the sampled tokens",
        "engine/kl": "logged by the RL loops as optim/kl_sample_train_v1",
        "length/mean": "logged by the RL loops as env/all/ac_tokens_per_turn",
        "length/truncated-share": f"not logged as a share (env/all/stop/max_tokens is 1 whenever it is there); {_SUMMARIES} with the stop of each",
        "clip/fraction/total": "not returned by the service",
        "gradient/norm": "not returned by the service",
        "systems/step-time": "logged as time/total",
    }


DIALECT = Dialect(
    "tinker",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    knobs=knobs,
    enable=enable,
    samples="written anyway: iteration_*/train_rollout_summaries.jsonl, rewards and lengths without text; of text, *_logtree.json has a few groups",
)
