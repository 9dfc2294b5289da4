"""Canonical knobs: what can be turned in a trainer's configuration.

Rules prescribe in these words; a dialect says what a knob is called in its framework.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be turned, with what turning it does."""

    name: str
    meaning: str


_ALL = (
    Knob("kl-coef", "Weight of the KL penalty against the reference."),
    Knob("learning-rate", "Peak learning rate of the policy."),
    Knob("warmup", "Steps (or share) over which the learning rate rises."),
    Knob("batch-size", "Prompts times completions per update."),
    Knob("group-size", "Completions per prompt."),
    Knob("clip-low", "Lower clip bound of the probability ratio."),
    Knob("clip-high", "Upper clip bound of the probability ratio."),
    Knob("minibatches", "Updates that one rollout batch is split into."),
    Knob("epochs", "Passes over one rollout batch."),
    Knob("temperature", "Sampling temperature of rollouts."),
    Knob("entropy-bonus", "Weight of an entropy bonus in the loss."),
    Knob("max-completion-length", "Cap on generated tokens."),
    Knob("missing-eos-penalty", "Penalty on completions without an end token."),
    Knob("length-penalty", "Penalty on length in the reward."),
    Knob("overlong-filter", "Whether truncated completions are left out of the loss."),
    Knob("reward-scaling", "How rewards are scaled into advantages."),
    Knob("reward-bounds", "Bounds at which rewards are clipped."),
    Knob("component-weight", "Weights of the reward functions."),
    Knob("dynamic-filter", "Whether groups without spread are resampled."),
    Knob("staleness-bound", "How old a sample may be."),
    Knob("asynchronous", "Whether rollouts are made beside the training, by older weights."),
    Knob("behaviour-weight-cap", "Cap on the trainer/sampler weight."),
    Knob("decoupled-loss", "Whether the behaviour policy is kept apart from the proximal one."),
    Knob("recompute-logprob", "Whether the trainer recomputes the samples' log-probabilities."),
    Knob("deterministic-kernels", "Whether kernels are batch-invariant."),
    Knob("max-grad-norm", "Gradient norm at which gradients are clipped."),
    Knob("value-coef", "Weight of the value loss."),
    Knob("value-clip", "Clip range of value predictions."),
    Knob("critic-warmup", "Updates of the critic before the first one of the policy."),
    Knob("critic-learning-rate", "Peak learning rate of the critic."),
    Knob("loss-type", "How token losses are aggregated."),
    Knob("preference-beta", "Temperature of the preference loss: higher holds the policy closer."),
    Knob("sft-weight", "Weight of a likelihood term on chosen answers."),
    Knob("save-steps", "How often a checkpoint is written."),
    Knob("engine-memory", "Share of device memory that the sampling engine holds."),
)

KNOBS: dict[str, Knob] = {knob.name: knob for knob in _ALL}
"""Every canonical knob by name."""
