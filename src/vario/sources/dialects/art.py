"""OpenPipe ART: `history.jsonl` of the local, Megatron, Tinker and serverless back ends.

What the keys mean was read from the wheels 0.5.18, which also maps the names of 0.4 and before, and 0.5.23. A back
end that does not return a key leaves it out. Rows of several splits share a step; up to 0.5.18 each writes the size
of its own batch below `data/`, under one name. PipelineTrainer takes groups without spread out before it logs a batch.
Lengths are not logged: the trajectories beside the log hold the texts.
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
    knobs_from,
)

OLD_NAMES = frozenset(
    f"train/{name}"
    for name in ("policy_loss", "loss", "entropy", "kl_div", "kl_policy_ref", "grad_norm", "learning_rate",
                 "num_groups_submitted", "num_groups_trainable", "num_trajectories", "num_trainable_tokens",
                 "train_tokens", "num_datums")
)  # fmt: skip
"""What 0.4 and before wrote into the split; since then it lies below `loss/` and `data/`."""

FROM_MEGATRON = frozenset({"train/loss", "train/grad_norm", "train/probs_corr"})
"""What the Megatron back end still writes into the split, beside the taxonomy of today."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only ART writes; it writes no configuration, so the arguments must have been passed on."""
    decisive = (
        {"train/reward_std_dev"},
        {"val/reward_std_dev"},
        {"train/reward", "train/exception_rate"},
        {"data/step_num_groups_trainable"},
        {"train/num_groups_trainable"},
    )
    arguments = {"kl_ref_adapter_path", "advantage_balance", "scale_learning_rate_by_reward_std_dev"}
    return any(d <= keys for d in decisive) or bool(arguments & config.keys())


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Group-relative advantages throughout; the default loss clips the weight, `ppo` the surrogate."""
    return "cispo" if config.get("loss_fn") == "cispo" else "grpo"


def versions(context: Context) -> tuple[Version, Version]:
    """The taxonomy with `loss/` and `data/` came after 0.4."""
    new = any(k.startswith(("loss/", "data/step_", "data/cum/")) for k in context.keys)
    old = bool((OLD_NAMES - FROM_MEGATRON if "train/probs_corr" in context.keys else OLD_NAMES) & context.keys)
    if new == old:
        return OLDEST, NEWEST
    return ((0, 5), NEWEST) if new else (OLDEST, (0, 4))


def _penalised(context: Context, _: Series) -> Settled:
    if context.number("kl_penalty_coef") == 0.0:
        return Settled(False, "kl_penalty_coef is 0: no reference")
    return Settled(True)


def _old_name(context: Context, _: Series) -> Settled:
    return Settled(not any(k.startswith(("loss/", "data/step_")) for k in context.keys))


def _plain_name(context: Context, series: Series) -> Settled:
    """An old name, or the Megatron back end's, which is told by a key of its own."""
    megatron = "train/probs_corr" in context.keys and not any(k.startswith("loss/") for k in context.keys)
    return Settled(True) if megatron else _old_name(context, series)


def _filters(context: Context) -> bool:
    """Whether PipelineTrainer wrote the log."""
    return bool({"train/discarded_stale_groups", "discarded/step/stale_groups"} & context.keys)


def _of_training(context: Context, series: Series) -> Series:
    """Without the steps that a held-out split shares: there its batch may have been written over the other."""
    if any(k.startswith(("val/data/", "test/data/")) for k in context.keys):
        return series  # from 0.5.23 on they have names of their own
    held_out = [s.steps for key, s in context.series.items() if key.startswith(("val/", "test/"))]
    keep = np.ones(len(series), dtype=bool)
    for steps in held_out:
        keep &= ~np.isin(series.steps, steps)
    return Series(series.key, series.steps[keep], series.values[keep])


def _batch_is_known(context: Context, series: Series) -> Settled:
    """`derive` makes the share; here stands why it cannot."""
    if _filters(context):
        known = "discarded/step/zero_variance_groups" in context.keys
        return Settled(
            False, "" if known else "PipelineTrainer takes groups without spread out before: always all of them"
        )
    if len(_of_training(context, series)):
        return Settled(False)
    return Settled(
        None, "every step has a row of a held-out split, which writes the size of its own batch under the same name"
    )


