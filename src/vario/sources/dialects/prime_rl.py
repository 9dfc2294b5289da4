"""prime-rl: what its trainer and its orchestrator write, together or apart, from 0.3 to 0.8.

What the keys mean was read from the main branch of August 2026 and the tags before it. Two processes log:
the trainer (loss, entropy, mismatch, optimiser, hardware) and the orchestrator (rewards, lengths, groups,
staleness, evaluation). One row is one rollout batch, which is one optimiser update. Two keys are written by
both under one name and cannot be told apart in a common file. prime-rl has no reference policy: what it calls
`mismatch_kl` is the sampler against the trainer, and `ref_kl` the distance to a teacher.

Both print a line a step too, under names of its own. From 0.7 on its reward is that of the cohort which was shipped
to the trainer, after groups without spread were left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from vario.run import Declared, KnobSetting, Series, Setting
from vario.sources.dialects.base import NEWEST, OLDEST, Alias, Context, Dialect, Settled, Version, one_minus, percent

_AGENT = re.compile(r"train/(?P<env>[^/]+)/(?P<subset>all|effective)/(?P<agent>[^/]+)/reward/mean")
_TRAINER = ("optim/lr", "perf/throughput", "perf/mfu", "time/forward_backward", "time/broadcast_weights", "loss/mean")
_ORCHESTRATOR = ("progress/tokens", "progress/total_tokens", "off_policy/mean", "reward/mean", "reward/all/mean")
_SETTINGS = ("max_off_policy_steps", "rollouts_per_example", "oversampling_factor", "strict_async_level")
"""Settings of the orchestrator when its configuration stands alone; two of them together are prime-rl's."""


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """Keys that only prime-rl writes, or the sections and settings of its configuration."""
    decisive = (
        {"mismatch_kl/all/mean"},
        {"mismatch_kl/mean"},
        {"is_masked/mean", "optim/lr"},
        {"reward/all/mean", "solve_none/all"},
        {"reward/all/mean", "decode_len/all/mean"},
        {"batch/solve_none", "batch/effective_batch_size"},
        {"off_policy/mean", "progress/tasks"},
        {"Mismatch KL"},
        {"Reward", "Max Off-Policy"},
        {"Reward", "Async Level"},
    )
    return (
        any(d <= keys for d in decisive)
        or any(_AGENT.fullmatch(k) for k in keys)
        or any(k.startswith("orchestrator.") for k in config)
        or any(k.endswith("loss.dppo_mask_low") for k in config)
        or sum(k in config for k in _SETTINGS) >= 2
    )


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """The algorithm as configured; a teacher's distance shows distillation, groups show GRPO."""
    for key in ("orchestrator.algo.type", "orchestrator.algo", "algo.type", "algo"):
        if isinstance(name := config.get(key), str):
            return name.lower()
    return "opd" if any(k.startswith("ref_kl/") for k in keys) else "grpo"


def versions(context: Context) -> tuple[Version, Version]:
    """Bounds from the keys that came and went."""
    keys = context.keys
    oldest, newest = OLDEST, NEWEST
    if {"mismatch_kl/all/mean", "entropy/all/mean"} & keys or any(_AGENT.fullmatch(k) for k in keys):
        oldest = max(oldest, (0, 7))
    if {"reward/all/mean", "solve_none/all", "decode_len/all/mean"} & keys:
        oldest, newest = max(oldest, (0, 5)), min(newest, (0, 6))
    if {"mismatch_kl/mean", "teacher_kl/mean"} & keys:
        newest = min(newest, (0, 6))
    if "optim/zero_grad_ratio" in keys:
        oldest, newest = max(oldest, (0, 5)), min(newest, (0, 8))
    if {"batch/solve_none", "val_reward/mean", "completion_len/mean"} & keys:
        newest = min(newest, (0, 4))
    return (oldest, newest) if oldest <= newest else (OLDEST, NEWEST)


Condition = Callable[[Context, Series], Settled]


def _environments(context: Context) -> set[str]:
    return {found["env"] for k in context.keys if (found := _AGENT.fullmatch(k))}


def _whole(context: Context, series: Series) -> Settled:
    """Whether a key is of the aggregate, or of the only environment; and of the only agent."""
    env = series.key.split("/")[1]
    environments = _environments(context)
    if environments and env != ("agg" if "agg" in environments else min(environments)):
        return Settled(False)
    if len(environments - {"agg"}) > 1 and "agg" not in environments:
        return Settled(None, "one of several environments, and none is their aggregate: choose one with --map")
    agents = {f["agent"] for k in context.keys if (f := _AGENT.fullmatch(k)) and f["env"] == env}
    return (
        Settled(None, "one of several agents, and they are not averaged: choose one with --map")
        if len(agents) > 1 and series.key.split("/")[3] in agents
        else Settled(True)
    )


