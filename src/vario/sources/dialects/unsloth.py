"""Unsloth: TRL's trainers, patched: `kl` is always logged and `entropy` never.

What the keys mean was read from unsloth and unsloth_zoo 2026.10.9. All else is the installed TRL's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects import trl
from vario.sources.dialects.base import Alias, Context, Settled, Version

OWN_KEYS = frozenset(
    {
        "sampling/rollout_kl_k1/mean",
        "sampling/rollout_kl_k3/mean",
        "sampling/importance_sampling_ess",
        "sampling/importance_sampling_rejected_frac",
        "frac_reward_zero_std_excluded",
    }
)
ADDED = frozenset({"completion_length"})
"""TRL dropped this key with 0.17; here it is logged beside its successors, and tells no version."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys or arguments of its own, or the old `completion_length` beside keys that TRL has since it dropped that one."""
    if OWN_KEYS & keys or any(name.startswith("unsloth_") for name in config):
        return True
    modern = any(
        k.startswith(("completions/", "sampling/")) or (k.startswith("rewards/") and k.endswith("/mean")) for k in keys
    )
    return keys >= ADDED and modern and "reward" in keys


def versions(context: Context) -> tuple[Version, Version]:
    """The version of the TRL beneath, from the keys that are TRL's own."""
    return trl.versions(context, without=ADDED)


def _reference_kl(context: Context, series: Series) -> Settled:
    beta = context.number("beta")
    if beta == 0.0:
        return Settled(False, "beta is 0: no reference, and kl is logged as 0 all the same")
    if beta is None and not series.values.any():
        return Settled(None, "0 throughout: beta is 0, or the policy never moved; beta is not known")
    return Settled(True)


ALIASES = (
    # first, so that it is asked before TRL's alias for the same key
    Alias("kl", "kl/reference", ("grpo", "rloo"), when=_reference_kl),
    *(a for a in trl.ALIASES if not (a.key == "kl" and a.metric == "kl/reference")),
    Alias("sampling/rollout_kl_k3/mean", "engine/kl", trl.GROUPED),
    Alias("sampling/rollout_kl_k1/mean", "engine/kl", trl.GROUPED),
    Alias("sampling/importance_sampling_ess", "behaviour-weight/effective-share", trl.GROUPED),
    Alias("sampling/importance_sampling_rejected_frac", "behaviour-weight/capped-share", trl.GROUPED),
)

IGNORED = {
    **trl.IGNORED,
    r"sampling/rollout_kl_k3/max": "the largest of single tokens' estimates",
    r"sampling/importance_sampling_rejected_seq_frac": "the same rejection counted by sequences",
    r"frac_reward_zero_std_excluded": "samples left out of the loss, not groups without spread",
}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """As in TRL, but that `kl` is logged proves no reference."""
    declared = trl.declare(context, series)
    if context.algorithm not in ("grpo", "rloo") or context.number("beta") is not None:
        return declared
    logged = context.series.get("kl")
    moved = logged is not None and bool(logged.values.any())
    return replace(declared, kl_by_design=True if moved else None)


_DEFAULTS: dict[str, Setting] = {
    # what Unsloth sets where the script says nothing
    "learning_rate": 5e-5,
    "gradient_accumulation_steps": 2,
    "num_generations": 8,
    "beta": None,
    "loss_type": None,
    "mask_truncated_completions": None,
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """TRL's arguments, with Unsloth's defaults where it has its own."""
    return {
        name: replace(setting, current=_DEFAULTS[setting.key])
        if setting.is_default and not context.config and setting.key in _DEFAULTS
        else setting
        for name, setting in trl.knobs(context).items()
    }


def enable(context: Context) -> Mapping[str, str]:
    """As in TRL, where the patched loss still logs it."""
    known = dict(trl.enable(context))
    if context.algorithm in ("grpo", "rloo"):
        known["kl/reference"] = (
            "kl is always logged; it reads 0 without a reference: set beta to a small value such as 1e-4"
        )
        known["entropy/mean"] = (
            "Unsloth's loss does not log it; the same script without Unsloth does (TRL 0.20 or later)"
        )
        known["behaviour-weight/effective-share"] = "set UNSLOTH_GRPO_ROLLOUT_METRICS=1 in the environment"
        for name in ("engine/logprob-gap/mean", "behaviour-weight/mean"):
            known[name] = "set use_vllm=True and vllm_importance_sampling_correction=True (off by default in Unsloth)"
    return known


DIALECT = replace(
    trl.DIALECT,
    name="unsloth",
    recognises=recognises,
    aliases=ALIASES,
    ignored=IGNORED,
    versions=versions,
    declare=declare,
    knobs=knobs,
    enable=enable,
    patch="keywords",
    samples="log_completions=True writes completions/*.parquet (with TRL 0.28 and later beneath)",
)
