"""open-instruct: {rollouts_save_path}/{run_name}_rollouts_{shard}.jsonl, with `--save_traces`.

Token ids and no text: lengths, rewards and groups can be counted, words cannot. `step` is `training_step` of the log,
from 1. Only what was trained on is there: groups without spread are filtered before. `prompt_idx` counts the prompts
of one step. A sample counts as cut where generation ended for any other reason than `stop`, as in the trainer.
"""

from __future__ import annotations

import re

from vario.sources.rollouts.layouts.base import Grouping, Layout, Row


def _unpack(row: Row) -> list[Row]:
    reason = row.get("finish_reason")
    return [{**row, "cut": reason != "stop" if isinstance(reason, str) and reason else None}]


LAYOUT = Layout(
    key="open-instruct",
    name="open-instruct",
    files=re.compile(r"_rollouts_\d+\.jsonl$"),
    needs=frozenset({"prompt_idx", "response_tokens", "reward", "finish_reason"}),
    fields={
        "step": ("step",),
        "group": ("prompt_idx",),
        "reward": ("reward",),
        "advantage": ("advantage",),
        "length": ("response_tokens",),
        "truncated": ("cut",),
        "source": ("dataset",),
    },
    grouping=Grouping.COLUMN,
    unpack=_unpack,
    filtered=re.compile(r""),
    source="open_instruct/rl_utils.py: RolloutRecord, _save_rollouts; data_loader.py for what counts as cut",
)
