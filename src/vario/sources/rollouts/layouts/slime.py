"""slime: what `--save-debug-rollout-data PATH/{rollout_id}.pt` saves: a pickle, read without running it.

One object: {"rollout_id", "samples": [Sample.to_dict(), ...]}; `eval_` stands before the number of an evaluation.
`rollout_id` counts from 0, as `rollout/step` of the log does. The length is of what the policy wrote (the loss mask),
as in `rollout/response_len`; tools' answers are not counted. An evaluation's data sets lie in one list.
"""

from __future__ import annotations

import re

from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts.base import Grouping, Layout, Row, named_components
from vario.sources.rollouts.layouts.conversation import entries, finite, items

REWARD_KEYS = ("score", "reward", "acc")
"""Where the reward stands among several: `--reward-key` says it, and the dump does not hold it."""
UNFINISHED = frozenset({"aborted", "pending"})
CUT = {"truncated": True, "completed": False}


def _unpack(row: Row) -> list[Row]:
    step = row.get("rollout_id")
    return [_sample(entries(one), step) for one in items(row.get("samples"))]


def _sample(sample: Row, step: object) -> Row:
    reward = sample.get("reward")
    parts = entries(reward)
    mask, versions = items(sample.get("loss_mask")), items(sample.get("weight_versions"))
    status = sample.get("status")
    return {
        "step": step,
        "group": sample.get("group_index"),
        "prompt": sample.get("prompt"),
        "completion": sample.get("response"),
        "reward": next((parts[k] for k in REWARD_KEYS if k in parts), None) if parts else reward,
        "length": float(sum(1 for m in mask if m)) if mask else sample.get("response_length"),
        "truncated": CUT.get(status) if isinstance(status, str) else None,
        "version": versions[0] if versions else None,
        "status": status,
        **{COMPONENT + k: n for k, v in parts.items() if k not in REWARD_KEYS and (n := finite(v)) is not None},
    }


LAYOUT = Layout(
    key="slime",
    name="slime",
    files=re.compile(r"(?:^|/)[^/]*?(?P<eval>eval_)?(?P<step>\d+)\.pt$"),
    needs=frozenset({"rollout_id", "samples"}),
    fields={
        name: (name,) for name in ("step", "group", "prompt", "completion", "reward", "length", "truncated", "version")
    },
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_unpack,
    keep=lambda row: row.get("status") not in UNFINISHED,
    source="slime/observability/rollout_data_utils.py:140-153 save_debug_rollout_data, slime/utils/types.py Sample",
)
