"""AReaL: {logdir}/rollout/{tail_version}/{task_id}.jsonl and eval-rollout/..., with rollout.dump_to_file=True.

The folder is the newest version of the weights that a sample was generated with. Weights of version v train step v of
the log (from 0), so folders and steps agree; an evaluation is logged at the step that made its weights, one below its
folder. Rejected samples are there too. A task's file is its group, within one version.

`head_version` is the oldest version; it is -1, that is unknown, wherever the prompt's tokens (which have none) were
counted in, and null here then. The length is what follows the prompt, other agents' turns included.
"""

from __future__ import annotations

import re
from dataclasses import replace

from vario.sources.rollouts.layouts.base import HELD_OUT, Grouping, Layout, Row
from vario.sources.rollouts.layouts.conversation import finite


def _unpack(row: Row) -> list[Row]:
    whole, asked, head = (finite(row.get(k)) for k in ("seqlen", "prompt_len", "head_version"))
    return [
        {
            **row,
            "length": whole - asked if whole is not None and asked is not None else None,
            "version": head if head is not None and head >= 0 else None,
        }
    ]


LAYOUT = Layout(
    key="areal",
    name="areal",
    files=re.compile(r"(?:^|/)(?:(?P<eval>eval-)|)rollout/(?P<step>\d+)/[^/]+\.jsonl$"),
    needs=frozenset({"task_id", "seqlen", "prompt_len", "head_version", "tail_version", "reward"}),
    fields={
        "step": ("tail_version",),
        "group": ("task_id",),
        "prompt": ("prompt",),
        "completion": ("completion",),
        "reward": ("reward",),
        "length": ("length",),
        "version": ("version",),
    },
    grouping=Grouping.COLUMN,
    unpack=_unpack,
    versioned=True,
    source="areal/infra/workflow_executor.py:886-923 _dump_trajectory",
)
ELSEWHERE = replace(
    LAYOUT,
    key="areal-elsewhere",
    files=re.compile(rf"(?:^|/)(?:(?P<eval>{HELD_OUT}(?:/[^/]*)?)|[^/]*)$"),
    # files of several runs are put together there, and tasks are numbered anew in each
    grouping=Grouping.PROMPT,
)
"""The same rows, moved or joined to one file."""
