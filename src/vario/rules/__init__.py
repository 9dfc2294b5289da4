"""The table of rules: what a newcomer reads first. Causes (RU) stand before what they explain."""

from __future__ import annotations

from vario.errors import UnknownRule
from vario.rules.accuracy_at_chance import accuracy_at_chance
from vario.rules.attention_entropy_collapsing import attention_entropy_collapsing
from vario.rules.background_contention import background_contention
from vario.rules.base import Rule
from vario.rules.behaviour_weight_off_one import behaviour_weight_off_one
from vario.rules.capability_lost import capability_lost
from vario.rules.chosen_reward_falls import chosen_reward_falls
from vario.rules.chosen_reward_grows_without_bound import chosen_reward_grows_without_bound
from vario.rules.clip_fraction_growing import clip_fraction_growing
from vario.rules.clip_fraction_high import clip_fraction_high
from vario.rules.clip_fraction_negligible import clip_fraction_negligible
from vario.rules.clipping_one_sided_high import clipping_one_sided_high
from vario.rules.clipping_one_sided_low import clipping_one_sided_low
from vario.rules.component_dead import component_dead
from vario.rules.component_dominates import component_dominates
from vario.rules.component_falls_while_total_rises import component_falls_while_total_rises
from vario.rules.component_saturated import component_saturated
from vario.rules.config_contradicts_log import config_contradicts_log
from vario.rules.data_shift import data_shift
from vario.rules.engine_mismatch import engine_mismatch
from vario.rules.entropy_collapsing import entropy_collapsing
from vario.rules.entropy_exploding import entropy_exploding
from vario.rules.entropy_not_falling import entropy_not_falling
from vario.rules.entropy_spike import entropy_spike
from vario.rules.few_groups_carry_signal import few_groups_carry_signal
from vario.rules.format_hacking import format_hacking
from vario.rules.gradient_growing import gradient_growing
from vario.rules.gradient_spike import gradient_spike
from vario.rules.gradient_vanished import gradient_vanished
from vario.rules.gradient_zero_despite_signal import gradient_zero_despite_signal
from vario.rules.importance_weight_off_one import importance_weight_off_one
from vario.rules.instrument_missing import instrument_missing
from vario.rules.kl_falls_while_reward_rises import kl_falls_while_reward_rises
from vario.rules.kl_negative import kl_negative
from vario.rules.kl_noisy import kl_noisy
from vario.rules.kl_nonzero_at_start import kl_nonzero_at_start
from vario.rules.kl_over_budget import kl_over_budget
from vario.rules.kl_penalty_outweighs_reward import kl_penalty_outweighs_reward
from vario.rules.kl_pinned_near_zero import kl_pinned_near_zero
from vario.rules.kl_reset import kl_reset
from vario.rules.kl_rises_while_reward_falls import kl_rises_while_reward_falls
from vario.rules.kl_rises_without_reward import kl_rises_without_reward
from vario.rules.kl_runaway import kl_runaway
from vario.rules.kl_spike import kl_spike
from vario.rules.learning_rate_zero import learning_rate_zero
from vario.rules.length_buys_reward import length_buys_reward
from vario.rules.length_diversity_collapsing import length_diversity_collapsing
from vario.rules.length_growing import length_growing
from vario.rules.length_hacking import length_hacking
from vario.rules.length_jumped import length_jumped
from vario.rules.length_off_baseline import length_off_baseline
from vario.rules.length_shrinking import length_shrinking
from vario.rules.lengths_bimodal import lengths_bimodal
from vario.rules.loss_discontinuity import loss_discontinuity
from vario.rules.margin_grows_without_bound import margin_grows_without_bound
from vario.rules.margin_plateaued import margin_plateaued
from vario.rules.memory_creeping import memory_creeping
from vario.rules.memory_near_capacity import memory_near_capacity
from vario.rules.metric_contradicts_samples import metric_contradicts_samples
from vario.rules.metric_outside_reference import metric_outside_reference
from vario.rules.metric_over_budget import metric_over_budget
from vario.rules.mode_collapse import mode_collapse
from vario.rules.non_finite import non_finite
from vario.rules.outputs_duplicated import outputs_duplicated
from vario.rules.outputs_garbled import outputs_garbled
from vario.rules.outputs_lose_diversity import outputs_lose_diversity
from vario.rules.outputs_repeat import outputs_repeat
from vario.rules.policy_collapse import policy_collapse
from vario.rules.policy_does_not_move import policy_does_not_move
from vario.rules.policy_loss_changed_sign import policy_loss_changed_sign
from vario.rules.policy_loss_without_direction import policy_loss_without_direction
from vario.rules.preference_saturated import preference_saturated
from vario.rules.ratio_far_from_one import ratio_far_from_one
from vario.rules.resume_discontinuity import resume_discontinuity
from vario.rules.reward_clipped_often import reward_clipped_often
from vario.rules.reward_collapsed import reward_collapsed
from vario.rules.reward_constant import reward_constant
from vario.rules.reward_function_broke import reward_function_broke
from vario.rules.reward_grows_without_bound import reward_grows_without_bound
from vario.rules.reward_hacking import reward_hacking
from vario.rules.reward_is_noise import reward_is_noise
from vario.rules.reward_missing import reward_missing
from vario.rules.reward_never_rises import reward_never_rises
from vario.rules.reward_peaked_then_declined import reward_peaked_then_declined
from vario.rules.reward_plateaued import reward_plateaued
from vario.rules.reward_saturated import reward_saturated
from vario.rules.reward_scale_drifts import reward_scale_drifts
from vario.rules.reward_up_eval_not import reward_up_eval_not
from vario.rules.reward_variance_high import reward_variance_high
from vario.rules.rewards_converge import rewards_converge
from vario.rules.rollout_dominates_step import rollout_dominates_step
from vario.rules.rollout_long_tail import rollout_long_tail
from vario.rules.rollouts_too_stale import rollouts_too_stale
from vario.rules.run_has_converged import run_has_converged
from vario.rules.run_stalled import run_stalled
from vario.rules.signal_collapsed_solved import signal_collapsed_solved
from vario.rules.signal_collapsed_unsolved import signal_collapsed_unsolved
from vario.rules.signal_dropped_suddenly import signal_dropped_suddenly
from vario.rules.signal_from_shaping_only import signal_from_shaping_only
from vario.rules.signal_not_declining import signal_not_declining
from vario.rules.step_time_jumped import step_time_jumped
from vario.rules.task_too_hard import task_too_hard
from vario.rules.tiny_spread_amplified import tiny_spread_amplified
from vario.rules.train_eval_overfit import train_eval_overfit
from vario.rules.truncation_biases_reward import truncation_biases_reward
from vario.rules.truncation_high import truncation_high
from vario.rules.truncation_never_ends import truncation_never_ends
from vario.rules.unexplained_change import unexplained_change
from vario.rules.value_clipping_high import value_clipping_high
from vario.rules.value_explains_nothing import value_explains_nothing
from vario.rules.value_loss_diverging import value_loss_diverging
from vario.rules.weights_never_synced import weights_never_synced

