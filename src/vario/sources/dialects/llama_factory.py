"""LLaMA-Factory: DPO and its kin, KTO and PPO, from `trainer_log.jsonl` and the Trainer's own history.

What the keys mean was read from 0.9.5. It has no GRPO. `trainer_log.jsonl` holds a few columns only:
margins, KL and log-probabilities are in `trainer_state.json`. A step is an optimiser step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects import trl
from vario.sources.dialects.base import OWN_SAMPLES, Alias, Context, Dialect, Settled, hugging_face_spelling, knobs_from

SECTIONS = ("finetuning_args.", "generating_args.", "data_args.", "model_args.")
"""Sections under which a tracker keeps the arguments; a training file has them without."""
PPO = ("ppo",)


def _flat(config: Mapping[str, Setting]) -> dict[str, Setting]:
    """Arguments by their plain names."""
    flat = dict(config)
    for key, value in config.items():
        for section in SECTIONS:
            if key.startswith(section):
                flat.setdefault(key[len(section) :], value)
    return flat


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Columns of `trainer_log.jsonl`, the parts of its ORPO loss, or its arguments.

    The history of a DPO or KTO run has TRL's keys alone: only the arguments tell the two apart.
    """
    flat = _flat(config)
    return (
        {"sft_loss", "odds_ratio_loss"} <= keys
        or {"total_steps", "percentage"} <= keys
        or bool({"finetuning_type", "pref_beta", "pref_loss"} & flat.keys())
        or {"stage", "cutoff_len"} <= flat.keys()
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The stage and its loss as configured; else what the keys show. Fine-tuning has none."""
    flat = _flat(config)
    stage, loss = flat.get("stage"), flat.get("pref_loss")
    if "odds_ratio_loss" in keys or (stage in ("dpo", None) and loss == "orpo"):
        return "orpo"
    if stage in ("dpo", None) and loss == "simpo":
        return "cpo"
    if isinstance(stage, str) and stage in ("dpo", "kto", "ppo"):
        return stage
    if stage is not None:
        return "unknown"
    if any(k.startswith(("rewards/", "eval_rewards/")) for k in keys):
        return "kto" if "kl" in keys else "dpo"
    if "accuracy" in keys:
        return "dpo"
    return "ppo" if "reward" in keys else "unknown"


def _summed(context: Context, _: Series) -> Settled:
    return Settled(
        False, "summed over the micro-batches and ranks of a logging window, whose number is not logged: no mean"
    )


def _as_trl(context: Context) -> Context:
    """The run with its loss under TRL's name."""
    flat = _flat(context.config)
    return replace(context, config=flat | {"loss_type": flat.get("pref_loss")})


def _in_trl(alias: Alias) -> Alias:
    """TRL's alias, its condition asked in TRL's words."""
    when = alias.when
    return alias if when is None else replace(alias, when=lambda context, series: when(_as_trl(context), series))


_OWN = frozenset({"kl", "lr", "reward"})

ALIASES = (
    Alias("reward", "reward/mean", PPO),
    Alias("accuracy", "preference/accuracy", trl.PAIRS),
    Alias("eval_accuracy", "eval/preference/accuracy", trl.PAIRS),
    Alias("kl", "kl/reference/sequence", ("kto",), when=_summed),
    Alias("lr", "learning-rate"),
    Alias("throughput", "systems/throughput"),
    Alias("total_tokens", "systems/tokens"),
    Alias("vram_allocated", "systems/memory"),
    *(_in_trl(a) for a in trl.ALIASES if a.key not in _OWN),
)

IGNORED = {
    **trl.IGNORED,
    r"current_steps|total_steps|percentage": "a count of progress",
    r"predict_loss|predict_.*": "the closing prediction, after training",
    r"(eval_)?accuracy": "the accuracy of a reward model or of fine-tuning, outside the preference stages",
    r"vram_reserved": "memory held by the allocator; what is in use is read",
    r"(eval_)?(sft_loss|odds_ratio_loss)": "parts of the loss",
    r"(ppo|objective|tokens|time|env)/.*": "further statistics of the older PPO, as a tracker keeps them",
}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Caps as configured. PPO keeps its KL to the reference with a tracker only: not in any log of its own."""
    flat = replace(context, config=_flat(context.config))
    ppo = context.algorithm == "ppo"
    epochs, buffer = flat.number("ppo_epochs"), flat.number("ppo_buffer_size")
    return Declared(
        updates_per_rollout=epochs * buffer if ppo and epochs and buffer else None,
        max_length=flat.number("max_new_tokens") if ppo else None,
        group_centred=False,
        steps_per_row=flat.number("logging_steps") or flat.number("state.logging_steps"),
        step_unit="rollout" if ppo else "optimiser",  # the PPO loop counts its batches, from 0
    )


_SHARED: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default in 0.9.5)
    "learning-rate": ("learning_rate", 5e-5),
    "warmup": ("warmup_steps", 0),
    "batch-size": ("gradient_accumulation_steps", 1),
    "max-grad-norm": ("max_grad_norm", 1.0),
    "save-steps": ("save_steps", 500),
}
_PAIR_KNOBS = _SHARED | {
    "preference-beta": ("pref_beta", 0.1),
    "loss-type": ("pref_loss", "sigmoid"),
    "sft-weight": ("pref_ftx", 0.0),
    "epochs": ("num_train_epochs", 3.0),
}
_PPO_KNOBS = _SHARED | {
    "epochs": ("ppo_epochs", 4),
    "minibatches": ("ppo_buffer_size", 1),
    "temperature": ("temperature", 0.95),
    "max-completion-length": ("max_new_tokens", None),
    "reward-scaling": ("ppo_score_norm", False),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """LLaMA-Factory's arguments for the canonical knobs. The PPO stage has no weight of the KL term, only its target."""
    flat = replace(context, config=_flat(context.config))
    if context.algorithm == "ppo":
        return knobs_from(flat, _PPO_KNOBS)
    return knobs_from(flat, _PAIR_KNOBS if context.algorithm in trl.PAIRS else _SHARED)


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from LLaMA-Factory."""
    if context.algorithm == "ppo":
        tracker = "the PPO stage sends it to a tracker only: set report_to (log_with), and read the tracker's log"
        return {
            "kl/reference/sequence": f"{tracker} (objective/kl)",
            "kl/update": f"{tracker} (ppo/policy/approxkl)",
            "entropy/mean": f"{tracker} (ppo/policy/entropy)",
            "clip/fraction/total": f"{tracker} (ppo/policy/clipfrac)",
            "length/mean": f"{tracker} (tokens/responses_len_mean)",
            "eval/score/mean": "not logged by LLaMA-Factory: its PPO stage has no evaluation",
        }
    if context.algorithm in trl.PAIRS:
        return {
            "preference/margin": "in trainer_state.json, not in trainer_log.jsonl: give the output folder or that file",
            "preference/chosen-reward": "in trainer_state.json, not in trainer_log.jsonl: give the output folder or that file",
            "eval/preference/margin": "give eval_dataset or val_size and set eval_strategy: steps",
            "systems/throughput": "include_num_input_tokens_seen: true",
            "systems/memory": "set RECORD_VRAM=1 in the environment",
        }
    return {}


DIALECT = Dialect(
    "llama-factory",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    hugging_face_spelling,
    declare=declare,
    knobs=knobs,
    enable=enable,
    patch="yaml",
    samples=f"LLaMA-Factory writes none; {OWN_SAMPLES}",
)
