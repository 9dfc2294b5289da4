"""verl-agent (GiGPO, HGPO): multi-turn agents on a verl of about 0.3 to 0.4.

What differs from verl was read from a fork (8ca3a467, 2026-04), as the first repository could not be had. A row of
the batch is one step of an environment: `critic/score`, `response_length` and `prompt_length` are of steps, and so
is the cap on a response. `episode/*` is of whole episodes. The number of rows changes from batch to batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from vario.run import Declared, KnobSetting, Series, Setting
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


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Episodes beside verl's own keys, or the settings of GiGPO and its environments."""
    of_verl = any(k.startswith(("actor/", "critic/")) for k in keys)
    if "episode/reward/mean" in keys and of_verl:
        return True
    if any(k.startswith("algorithm.gigpo.") for k in config) or config.get("algorithm.adv_estimator") == "gigpo":
        return True
    return {"env.env_name", "env.rollout.n"} <= config.keys()


def versions(context: Context) -> tuple[Version, Version]:
    """The bounds of the verl below are not those of the fork."""
    return OLDEST, NEWEST


def _not_printed_as_zero(context: Context, series: Series) -> Settled:
    if not series.values.any():
        return Settled(None, "0 everywhere: switched off, or a small rate printed with three decimals")
    return Settled(True)


def _no_score(context: Context, _: Series) -> Settled:
    """The share of successes stands in where no validation reward was logged."""
    return Settled(not any(k.startswith("val/") and k.endswith("/test_score") for k in context.keys))


_OTHERWISE = ("critic/score/", "critic/rewards/", "actor/lr")
"""Keys of verl that mean something else here: scores of steps, less the penalty on invalid actions."""

ALIASES = (
    Alias("episode/reward/mean", "reward/mean"),
    Alias("episode/reward/max", "reward/max"),
    Alias("episode/reward/min", "reward/min"),
    Alias("episode/length/mean", "turns/mean"),
    Alias("val/success_rate", "eval/score/mean", when=_no_score),
    Alias("actor/lr", "learning-rate", when=_not_printed_as_zero),
    *(alias for alias in verl.ALIASES if not alias.key.startswith(_OTHERWISE)),
)

IGNORED = {
    r"critic/score/.*": "scores of single environment steps, less the penalty on invalid actions; episode/reward is the episode's",
    r"episode/length/(max|min)": "extremes of the number of steps",
    r"episode/tool_call_count/.*|val/.+/tool_call_count/.*": "use of tools: descriptive",
    r"episode/(.+_)?success_rate|episode/valid_action_ratio": "what the environment reports of its episodes; the reward is read",
    r"val/(.+_)?success_rate": "success on the validation episodes; their reward is read where it is logged",
    r"(rollout|eval)/llm_steps": "tables",
    **verl.IGNORED,
}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Groups are of episodes; how many updates a batch makes depends on how many steps they took."""
    prompts, group = context.number("data.train_batch_size"), context.number("env.rollout.n")
    declared = verl.declare(context, series)
    grouped = context.config.get("algorithm.adv_estimator") in ("gigpo", "hgpo") or declared.group_centred
    return dataclasses.replace(
        declared,
        updates_per_rollout=None,
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=grouped,
    )


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Verl's settings; the group is made of environments."""
    not_here = (
        "staleness-bound",
        "dynamic-filter",
        "length-penalty",
        "behaviour-weight-cap",
        "decoupled-loss",
        "deterministic-kernels",
    )
    ours = {knob: setting for knob, setting in verl.knobs(context).items() if knob not in not_here}
    return ours | knobs_from(context, {"group-size": ("env.rollout.n", None)})


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from verl-agent."""
    newer = ("engine/probability-gap/mean", "engine/kl", "behaviour-weight/mean")
    inherited = {metric: how for metric, how in verl.enable(context).items() if metric not in newer}
    return inherited | {
        "reward/std/within-group": "not logged, and the batch has one row a step: gather episode rewards by prompt in the environment manager",
        "signal/zero-variance-share": "not logged, and the batch has one row a step: gather episode rewards by prompt in the environment manager",
        "eval/score/mean": "set trainer.test_freq: val/<data source>/test_score is logged",
        "entropy/mean": "logged as actor/entropy_loss",
        "length/truncated-share": "logged as response_length/clip_ratio, of single steps",
    }


DIALECT: Dialect = dataclasses.replace(
    verl.DIALECT,
    name="verl-agent",
    recognises=recognises,
    aliases=ALIASES,
    ignored=IGNORED,
    versions=versions,
    declare=declare,
    knobs=knobs,
    enable=enable,
    samples=f"verl-agent writes none by itself; {OWN_SAMPLES}",
)