def _beside(context: Context, series: Series, name: str, *, last: int = 1) -> Series | None:
    """The series of the same environment and agent whose key ends in `name`."""
    return context.series.get("/".join([*series.key.split("/")[:-last], name]))


def _full_reward_is_one(context: Context, series: Series) -> Settled:
    whole = _whole(context, series)
    if whole.holds is not True:
        return whole
    largest = _beside(context, series, "reward/max")
    if largest is None or not np.isfinite(largest.values).any():
        found = bool((series.values > 0.0).any())
        return (
            Settled(True) if found else Settled(None, "counts rewards of exactly 1, which may not be the full reward")
        )
    top = float(np.nanmax(largest.values))
    if top != 1.0:
        return Settled(False, f"counts rewards of exactly 1, and the largest reward here is {top:.4g}")
    return Settled(True)


def _sum_is_group_size(context: Context, series: Series) -> Settled:
    if bool((series.values > 0.0).any()):
        return Settled(True)
    return Settled(None, "counts groups whose rewards sum to their size: 0 throughout where 1 is not the full reward")


def _no_reward_is_zero(context: Context, series: Series) -> Settled:
    whole = _whole(context, series)
    smallest = _beside(context, series, "reward/min")
    if whole.holds is True and smallest is not None and float(np.nanmin(smallest.values, initial=0.0)) < 0.0:
        return Settled(False, "counts groups whose rewards sum to 0, and some rewards are negative")
    return whole


def _without_advantage(context: Context, series: Series) -> Settled:
    whole = _whole(context, series)
    if whole.holds is not True:
        return whole
    if context.algorithm != "grpo":
        return Settled(False, f"with {context.algorithm} the advantage is not the distance to the group's mean")
    errors = context.series.get("/".join([*series.key.split("/")[:3], "has_error/mean"]))
    if errors is not None and float(np.nan_to_num(errors.values).mean()) > 0.01:
        return Settled(None, "answers lost to errors are not trainable either, and more than 1 % were lost")
    return Settled(True)


def _one_writer(context: Context, _: Series) -> Settled:
    trainer = any(k in context.keys for k in _TRAINER)
    orchestrator = any(k in context.keys for k in _ORCHESTRATOR) or any(_AGENT.fullmatch(k) for k in context.keys)
    if trainer and orchestrator:
        return Settled(None, "written by the trainer and by the orchestrator under one name: the last to write counts")
    return Settled(True)


_SCOPE = r"train/(?P<part>[^/]+)/all/"
_ONE = r"train/[^/]+/all/[^/]+/"


def _of_agent(name: str, metric: str, when: Condition = _whole) -> Alias:
    return Alias(rf"{_SCOPE}[^/]+/{name}", metric, when=when)


