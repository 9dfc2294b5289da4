"""OpenRLHF: PPO, REINFORCE++ and its relatives on Ray, and the pair trainers.

What the keys mean was read from the wheel 0.11.2 and the tags since 0.7. One row is one rollout batch.
W&B and TensorBoard put `train/` and `eval/` in front, the console's dictionaries do not; held-out keys bear `eval_`
on top of it. KL figures are means of plain log-ratios (k1) by default and may be negative.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import NEWEST, OLDEST, OWN_SAMPLES, Alias, Axis, Context, Dialect, Settled, Version

PAIRS = ("dpo", "reward-model")
ESTIMATORS = {
    # estimator: (algorithm, whether advantages are centred inside a group)
    "gae": ("ppo", False),
    "reinforce": ("reinforce++", False),
    "reinforce_baseline": ("reinforce++-baseline", True),
    "rloo": ("rloo", True),
    "group_norm": ("grpo", True),
    "dr_grpo": ("dr-grpo", True),
    "flash_reinforce": ("flash-reinforce", False),
}


def spell(key: str) -> str:
    """The console's spelling: no `train/`, and `eval_` once."""
    if key.startswith("train/") and key != "train/global_step":
        return key[len("train/") :]
    if key.startswith("eval/"):
        name = key[len("eval/") :]
        return name if name.startswith("eval_") else f"eval_{name}"
    return key


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only OpenRLHF writes together, or its arguments, dotted or flat."""
    decisive = (
        {"policy_loss", "actor_lr"},
        {"policy_loss", "group_reward_std"},
        {"policy_loss", "ppo_clip_ratio"},
        {"policy_loss", "ppo_kl"},
        {"rollout/reward_mean", "rollout/reward_std"},
        {"chosen_reward", "reject_reward"},
        {"pg", "rm", "glen"},
        {"act_loss", "gen_len", "tot_len"},
    )
    arguments = (
        {"algo.kl.init_coef"},
        {"algo.advantage.estimator"},
        {"model.beta", "model.nll_loss_coef"},
        {"init_kl_coef", "actor_learning_rate"},
        {"init_kl_coef", "generate_max_len"},
    )
    if any(d <= keys for d in decisive) or any(k.startswith("eval_") and k.endswith("_pass1") for k in keys):
        return True
    settings = unfolded(config)
    return any(a <= settings.keys() for a in arguments)


def unfolded(config: Mapping[str, Setting]) -> dict[str, Setting]:
    """The arguments as dotted names; W&B keeps the nested ones as the text of a Namespace."""
    settings: dict[str, Setting] = {}
    for key, value in config.items():
        if isinstance(value, str) and value.startswith("Namespace(") and len(value) < MAX_TEXT:
            try:
                tree = ast.parse(value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            _unfold(key, tree, settings)
        else:
            settings[key] = value
    return settings


MAX_TEXT = 1 << 16
"""No section of the arguments is longer."""


def _unfold(name: str, tree: ast.expr, into: dict[str, Setting]) -> None:
    if isinstance(tree, ast.Call):
        for part in tree.keywords:
            if part.arg:
                _unfold(f"{name}.{part.arg}", part.value, into)
        return
    try:
        value = ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return
    into[name] = value if value is None or isinstance(value, bool | int | float | str) else str(value)


_OLD_NAMES = {
    # dotted since 0.10: flat before
    "actor.adam.lr": "actor_learning_rate",
    "actor.lr_warmup_ratio": "lr_warmup_ratio",
    "actor.max_norm": "max_norm",
    "actor.eps_clip": "eps_clip",
    "actor.eps_clip_low_high": "eps_clip_low_high",
    "actor.entropy_coef": "entropy_loss_coef",
    "critic.value_clip": "value_clip",
    "critic.freezing_steps": "freezing_actor_steps",
    "critic.adam.lr": "critic_learning_rate",
    "algo.kl.init_coef": "init_kl_coef",
    "algo.kl.use_loss": "use_kl_loss",
    "algo.kl.estimator": "kl_estimator",
    "algo.advantage.estimator": "advantage_estimator",
    "algo.advantage.no_std_norm": "no_advantage_std_norm",
    "algo.dynamic_filtering_enable": "dynamic_filtering",
    "rollout.n_samples_per_prompt": "n_samples_per_prompt",
    "rollout.batch_size": "rollout_batch_size",
    "rollout.temperature": "temperature",
    "rollout.max_new_tokens": "generate_max_len",
    "train.batch_size": "train_batch_size",
    "train.max_epochs": "max_epochs",
    "train.async_enable": "async_train",
    "train.dynamic_batch_enable": "use_dynamic_batch",
    "ckpt.save_steps": "save_steps",
    "model.beta": "beta",
    "adam.lr": "learning_rate",
}


def _setting(context: Context, name: str) -> Setting:
    settings = unfolded(context.config)
    return settings.get(name, settings.get(_OLD_NAMES.get(name, name)))


def _number(context: Context, name: str) -> float | None:
    value = _setting(context, name)
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value) else None
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The estimator as configured; keys alone tell a critic and pairs, not the estimators from each other."""
    settings = unfolded(config)
    if "chosen_reward" in keys or "model.beta" in settings:
        return "reward-model" if {"eval_reward_mean", "eval_reward_std"} & keys else "dpo"
    if settings.get("actor.policy_loss_type") == "gspo":
        return "gspo"
    estimator = settings.get("algo.advantage.estimator", settings.get("advantage_estimator"))
    if isinstance(estimator, str) and estimator in ESTIMATORS:
        return ESTIMATORS[estimator][0]
    return "ppo" if {"critic_loss", "cri"} & keys else "unknown"


