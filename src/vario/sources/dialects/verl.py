"""verl: the V1, V0, fully asynchronous and one-step-off trainers, and the names of older versions.

What the keys mean was read from the wheels 0.2 to 0.9.1. One row is one rollout batch.
verl logs no spread inside groups and no lower-side clip fraction: the rollout dumps hold them.
"""

from __future__ import annotations

from collections.abc import Mapping

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import NEWEST, OLDEST, Alias, Condition, Context, Dialect, Settled, Version, knobs_from

GROUP_ESTIMATORS = ("grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "reinforce_plus_plus_baseline", "opo", "gpg", "gdpo")  # fmt: skip
"""Advantage estimators whose advantages are centred inside a group."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only verl writes, or the sections of its configuration."""
    decisive = (
        {"critic/score/mean"},
        {"critic/rewards/mean", "timing_s/step"},
        {"timing_s/gen", "timing_s/step"},
        {"actor/pg_loss", "actor/ppo_kl"},
        {"actor/pg_loss", "critic/rewards/mean"},
        {"critic/rewards/mean", "response_length/mean"},
    )
    return (
        any(d <= keys for d in decisive)
        or any(k.startswith(("fully_async/", "val-core/")) for k in keys)
        or any(k.startswith("actor_rollout_ref.") for k in config)
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The estimator as configured; without a configuration, a critic's loss tells PPO from GRPO."""
    estimator = config.get("algorithm.adv_estimator")
    if isinstance(estimator, str):
        return "ppo" if estimator == "gae" else estimator.replace("_", "-")
    return "ppo" if "critic/vf_loss" in keys else "grpo"


def is_second_trainer(context: Context) -> bool:
    """Whether the V1 trainer wrote the log: it alone has these keys."""
    return any(k.startswith(("training/off_policy/", "training/num_turns/")) for k in context.keys)


def is_fully_async(context: Context) -> bool:
    """Whether the fully asynchronous trainer wrote the log."""
    return any(k.startswith("fully_async/") for k in context.keys)


def versions(context: Context) -> tuple[Version, Version]:
    """Bounds from the keys that came and went."""
    keys = context.keys
    oldest, newest = OLDEST, NEWEST
    if is_second_trainer(context):
        oldest = (0, 9)  # the default from 0.9 on, absent before
    if "critic/kl" in keys or any(k.startswith("val/test_score/") for k in keys):
        newest = min(newest, (0, 3))
    if "actor/entropy_loss" in keys and "actor/entropy" not in keys:
        newest = min(newest, (0, 4))
    if "actor/entropy" in keys and not is_fully_async(context):
        oldest = max(oldest, (0, 4))
    if "training/rollout_probs_diff_mean" in keys or "response/aborted_ratio" in keys:
        oldest = max(oldest, (0, 5))
    if any(k.startswith(("rollout_corr/", "actor/rollout_corr/")) for k in keys):
        oldest = max(oldest, (0, 6))
    if "actor/loss" in keys or "actor/perf/max_memory_allocated_gb" in keys:
        oldest = max(oldest, (0, 7))
    elif "perf/max_memory_allocated_gb" in keys:
        newest = min(newest, (0, 7))
    return (oldest, newest) if oldest <= newest else (OLDEST, NEWEST)


def _loss_mode(context: Context) -> str:
    mode = context.config.get("actor_rollout_ref.actor.policy_loss.loss_mode")
    return mode if isinstance(mode, str) else "vanilla"


def _truncation(context: Context, _: Series) -> Settled:
    if is_second_trainer(context):
        return Settled(False, "the V1 trainer counts samples as long as the batch's longest one, not truncated ones")
    return Settled(True)


def _token_mean(context: Context, _: Series) -> Settled:
    mode = context.config.get("actor_rollout_ref.actor.loss_agg_mode")
    if isinstance(mode, str) and mode.startswith("seq-mean-token-sum"):
        return Settled(False, "summed over sequences (loss_agg_mode), not a mean per token")
    if mode == "token-sum":
        return Settled(False, "summed over the whole batch (loss_agg_mode): it follows the batch's size")
    return Settled(True)


def _sequence_sum(context: Context, series: Series) -> Settled:
    inside = _token_mean(context, series)
    mode = context.config.get("actor_rollout_ref.actor.loss_agg_mode")
    return Settled(not inside.holds and mode == "seq-mean-token-sum")


def _of_reference(setting: str) -> Condition:
    """A figure of the divergence as its estimator gives it: `abs` estimates none."""

    def settle(context: Context, _: Series) -> Settled:
        if str(context.config.get(setting)).rstrip("+") == "abs":
            return Settled(False, f"with {setting}=abs it is the mean absolute log-ratio, no divergence")
        return Settled(True)

    return settle


def _both(*conditions: Condition) -> Condition:
    """What the first condition that does not hold says."""

    def settle(context: Context, series: Series) -> Settled:
        return next((s for c in conditions if not (s := c(context, series)).holds), Settled(True))

    return settle


_IN_LOSS = _of_reference("actor_rollout_ref.actor.kl_loss_type")
_IN_REWARD = _of_reference("algorithm.kl_penalty")


def _divergence(context: Context, _: Series) -> Settled:
    if _loss_mode(context) == "kl_cov":
        return Settled(False, "with kl_cov it is the mean absolute log-ratio, no divergence")
    return Settled(True)


def _clip_counts(context: Context, _: Series) -> Settled:
    if _loss_mode(context) == "sapo":
        return Settled(False, "written as 0 with sapo, which does not clip")
    if _loss_mode(context) == "clip_cov":
        return Settled(False, "with clip_cov the share of tokens dropped for their covariance, no clipped ratios")
    return Settled(True)


def _sided(context: Context, _: Series) -> Settled:
    if _loss_mode(context) == "geo_mean":
        return Settled(True)
    return Settled(False, "the dual clip (negative advantage, ratio above clip_ratio_c), not the lower side")


def _high_side(context: Context, _: Series) -> Settled:
    return Settled(_loss_mode(context) == "geo_mean")


def _unpenalised(context: Context, _: Series) -> Settled:
    """`critic/rewards` equals `critic/score` where no KL is taken from the reward."""
    in_reward = context.config.get("algorithm.use_kl_in_reward")
    if in_reward is True or {"actor/reward_kl_penalty", "critic/kl"} & context.keys:
        return Settled(False)
    if in_reward is False or any(k.startswith("actor/") for k in context.keys):
        return Settled(True)
    return Settled(None, "the score after the KL penalty, if there is one: algorithm.use_kl_in_reward is not known")


def _not_rounded_away(context: Context, series: Series) -> Settled:
    if context.newest <= (0, 4) and not series.values.any():
        return Settled(False, "printed with three decimals up to 0.4: a small learning rate reads 0.000")
    return Settled(True)


def _generation(context: Context, _: Series) -> Settled:
    if is_second_trainer(context) or is_fully_async(context):
        return Settled(False, "with this trainer it is the wait on the sample buffer, not generation")
    return Settled(True)


def _waiting(context: Context, series: Series) -> Settled:
    return Settled(not _generation(context, series).holds)


def _kept_only(context: Context) -> bool:
    return context.config.get("algorithm.filter_groups.enable") is True or any(
        k.startswith("training/filter_groups/") for k in context.keys
    )


_SETS = (
    r"val-core/(?P<part>.+)/(?:acc|reward)/mean(?:@|_at_|_)\d+",
    r"val/test_score/(?P<part>.+)",
    r"val/(?P<part>.+)/test_score",
)


ALIASES = (
    Alias("critic/score/mean", "reward/mean"),
    Alias("critic/score/max", "reward/max"),
    Alias("critic/score/min", "reward/min"),
    Alias("critic/rewards/mean", "reward/mean", when=_unpenalised),
    Alias("critic/rewards/mean", "reward/penalised/mean"),
    Alias(r"gdpo/(?P<part>.+)/mean", "reward/component/*/mean"),
    Alias(r"gdpo/(?P<part>.+)/std", "reward/component/*/std"),
    *(Alias(pattern, "eval/set/*/mean") for pattern in _SETS),
    Alias("actor/kl_loss", "kl/reference", when=_both(_IN_LOSS, _token_mean)),
    Alias("actor/kl_loss", "kl/reference/sequence", when=_both(_IN_LOSS, _sequence_sum)),
    Alias("actor/reward_kl_penalty", "kl/reference", when=_IN_REWARD),
    Alias("critic/kl", "kl/reference"),
    Alias("actor/ppo_kl", "kl/update", when=_divergence),
    Alias("actor/reward_kl_penalty_coeff", "kl/coefficient"),
    Alias("actor/kl_coef", "kl/coefficient"),
    Alias("critic/kl_coeff", "kl/coefficient"),
    Alias("actor/entropy", "entropy/mean", when=_token_mean),
    Alias("actor/entropy", "entropy/sequence", when=_sequence_sum),
    Alias("actor/entropy_loss", "entropy/mean", when=_token_mean),
    Alias("actor/pg_clipfrac", "clip/fraction/high", when=_high_side),
    Alias("actor/pg_clipfrac", "clip/fraction/total", when=_clip_counts),
    Alias("actor/pg_clipfrac_lower", "clip/fraction/low", when=_sided),
    Alias("actor/pg_loss", "loss/policy"),
    Alias("actor/loss", "loss/total"),
    Alias("actor/grad_norm", "gradient/norm"),
    Alias("actor/lr", "learning-rate", when=_not_rounded_away),
    Alias("critic/vf_loss", "loss/value"),
    Alias("critic/vf_clipfrac", "value/clip-fraction"),
    Alias("critic/vf_explained_var", "value/explained-variance"),
    # over tokens, and the same for every token of an answer where groups are compared
    Alias("critic/advantages/max", "advantage/max"),
    Alias("critic/advantages/min", "advantage/min"),
    Alias("response_length/mean", "length/mean"),
    Alias("response_length/max", "length/max"),
    Alias("response_length/min", "length/min"),
    Alias("response_length/clip_ratio", "length/truncated-share", when=_truncation),
    Alias("response/aborted_ratio", "length/aborted-share"),
    Alias("prompt_length/mean", "length/prompt/mean"),
    Alias("num_turns/mean", "turns/mean"),
    Alias("training/num_turns/mean", "turns/mean"),
    Alias("training/rollout_probs_diff_mean", "engine/probability-gap/mean"),
    Alias("training/rollout_probs_diff_max", "engine/probability-gap/max"),
    Alias("training/rollout_actor_probs_pearson_corr", "engine/correlation"),
    *(
        Alias(f"{prefix}{key}", metric)
        for prefix in ("rollout_corr/", "actor/rollout_corr/", "mismatch/mismatch_", "mismatch/")
        for key, metric in (
            ("kl", "engine/kl"),
            ("rollout_is_mean", "behaviour-weight/mean"),
            ("rollout_is_min", "behaviour-weight/min"),
            ("rollout_is_max", "behaviour-weight/max"),
            ("rollout_is_eff_sample_size", "behaviour-weight/effective-share"),
            # tokens rejected, tokens outside both bounds, tokens above the upper one
            ("rollout_rs_masked_fraction", "behaviour-weight/capped-share"),
            ("rollout_is_oob_ratio", "behaviour-weight/capped-share"),
            ("rollout_is_ratio_fraction_high", "behaviour-weight/capped-share"),
        )
    ),
    Alias("training/off_policy/trajectory_staleness/mean", "staleness/mean"),
    Alias("training/off_policy/trajectory_staleness_worst/max", "staleness/max"),
    Alias("training/off_policy/evicted_samples", "staleness/dropped"),
    Alias("training/filter_groups/evicted_samples", "signal/groups-dropped"),
    Alias("timing_s/step", "systems/step-time"),
    Alias("perf/time_per_step", "systems/step-time"),
    Alias("timing_s/gen", "systems/rollout-time", when=_generation),
    Alias("timing_s/gen", "systems/wait-time", when=_waiting),
    Alias("fully_async/total_wait_time", "systems/wait-time"),
    Alias("timing/gen", "systems/rollout-time"),
    Alias("timing_s/update_actor", "systems/train-time"),
    Alias("timing_s/old_log_prob", "systems/logprob-time"),
    Alias("timing_s/reward", "systems/reward-time"),
    Alias("timing_s/update_weights", "systems/sync-time"),
    Alias("timing_s/timing_s/param_sync", "systems/sync-time"),
    Alias("timing_s/param_sync", "systems/sync-time"),
    Alias("timing_s/sync_rollout_weights", "systems/sync-time"),
    Alias("timing_s/save_checkpoint", "systems/checkpoint-time"),
    Alias("timing_s/testing", "systems/eval-time"),
    Alias("rollouter/validate_time", "systems/eval-time"),
    Alias("timing_s/agent_loop/generate_sequences/mean", "systems/request-time/mean"),
    Alias("timing_s/agent_loop/generate_sequences/max", "systems/request-time/max"),
    Alias("fully_async/processing_time/avg", "systems/request-time/mean"),
    Alias("fully_async/processing_time/max", "systems/request-time/max"),
    Alias("perf/mfu/actor", "systems/mfu", zero_is_missing=True),  # 0 for models it does not know
    Alias("perf/throughput", "systems/throughput"),
    Alias("actor/perf/max_memory_allocated_gb", "systems/memory"),
    Alias("perf/max_memory_allocated_gb", "systems/memory"),
)

IGNORED = {
    r"_step|_wall|training/(global_step|epoch)": "a count of progress",
    r"critic/(rewards|advantages|returns|values)/.*": "advantages, returns and values are means over tokens: normalised, of no trend of their own",
    r"critic/(vpred_mean|loss|grad_norm|lr|perf/.*)": "the critic's own optimiser",
    r"val-aux/.*": "auxiliary validation variables and best-of-n; val-core holds the score",
    r"val-core/.*/(best|maj)(@|_at_|_).*": "best-of-n and majority: bootstrap figures, not the mean",
    r"val-core/.*": "a validation variable other than acc and reward",
    r"(rollout_corr|actor/rollout_corr|mismatch)/(mismatch_)?log_ppl_(abs_)?diff(_max|_min)?": "gaps between the means of sequences: inside a sequence differences of both signs cancel, so no gap a token",
    r"(rollout_corr|actor/rollout_corr|mismatch)/.*": "further forms of the trainer/sampler mismatch",
    r"training/rollout_probs_diff_(valid|std)": "whether the comparison could be made, and its spread",
    r"training/off_policy/.*|validation/.*|separate_async/.*|fully_async/.*": "queues and spans of asynchronous sampling",
    r"train/num_gen_batches": "generation batches until enough groups had spread (DAPO recipe)",
    r"training/(filter_groups|rollout_failure|num_turns)/.*": "counts of single causes of dropping, and extremes",
    r"response_length_non_aborted/.*|response_length/.*|prompt_length/.*|num_turns/.*|tool_call_counts/.*": "extremes and duplicates of lengths and turns",
    r"timing(_s)?/.*|timing_per_token(_ms)?/.*|perf/.*|actor/perf/.*|dynamic_resource/.*|global_seqlen/.*": "timing and use of hardware beyond the phases read",
    r"gdpo/.*/(min|max)": "extremes of one reward function",
    r"mfu/.*": "use of hardware, as 0.2 spelled it",
    r"variance_proxy/.*|distillation/.*|actor/mtp_losses/.*|actor/distillation/.*": "parts of losses that few runs have",
    r"rollout/(moe|spec_accept).*|checkpoint_engine/.*": "engine internals",
}


def _estimator(context: Context) -> str | None:
    value = context.config.get("algorithm.adv_estimator")
    return value if isinstance(value, str) else None


def derive(context: Context) -> Mapping[str, Series]:
    """GRPO's advantage of a completion stands at each of its tokens, in standard deviations of its group."""
    largest = context.series.get("critic/advantages/max")
    by_std = context.config.get("algorithm.norm_adv_by_std_in_grpo", True)
    if largest is None or _estimator(context) != "grpo" or by_std is False:
        return {}
    return {"advantage/max/group-sds": largest}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    number, actor = context.number, "actor_rollout_ref.actor."
    prompts, part = number("data.train_batch_size"), number(actor + "ppo_mini_batch_size")
    epochs = number(actor + "ppo_epochs") or 1.0
    in_loss, in_reward = context.config.get(actor + "use_kl_loss"), context.config.get("algorithm.use_kl_in_reward")
    by_design: bool | None = None
    if isinstance(in_loss, bool) or isinstance(in_reward, bool):
        by_design = in_loss is True or in_reward is True
    elif {"actor/kl_loss", "actor/reward_kl_penalty", "critic/kl"} & context.keys:
        by_design = True
    group = number("actor_rollout_ref.rollout.n")
    estimator = _estimator(context)
    centred = estimator in GROUP_ESTIMATORS if estimator else (None if "critic/vf_loss" not in context.keys else False)
    return Declared(
        updates_per_rollout=max(1.0, prompts / part) * epochs if prompts and part else None,
        max_length=number("data.max_response_length") or number("actor_rollout_ref.rollout.response_length"),
        kl_by_design=by_design,
        batch_completions=prompts * group if prompts and group else None,
        group_size=group,
        group_centred=centred,
        steps_per_row=1.0,
        step_unit="rollout",
        reward_filtered=_kept_only(context) or None,
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (key, default in 0.9.1)
    "learning-rate": ("actor_rollout_ref.actor.optim.lr", 1e-6),
    "warmup": ("actor_rollout_ref.actor.optim.lr_warmup_steps", -1),
    "batch-size": ("data.train_batch_size", 1024),
    "group-size": ("actor_rollout_ref.rollout.n", 1),
    "clip-low": ("actor_rollout_ref.actor.clip_ratio_low", 0.2),
    "clip-high": ("actor_rollout_ref.actor.clip_ratio_high", 0.2),
    "minibatches": ("actor_rollout_ref.actor.ppo_mini_batch_size", 256),
    "epochs": ("actor_rollout_ref.actor.ppo_epochs", 1),
    "temperature": ("actor_rollout_ref.rollout.temperature", 1.0),
    "entropy-bonus": ("actor_rollout_ref.actor.entropy_coeff", 0),
    "max-completion-length": ("data.max_response_length", 512),
    "length-penalty": ("reward.reward_kwargs.overlong_buffer_cfg.enable", False),
    "reward-scaling": ("algorithm.norm_adv_by_std_in_grpo", True),
    "deterministic-kernels": ("actor_rollout_ref.actor.fsdp_config.full_determinism", False),
    "dynamic-filter": ("algorithm.filter_groups.enable", False),
    "behaviour-weight-cap": ("algorithm.rollout_correction.rollout_is_threshold", 2.0),
    "decoupled-loss": ("algorithm.rollout_correction.bypass_mode", False),
    "max-grad-norm": ("actor_rollout_ref.actor.optim.clip_grad", 1.0),
    "loss-type": ("actor_rollout_ref.actor.loss_agg_mode", "token-mean"),
    "save-steps": ("trainer.save_freq", -1),
    "engine-memory": ("actor_rollout_ref.rollout.gpu_memory_utilization", 0.5),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Verl's settings for the canonical knobs."""
    in_reward = context.config.get("algorithm.use_kl_in_reward") is True or "actor/reward_kl_penalty" in context.keys
    table = dict(_KNOBS)
    table["kl-coef"] = (
        ("algorithm.kl_ctrl.kl_coef", 0.001) if in_reward else ("actor_rollout_ref.actor.kl_loss_coef", 0.001)
    )
    if is_fully_async(context):
        table["staleness-bound"] = ("async_training.staleness_threshold", 0.1)
    elif is_second_trainer(context):
        table["staleness-bound"] = ("trainer.v1.sampler.max_off_policy_threshold", 8)
    if context.algorithm == "ppo":
        table |= {"value-clip": ("critic.cliprange_value", 0.5), "critic-warmup": ("trainer.critic_warmup", 0)}
        table["critic-learning-rate"] = ("critic.optim.lr", 1e-5)
    return knobs_from(context, table)


_DUMP = "set trainer.rollout_data_dir: the samples of each step are written there"


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from verl."""
    return {
        "kl/reference": "actor_rollout_ref.actor.use_kl_loss=True with a kl_loss_coef near 0 logs actor/kl_loss at almost no penalty",
        "reward/std/within-group": f"not logged by verl; {_DUMP}",
        "signal/zero-variance-share": f"not logged by verl; {_DUMP}",
        "clip/fraction/low": "not logged apart; actor/pg_clipfrac holds both sides",
        "eval/score/mean": "set trainer.test_freq (off by default): val-core/... is logged",
        "entropy/mean": "logged as actor/entropy; in bypass mode set actor_rollout_ref.actor.calculate_entropy=True",
        "length/truncated-share": "the V1 trainer does not log it; compare response_length/max with data.max_response_length"
        if is_second_trainer(context)
        else "logged as response_length/clip_ratio",
        "engine/probability-gap/mean": "actor_rollout_ref.rollout.calculate_log_probs=True",
        "engine/kl": "actor_rollout_ref.rollout.calculate_log_probs=True; not in bypass mode",
        "engine/logprob-gap/mean": "not logged as a mean over tokens; training/rollout_probs_diff_mean and rollout_corr/kl are its traces",
        "behaviour-weight/mean": "algorithm.rollout_correction.rollout_is=token",
        "ratio/mean": "not logged by verl; actor/ppo_kl and actor/pg_clipfrac are its traces",
        "systems/step-time": "logged as timing_s/step",
        "systems/memory-share": "sampled by W&B itself: trainer.logger with wandb and WANDB_MODE=offline, and read its run-*.wandb",
    }


DIALECT = Dialect(
    "verl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    versions=versions,
    declare=declare,
    derive=derive,
    knobs=knobs,
    enable=enable,
    devices=(("trainer.n_gpus_per_node", "trainer.nnodes"),),
    samples="trainer.rollout_data_dir=DIR writes DIR/{step}.jsonl, trainer.validation_data_dir=DIR those of validation",
)