ALIASES = (
    # 0.7 and later: `all` is everything that arrived, `effective` what was trained on
    _of_agent("reward/mean", "reward/mean"),
    _of_agent("reward/max", "reward/max"),
    _of_agent("reward/min", "reward/min"),
    Alias(r"train/(?P<part>[^/]+)/effective/[^/]+/reward/mean", "reward/kept/mean", when=_whole),
    Alias(rf"{_ONE}rewards/(?P<part>[^/]+)/mean", "reward/component/*/mean", when=_whole),
    _of_agent("num_output_tokens/mean", "length/mean"),
    _of_agent("num_output_tokens/max", "length/max"),
    _of_agent("num_output_tokens/min", "length/min"),
    _of_agent("is_truncated/mean", "length/truncated-share"),
    _of_agent("solved_all", "signal/solved-share", _full_reward_is_one),
    _of_agent("solved_none", "signal/unsolved-share", _no_reward_is_zero),
    Alias(
        rf"{_SCOPE}[^/]+/is_trainable/mean", "signal/zero-variance-share", when=_without_advantage, transform=one_minus
    ),
    Alias(rf"{_SCOPE}cancelled/mean", "length/aborted-share", when=_whole),
    Alias(rf"{_SCOPE}num_turns/mean", "turns/mean", when=_whole),
    Alias(r"eval/(?P<part>[^/]+)/all/[^/]+/avg@\d+", "eval/set/*/mean"),
    Alias(r"eval/(?P<part>[^/]+)/effective/[^/]+/avg@\d+", "eval/set/*/mean"),
    Alias(r"eval/(?P<part>[^/]+)/all/[^/]+/reward/mean", "eval/set/*/mean"),
    Alias(r"eval/(?P<part>[^/]+)/effective/[^/]+/reward/mean", "eval/set/*/mean"),
    # 0.5 and 0.6
    Alias("reward/all/mean", "reward/mean"),
    Alias("decode_len/all/mean", "length/mean"),
    Alias("is_truncated/all/mean", "length/truncated-share"),
    Alias("is_truncated/all", "length/truncated-share"),
    Alias("solve_none/all", "signal/unsolved-share"),
    Alias("solve_all/all", "signal/solved-share", when=_sum_is_group_size),
    Alias("num_turns/all/mean", "turns/mean"),
    Alias("val/reward/all/mean", "eval/score/mean"),
    Alias("val/reward/mean", "eval/score/mean"),
    # 0.3
    Alias("reward/mean", "reward/mean"),
    Alias("completion_len/mean", "length/mean"),
    Alias("prompt_len/mean", "length/prompt/mean"),
    Alias("is_truncated/mean", "length/truncated-share"),
    Alias("batch/solve_none", "signal/unsolved-share"),
    Alias("batch/solve_all", "signal/solved-share", when=_sum_is_group_size),
    Alias("val_reward/mean", "eval/score/mean"),
    Alias("time/generate_completions", "systems/rollout-time"),
    # evaluation before 0.7
    Alias(r"eval/(?P<part>[^/]+)/avg@\d+", "eval/set/*/mean"),
    Alias(r"eval/(?P<part>[^/]+)/reward/mean", "eval/set/*/mean"),
    # the trainer
    Alias("entropy/all/mean", "entropy/mean"),
    Alias("entropy/mean", "entropy/mean"),
    Alias("mismatch_kl/all/mean", "engine/kl"),
    Alias("mismatch_kl/mean", "engine/kl"),
    Alias("optim/lr", "learning-rate"),
    Alias("optim/grad_norm", "gradient/norm"),
    Alias("perf/throughput", "systems/throughput"),
    Alias("perf/peak_memory", "systems/memory"),
    Alias("perf/mfu", "systems/mfu", transform=percent),
    Alias("train/agg/all/agent/timing/total/mean", "systems/request-time/mean"),
    Alias("train/agg/all/agent/timing/total/max", "systems/request-time/max"),
    Alias("time/forward_backward", "systems/train-time"),
    Alias("time/wait_for_batch", "systems/wait-time"),
    Alias("time/broadcast_weights", "systems/sync-time"),
    Alias("time/step", "systems/step-time", when=_one_writer),
    Alias("time/save_ckpt", "systems/checkpoint-time", when=_one_writer, zero_is_missing=True),
    Alias("off_policy/mean", "staleness/mean"),
    Alias("off_policy/max", "staleness/max"),
    Alias("off_policy/dropped", "staleness/dropped"),
    Alias("progress/total_tokens", "systems/tokens"),
    # as printed
    Alias("Reward", "reward/mean"),
    Alias("Truncation", "length/truncated-share"),
    Alias("Turns", "turns/mean"),
    Alias("Max Off-Policy", "staleness/max"),
    Alias("Max. Off-Policy Level", "staleness/max"),
    Alias(r"eval/(?P<part>[^/]+)/Reward", "eval/set/*/mean"),
    Alias("Entropy", "entropy/mean"),
    Alias("Mismatch KL", "engine/kl"),
    Alias("Grad. Norm", "gradient/norm"),
    Alias("LR", "learning-rate"),
    Alias("Throughput", "systems/throughput"),
    Alias("Peak Mem.", "systems/memory"),
)

_STATS = r"(mean|median|std|min|max|p10|p90)"

