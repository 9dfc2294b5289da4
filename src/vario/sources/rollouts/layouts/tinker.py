"""Tinker cookbook: {log_path}/iteration_{NNNNNN}/{train|eval_NAME}_rollout_summaries.jsonl, written without being asked.

No text: rewards, groups, lengths and stops. The iteration is `step` of metrics.jsonl, from 0: evaluation and rollouts
of the weights before that update. A trajectory's length is what its steps sampled; it was cut where a step says
`stop/max_tokens` and the like, or (later versions) stopped for `length`. `version` is the step of the sampling client.
"""

from __future__ import annotations

import re

from vario.sources.rollouts.columns import COMPONENT, CUT
from vario.sources.rollouts.layouts.base import Grouping, Layout, Row, named_components
from vario.sources.rollouts.layouts.conversation import entries, finite, items

STOP = "stop/"
SCORES = ("correct", "format")
"""What the cookbook's own problem environments score; other metrics of a step may be anything."""


def _unpack(row: Row) -> list[Row]:
    steps = [entries(s) for s in items(row.get("steps"))]
    metrics = [entries(s.get("metrics")) for s in steps]
    sampled = [n for s in steps if (n := finite(s.get("ac_len"))) is not None]
    stops = [key.removeprefix(STOP) for m in metrics for key, v in m.items() if key.startswith(STOP) and v]
    stops += [reason for s in steps if isinstance(reason := s.get("stop_reason"), str)]
    scores = {k: [n for m in metrics if (n := finite(m.get(k))) is not None] for k in SCORES}
    tags = [str(t) for t in items(row.get("tags"))]
    return [
        {
            **row,
            "length": sum(sampled) if sampled else None,
            "cut": any(reason in CUT for reason in stops) if stops else None,
            "source": ", ".join(tags) or None,
            **{COMPONENT + k: sum(found) / len(found) for k, found in scores.items() if found},
        }
    ]


LAYOUT = Layout(
    key="tinker",
    name="tinker",
    files=re.compile(r"(?:^|/)iteration_(?P<step>\d+)/(?:train[^/]*|(?P<eval>[^/]+))_rollout_summaries\.jsonl$"),
    needs=frozenset({"group_idx", "traj_idx", "total_reward", "steps"}),
    fields={
        "step": ("iteration",),
        "group": ("group_idx",),
        "reward": ("total_reward",),
        "length": ("length",),
        "truncated": ("cut",),
        "source": ("source",),
        "version": ("sampling_client_step",),
    },
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_unpack,
    source="tinker_cookbook/rl/rollout_logging.py serialize_rollout_summaries; rl/message_env.py for stop/*",
)