_KEY_BOUNDS: tuple[tuple[str, Version], ...] = (
    # key, first version that logs it
    ("entropy_loss", (0, 7)),
    ("group_reward_std", (0, 8)),
    ("ppo_clip_ratio", (0, 8)),
    ("response_clip_ratio", (0, 8)),
    ("ppo_kl", (0, 8)),
    ("vllm_kl", (0, 8)),
    ("logprobs_diff", (0, 9)),
    ("truncated", (0, 9)),
    ("timing/step_total", (0, 9)),
    ("rollout/reward_mean", (0, 9)),
    ("is_filter_ratio", (0, 11)),
)


def versions(context: Context) -> tuple[Version, Version]:
    """Bounds from keys that came, and from the arguments, which have dots since 0.10."""
    oldest = max((since for key, since in _KEY_BOUNDS if key in context.keys), default=OLDEST)
    newest = (0, 6) if "pg" in context.keys else NEWEST
    settings = unfolded(context.config)
    if any(k.startswith(("algo.", "rollout.", "actor.adam.")) for k in settings):
        oldest = max(oldest, (0, 10))
    elif "actor_learning_rate" in settings:
        newest = min(newest, (0, 9))
    return (oldest, newest) if oldest <= newest else (OLDEST, NEWEST)


def _has_reference(context: Context, series: Series) -> Settled:
    if not np.nan_to_num(series.values).any():
        return Settled(False, "0 throughout: there is no reference model (the initial KL coefficient is 0)")
    return Settled(True)


def _of_whole_steps(context: Context, _: Series) -> Settled:
    """From 0.10.4 on, losses of a dynamic micro-batch are divided by the tokens of the whole step, and then averaged."""
    if _setting(context, "train.dynamic_batch_enable") is not True or context.newest <= (0, 9):
        return Settled(True)
    why = "with dynamic batches divided by the number of micro-batches in a step (from 0.10.4 on), which is not logged"
    return Settled(False if context.oldest >= (0, 11) else None, why)


def _divergence(context: Context, series: Series) -> Settled:
    """In the loss, the divergence is summed up as the entropy is."""
    there = _has_reference(context, series)
    in_loss = _setting(context, "algo.kl.use_loss") is True
    return _of_whole_steps(context, series) if there.holds and in_loss else there