ALIASES = (
    Alias("train/reward", "reward/mean"),
    Alias("train/reward_std_dev", "reward/std/within-group"),
    Alias(r"(?P<part>val|test)/reward", "eval/set/*/mean"),
    Alias("loss/train", "loss/policy"),
    Alias("loss/entropy", "entropy/mean"),
    Alias("loss/kl_policy_ref", "kl/reference", when=_penalised),
    Alias("loss/kl_div", "kl/reference", when=_penalised),
    Alias("loss/grad_norm", "gradient/norm"),
    Alias("loss/learning_rate", "learning-rate"),
    Alias("loss/probs_corr", "engine/correlation"),
    Alias("train/probs_corr", "engine/correlation"),
    Alias("data/step_num_groups_submitted", "signal/zero-variance-share", when=_batch_is_known),
    Alias("loss/importance_ratio_mean", "ratio/mean"),
    Alias("loss/clipped_token_fraction", "clip/fraction/total"),
    Alias("offpolicy/token_weighted_policy_age_steps", "staleness/mean"),
    Alias("train/steps_off_policy", "staleness/mean"),
    Alias("discarded/step/stale_groups", "staleness/dropped"),
    Alias("discarded/step/zero_variance_groups", "signal/groups-dropped"),
    Alias("time/step_wall_s", "systems/step-time"),
    Alias("time/step_backend_train_s", "systems/train-time"),
    Alias("time/step_trainer_s", "systems/train-time"),
    Alias("time/step_rollout_s", "systems/rollout-time"),
    Alias("time/step_actor_s", "systems/rollout-time"),
    Alias("time/step_eval_s", "systems/eval-time"),
    Alias("time/step_trainer_idle_s", "systems/wait-time"),
    Alias("throughput/step_trainer_idle_s", "systems/wait-time"),
    # 0.4 and before; later a custom metric of the trajectories may have the same name
    Alias("train/policy_loss", "loss/policy", when=_old_name),
    Alias("train/loss", "loss/policy", when=_plain_name),
    Alias("train/entropy", "entropy/mean", when=_old_name),
    Alias("train/kl_policy_ref", "kl/reference", when=_old_name),
    Alias("train/kl_div", "kl/reference", when=_old_name),
    Alias("train/grad_norm", "gradient/norm", when=_plain_name),
    Alias("train/learning_rate", "learning-rate", when=_old_name),
)

IGNORED = {
    r"data/((gradient_)?step_.*|cum/.*)": "sizes of the batch and their running totals; groups with spread are read from them",
    r"train/num_(groups_submitted|groups_trainable|trajectories|trainable_tokens|datums)|train/train_tokens": "the same under the names of 0.4",
    r"(train|val|test)/exception_rate": "share of rollouts that raised an exception: they have no reward",
    r"(val|test)/reward_std_dev": "spread inside groups of held-out prompts",
    r"discarded/.*": "groups that were thrown away, a sample of them",
    r"train/discarded_stale_groups": "groups dropped for age since the start, a running total",
    r"(train|val|test)/(?!reward$|steps_off_policy$).+": "what the trajectories and groups of this task report of themselves",
    r"time/(cum/.*|wall_clock_sec)|throughput/(avg_.*|cum/.*)": "running totals and averages since the start",
    r"throughput/.*|time/.*": "tokens a second by kind, and spans and gaps within a step",
    r"loss/importance_ratio_p\d+|offpolicy/token_weighted_policy_age_p95_steps": "percentiles; the mean is read",
    r"(queue|vllm|pipeline|prefix_tree)/.*": "how full queues, the engine and packed batches are",
    r"(objective|sample_efficiency)/.*|pipeline_settings/.*": "what the tuner of the pipeline goes by, and sets",
    r"sft/.*": "single updates of fine-tuning",
    r"costs/.*|checkpoint/.*": "dollars, and bookkeeping of checkpoints",
}


def _median(context: Context, *keys: str) -> float | None:
    """The usual value of the first of these keys that was logged."""
    for key in keys:
        series = context.series.get(key)
        if series is not None and len(values := _of_training(context, series).finite()[1]):
            return float(np.median(values))
    return None


