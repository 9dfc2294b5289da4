"""Where each library writes its metric keys: which files log, and what happens to a key on its way to the log.

Read by `known_keys.py`. A new library is one more entry in LIBRARIES; what its way of logging needs is an
attribute of `Part`, never a case in the reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Spellings = tuple[str, ...]
"""How a key is spelled in the log: `actor/{}` puts a prefix in front, `{}/avg` a word behind; several where it is
logged several times."""
AS_IT_IS: Spellings = ("{}",)


def _named(*names: str) -> dict[str, Spellings]:
    return dict.fromkeys(names, AS_IT_IS)


STORES = _named("_metrics", "metrics", "_stored_metrics", "last_metrics", "logs", "stats", "_rates", "_counters")
"""What trainers call the place where metrics are gathered before they are logged."""


@dataclass(frozen=True)
class Part:
    """Files of a library that write their keys in one way.

    Attributes:
        files: patterns below the library's folder; some may be there in older versions only.
        logged_as: how the keys gathered in these files are spelled in the log; no prefix is put twice.
        bare: the same for keys without a slash, where that makes a difference.
        functions: the same for the keys gathered inside a function of that name; `()`: not logged.
        stores: what the places are called where metrics are gathered, and what is added to their keys.
        makers: functions that return metrics, or yield them, beside those whose name ends with `metrics`.
        calls: functions whose first argument is a key, and how that is spelled in the log.
        keywords: functions whose argument names are keys, and what is added to those.
        scopes: functions whose first argument stands before the keys that are gathered inside their `with`.
        fields: class attributes that are made by this call with this first argument are keys.
        names: what variables hold, or functions return, that the source works out: the values that are possible.
        skipped: patterns of what is gathered here and not logged under that name, each with the reason.
    """

    files: tuple[str, ...]
    logged_as: Spellings = AS_IT_IS
    bare: Spellings | None = None
    functions: Mapping[str, Spellings] = field(default_factory=dict)
    stores: Mapping[str, Spellings] = field(default_factory=lambda: STORES)
    makers: tuple[str, ...] = ()
    calls: Mapping[str, Spellings] = field(default_factory=dict)
    keywords: Mapping[str, Spellings] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """One library: the folder that is imported, whose dialect its keys are asked of, where they are written."""

    name: str
    dialect: str
    parts: tuple[Part, ...]
    package: str = ""

    @property
    def distribution(self) -> str:
        """What the package registry calls it."""
        return self.package or self.name


_GROUPS = dict.fromkeys(("_compute_by_group_metrics", "_compute_trajectory_metrics"), ("env/all/{}", "test/env/all/{}"))
_MISMATCH = dict.fromkeys(
    ("_compute_rollout_offpolicy_metrics", "_compute_is_correction_metrics"), ("rollout_correction/{}",)
)
_TRACKER: dict[str, Spellings] = {
    # AReaL's stats_tracker: stat(entropy=…) is logged as entropy/avg, entropy/min and entropy/max
    "stat": ("{}/avg", "{}/min", "{}/max"),
    "denominator": AS_IT_IS,
    "scalar": AS_IT_IS,
}
_UPDATE: Spellings = ("ppo_actor/update/{}",)
_ENGINES: Spellings = (*_UPDATE, "ppo_critic/{}", "dpo/{}", "sft/{}", "rw/{}")

LIBRARIES = (
    Library(
        "trl",
        "trl",
        (
            Part(
                ("**/*.py",),
                skipped={
                    "sample: sample": "the profiler's timings, under a name that only exists at run time",
                    "correctness": "handed to the worker, which logs it as rollout/correctness_mean",
                    "turns|sequences|completion_ids|tally|loop_exhausted|duration_s|tool_(calls|failures)_by_name|tool_latency": "handed to the worker, which logs them under rollout/",
                },
            ),
        ),
    ),
    Library(
        "transformers",
        "trl",
        (
            Part(
                ("trainer.py", "trainer_utils.py", "trainer_seq2seq.py"),
                names={"split": ("eval",)},  # handed on as a variable whose default is "eval"
                skipped={"objective": "goes to a hyper-parameter search, not to a log"},
            ),
        ),
    ),
    Library("unsloth", "unsloth", (Part(("models/rl_replacements.py",)),)),
    Library("unsloth_zoo", "unsloth", (Part(("rl_replacements.py",)),)),
    Library(
        "verl",
        "verl",
        (
            Part(
                (
                    "trainer/ppo/ray_trainer.py",
                    "trainer/ppo/metric_utils.py",
                    "trainer/ppo/v1/trainer*.py",
                    "experimental/*/ray_trainer.py",
                    "experimental/fully_async_policy/fully_async_trainer.py",
                    "experimental/fully_async_policy/detach_utils.py",
                    "checkpoint_engine/*.py",
                    "utils/debug/metrics.py",
                ),
                stores=STORES
                | _named("metric_dict", "aggregated", "tool_calls_stats", "partial_stats", "output")
                | {"timing_raw": ("timing_s/{}",), "processing_time_stats": ("fully_async/{}",)},
                calls=dict.fromkeys(("marked_timer", "_timer"), ("timing_s/{}",)),
                makers=("send_weights",),
            ),
            # up to 0.7 the workers gathered under whole names
            Part(
                ("workers/actor/*.py", "workers/critic/*.py", "workers/fsdp_workers.py", "workers/megatron_workers.py")
            ),
            Part(
                ("utils/seqlen_balancing.py",),
                makers=("log_seqlen_unbalance",),
                names={"prefix": ("global_seqlen",)},
            ),
            Part(
                ("trainer/ppo/v1/replay_buffer.py",),
                names=dict.fromkeys(("prefix", "_metrics_prefix"), ("training", "validation")),
                skipped={"_dapo_filtered_reward_counts": "a table, taken out before the rest is logged"},
            ),
            Part(
                ("experimental/fully_async_policy/fully_async_rollouter.py",),
                stores=_named("timing_raw", "stats"),
                calls={"marked_timer": AS_IT_IS},
                functions={"get_statistics": ("fully_async/{}",)},
            ),
            Part(
                ("experimental/agent_loop/agent_loop.py",),
                functions={"_performance_metrics": ("timing_s/{}",)},
                stores={},
            ),
            Part(
                ("trainer/ppo/rollout_corr_helper.py",),
                logged_as=("rollout_corr/{}", "actor/rollout_corr/{}"),
            ),
            Part(
                ("workers/utils/losses.py", "trainer/ppo/core_algos.py", "trainer/distillation/losses.py"),
                logged_as=("actor/{}",),
                functions={"value_loss": ("critic/{}",)},
            ),
            Part(
                ("workers/engine_workers.py", "workers/engine/*/transformer_impl.py", "workers/engine/base.py"),
                logged_as=("actor/{}", "critic/{}"),
                stores=_named("final_metrics", "metrics"),
                skipped={"mfu": "logged as perf/mfu/actor and perf/mfu/critic"},
            ),
        ),
    ),
    Library(
        "openrlhf",
        "openrlhf",
        (
            Part(
                ("trainer/ppo_trainer*.py",),
                logged_as=("train/{}",),
                functions={"compute_eval_metrics": ("eval/{}",), "evaluate": ("eval/{}",)},
                stores=_named("status", "logs", "stats"),
                names={"n_samples_per_prompt": ("8",)},
            ),
            Part(
                ("trainer/ray/ppo_actor.py", "trainer/ray/ppo_critic.py", "trainer/ppo_utils/*.py"),
                logged_as=("train/{}",),
                stores=_named("status", "info", "metrics", "short_status", "merged_status"),
                fields={"tensor_field": "episode"},
                skipped={
                    "rewards|scores": "what the advantages are made of; not logged",
                    "metrics|weights|num_samples|num_action_tokens|_.+": "how the others are averaged",
                    "pass.+|count": "summed up for each data set",
                },
            ),
            Part(
                ("trainer/dpo_trainer.py", "trainer/rm_trainer.py"),
                stores={"logs_dict": ("train/{}",), "logs": ("eval/{}",), "bar_dict": ("eval/{}",)},
            ),
        ),
    ),
    Library(
        "areal",
        "areal",
        (
            Part(
                ("trainer/ppo/actor.py", "engine/ppo/actor.py"),
                functions={
                    "_ppo_update": ("ppo_actor/{}",),
                    "grpo_loss_fn": _UPDATE,
                    "_log_proximal_approximation_stats": _UPDATE,
                    "_log_approximation_metrics_for_method": ("ppo_actor/update/compute_logp/{}",),
                    "_log_version_staleness_stats": _UPDATE,
                },
                stores={},
                keywords=_TRACKER,
                scopes=("scope",),
            ),
            Part(("trainer/ppo/critic.py",), logged_as=("ppo_critic/{}",), stores={}, keywords=_TRACKER),
            Part(("trainer/dpo/*.py",), logged_as=("dpo/{}", "dpo-eval/{}"), stores={}, keywords=_TRACKER),
            Part(("trainer/sft/*.py",), logged_as=("sft/{}", "sft-eval/{}"), stores={}, keywords=_TRACKER),
            Part(("trainer/rw/*.py",), logged_as=("rw/{}", "rw-eval/{}"), stores={}, keywords=_TRACKER),
            Part(
                ("engine/*_engine.py", "experimental/engine/*_engine.py", "models/tree_attn/tree.py"),
                logged_as=_ENGINES,
                stores=_named("stats"),
                makers=("optimizer_step",),
                keywords=_TRACKER,
            ),
            Part(("engine/megatron_utils/checkpointer.py",), stores={}, keywords=_TRACKER),
            Part(("trainer/*.py",), stores={}, calls={"record_timing": ("timeperf/{}",)}),
            Part(
                (
                    "workflow/*.py",
                    "infra/workflow_executor.py",
                    "experimental/**/*workflow*/*.py",
                    "experimental/**/workflow.py",
                ),
                logged_as=("rollout/{}", "eval-rollout/{}"),
                stores={},
                keywords=_TRACKER,
            ),
        ),
    ),
    Library(
        "swift",
        "ms-swift",
        (
            Part(
                (
                    "rlhf_trainers/*.py",
                    "trainers/mixin.py",
                    "trainers/seq2seq_trainer.py",
                    "trainers/patcher.py",
                    "callbacks/*.py",
                    "megatron/trainers/[!g]*.py",
                    "megatron/callbacks/*.py",
                    "ray/megatron/*.py",
                    "rl_core/*.py",
                ),
                functions=_MISMATCH,
                stores=STORES | _named("custom_metrics", "avg_metric", "_train_metrics"),
                skipped={
                    "entropy_(logs|mean|max|min|threshold)": "logged as entropy/… of the same name",
                    "future_kl|influence_weight|safety_mask": "logged as fipo/… after averaging",
                    "mode|entropy|clipping|fipo|n_steps": "how the parts are put together",
                    "sample(_sample)?": "what other places gather, under their names",
                },
            ),
            Part(
                ("megatron/trainers/g*.py",),
                functions=_MISMATCH,
                stores=STORES | _named("avg_metric") | {"entropy_metrics": ("entropy/{}",)},
                skipped={
                    "(entropy|rollout_correction)/sample": "what is gathered above, under its name",
                    "future_kl|influence_weight|safety_mask": "logged as fipo/… after averaging",
                },
            ),
        ),
        "ms-swift",
    ),
    Library(
        "tinker_cookbook",
        "tinker",
        (
            Part(
                ("rl/metric_util.py",),
                functions=_GROUPS,
                stores=_named("metrics", "out"),
                skipped={"sample/sample": "the same keys once more, after the name of an evaluation"},
            ),
            Part(
                (
                    "rl/train.py",
                    "rl/metrics.py",
                    "rl/rollouts.py",
                    "distillation/*.py",
                    "preference/train_dpo.py",
                    "preference/comparison_policy_evaluator.py",
                    "supervised/train.py",
                    "supervised/nll_evaluator.py",
                    "eval/benchmark_evaluator.py",
                    "recipes/rl_loop.py",
                    "recipes/sl_loop.py",
                    "utils/cost_estimation.py",
                    "utils/trace.py",
                ),
                stores=STORES | _named("out", "coordinates"),
                makers=(
                    "compute_kl_sample_train",
                    "compute_post_kl",
                    "incorporate_kl_penalty",
                    "__call__",
                    "snapshot_coordinates",
                ),
                calls=dict.fromkeys(("timed", "scope_span"), ("time/{}",)),
                skipped={
                    "(train|test|eval/sample)/sample": "what the service, an evaluator or a benchmark returns under a name of its own",
                },
            ),
        ),
        "tinker-cookbook",
    ),
    Library(
        "llamafactory",
        "llama-factory",
        (
            Part(
                ("train/callbacks.py", "train/*/trainer.py"),
                skipped={
                    ".+/(chosen|rejected)_sum|count/(chosen|rejected)": "divided by each other before logging",
                    "rewards|logps|logits": "parts of the names above",
                },
            ),
        ),
    ),
    Library(
        "axolotl",
        "axolotl",
        (
            Part(
                ("core/trainers/**/*.py", "integrations/hatchery/rl_trainer.py"),
                stores=STORES | _named("log_dict"),
                skipped={"values|reduction": "how each metric is averaged"},
            ),
        ),
    ),
    Library(
        "art",
        "art",
        (
            Part(
                ("model.py", "metrics_taxonomy.py", "_backend_training.py", "loss.py"),
                bare=("train/{}", "val/{}"),
                skipped={"sample/sample|training_step": "puts the split before the other keys; counts steps"},
                stores=STORES | _named("averages", "all_metrics", "automatic_metrics", "avg_metrics", "prefixed"),
            ),
            Part(
                (
                    "local/backend.py",
                    "serverless/backend.py",
                    "tinker_native/backend.py",
                    "tinker/service.py",
                    "unsloth/service.py",
                    "unsloth/train.py",
                    "megatron/train.py",
                    "pipeline_trainer/trainer.py",
                ),
                bare=("train/{}",),
                stores=STORES | _named("base_metrics"),
                makers=("_train_model", "_train_sft", "train_sft"),
            ),
            Part(("metrics.py",), calls={"add_metric": AS_IT_IS}, stores=_named("result")),
        ),
        "openpipe-art",
    ),
)
