"""DeepSpeed-Chat, step 3: five TensorBoard tags, or two printed lines, per batch of experience; nothing else.

The step counts within an epoch and starts again at 0 with the next; printed lines say the epoch beside it, and
are put one after the other. KL coefficient and clip ranges
are written in the trainer's source, so turning them means editing it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import OWN_SAMPLES, Alias, Context, Dialect, knobs_from

TRAINER = "dschat/rlhf/ppo_trainer.py"


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """The sums that no other trainer logs, its printed words, or the two models of the command line."""
    return (
        {"actor_loss_sum", "critic_loss_sum"} <= keys
        or {"Actor Loss", "Critic Loss", "PPO Epoch"} <= keys
        or "Average reward score" in keys
        or {"actor_model_name_or_path", "critic_model_name_or_path"} <= config.keys()
        or {"actor_learning_rate", "critic_learning_rate", "max_answer_seq_len"} <= config.keys()
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """Step 3 is PPO."""
    return "ppo"


ALIASES = (
    Alias("reward", "reward/mean"),
    Alias("actor_loss", "loss/policy"),
    Alias("critic_loss", "loss/value"),
    # as printed: means over the inner iterations
    Alias("Average reward score", "reward/mean"),
    Alias("Actor Loss", "loss/policy"),
    Alias("Critic Loss", "loss/value"),
)

IGNORED = {
    r"(actor|critic)_loss_sum": "the sum over the inner iterations, whose number is not logged; the last minibatch is read",
    r"(PPO )?Epoch": "a count of progress",
    r"Unsupervised Loss": "the supervised part of the loss",
    r"EMA reward score": "a smoothed copy of the reward",
}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch of experience, and the cap, from the command line."""
    number = context.number
    generated, trained = number("per_device_generation_batch_size"), number("per_device_training_batch_size")
    batches, epochs = number("generation_batches"), number("ppo_epochs")
    accumulated = number("gradient_accumulation_steps")
    updates: float | None = None
    if generated and trained and batches and epochs and accumulated:
        updates = max(1.0, batches * generated / trained * epochs / accumulated)
    return Declared(
        updates_per_rollout=updates,
        max_length=number("max_answer_seq_len"),
        kl_by_design=True,
        group_centred=False,
        steps_per_row=1.0,
        step_unit="rollout",
    )


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (command line argument, default)
    "learning-rate": ("actor_learning_rate", 9.65e-6),
    "warmup": ("num_warmup_steps", 100),
    "batch-size": ("per_device_training_batch_size", 16),
    "minibatches": ("generation_batches", 1),
    "epochs": ("ppo_epochs", 1),
    "critic-learning-rate": ("critic_learning_rate", 5e-6),
    "max-completion-length": ("max_answer_seq_len", 256),
}
_WRITTEN: dict[str, tuple[str, Setting]] = {
    # knob: (attribute in the trainer's source, value there)
    "kl-coef": ("kl_ctl", 0.1),
    "clip-low": ("cliprange", 0.2),
    "clip-high": ("cliprange", 0.2),
    "value-clip": ("cliprange_value", 0.2),
    "reward-bounds": ("clip_reward_value", 5),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """Arguments of the command line, and what stands in the source."""
    written = {
        knob: KnobSetting(knob, f"{name} (in {TRAINER})", value, is_default=True)
        for knob, (name, value) in _WRITTEN.items()
    }
    return knobs_from(context, _KNOBS) | written


def enable(context: Context) -> Mapping[str, str]:
    """All that is logged needs --enable_tensorboard; the rest needs an edit."""
    edit = f"not logged by DeepSpeed-Chat: add a writer.add_scalar for it beside the others in main.py; {TRAINER}"
    return {
        "reward/mean": "start with --enable_tensorboard",
        "loss/value": "start with --enable_tensorboard",
        "kl/reference": f"{edit} has it in compute_rewards",
        "clip/fraction/total": f"{edit} clips in actor_loss_fn",
        "length/mean": f"{edit} has the answers in generate_experience",
    }


DIALECT = Dialect(
    "deepspeed-chat",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    declare=declare,
    knobs=knobs,
    enable=enable,
    patch="flags",
    samples=f"DeepSpeed-Chat writes none; {OWN_SAMPLES}",
)