def derive(context: Context) -> Mapping[str, Series]:
    """Groups without two distinct rewards, as a share of those that were sampled."""
    dropped = context.series.get("discarded/step/zero_variance_groups")
    for kept_key in ("sample_efficiency/accepted_groups_per_step", "data/step_num_groups_submitted"):
        if dropped is not None and (rest := context.series.get(kept_key)) is not None:
            steps, at, to = np.intersect1d(dropped.steps, rest.steps, return_indices=True)
            tied, everyone = dropped.values[at], dropped.values[at] + rest.values[to]
            some = everyone > 0.0
            key = f"{dropped.key} / (it + {kept_key})"
            return {"signal/zero-variance-share": Series(key, steps[some], tied[some] / everyone[some])}
    if _filters(context):
        return {}
    for submitted_key, trainable_key in (
        ("data/step_num_groups_submitted", "data/step_num_groups_trainable"),
        ("train/num_groups_submitted", "train/num_groups_trainable"),
    ):
        submitted, trainable = context.series.get(submitted_key), context.series.get(trainable_key)
        if submitted is None or trainable is None:
            continue
        submitted = _of_training(context, submitted)
        steps, at, to = np.intersect1d(submitted.steps, trainable.steps, return_indices=True)
        groups, kept = submitted.values[at], trainable.values[to]
        ok = groups > 0.0
        return {
            "signal/zero-variance-share": Series(
                f"1 - {trainable_key} / {submitted_key}", steps[ok], 1.0 - kept[ok] / groups[ok]
            )
        }
    return {}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates and groups as logged, the KL term as passed on."""
    coefficient = context.number("kl_penalty_coef")
    by_design: bool | None = None
    if coefficient is not None:
        by_design = coefficient != 0.0
    elif "kl/reference" in series:
        by_design = True
    completions = _median(context, "data/step_num_trajectories", "train/num_trajectories")
    groups = _median(context, "data/step_num_groups_submitted", "train/num_groups_submitted")
    return Declared(
        updates_per_rollout=_median(context, "data/step_num_gradient_steps"),
        kl_by_design=by_design,
        batch_completions=completions,
        group_size=completions / groups if completions and groups else None,
        group_centred=True,
        steps_per_row=1.0,
        step_unit="rollout",
        reward_filtered=_filters(context) or None,
    )


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Arguments of `backend.train()` and `PipelineTrainer`. Lengths, temperature and groups lie in the user's rollout."""
    ppo = context.config.get("loss_fn") == "ppo" or context.config.get("ppo") is True
    low, high = (0.2, None) if ppo else (1.0, 4.0)
    table: dict[str, tuple[str, Setting]] = {
        "kl-coef": ("kl_penalty_coef", 0.0),
        "learning-rate": ("learning_rate", 5e-6),
        "clip-low": ("epsilon", low),
        "clip-high": ("epsilon_high", high),
        "reward-scaling": ("scale_rewards", True),
        "behaviour-weight-cap": ("truncated_importance_sampling", None),
    }
    ages = {"train/steps_off_policy", "offpolicy/token_weighted_policy_age_steps"}
    if "max_steps_off_policy" in context.config or ages & context.keys:
        table["staleness-bound"] = ("max_steps_off_policy", 4)
    return knobs_from(context, table)


_TRAJECTORIES = "trajectories/train/*.parquet beside history.jsonl hold the messages"


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from ART."""
    return {
        "kl/reference": "kl_penalty_coef above 0 (1e-4 costs almost nothing) logs loss/kl_policy_ref",
        "reward/std/within-group": "logged as train/reward_std_dev by model.log(groups, split='train')",
        "signal/zero-variance-share": "1 - data/step_num_groups_trainable / data/step_num_groups_submitted, logged by train(); with PipelineTrainer worked out of discarded/step/zero_variance_groups from 0.5.23 on",
        "eval/score/mean": "model.log(groups, split='val') logs val/reward",
        "entropy/mean": "logged as loss/entropy by the back ends that compute entropies (local)",
        "length/mean": f"not logged; {_TRAJECTORIES}",
        "length/truncated-share": f"not logged; {_TRAJECTORIES}, or put a metric of your own into trajectory.metrics",
        "clip/fraction/total": "logged as loss/clipped_token_fraction by the Megatron back end from 0.5.23 on",
        "engine/logprob-gap/mean": "not logged by any back end; Megatron's train/probs_corr is its trace",
        "behaviour-weight/mean": "not logged; truncated_importance_sampling applies the weight unseen",
        "gradient/norm": "logged as loss/grad_norm by the back ends that return it",
        "systems/step-time": "logged as time/step_wall_s with the rows of the train split",
    }


DIALECT = Dialect(
    "art",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    patch="keywords",
    samples='model.log(groups, split="train") writes trajectories/{split}/{step}.parquet',
)