RULES: tuple[Rule, ...] = (
    policy_does_not_move,  # RU101
    task_too_hard,  # RU102
    run_has_converged,  # RU103
    reward_function_broke,  # RU104
    reward_hacking,  # RU105
    length_hacking,  # RU106
    mode_collapse,  # RU107
    policy_collapse,  # RU108
    data_shift,  # RU109
    resume_discontinuity,  # RU110
    train_eval_overfit,  # RU111
    format_hacking,  # RU112
    metric_over_budget,  # RU113
    capability_lost,  # RU114
    reward_never_rises,  # RW101
    reward_constant,  # RW102
    reward_plateaued,  # RW103
    reward_peaked_then_declined,  # RW104
    reward_collapsed,  # RW105
    reward_is_noise,  # RW106
    reward_saturated,  # RW107
    reward_up_eval_not,  # RW108
    reward_missing,  # RW109
    component_saturated,  # RW110
    component_dominates,  # RW111
    component_falls_while_total_rises,  # RW112
    component_dead,  # RW113
    reward_variance_high,  # RW114
    reward_grows_without_bound,  # RW115
    reward_scale_drifts,  # RW116
    reward_clipped_often,  # RW117
    signal_collapsed_solved,  # SG101
    signal_collapsed_unsolved,  # SG102
    signal_dropped_suddenly,  # SG103
    few_groups_carry_signal,  # SG104
    gradient_zero_despite_signal,  # SG105
    signal_not_declining,  # SG106
    signal_from_shaping_only,  # SG107
    tiny_spread_amplified,  # SG108
    kl_rises_without_reward,  # KL101
    kl_rises_while_reward_falls,  # KL102
    kl_runaway,  # KL103
    kl_pinned_near_zero,  # KL104
    kl_spike,  # KL105
    kl_reset,  # KL106
    kl_negative,  # KL107
    kl_nonzero_at_start,  # KL108
    kl_penalty_outweighs_reward,  # KL109
    kl_noisy,  # KL110
    kl_falls_while_reward_rises,  # KL111
    kl_over_budget,  # KL112
    ratio_far_from_one,  # CL101
    clip_fraction_high,  # CL102
    clip_fraction_growing,  # CL103
    clipping_one_sided_high,  # CL104
    clipping_one_sided_low,  # CL105
    clip_fraction_negligible,  # CL106
    entropy_collapsing,  # EN101
    entropy_exploding,  # EN102
    entropy_spike,  # EN103
    entropy_not_falling,  # EN104
    length_growing,  # LN101
    length_shrinking,  # LN102
    length_jumped,  # LN103
    length_diversity_collapsing,  # LN104
    truncation_high,  # LN105
    truncation_never_ends,  # LN106
    lengths_bimodal,  # LN107
    length_buys_reward,  # LN108
    truncation_biases_reward,  # LN109
    length_off_baseline,  # LN110
    engine_mismatch,  # OP101
    behaviour_weight_off_one,  # OP102
    rollouts_too_stale,  # OP103
    importance_weight_off_one,  # OP104
    weights_never_synced,  # OP105
    non_finite,  # GR101
    gradient_spike,  # GR102
    gradient_vanished,  # GR103
    gradient_growing,  # GR104
    learning_rate_zero,  # GR105
    loss_discontinuity,  # GR106
    policy_loss_without_direction,  # GR107
    policy_loss_changed_sign,  # GR108
    attention_entropy_collapsing,  # GR109
    value_loss_diverging,  # VF101
    value_explains_nothing,  # VF102
    value_clipping_high,  # VF103
    outputs_lose_diversity,  # TX101
    outputs_repeat,  # TX102
    outputs_garbled,  # TX103
    outputs_duplicated,  # TX104
    margin_plateaued,  # PF101
    margin_grows_without_bound,  # PF102
    chosen_reward_falls,  # PF103
    preference_saturated,  # PF104
    accuracy_at_chance,  # PF105
    rewards_converge,  # PF106
    chosen_reward_grows_without_bound,  # PF107
    step_time_jumped,  # SY101
    rollout_dominates_step,  # SY102
    memory_near_capacity,  # SY103
    memory_creeping,  # SY104
    rollout_long_tail,  # SY105
    background_contention,  # SY106
    run_stalled,  # SY107
    instrument_missing,  # DX101
    metric_contradicts_samples,  # DX102
    config_contradicts_log,  # DX103
    unexplained_change,  # DX104
    metric_outside_reference,  # DX105
)


def find_rule(name: str) -> Rule:
    """A rule by name or code.

    Raises:
        UnknownRule: there is none; the message names the nearest.
    """
    wanted = name.strip().lower().replace("_", "-")
    for rule in RULES:
        if wanted in (rule.name, rule.code.lower()):
            return rule
    import difflib

    near = difflib.get_close_matches(wanted, [r.name for r in RULES], n=3, cutoff=0.4)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    raise UnknownRule(f"no rule is called {name!r}{hint}. `vario rule` lists them all.")


__all__ = ["RULES", "Rule", "find_rule"]