IGNORED = {
    r"time|_timestamp|_runtime|producer": "a clock, or which process wrote the row",
    r"progress/.*": "a count of progress",
    r"train/[^/]+/effective/.+": "what was shipped to the trainer, after groups without spread were left out; `all` is read",
    r"train/[^/]+/all/[^/]+/rewards/.+": "spread and extremes of one reward function, and those of single environments",
    r"train/[^/]+/all/[^/]+/metrics/.+": "values that the environment keeps beside its rewards: of no known scale",
    r"train/[^/]+/all/[^/]+/stop_condition/.+": "why answers stopped; the share of cut ones is read",
    r"train/[^/]+/all/[^/]+/error/.+": "counts of errors by kind",
    r"train/[^/]+/all/[^/]+/timing/.+": "times of single answers, which overlap",
    r"train/[^/]+/all/[^/]+/(num_[a-z_]+|reward|is_truncated|is_completed|is_admitted|is_trainable)/"
    + _STATS: "further statistics of what is read",
    r"train/[^/]+/all/[^/]+/solved_some": "what solved_none and solved_all leave",
    r"train/[^/]+/all/num_[a-z_]+/" + _STATS: "counts by episode, which may hold several agents",
    r"train/[^/]+/all/has_error/" + _STATS: "share of episodes lost to errors",
    r"eval/[^/]+/(all|effective)/.+": "further statistics of held-out answers; avg@k is read",
    r"eval/[^/]+/(policy_version|time|valid_rate|failed_rollouts|no_response(/mean)?|no_response_rate|n_rollouts|n_examples)": "which policy was evaluated, when and how completely",
    r"eval/[^/]+/(cancelled_count|errored_count|truncation_rate|num_turns/mean|(completion_len|is_truncated)/[a-z]+)": "further statistics of held-out answers; avg@k is read",
    r"eval/[^/]+/pass[@^]\d+": "best of k; avg@k is read",
    r"loss/" + _STATS: "the share of one micro-batch in a loss that is already normalised: no loss of the step",
    r"entropy/(all/)?(std|max|min|median)|entropy/(?!all/)[^/]+/"
    + _STATS: "spread and extremes, and single environments",
    r"mismatch_kl/(all/)?(std|max|min|median)|mismatch_kl/(?!all/)[^/]+/"
    + _STATS: "spread and extremes, and single environments",
    r"(un)?masked_mismatch_kl/" + _STATS: "the mismatch on the tokens that a mask drops or keeps",
    r"is_masked(_low|_high)?/" + _STATS: "tokens outside a trust region of probabilities: no clipped ratio",
    r"masked_advantage_(positive|negative)/" + _STATS: "how the dropped tokens split by the sign of their advantage",
    r"kl_ent_ratio/mean": "the quotient of two series that are read",
    r"(ref_kl|teacher_kl)(/.+)?": "distillation: the distance to a teacher, no reference",
    r"nll(/.+)?": "the supervised part of a loss",
    r"(max_vio|routing_confidence)/" + _STATS: "load of the experts",
    r"optim/zero_grad_ratio": "share of parameters without a gradient",
    r"perf/(throughput_per_gpu|mfu)": "use of hardware",
    r"system/.*": "free disk",
    r"time/(load_data|pack|wait_for_policy|wait_for_ckpt|update_weights|eval)": "phases that no instrument uses",
    r"off_policy/(in_flight|in_queue)/.*": "the parts of staleness",
    r"batch/.*": "shares of the environments, and the groups between solved and unsolved",
    r"curriculum/.*": "how tasks were admitted",
    r"(dispatcher|concurrency|watcher|event_loop_lag|inference)/.*": "queues and gauges on a clock of their own",
    r"reward/(all/)?(max|min|std)|reward/(?!all/)[^/]+/" + _STATS: "extremes over group means, and single environments",
    r"(seq_len|prefill_len|samples_per_rollout|prompt_len)/.*": "prompt, answer and tool output together",
    r"(decode_len|completion_len|num_turns|is_truncated)/.*": "extremes over group means, and single environments",
    r"(solve_none|solve_all|effective_batch_size)/.*": "single environments, and the groups between solved and unsolved",
    r"(stop_condition|timing|filters|pre_filters|metrics|sampling)/.*": "causes, times and settings of single answers",
    r"error/.*": "share of answers lost to errors",
    r"val/.*|val_reward/.*": "further statistics of held-out rewards",
    r"Loss": "the share of one micro-batch in a loss that is already normalised: no loss of the step",
    r"Time|MFU|Branches|Async Level|Max Vio|Routing Conf\.": "clocks, counts and use of hardware",
    r"Error|Cancelled": "share of answers lost to errors",
    r"Seq\. Length": "prompt, answer and tool output together",
    r"eval/[^/]+/(Turns|Branches|Error|Truncation)": "further statistics of held-out answers; the reward is read",
}


def _setting(context: Context, *names: str) -> tuple[str, Setting, bool]:
    """The first of these settings that the configuration holds, under its section or alone; (key, value, held)."""
    for name in names:
        for key in (name, name.partition(".")[2]):
            if key in context.config:
                return key, context.config[key], True
    return names[0], None, False


def _number(context: Context, *names: str) -> float | None:
    key, _, held = _setting(context, *names)
    return context.number(key) if held else None


