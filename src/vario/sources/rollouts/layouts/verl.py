"""verl: {rollout_data_dir}/{step}.jsonl and {validation_data_dir}/{step}.jsonl, under trainer.

The step is that of the log, from 1; 0 is the validation before training. The two folders are the user's: validation is
known by a folder of such a name, and by `reward` beside `score`, which only validation writes. Scores are before any
KL penalty. What the reward function returned beside the score (`acc`, `overlong_reward`) stands in columns of its own:
in validation, and in training up to 0.8. Before 0.6 there is no `gts`. Neither lengths nor cuts are written.

The V1 trainer (default from 0.9) pads its batches with samples that nobody asked for, and names the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from vario.sources.rollouts.layouts.base import HELD_OUT, Grouping, Layout, Row

_OTHER = frozenset(
    {
        "input", "output", "gts", "score", "step", "uid", "request_id", "reward", "num_turns", "__num_turns__",
        "data_source", "overlong",
    }
)  # fmt: skip
_FIELDS = {
    "step": ("step",),
    "prompt": ("input",),
    "completion": ("output",),
    "reward": ("score",),
    "source": ("data_source",),
}


def _components(names: Iterable[str]) -> list[str]:
    return [n for n in names if n not in _OTHER]


def _unpack(row: Row) -> list[Row]:
    # PROMPT_SESSION_OUTPUT
    uid = row.get("uid")
    return [{**row, "uid": uid.rsplit("_", 2)[0]} if isinstance(uid, str) else row]


V1 = Layout(
    key="verl-v1",
    name="verl",
    files=re.compile(rf"(?:^|/)(?:(?P<eval>{HELD_OUT})/)?(?P<step>\d+)\.jsonl$"),
    needs=frozenset({"input", "output", "score", "uid"}),
    fields={**_FIELDS, "group": ("uid",)},
    grouping=Grouping.COLUMN,
    components=_components,
    unpack=_unpack,
    keep=lambda row: not str(row.get("uid", "")).startswith("pad"),
    source="verl/trainer/ppo/v1/trainer_base.py:1163-1340",
)
V0 = replace(
    V1,
    key="verl-v0",
    needs=frozenset({"input", "output", "score"}),
    fields=_FIELDS,
    grouping=Grouping.PROMPT,
    unpack=None,
    keep=None,
    source="verl/trainer/ppo/ray_trainer.py:454-550",
)
V1_VALIDATION = replace(V1, key="verl-v1-validation", needs=V1.needs | {"reward"}, evaluation=True)
V0_VALIDATION = replace(V0, key="verl-v0-validation", needs=V0.needs | {"reward"}, evaluation=True)
