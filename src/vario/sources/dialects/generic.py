"""Hand-rolled loops: only words that can mean one thing."""

from __future__ import annotations

from collections.abc import Mapping

from vario.run import Setting
from vario.sources.dialects.base import Alias, Dialect


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Everything; it stands last."""
    return True


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Pairs are told by their margins, the rest stays unknown."""
    return "dpo" if "rewards/margins" in keys else "unknown"


ALIASES = (
    *(
        Alias(k, "reward/mean")
        for k in (
            "reward/mean",
            "reward",
            "reward_mean",
            "mean_reward",
            "avg_reward",
            "rewards/mean",
            "reward_avg",
            "rewards",
        )
    ),
    *(Alias(k, "kl/reference") for k in ("kl/reference", "kl", "kl_mean", "mean_kl", "kl_ref")),
    *(Alias(k, "entropy/mean") for k in ("entropy/mean", "entropy", "policy_entropy", "mean_entropy")),
    *(
        Alias(k, "length/mean")
        for k in (
            "length/mean",
            "completion_length",
            "response_length",
            "mean_response_length",
            "completion_len",
            "avg_response_len",
            "mean_length",
            "response_len",
            "avg_len",
        )
    ),
    *(Alias(k, "length/truncated-share") for k in ("length/truncated-share", "truncated_ratio", "truncation_rate")),
    *(Alias(k, "gradient/norm") for k in ("gradient/norm", "grad_norm", "gradient_norm")),
    *(Alias(k, "learning-rate") for k in ("learning-rate", "learning_rate", "lr")),
    *(Alias(k, "loss/policy") for k in ("loss/policy", "policy_loss", "pg_loss", "actor_loss")),
    *(Alias(k, "loss/value") for k in ("loss/value", "value_loss", "critic_loss", "vf_loss")),
    *(Alias(k, "loss/total") for k in ("loss/total", "loss")),
    *(Alias(k, "clip/fraction/total") for k in ("clip/fraction/total", "clip_frac", "clipfrac", "clip_fraction")),
    *(
        Alias(k, "eval/score/mean")
        for k in ("eval/score/mean", "eval_reward", "eval_score", "eval_accuracy", "val_reward", "val_score")
    ),
    Alias("kl/update", "kl/update"),
    Alias("approx_kl", "kl/update"),
    Alias("reward/std/within-group", "reward/std/within-group"),
    Alias("reward/std/batch", "reward/std/batch"),
    Alias("signal/zero-variance-share", "signal/zero-variance-share"),
    Alias(r"reward/component/(?P<part>.+)/mean", "reward/component/*/mean"),
    Alias("clip/fraction/low", "clip/fraction/low"),
    Alias("clip/fraction/high", "clip/fraction/high"),
    Alias("ratio/mean", "ratio/mean"),
    Alias("length/max", "length/max"),
    Alias("length/min", "length/min"),
    Alias("engine/logprob-gap/mean", "engine/logprob-gap/mean"),
    Alias("behaviour-weight/mean", "behaviour-weight/mean"),
    Alias("importance-weight/mean", "importance-weight/mean"),
    Alias("value/explained-variance", "value/explained-variance"),
    Alias("value/clip-fraction", "value/clip-fraction"),
    Alias("systems/step-time", "systems/step-time"),
    Alias("step_time", "systems/step-time"),
    Alias("rewards/chosen", "preference/chosen-reward"),
    Alias("rewards/rejected", "preference/rejected-reward"),
    Alias("rewards/margins", "preference/margin"),
    Alias("rewards/accuracies", "preference/accuracy"),
    *(
        Alias(f"preference/{k}", f"preference/{k}")
        for k in ("chosen-reward", "rejected-reward", "margin", "accuracy", "chosen-logp", "rejected-logp")
    ),
)

DIALECT = Dialect("generic", recognises, algorithm, ALIASES, ignored=(r"epoch", r"time", r"timestamp", r"_.*"))
