"""AReaL: synchronous and asynchronous PPO and GRPO, DPO and SFT; scopes `ppo_actor/`, and `grpo_actor/` up to 0.4.

What the keys mean was read from the wheel 1.0.4 and the tags since 0.3. One row is one rollout batch from 0.4.1 on;
before, every minibatch was a row. Every figure of a batch is logged as `/avg`, `/min` and `/max`.

Three policies meet here: the one that sampled (behaviour), the one at the start of the update (proximal) and the
current one. `importance_weight` is current against proximal, `behave_imp_weight` proximal against behaviour; without
the decoupled loss the proximal one is the behaviour policy itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from vario.run import Declared, Floats, KnobSetting, Series, Setting
from vario.sources.dialects.base import NEWEST, OLDEST, Alias, Condition, Context, Dialect, Settled, Version, knobs_from

UPDATE_SCOPES = ("ppo_actor/update/", "grpo_actor/update/", "ppo_actor/", "grpo_actor/")
"""Where figures of the update stand: below `update/` from 0.4.1 on, flat before."""
BATCH_SCOPES = ("ppo_actor/", "grpo_actor/", "ppo/actor/")
"""Where figures of the rollout batch stand; the last is how the documentation spells it."""
PHASES = (
    "rollout", "critic_values", "ref_logp", "teacher_logp", "recompute_logp", "compute_advantage",
    "train_step", "critic_train_step", "update_weights", "save", "checkpoint_for_recover", "eval", "clear_batches",
)  # fmt: skip
"""The timed phases of a step; they follow each other, so their sum is the step."""
LIMITS = ("gconfig.max_new_tokens", "gconfig.max_tokens", "sglang.context_length", "vllm.max_model_len", "rollout.agent.engine_max_tokens")  # fmt: skip
"""Settings that end a generation; a sequence shorter than all of them was not cut."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Scopes that only AReaL writes, or fields that only its configuration has."""
    scopes = (*BATCH_SCOPES, "ppo_critic/", "eval-rollout/", "grpo-eval/")
    return (
        any(k.startswith(scopes) for k in keys)
        or "dpo/reward_margin/avg" in keys
        or {"sft/loss/avg", "timeperf/train_step"} <= keys
        or "rollout.max_head_offpolicyness" in config
        or "actor.ppo_n_minibatches" in config
        or {"gconfig.n_samples", "gconfig.max_new_tokens"} <= config.keys()
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Told by the trainer's scope, then by the loss, then by whether there is a critic."""
    policy = any(k.startswith((*BATCH_SCOPES, "ppo_critic/")) for k in keys)
    for scope, name in (("dpo/", "dpo"), ("rw/", "reward-model"), ("sft/", "sft")):
        if not policy and any(k.startswith(scope) for k in keys):
            return name
    if config.get("actor.use_sapo_loss") is True or any("/sapo_" in k for k in keys):
        return "sapo"
    if any(k.startswith("ppo_critic/") for k in keys) or "critic.ppo_n_minibatches" in config:
        return "ppo"
    return "gspo" if config.get("actor.importance_sampling_level") == "sequence" else "grpo"


def is_old(context: Context) -> bool:
    """Whether the flat layout before 0.4.1 was written, where every minibatch is a row."""
    return any(k.startswith(("ppo_actor/", "grpo_actor/")) for k in context.keys) and not any(
        "_actor/update/" in k for k in context.keys
    )


_KEY_BOUNDS: tuple[tuple[str, Version, Version], ...] = (
    # part of a key, first version that logs it, last version that does
    ("grpo_actor/", OLDEST, (0, 4)),
    ("grpo-eval/", OLDEST, (0, 5)),
    ("_actor/update/", (0, 4), NEWEST),
    ("/version_stats/", (0, 5), NEWEST),
    ("eval-rollout/", (0, 5), NEWEST),
    ("/kl_div_", (1, 0), NEWEST),
    ("/rs_", (1, 0), NEWEST),
)
_CONFIG_BOUNDS: tuple[tuple[str, Version, Version], ...] = (
    # the cap became rejection_sampling with 1.0.4, which refuses the old names
    ("actor.behave_imp_weight_", OLDEST, (1, 0)),
    ("actor.rejection_sampling", (1, 0), NEWEST),
)


def versions(context: Context) -> tuple[Version, Version]:
    """The version as W&B's configuration states it, or bounds from keys and settings that came and went."""
    stated = context.config.get("version_info.version")
    if isinstance(stated, str) and (found := re.match(r"v?(\d+)\.(\d+)\b", stated)):
        exact = (int(found[1]), int(found[2]))
        return exact, exact
    oldest, newest = OLDEST, NEWEST
    for part, since, until in _KEY_BOUNDS:
        if any(part in k for k in context.keys):
            oldest, newest = max(oldest, since), min(newest, until)
    for start, since, until in _CONFIG_BOUNDS:
        if any(k.startswith(start) for k in context.config):
            oldest, newest = max(oldest, since), min(newest, until)
    return (oldest, newest) if oldest <= newest else (OLDEST, NEWEST)


def _find(context: Context, scopes: Iterable[str], *names: str) -> Series | None:
    return next((context.series[s + n] for n in names for s in scopes if s + n in context.series), None)


def _together(first: Series, *others: Series) -> tuple[Series, list[Floats]]:
    """`first` at the steps that all have, and the values of the others there."""
    shared = first.steps
    for other in others:
        shared = np.intersect1d(shared, other.steps)
    at = [s.values[np.searchsorted(s.steps, shared)] for s in (first, *others)]
    return Series(first.key, shared, at[0]), at[1:]


# the conditions

_NO_EOS = ("no_eos_ratios/avg", "no_eos_ratio/avg", "no_eos_ratios", "no_eos_ratio")


def _also_rollouts(context: Context, _: Series) -> Settled:
    return Settled("rollout/reward" in context.keys)


def _corrected(context: Context, _: Series) -> Settled:
    """`derive` gives the metric, corrected."""
    return Settled(False)


def _needs_prompt(context: Context, _: Series) -> Settled:
    if _find(context, BATCH_SCOPES, "prompt_len/avg") is None:
        return Settled(
            None, "prompt and completion together; the prompt's length, which would be taken off, is not logged"
        )
    return Settled(False)


def _clips(context: Context, _: Series) -> Settled:
    if context.algorithm == "sapo":
        return Settled(False, "written as 0 with SAPO, which does not clip")
    return Settled(True)


def _is_decoupled(context: Context) -> bool | None:
    stated = context.config.get("actor.use_decoupled_loss")
    return stated if isinstance(stated, bool) else None


def _apart(context: Context, series: Series) -> Settled:
    """Without the decoupled loss the two policies are one: the weight is 1 and its KL 0 by construction."""
    if _is_decoupled(context) is False:
        return Settled(
            False, "without use_decoupled_loss the proximal policy is the behaviour policy: fixed, not measured"
        )
    finite = series.values[np.isfinite(series.values)]
    if finite.size and bool((finite == finite[0]).all()) and float(finite[0]) in (0.0, 1.0):
        return Settled(False, "fixed at one value: the two policies are the same here, nothing was measured")
    return Settled(True)


def _against_sampler(context: Context, _: Series) -> Settled:
    """`old_logp` is the sampler's, unless the trainer recomputed it in its place."""
    decoupled, recomputed = _is_decoupled(context), context.config.get("actor.recompute_logprob")
    if decoupled is True or recomputed is False:
        return Settled(True)
    if decoupled is False and recomputed is True:
        return Settled(
            False, "with recompute_logprob the old log-probabilities are the trainer's own, not the sampler's"
        )
    if {"timeperf/train_step"} <= context.keys and "timeperf/recompute_logp" not in context.keys:
        return Settled(True)  # the timer is there whenever they are recomputed
    weight = _find(context, UPDATE_SCOPES, "behave_imp_weight/avg")
    if weight is not None and _apart(context, weight).holds:
        return Settled(True)  # a weight that moves needs a proximal policy of its own
    return Settled(None, "against the sampler, or against recomputed log-probabilities: use_decoupled_loss and recompute_logprob are not known")  # fmt: skip


def _has_reference(context: Context) -> bool | None:
    if "timeperf/ref_logp" in context.keys:
        return True
    if any(k.startswith("actor.") for k in context.config):
        return any(k.startswith("ref.") for k in context.config)
    return None


def _penalty(context: Context, series: Series) -> Settled:
    """`derive` divides it by the coefficient; here stands why it cannot."""
    weight = context.number("actor.kl_ctl")
    if weight == 0.0 or not np.nan_to_num(series.values).any():
        return Settled(False, "0: actor.kl_ctl is 0")
    if weight is None:
        return Settled(None, "the divergence times actor.kl_ctl, which is not known")
    if _has_reference(context) is None:
        return Settled(
            None, "without a reference it is the policy's own log-probability; whether there is one is not known"
        )
    if _has_reference(context) is False:
        return Settled(False, "no reference is loaded: it is the policy's own log-probability")
    return Settled(False)


def _is_async(context: Context) -> bool | None:
    """Whether sampling runs beside training; stale samples prove it."""
    bound = context.number("rollout.max_head_offpolicyness")
    if bound is not None:
        return bound > 0
    worst = _find(context, UPDATE_SCOPES, "version_stats/sample_staleness_theta_max")
    if worst is not None and bool((np.nan_to_num(worst.values) > 0).any()):
        return True
    return None


def _generating(context: Context, _: Series) -> Settled:
    asynchronous = _is_async(context)
    if asynchronous is None:
        return Settled(None, "generation, or the wait for it: rollout.max_head_offpolicyness is not known")
    return Settled(not asynchronous)


def _waiting(context: Context, series: Series) -> Settled:
    generating = _generating(context, series)
    return Settled(None if generating.holds is None else not generating.holds, generating.why)


def _minus(values: Floats) -> Floats:
    """A mean of new minus old log-probabilities is minus the divergence (k1)."""
    return -values


def _batch(*names: str, metric: str, when: Condition | None = None) -> tuple[Alias, ...]:
    return tuple(Alias(scope + name, metric, when=when) for name in names for scope in BATCH_SCOPES)


def _update(name: str, metric: str, *, when: Condition | None = None, minus: bool = False, zero: bool = False) -> tuple[Alias, ...]:  # fmt: skip
    transform = _minus if minus else None
    return tuple(Alias(s + name, metric, when=when, transform=transform, zero_is_missing=zero) for s in UPDATE_SCOPES)


ALIASES = (
    # `rollout/reward` counts every trajectory, `task_reward` those that were accepted and trained on
    Alias("rollout/reward", "reward/mean"),
    *_batch("task_reward/avg", "task_reward", metric="reward/kept/mean", when=_also_rollouts),
    *_batch("task_reward/avg", "task_reward", metric="reward/mean"),
    *_batch("task_reward/min", metric="reward/min"),
    *_batch("task_reward/max", metric="reward/max"),
    Alias("eval-rollout/reward", "eval/score/mean"),
    Alias("grpo-eval/reward", "eval/score/mean"),
    *_batch(*_NO_EOS, metric="length/truncated-share", when=_corrected),
    *_batch("advantages/max", metric="advantage/max"),
    *_batch("advantages/min", metric="advantage/min"),
    *_batch("seq_len/avg", metric="length/mean", when=_needs_prompt),
    *_batch("prompt_len/avg", metric="length/prompt/mean"),
    *_batch("kl_rewards/avg", metric="kl/reference", when=_penalty),
    *_update("importance_weight/avg", "importance-weight/mean", when=_corrected),
    # tokens that rejection sampling masks are counted as 0
    *_update("importance_weight/min", "importance-weight/min", zero=True),
    *_update("importance_weight/max", "importance-weight/max"),
    *_update("behave_imp_weight/avg", "behaviour-weight/mean", when=_apart),
    *_update("behave_imp_weight/min", "behaviour-weight/min", when=_apart),
    *_update("behave_imp_weight/max", "behaviour-weight/max", when=_apart),
    *_update("rs_filtered_fraction", "behaviour-weight/capped-share"),
    *_update("approx_kl/avg", "kl/update", minus=True),
    *_update("compute_logp/kl_div_dual/avg", "engine/kl", when=_against_sampler),
    *_update("compute_logp/kl_div_direct/avg", "engine/kl", when=_against_sampler),
    *_update("behave_approx_kl/avg", "engine/kl", when=_apart, minus=True),
    *_update("entropy/avg", "entropy/mean"),
    *_update("clip_ratio/avg", "clip/fraction/total", when=_clips),
    *_update("actor_loss/avg", "loss/policy"),
    *_update("grad_norm", "gradient/norm"),
    *_update("lr", "learning-rate"),
    *_update("version_stats/sample_staleness_theta_avg", "staleness/mean"),
    *_update("version_stats/sample_staleness_theta_max", "staleness/max"),
    Alias("rollout/num_turns", "turns/mean"),
    Alias("ppo_critic/critic_loss/avg", "loss/value"),
    Alias("ppo_critic/clip_ratio/avg", "value/clip-fraction"),
    Alias("timeperf/rollout", "systems/rollout-time", when=_generating),
    Alias("timeperf/rollout", "systems/wait-time", when=_waiting),
    Alias("timeperf/train_step", "systems/train-time"),
    Alias("timeperf/recompute_logp", "systems/logprob-time"),
    Alias("timeperf/update_weights", "systems/sync-time"),
    Alias("timeperf/save", "systems/checkpoint-time"),
    Alias("timeperf/eval", "systems/eval-time"),
    Alias("dpo/loss/avg", "loss/total"),
    Alias("dpo/chosen_reward/avg", "preference/chosen-reward"),
    Alias("dpo/rejected_reward/avg", "preference/rejected-reward"),
    Alias("dpo/reward_accuracy/avg", "preference/accuracy"),
    Alias("dpo/reward_margin/avg", "preference/margin"),
    Alias("dpo-eval/loss/avg", "eval/loss"),
    Alias("dpo-eval/reward_accuracy/avg", "eval/preference/accuracy"),
    Alias("dpo-eval/reward_margin/avg", "eval/preference/margin"),
    Alias("sft/loss/avg", "loss/total"),
    Alias("sft-eval/loss/avg", "eval/loss"),
    *(Alias(f"{scope}/grad_norm", "gradient/norm") for scope in ("dpo", "sft")),
    *(Alias(f"{scope}/lr", "learning-rate") for scope in ("dpo", "sft")),
)

_ACTOR = r"(ppo_actor|grpo_actor|ppo/actor)/(update/)?"
IGNORED = {
    _ACTOR + r"(n_seqs|n_tokens|n_valid_tokens|correct_n_seqs|incorrect_n_seqs|clipped_tokens|dual_clipped_tokens|unclipped_behave_tokens)": "a count of sequences or tokens",
    _ACTOR + r"(correct|incorrect)_seq_len/(avg|min|max)": "lengths by the sign of the reward, the prompt with them",
    _ACTOR + r"(seq_len|prompt_len)/(min|max)": "extremes that hold the prompt, or are the prompt's",
    _ACTOR + r"(no_eos_ratios?|kl_rewards|entropy|actor_loss|clip_ratio|approx_kl|behave_approx_kl|dual_clip_ratio)/(min|max)": "extremes of single tokens",
    _ACTOR + r"final_reward/(avg|min|max)": "the reward spread over the tokens: smaller by the length",
    _ACTOR + r"advantages/avg": "normalised, of no trend of its own",
    _ACTOR + r"dual_clip_ratio/avg": "the bound on negative advantages (c_clip), no side of the ratio clip",
    _ACTOR + r"(clipped_)?(new|old)_logp/(avg|min|max)": "log-probabilities; their differences are read",
    _ACTOR + r"(mask_no_eos_with_zero|eps_clip|c_clip|use_dual_clip|rs_upper|rs_lower)": "an echo of the configuration",
    _ACTOR + r"sapo_(soft_gate|scaled_gate_pos|scaled_gate_neg)/(avg|min|max)": "gates of the SAPO loss",
    _ACTOR + r"rkl_loss/(avg|min|max)": "the distillation part of the loss",
    _ACTOR + r"vocab_(min|max)_logits/(avg|min|max)": "raw logits: no scale of their own",
    _ACTOR + r"update_successful": "0 where a gradient was not finite and the update was skipped; the gradient norm shows it",
    _ACTOR + r"compute_logp/(n_valid_tokens|prox_logp_gt/(avg|min|max)|kl_div_(direct|taylor|dual)/(avg|min|max))": "further forms of the gap to the sampler",
    _ACTOR + r"compute_logp/[^/]+/(approx_logp|(behave_imp_weight|importance_weight)(_(abs|rel)_error)?|abs_error|rel_error|squared_error)/(avg|min|max)": "how well the proximal policy is approximated",
    _ACTOR + r"version_stats/(sample_staleness_(proximal_(avg|min|max)|theta_min)|v_theta|v_proximal|n_valid_generated_tokens|n_valid_tokens)": "versions and further forms of staleness",
    r"ppo_critic/(new_value|old_value|target_value|clipped_new_value|clipped_old_value|critic_loss|clip_ratio)/(avg|min|max)": "values: of no trend of their own; extremes",
    r"ppo_critic/(grad_norm|lr|eps_clip|mask_no_eos_with_zero|update_successful|n_tokens|n_valid_tokens|clipped_tokens)": "the critic's own optimiser and counts",
    r"eval-rollout/num_turns": "turns of held-out episodes; their reward is read",
    _ACTOR + r"(num_micro_batches|tree_token_ratio)|(ppo_critic|dpo|sft)/(num_micro_batches|tree_token_ratio)": "how a batch was packed",
    r"ckpt/async_save_queue_depth": "checkpoints still being written in the background",
    r"(eval-)?rollout/(accepted|rejected)": "the mean of ones: always 1, no rate of acceptance",
    r"timeperf/(critic_values|ref_logp|teacher_logp|compute_advantage|critic_train_step|checkpoint_for_recover|clear_batches|load_bcast)": "a phase that only counts towards the step",
    r"timeperf/[a-z]+_(pause|resume|onload|offload|pause_generation|continue_generation)": "handing a device over between phases",
    r"(dpo|sft|rw)(-eval)?/(n_seqs|n_tokens|n_valid_tokens|n_pairs|prompt_tokens)": "a count",
    r"(dpo|sft|rw)/update_successful": "0 where a gradient was not finite and the update was skipped; the gradient norm shows it",
    r"sft(-eval)?/vocab_(min|max)_logits/(avg|min|max)": "raw logits: no scale of their own",
    r"(dpo|sft)(-eval)?/(loss|chosen_reward|rejected_reward|reward_accuracy|reward_margin)/(avg|min|max)": "extremes, and held-out figures beyond margin and accuracy",
    r"sft(-eval)?/ppl/(avg|min|max)": "the loss in another unit",
    r"rw(-eval)?/.*": "training of a reward model, which no instrument reads",
}  # fmt: skip


def derive(context: Context) -> Mapping[str, Series]:
    """Metrics that take several keys: lengths without the prompt, cuts, weights over kept tokens, the KL, the step."""
    found = {
        "length/mean": _completion_length(context),
        "length/truncated-share": _truncated(context),
        "importance-weight/mean": _importance_weight(context),
        "kl/reference": _reference_kl(context),
        "systems/step-time": _step_time(context),
    }
    return {name: series for name, series in found.items() if series is not None}


def _completion_length(context: Context) -> Series | None:
    whole, prompt = (_find(context, BATCH_SCOPES, f"{k}/avg") for k in ("seq_len", "prompt_len"))
    if whole is None or prompt is None:
        return None
    both, (prompts,) = _together(whole, prompt)
    return Series(both.key, both.steps, both.values - prompts)


def _truncated(context: Context) -> Series | None:
    """The share of sequences as long as the padded batch, 0 where that says nothing of a cut.

    The longest sequence always counts, cut or not. So a row counts as free of cuts where one sequence makes up
    the whole share, and where the longest, prompt and all, is shorter than every limit that is configured.
    """
    share = _find(context, BATCH_SCOPES, *_NO_EOS)
    if share is None:
        return None
    values = share.values.copy()
    count = _find(context, BATCH_SCOPES, "n_seqs")
    if count is not None:
        at = np.isin(share.steps, count.steps)
        counts = count.values[np.searchsorted(count.steps, share.steps[at])]
        alone = np.zeros(values.size, dtype=bool)
        alone[at] = values[at] * counts < 1.5
        values[alone] = 0.0
    limits = [n for key in LIMITS if (n := context.number(key)) is not None and n > 0]
    longest = _find(context, BATCH_SCOPES, "seq_len/max")
    if longest is not None and "gconfig.max_new_tokens" in context.config and limits:
        at = np.isin(share.steps, longest.steps)
        short = np.zeros(values.size, dtype=bool)
        short[at] = longest.values[np.searchsorted(longest.steps, share.steps[at])] < min(limits)
        values[short] = 0.0
    return Series(share.key, share.steps, values)


def _importance_weight(context: Context) -> Series | None:
    """Mean over the tokens that were kept: rejected ones are logged as weights of 0, in the mean too."""
    weight = _find(context, UPDATE_SCOPES, "importance_weight/avg")
    lowest = _find(context, UPDATE_SCOPES, "importance_weight/min")
    valid = _find(context, UPDATE_SCOPES[:2], "n_valid_tokens")
    kept = _find(context, UPDATE_SCOPES[:2], "unclipped_behave_tokens")
    if weight is None or lowest is None or valid is None or kept is None:
        return weight
    both, (least, all_tokens, kept_tokens) = _together(weight, lowest, valid, kept)
    if len(both) < len(weight):
        return weight
    masked = (least == 0.0) & (kept_tokens > 0.0)
    scale = np.where(masked, all_tokens / np.where(kept_tokens > 0.0, kept_tokens, 1.0), 1.0)
    return Series(both.key, both.steps, both.values * scale)


def _reference_kl(context: Context) -> Series | None:
    """The penalty per token, divided by its coefficient; its sign is that of a cost."""
    penalty, weight = _find(context, BATCH_SCOPES, "kl_rewards/avg"), context.number("actor.kl_ctl")
    if penalty is None or not weight or not _has_reference(context) or not np.nan_to_num(penalty.values).any():
        return None
    return Series(penalty.key, penalty.steps, -penalty.values / weight)


def _step_time(context: Context) -> Series | None:
    """No timer spans the step; its phases follow each other."""
    update = context.series.get("timeperf/train_step")
    if update is None or "timeperf/rollout" not in context.keys:
        return None
    total = np.zeros(len(update))
    for phase in PHASES:
        part = context.series.get(f"timeperf/{phase}")
        if part is not None:
            at = np.isin(update.steps, part.steps)
            total[at] += np.nan_to_num(part.values[np.searchsorted(part.steps, update.steps[at])])
    return Series(update.key, update.steps, total)


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    number, config = context.number, context.config
    if context.algorithm in ("dpo", "sft", "reward-model"):
        return Declared(step_unit="optimiser", steps_per_row=1.0)
    prompts, group = number("train_dataset.batch_size"), number("gconfig.n_samples")
    weight = number("actor.kl_ctl")
    by_design: bool | None = None
    if weight is not None:
        by_design = False if weight == 0.0 else _has_reference(context)
    elif "timeperf/ref_logp" in context.keys:
        by_design = True
    levels = {config.get(f"actor.{norm}.mean_level") for norm in ("reward_norm", "adv_norm")}
    centred: bool | None = None
    if any(k.startswith("actor.") for k in config):
        centred = "group" in levels
    return Declared(
        updates_per_rollout=number("actor.ppo_n_minibatches"),
        max_length=number("gconfig.max_new_tokens"),
        kl_by_design=by_design,
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=centred,
        steps_per_row=1.0,
        step_unit="optimiser" if is_old(context) else "rollout",
        # `rollout/reward` counts the rejected trajectories too; a filter is an argument in code, nothing else tells
        reward_filtered=False if "rollout/reward" in context.keys else None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default in 1.0.4)
    "kl-coef": ("actor.kl_ctl", 0.1),
    "learning-rate": ("actor.optimizer.lr", 1e-3),
    "warmup": ("actor.optimizer.warmup_steps_proportion", 0.001),
    "batch-size": ("train_dataset.batch_size", 1),
    "group-size": ("gconfig.n_samples", 1),
    "clip-low": ("actor.eps_clip", 0.2),
    "clip-high": ("actor.eps_clip_higher", None),
    "minibatches": ("actor.ppo_n_minibatches", 4),
    "temperature": ("gconfig.temperature", 1.0),
    "max-completion-length": ("gconfig.max_new_tokens", 16384),
    "missing-eos-penalty": ("actor.mask_no_eos_with_zero", False),
    "length-penalty": ("actor.overlong_reward_penalty", False),
    "reward-scaling": ("actor.reward_norm.std_level", None),
    "reward-bounds": ("actor.reward_clip", 20.0),
    "dynamic-filter": ("dynamic_filter_fn", None),  # an argument of train(); should_accept_fn of prepare_batch
    "staleness-bound": ("rollout.max_head_offpolicyness", 0),
    "decoupled-loss": ("actor.use_decoupled_loss", False),
    "recompute-logprob": ("actor.recompute_logprob", False),
    "deterministic-kernels": ("actor.megatron.use_deterministic_algorithms", False),
    "max-grad-norm": ("actor.optimizer.gradient_clipping", 1.0),
    "save-steps": ("saver.freq_steps", None),
}
_OLD_CAP = "actor.behave_imp_weight_cap"
_CAP = "actor.rejection_sampling.upper"