def _in_the_step(context: Context, _: Series) -> Settled:
    """Generation is part of the step unless it runs beside it; then the parts add up to more than the whole."""
    stated = _setting(context, "train.async_enable")
    parts = [
        context.series.get(f"timing/{k}")
        for k in ("step_total", "generation", "make_experience", "ppo_train", "broadcast")
    ]
    if isinstance(stated, bool):
        beside = stated
    elif any(p is None for p in parts):
        return Settled(None, "part of the step, or beside it: train.async_enable is not known")
    else:
        shared = parts[0].steps if parts[0] is not None else np.array([], dtype=np.int64)
        for part in parts:
            shared = np.intersect1d(shared, part.steps) if part is not None else shared
        total, *rest = (p.values[np.searchsorted(p.steps, shared)] for p in parts if p is not None)
        beside = not np.allclose(total, sum(rest), rtol=1e-3, equal_nan=True)
    return Settled(False, "generation runs beside training: it is not part of the step") if beside else Settled(True)


ALIASES = (
    # over the whole rollout batch, before it is split by length
    Alias("rollout/reward_mean", "reward/mean"),
    Alias("reward", "reward/mean"),
    Alias("score", "reward/component/score/mean"),
    Alias("group_reward_std", "reward/std/within-group"),
    Alias("rollout/reward_std", "reward/std/batch"),
    Alias(r"eval_(?P<part>.+)_pass1", "eval/set/*/mean"),
    Alias("kl", "kl/reference", when=_divergence),
    Alias("logprobs_diff", "kl/reference", when=_has_reference),
    Alias("ppo_kl", "kl/update"),
    Alias("vllm_kl", "engine/kl"),
    Alias("is_filter_ratio", "behaviour-weight/capped-share"),
    Alias("ppo_clip_ratio", "clip/fraction/total"),
    Alias("entropy_loss", "entropy/mean", when=_of_whole_steps),
    Alias("policy_loss", "loss/policy"),
    Alias("actor_grad_norm", "gradient/norm"),
    Alias("actor_lr", "learning-rate"),
    Alias("critic_loss", "loss/value"),
    Alias("rollout/response_length_mean", "length/mean"),
    Alias("response_length", "length/mean"),
    Alias("rollout/truncated_rate", "length/truncated-share"),
    Alias("truncated", "length/truncated-share"),
    # at the cap on prompt and completion together, on the completion in older versions
    Alias("response_clip_ratio", "length/truncated-share"),
    Alias("timing/step_total", "systems/step-time"),
    Alias("timing/generation", "systems/rollout-time", when=_in_the_step),
    Alias("timing/ppo_train", "systems/train-time"),
    Alias("timing/broadcast", "systems/sync-time"),
    # the pair trainers
    Alias("chosen_reward", "preference/chosen-reward", PAIRS),
    Alias("reject_reward", "preference/rejected-reward", PAIRS),
    Alias("acc_mean", "preference/accuracy", PAIRS),
    Alias("acc", "preference/accuracy", PAIRS),
    Alias("loss_mean", "loss/total", PAIRS),
    Alias("loss", "loss/total", PAIRS),
    Alias("lr", "learning-rate", PAIRS),
    Alias("grad_norm", "gradient/norm", PAIRS),
    Alias("eval_loss", "eval/loss", PAIRS),
    Alias("eval_acc_mean", "eval/preference/accuracy", PAIRS),
    # short names of the progress bar, before 0.7 and since
    Alias("rm", "reward/mean"),
    Alias("pg", "loss/policy"),
    Alias("act_loss", "loss/policy"),
    Alias("cri", "loss/value"),
    Alias("glen", "length/mean"),
    Alias("gen_len", "length/mean"),
    Alias("act_lr", "learning-rate"),
    Alias("ent_loss", "entropy/mean", when=_of_whole_steps),
    Alias("grad_norm", "gradient/norm"),
)

