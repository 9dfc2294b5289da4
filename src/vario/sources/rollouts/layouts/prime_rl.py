"""prime-rl and verifiers: episodes (traces.jsonl), and the results.jsonl of older verifiers.

prime-rl writes {run}/rollouts/step_{N}/{train|eval}/{all|effective}/traces.jsonl, one verifiers Episode a line (before
that, one Trace a line); `N` is the step of the log. The reward of a trace is the sum of score times weight, which its
components are too, as in the log; without a score it is unknown. Traces of agents that are not trained and episodes
that failed are left out. Agents of one episode are rewarded for different things: they are groups apart.

`all` holds what arrived, `effective` what was trained on: groups without spread are filtered from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts.base import Grouping, Layout, Row, named_components
from vario.sources.rollouts.layouts.conversation import SAMPLED, entries, finite, items, split

PREFERRED, SPARE = "all", "effective"
"""Which of two tellings of the same rollouts counts: `effective` has lost the groups without a difference."""
LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"})
"""Conditions of stopping that verifiers calls a truncation."""
FAILED = "failed"


def prefer(paths: Sequence[str]) -> list[str]:
    """Leave out the `effective` of which there is an `all`."""
    end = f"/{SPARE}/traces.jsonl"
    there = {p.removesuffix(f"/{PREFERRED}/traces.jsonl") for p in paths if p.endswith(f"/{PREFERRED}/traces.jsonl")}
    return [p for p in paths if not (p.endswith(end) and p.removesuffix(end) in there)]


def _unpack(row: Row) -> Iterator[Row]:
    if "traces" not in row:
        yield _trace(row, {})
        return
    traces = items(row["traces"])
    if not traces and _failed(row):
        yield {FAILED: True}
    for trace in traces:
        yield _trace(entries(trace), row)


def _trace(trace: Row, episode: Row) -> Row:
    nodes = [entries(n) for n in items(trace.get("nodes"))]
    calls = [entries(c) for c in items(trace.get("calls"))]
    info, agent = entries(trace.get("info")), entries(trace.get("agent"))
    policy = entries(entries(entries(episode.get("run")).get("work")).get("policy"))
    environment = entries(episode.get("env"))
    prompt, completion = split(
        [n.get("message") for n in nodes], [i for i, n in enumerate(nodes) if n.get("sampled") is True]
    )
    parts = {COMPONENT + k: n for k, v in entries(trace.get("rewards")).items() if (n := _paid(v)) is not None}
    return {
        "group": _group(trace, episode, info, agent.get("name")),
        "prompt": prompt,
        "completion": completion,
        "reward": sum(parts.values()) if parts else None,
        "advantage": info.get("advantage", [a for n in nodes for a in items(n.get("advantages"))] or None),
        "length": _length(nodes, calls),
        "truncated": _cut(trace, nodes, calls),
        "source": environment.get("name") or environment.get("id") or info.get("env_name") or trace.get("env_name"),
        "version": policy.get("start", info.get("policy_version", trace.get("policy_version"))),
        FAILED: _failed(trace) or _failed(episode) or agent.get("trainable") is False,
        **parts,
    }


def _paid(reward: object) -> float | None:
    """What a reward function added; a number alone has weight 1, and what was not scored none."""
    if not isinstance(reward, Mapping):
        return finite(reward)
    score, weight = finite(reward.get("score")), finite(reward.get("weight", 1.0))
    return score * weight if score is not None and weight is not None else None


def _group(trace: Row, episode: Row, info: Row, agent: object) -> str | None:
    group = episode.get("group", trace.get("group"))
    task = entries(episode.get("task") or trace.get("task"))
    named = (
        entries(group).get("id") or (group if isinstance(group, str) else None),
        info.get("group_id", trace.get("group_id")),
        task.get("key") or task.get("hash"),
        json.dumps(task["data"], sort_keys=True, default=str) if "data" in task else None,
    )
    found = next((str(one) for one in named if one is not None), None)
    return found if found is None or agent in (None, "agent") else f"{found}/{agent}"


def _length(nodes: Sequence[Row], calls: Sequence[Row]) -> float | None:
    """Tokens that the policy sampled: by the masks, else by what the provider counted."""
    masks = [mask for n in nodes if (mask := items(n.get("mask")))]
    if any(True in mask for mask in masks):
        return float(sum(1 for mask in masks for m in mask if m))
    counted = [n for c in calls if (n := finite(entries(c.get("usage")).get("completion_tokens"))) is not None]
    return sum(counted) if counted else None


def _cut(trace: Row, nodes: Sequence[Row], calls: Sequence[Row]) -> bool | None:
    if isinstance(told := trace.get("is_truncated"), bool):
        return told
    stop = trace.get("stop_condition")
    if stop in LIMITS:
        return True
    ends = [c.get("finish_reason") for c in calls if c.get("error") is None] or [
        n.get("finish_reason") for n in nodes if n.get("sampled") is True
    ]
    end = ends[-1] if ends else None
    return None if stop is None and end is None else end == "length"


def _failed(one: Row) -> bool:
    """Whether it failed; errors of attempts before the last are told of ones that went well too."""
    if isinstance(ok := one.get("ok"), bool):
        return not ok
    return bool(one.get("errors") or one.get("error"))


_FIELDS = ("group", "prompt", "completion", "reward", "advantage", "length", "truncated", "source", "version")
EPISODES = Layout(
    key="prime-rl",
    name="prime-rl",
    files=re.compile(
        rf"(?:^|/)rollouts/step_(?P<step>\d+)/(?:train|(?P<eval>eval))/(?:{SPARE}|{PREFERRED})/traces\.jsonl$"
    ),
    needs=frozenset({"task", "traces"}),
    fields={name: (name,) for name in _FIELDS},
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_unpack,
    keep=lambda row: row.get(FAILED) is not True,
    filtered=re.compile(rf"/train/{SPARE}/"),
    versioned=True,
    source="prime-rl docs and configs/rl.py; verifiers/v1/{episode,trace,graph}.py: Episode.to_record",
)
TRACES = replace(EPISODES, key="prime-rl-traces", needs=frozenset({"task", "nodes", "rewards"}))
STANDALONE = replace(
    EPISODES,
    key="verifiers",
    name="generic",
    files=re.compile(r"(?:^|/)traces\.jsonl$"),
    evaluation=True,
    source="verifiers/v1/cli/output.py: <output_dir>/<run>/traces.jsonl",
)

_OLD = frozenset(
    {
        "example_id", "prompt", "completion", "reward", "timing", "is_completed", "is_truncated", "metrics", "answer",
        "info", "error", "stop_condition", "trajectory", "token_usage", "task", "env_id", "generation_ms", "scoring_ms",
        "total_ms", "num_turns",
    }
)  # fmt: skip


def _old(row: Row) -> list[Row]:
    said = row.get("completion")
    turns = [m for m in items(said) if entries(m).get("role") == SAMPLED]
    scores = {**{k: v for k, v in row.items() if k not in _OLD}, **entries(row.get("metrics"))}
    return [
        {
            "group": row.get("example_id"),
            "prompt": row.get("prompt"),
            "completion": turns or said,
            "reward": row.get("reward"),
            "length": entries(row.get("token_usage")).get("output_tokens"),
            "truncated": row.get("is_truncated"),
            "source": row.get("env_id") or row.get("task"),
            FAILED: bool(row.get("error")),
            **{COMPONENT + k: n for k, v in scores.items() if k != "num_turns" and (n := finite(v)) is not None},
        }
    ]


RESULTS = Layout(
    key="verifiers-results",
    name="generic",
    files=re.compile(r"(?:^|/)results\.jsonl$"),
    needs=frozenset({"example_id", "prompt", "completion", "reward"}),
    fields={name: (name,) for name in ("group", "prompt", "completion", "reward", "length", "truncated", "source")},
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_old,
    keep=lambda row: row.get(FAILED) is not True,
    evaluation=True,
    source="verifiers before v1, vf-eval: outputs/evals/{env}--{model}/{uuid}/results.jsonl",
)
