"""Hand-rolled loops: only words that can mean one thing; the rest is asked for (`--map`).

Keys are compared without their case, their separators and the words for a mean, since every loop
spells them its own way: `Avg Response Len`, `avg_response_len` and `response_len` are one key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from vario.catalogue import METRICS
from vario.run import Series, Setting
from vario.sources.dialects.base import OWN_SAMPLES, Alias, Context, Dialect, Settled

_MEANS = re.compile(r"^(?:avg|mean|average)_(?=.)|(?<=.)[_/](?:avg|mean|average)$")
_HELD_OUT = re.compile(r"^(?:eval(?:uation)?|val(?:id)?(?:ation)?|test)[/_]")


def spelling(key: str) -> str:
    """One spelling for a key, whatever its case, its separators and its word for a mean."""
    name = re.sub(r"[\s\-]+", "_", re.sub(r"\s*/\s*", "/", key.strip().lower()))
    name = re.sub(r"^(?:train(?:ing)?|reward_data|metrics?)/", "", name)
    name = _HELD_OUT.sub("eval_", name)
    return _MEANS.sub("", _MEANS.sub("", name))


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Everything; it stands last."""
    return True


MARGINS = (
    "preference/margin",
    "margin",
    "margins",
    "reward_margin",
    "rewards/margins",
    "rewards_margin",
    "reward_margins",
)
DIFFERENCES = ("reward_diff", "reward_difference", "rewards_diff")
NAMED = ("grpo", "rloo", "dpo", "orpo", "kto", "ppo", "reinforce")
"""Algorithms that a loop may name in its keys, its settings or the name of its log."""


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Pairs are told by their margins; of the others, what keys and settings name."""
    if any(k in keys for k in (*MARGINS, "dpo_loss")) or (any(k in keys for k in DIFFERENCES) and "reward" not in keys):
        return "dpo"
    named = " ".join([*keys, *(str(v) for k, v in config.items() if "algo" in k or k in ("type", "log.name"))]).lower()
    for word in NAMED:
        if re.search(rf"(?<![a-z]){word}(?![a-z])", named):
            return word
    if "value_loss" in keys or "critic_loss" in keys:
        return "ppo"
    return "unknown"


def _without_total(context: Context, _: Series) -> Settled:
    """A difference of rewards is a margin where nothing else is called a reward."""
    if "reward" in context.keys or "rewards" in context.keys:
        return Settled(None, "the margin of pairs, or a change of the reward: name it with --map preference/margin=KEY")
    return Settled(True)


def _has_total(context: Context, _: Series) -> Settled:
    total = {"reward", "rewards", "total_reward", "reward_total", "rewards/total", "score"} & context.keys
    return Settled(
        bool(total), "" if total else "a part of the reward, or the reward itself: name it with --map reward/mean=KEY"
    )


def _no_count(context: Context, _: Series) -> Settled:
    """A total over a batch that is counted beside it is divided by that count (see `derive`)."""
    return Settled(not any(k in context.keys for k in COUNTS))


COUNTS = ("total_num", "num_samples", "num_rollouts", "n_samples", "batch_count", "num_total")

_WORDS: dict[str, tuple[str, ...]] = {
    "reward/mean": ("reward", "rewards", "reward_raw", "raw_reward", "reward_latest", "episode_reward", "rewards/total",
                    "reward/total", "reward_total", "batch_reward", "rollout_reward", "verifiable_reward",
                    "objective/verifiable_reward", "reward_score", "rewards/reward"),
    "kl/reference": ("kl", "kl_ref", "ref_kl", "kl_reference", "reference_kl", "kl_div", "kl_divergence", "kl_to_ref",
                     "kl_loss", "exact_kl", "loss/kl", "kl_penalty", "kl_from_ref", "kl_policy_ref"),
    "kl/update": ("approx_kl", "kl_old", "old_kl", "kl_approx", "policy/approx_kl"),
    "entropy/mean": ("entropy", "policy_entropy", "token_entropy", "policy/entropy", "entropy_per_token", "actor_entropy"),
    "length/mean": ("completion_length", "response_length", "completion_len", "response_len", "length", "len", "gen_len",
                    "generation_length", "output_length", "seq_len_response", "completion_tokens", "response_tokens",
                    "completions/length", "num_response_tokens"),
    "length/truncated-share": ("truncated_ratio", "truncation_rate", "truncated_frac", "truncated_share", "frac_truncated"),
    "attention/entropy/mean": ("attention_entropy", "attn_entropy", "mean_attention_entropy", "attention_entropy_mean"),
    "gradient/norm": ("grad_norm", "gradient_norm", "gnorm", "global_grad_norm", "actor_grad_norm"),
    "learning-rate": ("learning_rate", "lr", "actor_lr", "optim/lr"),
    "loss/policy": ("policy_loss", "pg_loss", "actor_loss", "surrogate_loss", "loss/policy", "loss_policy"),
    "loss/value": ("value_loss", "critic_loss", "vf_loss", "loss_value"),
    "loss/total": ("loss", "total_loss", "rl_loss", "grpo_loss", "loss_total", "train_loss", "dpo_loss"),
    "clip/fraction/total": ("clip_frac", "clipfrac", "clip_fraction", "pg_clipfrac", "clipped_fraction", "frac_clipped"),
    "ratio/mean": ("policy_ratio", "ratio", "prob_ratio", "probability_ratio"),
    "eval/score/mean": ("eval_reward", "eval_score", "eval_acc", "eval_accuracy", "eval_pass@1", "eval_pass_at_1", "eval_rewards"),
    "eval/loss": ("eval_loss",),
    "systems/step-time": ("step_time", "time_per_step", "sec_per_step", "seconds_per_step", "time/step"),
    "systems/throughput": ("tokens_per_sec", "tokens_per_second", "throughput"),
    "engine/logprob-gap/mean": ("train_rollout_logprob_abs_diff",),
    "preference/chosen-reward": ("chosen_r", "rewards/chosen", "chosen_reward", "chosen_rewards", "reward_chosen"),
    "preference/rejected-reward": ("rejected_r", "rewards/rejected", "rejected_reward", "rejected_rewards", "reward_rejected"),
    "preference/margin": MARGINS,
    "preference/accuracy": ("rewards/accuracies", "reward_accuracy", "preference_accuracy", "reward_accuracies"),
    "preference/chosen-logp": ("logps/chosen", "chosen_logps", "chosen_logp"),
    "preference/rejected-logp": ("logps/rejected", "rejected_logps", "rejected_logp"),
}  # fmt: skip

ALIASES = (
    *(Alias(spelling(name), name) for name in METRICS if "*" not in name),
    *(Alias(key, metric) for metric, keys in _WORDS.items() for key in keys),
    Alias("total_reward", "reward/mean", when=_no_count),
    *(Alias(key, "preference/margin", when=_without_total) for key in DIFFERENCES),
    Alias("accuracy", "preference/accuracy", ("dpo",)),
    Alias(r"reward/component/(?P<part>.+)", "reward/component/*/mean"),
    Alias(r"eval_set/(?P<part>.+)", "eval/set/*/mean"),
    Alias(r"rewards?/(?P<part>(?!total|sum|chosen|rejected|margins|accuracies)[a-z0-9_]+)(?<!_std)(?<!/std)", "reward/component/*/mean", when=_has_total),
    Alias(r"(?P<part>(?!total|mean|raw|eval|train|batch|max|min|std)[a-z0-9_]+)_reward(?:_func)?", "reward/component/*/mean", when=_has_total),
)  # fmt: skip

IGNORED = {
    r"epoch|time|timestamp|elapsed|total_steps|wall_time.*|.*_time_sec|batch_idx|iteration.*|_.*": "a count or a clock",
    r"adv(antage)?s?([_/].*)?": "advantages: normalised, of no trend of their own",
    "|".join(COUNTS): "a count of samples",
}


def derive(context: Context) -> Mapping[str, Series]:
    """A reward that is logged as the sum of a batch, divided by the batch's size logged beside it."""
    total = context.series.get("total_reward")
    count = next((context.series[k] for k in COUNTS if k in context.series), None)
    if total is None or count is None:
        return {}
    steps, i, j = np.intersect1d(total.steps, count.steps, assume_unique=True, return_indices=True)
    counted = count.values[j]
    ok = counted > 0
    return {"reward/mean": Series(total.key, steps[ok], total.values[i][ok] / counted[ok])}


DIALECT = Dialect(
    "generic", recognises, algorithm, ALIASES, IGNORED, spell=spelling, derive=derive, samples=OWN_SAMPLES
)