IGNORED = {
    r"(train/|eval_)?(global_step|epoch)": "a count of progress",
    r"generated_samples": "a sample of text",
    r"return|ret": "what the advantages are made of: about 0 where a baseline is taken off",
    r"values|vals|critic_lr|cri_lr|critic_grad_norm": "the critic's own values and optimiser",
    r"total_length|tlen|tot_len": "prompt and completion together",
    r"rollout/num_samples|eval_num_samples": "a count",
    r"timing/make_experience": "log-probabilities, values, reward models and the KL in one figure",
    r"dynamic_filtering_pass_rate": "samples over prompts, no share: it can reach the group size times 100 %",
    r"eval_.+_pass\d+": "best of k samples, not the mean",
    r"eval_(.+_)?(response_length_mean|truncated_rate)": "lengths on held-out prompts; the score is read",
    r"eval_reward_(mean|std)": "the scale of a reward model",
    r"nll_loss|aux_loss|ptx|ptx_loss": "parts of the loss",
}


def derive(context: Context) -> Mapping[str, Series]:
    """The margin of the pair trainers, which log its two sides."""
    chosen, rejected = context.series.get("chosen_reward"), context.series.get("reject_reward")
    if context.algorithm not in PAIRS or chosen is None or rejected is None:
        return {}
    steps, ours, theirs = np.intersect1d(chosen.steps, rejected.steps, return_indices=True)
    return {"preference/margin": Series(chosen.key, steps, chosen.values[ours] - rejected.values[theirs])}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Updates per batch, caps, groups and the KL term, as configured."""
    if context.algorithm in PAIRS:
        return Declared(step_unit="optimiser", steps_per_row=1.0)
    prompts, group = _number(context, "rollout.batch_size"), _number(context, "rollout.n_samples_per_prompt")
    samples = prompts * group if prompts and group else None
    part = _number(context, "train.batch_size")
    weight = _number(context, "algo.kl.init_coef")
    divergence = context.series.get("kl")
    by_design: bool | None = None
    if weight is not None:
        by_design = weight > 0.0
    elif divergence is not None:
        by_design = bool(np.nan_to_num(divergence.values).any())
    estimator = _setting(context, "algo.advantage.estimator")
    known = ESTIMATORS.get(estimator) if isinstance(estimator, str) else None
    filtering = _setting(context, "algo.dynamic_filtering_enable")
    kept = True if "dynamic_filtering_pass_rate" in context.keys else filtering if isinstance(filtering, bool) else None
    return Declared(
        updates_per_rollout=max(1.0, samples / part) * (_number(context, "train.max_epochs") or 1.0) if samples and part else None,
        max_length=_number(context, "rollout.max_new_tokens"),
        kl_by_design=by_design,
        batch_completions=samples,
        group_size=group,
        group_centred=known[1] if known else None,
        steps_per_row=1.0,
        step_unit="rollout",
        reward_filtered=kept,
    )  # fmt: skip


_KNOBS: dict[str, tuple[str, Setting]] = {
    # knob: (argument, default in 0.11.2)
    "kl-coef": ("algo.kl.init_coef", 0.01),
    "learning-rate": ("actor.adam.lr", 1e-6),
    "warmup": ("actor.lr_warmup_ratio", 0.03),
    "batch-size": ("rollout.batch_size", 1024),
    "group-size": ("rollout.n_samples_per_prompt", 1),
    "clip-low": ("actor.eps_clip", 0.2),
    "clip-high": ("actor.eps_clip_low_high", None),
    "minibatches": ("train.batch_size", 128),
    "epochs": ("train.max_epochs", 1),
    "temperature": ("rollout.temperature", 1.0),
    "entropy-bonus": ("actor.entropy_coef", None),
    "max-completion-length": ("rollout.max_new_tokens", None),
    "missing-eos-penalty": ("reward.stop_properly_penalty_coef", None),
    "length-penalty": ("reward.overlong_buffer_len", None),
    "reward-scaling": ("algo.advantage.no_std_norm", False),
    "reward-bounds": ("reward.clip_range", "(-10, 10)"),
    "dynamic-filter": ("algo.dynamic_filtering_enable", False),
    "staleness-bound": ("train.async_queue_size", 1),
    "asynchronous": ("train.async_enable", False),
    "behaviour-weight-cap": ("algo.advantage.is_correction_threshold", "[0.5, 5]"),
    "deterministic-kernels": ("train.full_determinism_enable", False),
    "max-grad-norm": ("actor.max_norm", 1.0),
    "loss-type": ("actor.loss_agg_mode", "token-mean"),
    "save-steps": ("ckpt.save_steps", -1),
}
_PAIR_KNOBS: dict[str, tuple[str, Setting]] = {
    "preference-beta": ("model.beta", 0.1),
    "learning-rate": ("adam.lr", 1e-5),
    "warmup": ("lr_warmup_ratio", 0.03),
    "sft-weight": ("model.nll_loss_coef", 0),
    "epochs": ("train.max_epochs", 1),
    "batch-size": ("train.batch_size", 128),
    "max-grad-norm": ("max_norm", 1.0),
    "save-steps": ("ckpt.save_steps", -1),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """OpenRLHF's arguments for the canonical knobs, under the names of the run's version."""
    table = dict(_PAIR_KNOBS if context.algorithm in PAIRS else _KNOBS)
    if context.algorithm == "ppo":
        table["value-clip"] = ("critic.value_clip", 0.5)
        table |= {"critic-warmup": ("critic.freezing_steps", -1), "critic-learning-rate": ("critic.adam.lr", 9e-6)}
    settings = unfolded(context.config)
    flat = context.newest <= (0, 9)
    made = {}
    for knob, (name, default) in table.items():
        old = _OLD_NAMES.get(name)
        key = old if old is not None and name not in settings and (flat or old in settings) else name
        made[knob] = KnobSetting(knob, key, settings.get(key, default), is_default=key not in settings)
    return made


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be logged with OpenRLHF."""
    if context.algorithm in PAIRS:
        return {
            "eval/preference/accuracy": "give --eval.dataset and set --eval.steps: eval/acc_mean is logged",
            "preference/margin": "chosen_reward minus reject_reward, both logged by the trainer",
        }
    return {
        "kl/reference": "--algo.kl.init_coef above 0 (1e-6 costs next to nothing) loads a reference and logs kl",
        "reward/std/within-group": "logged as group_reward_std from 0.8.3 on where --rollout.n_samples_per_prompt is above 1",
        "signal/zero-variance-share": "not logged by OpenRLHF; group_reward_std falls towards 0 with it",
        "eval/score/mean": "--eval.dataset and --eval.steps: eval_<dataset>_pass1 is logged",
        "entropy/mean": "--actor.entropy_coef 0 logs entropy_loss (the entropy itself) without adding a bonus",
        "length/truncated-share": "logged as rollout/truncated_rate from 0.9.8 on",
        "engine/kl": "--algo.advantage.is_correction_level token logs vllm_kl",
        "behaviour-weight/mean": "not logged by OpenRLHF; is_filter_ratio is the share outside the threshold",
        "behaviour-weight/capped-share": "--algo.advantage.is_correction_level token (0.11.1 or later) logs is_filter_ratio",
        "clip/fraction/total": "logged as ppo_clip_ratio from 0.8.3 on",
        "clip/fraction/low": "not logged apart; ppo_clip_ratio holds both sides",
        "systems/step-time": "logged as timing/step_total from 0.9.6 on",
    }


DIALECT = Dialect(
    "openrlhf",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    spell,
    versions,
    declare,
    derive,
    knobs,
    enable,
    axes=(Axis("eval_", "eval_global_step"),),
    patch="flags",
    samples=f"OpenRLHF logs one sample a step at most; {OWN_SAMPLES}",
)
