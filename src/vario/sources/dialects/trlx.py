"""trlX 0.7, PPO. A step is one optimiser update; rollout statistics stand at the step that collected them.

No entropy, length or gradient norm is logged. `reward/mean` is the evaluation; the training reward
is `rollout_scores/mean`. The divergences from the reference are logged as square roots.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vario.run import Declared, Floats, KnobSetting, Series, Setting
from vario.sources.dialects.base import OWN_SAMPLES, Alias, Context, Dialect, Settled, knobs_from


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only trlX writes, or the sections of its configuration."""
    decisive = (
        {"policy/sqrt_kl"},
        {"kl_ctl_value", "rollout_scores/mean"},
        {"losses/policy_loss", "losses/value_loss", "policy/approx_kl"},
        {"losses/total_loss", "padding_percentage"},
    )
    return any(d <= keys for d in decisive) or {"method.init_kl_coef", "method.num_rollouts"} <= config.keys()


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The configured method; the documented keys are PPO's."""
    named = config.get("method.name")
    method = named.lower() if isinstance(named, str) else "ppo"
    return next((known for known in ("ilql", "sft", "rft") if method.startswith(known)), "ppo")


def _squared(values: Floats) -> Floats:
    return np.square(values)


def _corrected_elsewhere(context: Context, _: Series) -> Settled:
    if "padding_percentage" in context.keys:
        return Settled(False)
    return Settled(None, "a mean over padding too, and padding_percentage is not there to take it out")


def _never(why: str) -> Settled:
    return Settled(False, why)


ALIASES = (
    Alias("rollout_scores/mean", "reward/mean"),
    Alias("rollout_scores/std", "reward/std/batch"),
    Alias("reward/mean", "eval/score/mean"),
    Alias(r"reward/mean@(?P<part>.+)", "eval/set/*/mean"),
    Alias("policy/sqrt_kl", "kl/reference/sequence", transform=_squared),
    Alias(
        "policy/kl_per_token",
        "kl/reference",
        when=lambda _c, _s: _never("a mean over prompt and padding too: smaller by their share, which is not logged"),
    ),
    Alias("policy/approx_kl", "kl/update", when=_corrected_elsewhere),
    Alias("kl_ctl_value", "kl/coefficient"),
    Alias("policy/clipfrac", "clip/fraction/total"),
    Alias("ratio", "ratio/mean"),
    Alias("losses/policy_loss", "loss/policy"),
    Alias("losses/value_loss", "loss/value"),
    Alias("losses/total_loss", "loss/total"),
    Alias("values/clipfrac", "value/clip-fraction"),
    Alias("learning_rate_group_0", "learning-rate"),
    Alias("time/rollout_generate", "systems/rollout-time"),
    Alias("time/rollout_score", "systems/reward-time"),
)

IGNORED = {
    r"_step|iter_count": "a count of progress",
    r"rollout_scores/running_(mean|std)": "running moments, used to scale the reward",
    r"values/(mean|min|max|std|values_error|values_mape_error)|old_values/.*|returns/.*": "values and returns; the share explained is worked out of them",
    r"padding_percentage": "share of padding (a fraction, whatever its name): taken out of approx_kl",
    r"metrics/.*": "measures of the user's own on evaluation prompts: which way is better is not known",
    r"samples": "a table of texts",
    r"learning_rate_group_\d+": "learning rates of further parameter groups",
    r"time/(rollout_time|generate|metric)": "generation and scoring together, or parts of an evaluation",
    r"time/(forward|backward)": "a mean over micro-batches, not the time of an update",
}


def derive(context: Context) -> Mapping[str, Series]:
    """The update's divergence without padding, and the share of return variance explained."""
    found: dict[str, Series] = {}
    divergence = _both(context, "policy/approx_kl", "padding_percentage")
    if divergence is not None:
        whole, padding = divergence
        kept = 1.0 - padding.values
        ok = kept > 0.0
        found["kl/update"] = Series(whole.key, whole.steps[ok], whole.values[ok] / kept[ok])
    error = _both(context, "values/values_error", "returns/std")
    if error is not None:
        squares, spread = error
        ok = spread.values > 0.0
        found["value/explained-variance"] = Series(
            squares.key, squares.steps[ok], 1.0 - squares.values[ok] / np.square(spread.values[ok])
        )
    return found


def _both(context: Context, first: str, second: str) -> tuple[Series, Series] | None:
    """Two series at the steps that have both."""
    one, other = context.series.get(first), context.series.get(second)
    if one is None or other is None:
        return None
    steps, at_one, at_other = np.intersect1d(one.steps, other.steps, return_indices=True)
    return Series(one.key, steps, one.values[at_one]), Series(other.key, steps, other.values[at_other])


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per collection, cap and KL penalty, as configured."""
    number = context.number
    rollouts, batch, epochs = number("method.num_rollouts"), number("train.batch_size"), number("method.ppo_epochs")
    penalty = number("method.init_kl_coef")
    return Declared(
        updates_per_rollout=max(1.0, rollouts / batch) * epochs if rollouts and batch and epochs else None,
        max_length=number("method.gen_kwargs.max_new_tokens"),
        kl_by_design=None if penalty is None else penalty != 0.0,
        group_centred=False,
        steps_per_row=1.0,
        step_unit="optimiser",
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default of the PPO configuration of 0.7)
    "kl-coef": ("method.init_kl_coef", 0.001),
    "learning-rate": ("optimizer.kwargs.lr", 3e-5),
    "batch-size": ("train.batch_size", 32),
    "minibatches": ("method.num_rollouts", 128),
    "epochs": ("method.ppo_epochs", 4),
    "clip-low": ("method.cliprange", 0.2),
    "clip-high": ("method.cliprange", 0.2),
    "value-clip": ("method.cliprange_value", 0.2),
    "value-coef": ("method.vf_coef", 1),
    "reward-bounds": ("method.cliprange_reward", 10),
    "reward-scaling": ("method.scale_reward", "ignored"),
    "temperature": ("method.gen_kwargs.temperature", None),
    "max-completion-length": ("method.gen_kwargs.max_new_tokens", None),
    "save-steps": ("train.checkpoint_interval", 10000),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """The configuration's names for the canonical knobs."""
    return knobs_from(context, _KNOBS)


def enable(context: Context) -> Mapping[str, str]:
    """What of the missing can be had without editing trlX."""
    return {
        "eval/score/mean": "give eval_prompts and a reward_fn; train.eval_interval says how often",
        "kl/reference/sequence": "logged by the PPO trainer as policy/sqrt_kl, its square root",
        "length/mean": "not logged; train.rollout_logging_dir writes the rollouts' tokens",
        "text/distinct-share": "not logged; train.rollout_logging_dir writes the rollouts' tokens",
    }


DIALECT = Dialect(
    "trlx",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    patch="yaml",
    samples=f"trlX logs those of evaluations to W&B (the table samples); {OWN_SAMPLES}",
)