_GROUP = ("orchestrator.group_size", "orchestrator.rollouts_per_example")
_CAP = (
    "orchestrator.train.sampling.max_completion_tokens",
    "orchestrator.sampling.max_completion_tokens",
    "orchestrator.sampling.max_tokens",
)


def _weights(series: Mapping[str, Series]) -> dict[str, float]:
    """Reward functions are logged with their weight inside: from here on each counts once."""
    start, end = "reward/component/", "/mean"
    return {n[len(start) : -len(end)]: 1.0 for n in series if n.startswith(start) and n.endswith(end)}


def declare(context: Context, series: Mapping[str, Series]) -> Declared:
    """Groups, caps and the absence of a reference."""
    _, stated, held = _setting(context, "orchestrator.algo.type", "orchestrator.algo")
    trains = any(k in context.keys for k in (*_TRAINER, "Mismatch KL")) or any(
        k.startswith("trainer.") for k in context.config
    )
    return Declared(
        updates_per_rollout=1.0,  # the trainer makes one optimiser step of each batch
        max_length=_number(context, *_CAP),
        kl_by_design=False if trains else None,
        component_weights=_weights(series),
        batch_completions=_number(context, "orchestrator.batch_size"),
        group_size=_number(context, *_GROUP),
        group_centred=stated == "grpo" if held and isinstance(stated, str) else None,
        steps_per_row=1.0,
        step_unit="rollout",
        reward_filtered=True if {"Reward", "Branches"} <= context.keys else None,
    )


_KNOBS: dict[str, tuple[tuple[str, ...], Setting]] = {
    # knob: (settings, the newest name first; default of that name)
    "learning-rate": (("trainer.optim.lr",), 1e-6),
    "max-grad-norm": (("trainer.optim.max_norm",), 1.0),
    "batch-size": (("orchestrator.batch_size",), None),
    "group-size": (_GROUP, 1),
    "temperature": (("orchestrator.train.sampling.temperature", "orchestrator.sampling.temperature"), 1.0),
    "max-completion-length": (_CAP, None),
    "staleness-bound": (
        ("orchestrator.max_off_policy_steps", "orchestrator.async_level", "orchestrator.max_async_level"),
        8,
    ),
    "dynamic-filter": (("orchestrator.train.filter_zero_advantages", "orchestrator.filter_zero_advantages"), True),
    "loss-type": (("trainer.loss.type",), "default"),
    "save-steps": (("trainer.ckpt.interval",), None),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """prime-rl's settings for the canonical knobs, under the names of the run's own version."""
    found: dict[str, KnobSetting] = {}
    for knob, (names, default) in _KNOBS.items():
        key, value, held = _setting(context, *names)
        found[knob] = KnobSetting(knob, key, value if held else default, is_default=not held)
    return found


def enable(context: Context) -> Mapping[str, str]:
    """How each missing metric would be had from prime-rl."""
    orchestrator, trainer = "logged by the orchestrator as", "logged by the trainer as"
    return {
        "kl/reference": "prime-rl has no reference policy and logs no such divergence",
        "kl/update": "not logged by prime-rl, which makes one update of each batch",
        "reward/std/within-group": "not logged by prime-rl; the traces in the run folder hold every reward with its group",
        "signal/zero-variance-share": f"{orchestrator} train/agg/all/<agent>/is_trainable/mean since 0.7",
        "eval/score/mean": "configure [orchestrator.eval] with an environment and an interval: eval/<environment>/…/avg@k is logged",
        "entropy/mean": f"{trainer} entropy/all/mean",
        "length/truncated-share": f"{orchestrator} train/agg/all/<agent>/is_truncated/mean",
        "engine/kl": f"{trainer} mismatch_kl/all/mean",
        "engine/logprob-gap/mean": "not logged by prime-rl; mismatch_kl/all/mean is its trace",
        "behaviour-weight/mean": "not logged by prime-rl; is_masked/mean is the share of tokens that were dropped",
        "clip/fraction/total": "prime-rl does not clip ratios; is_masked/mean is the share of tokens outside its trust region",
        "staleness/mean": f"{orchestrator} off_policy/mean",
        "gradient/norm": "set trainer.optim.max_norm: optim/grad_norm is logged with it",
        "systems/step-time": "logged as time/step by both processes; read a log of one of them",
    }


DIALECT = Dialect(
    "prime-rl",
    recognises,
    algorithm,
    ALIASES,
    IGNORED,
    versions=versions,
    declare=declare,
    knobs=knobs,
    enable=enable,
    patch="toml",
    samples="written anyway: rollouts/step_{N}/{train,eval}/*/traces.jsonl below the run's folder",
)
