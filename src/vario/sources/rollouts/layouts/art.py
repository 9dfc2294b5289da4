"""ART: .art/{project}/models/{name}/trajectories/{split}/{step}.parquet, written by model.log; before that, .jsonl.

The step is the model's when it was logged, as in history.jsonl. Splits other than `train` are evaluations; `discarded`
is neither. In the table, messages are marked where they were sampled (`trainable`), and the metrics of a trajectory
are a JSON text. In the older file a line is a group, sampled messages are choices, and the group has no number.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts.base import Grouping, Layout, Row, named_components
from vario.sources.rollouts.layouts.conversation import entries, finite, items, parted, split


def prefer(paths: Sequence[str]) -> list[str]:
    """Leave out the older file where it was converted and kept."""
    there = {p.removesuffix(".parquet") for p in paths if p.endswith(".parquet")}
    return [p for p in paths if not (_PLACE.search(p) and p.endswith(".jsonl") and p.removesuffix(".jsonl") in there)]


def _trajectory(row: Row, group: object) -> Row:
    messages = [entries(m) for m in items(row.get("messages"))]
    turns = [i for i, m in enumerate(messages) if m.get("trainable") is True]
    prompt, completion = split(messages, turns) if turns else parted(messages)
    return {
        "group": group,
        "prompt": prompt,
        "completion": completion,
        "reward": row.get("reward"),
        **{COMPONENT + k: n for k, v in _told(row.get("metrics")).items() if (n := finite(v)) is not None},
    }


def _told(metrics: object) -> Mapping[str, object]:
    if isinstance(metrics, str):
        try:
            return entries(json.loads(metrics))
        except (ValueError, RecursionError):
            return {}
    return entries(metrics)


def _unpack(row: Row) -> list[Row]:
    return [_trajectory(row, row.get("group_index"))]


def _unpack_group(row: Row) -> list[Row]:
    trajectories = [entries(t) for t in items(row.get("trajectories"))]
    name = hashlib.blake2b(repr(trajectories).encode(errors="replace"), digest_size=8).hexdigest()
    return [
        _trajectory({**t, "messages": [_message(m) for m in items(t.get("messages_and_choices"))]}, name)
        for t in trajectories
    ]


def _message(one: object) -> Row:
    """A message, or what is inside a choice: those were sampled."""
    held = entries(one)
    return {**entries(held["message"]), "trainable": True} if "message" in held else held


_PLACE = re.compile(r"(?:^|/)trajectories/(?:train|(?!discarded/)(?P<eval>[^/]+))/(?P<step>\d+)\.(?:parquet|jsonl)$")
TABLE = Layout(
    key="art",
    name="art",
    files=_PLACE,
    needs=frozenset({"group_index", "reward", "messages"}),
    fields={name: (name,) for name in ("group", "prompt", "completion", "reward")},
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_unpack,
    source="art/utils/trajectory_logging.py, trajectory_migration.py: the schema of the table",
)
GROUPS = replace(
    TABLE,
    key="art-groups",
    needs=frozenset({"trajectories"}),
    unpack=_unpack_group,
    source="art/utils/trajectory_migration.py: serialize_trajectory_groups",
)