def _is_capped_the_old_way(context: Context) -> bool:
    """Before 1.0.4 the weight had a cap and a mode; rejection sampling replaced them."""
    if any(k.startswith("actor.rejection_sampling") for k in context.config):
        return False
    return _OLD_CAP in context.config or context.newest < (1, 0)


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """AReaL's settings for the canonical knobs."""
    if context.algorithm in ("sft", "reward-model"):
        return {}
    if context.algorithm == "dpo":
        return knobs_from(context, {"learning-rate": ("actor.optimizer.lr", 1e-3), "batch-size": ("train_dataset.batch_size", 1)})  # fmt: skip
    table = dict(_KNOBS)
    # neither has an effect without being set: no cap is the default
    table["behaviour-weight-cap"] = (_OLD_CAP, None) if _is_capped_the_old_way(context) else (_CAP, None)
    if context.algorithm == "ppo":
        table["value-clip"] = ("critic.eps_clip", 0.5)
        table["critic-learning-rate"] = ("critic.optimizer.lr", 1e-3)
    return knobs_from(context, table)


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from AReaL."""
    if context.algorithm in ("sft", "reward-model"):
        return {}
    if context.algorithm == "dpo":
        return {
            "preference/margin": "logged as dpo/reward_margin/avg",
            "eval/preference/margin": "give valid_dataset and set evaluator.freq_steps: dpo-eval/reward_margin/avg is logged",
        }
    dump = "rollout.dump_to_file=True writes every sample with its reward and versions"
    cap = (
        f"set {_OLD_CAP} (5) with actor.use_decoupled_loss=True"
        if _is_capped_the_old_way(context)
        else "set actor.rejection_sampling (upper 5) with actor.use_decoupled_loss=True"
    )
    return {
        "kl/reference": "actor.kl_ctl above 0 (1e-6 costs next to nothing) and a ref section: ppo_actor/kl_rewards/avg is then minus kl_ctl times the divergence",
        "reward/mean": "logged as rollout/reward over all trajectories, as ppo_actor/task_reward/avg over those trained on",
        "reward/std/within-group": f"not logged by AReaL; {dump}",
        "signal/zero-variance-share": f"not logged by AReaL; {dump}",
        "eval/score/mean": "pass an evaluation workflow and valid_dataset and set evaluator.freq_steps: eval-rollout/reward is logged",
        "entropy/mean": "logged as ppo_actor/update/entropy/avg",
        "length/truncated-share": "logged as ppo_actor/no_eos_ratios/avg; the longest sequence of a batch always counts",
        "importance-weight/mean": "logged as ppo_actor/update/importance_weight/avg",
        "behaviour-weight/mean": f"{cap}: behave_imp_weight is then logged",
        "engine/kl": "logged as ppo_actor/update/compute_logp/kl_div_dual/avg from 1.0.3 on",
        "staleness/mean": "logged below ppo_actor/update/version_stats from 0.5 on",
        "clip/fraction/total": "logged as ppo_actor/update/clip_ratio/avg",
        "clip/fraction/low": "not logged apart; clip_ratio holds both sides",
        "systems/step-time": "the sum of the phases below timeperf/",
    }


DIALECT = Dialect(
    "areal",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    patch="yaml",
    devices=(("cluster.n_gpus_per_node", "cluster.n_nodes"),),
    samples="rollout.dump_to_file=true writes rollout/{version}/{task_id}.jsonl (and eval-rollout/) below the logs",
)
