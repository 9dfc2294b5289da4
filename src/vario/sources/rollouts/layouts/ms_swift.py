"""ms-swift: {output_dir}/completions.jsonl, with `--log_completions true`.

A line is a table: a dict of lists, one entry a sample (Hugging Face and Megatron); under Ray a line is a sample.
`step` (a text) is the global step of the log; Megatron's `gen_step` counts generations. The last generation batch
before each line is there, of training or of an evaluation alike, and its last part may be cut: what is missing in a
shorter list is unknown. The total is not written: each reward function has a column of its own name, unweighted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from vario.sources.rollouts.layouts.base import Grouping, Layout, Row
from vario.sources.rollouts.layouts.conversation import items

_OTHER = frozenset(
    {
        "step", "gen_step", "prompt", "messages", "completion", "advantages", "advantage", "reward", "solution",
        "num_turns", "entropy", "images", "image", "answer", "ground_truth", "label", "rollout_infos", "request_id",
    }
)  # fmt: skip


def _components(names: Iterable[str]) -> list[str]:
    # columns of the data set stand among them: texts and lists drop out later, numbers of theirs cannot be told apart
    return [n for n in names if n not in _OTHER]


def _unpack(row: Row) -> list[Row]:
    said = row.get("completion")
    if not isinstance(said, list):
        return [row]
    columns = {key: items(value) for key, value in row.items()}
    return [{key: held[i] for key, held in columns.items() if i < len(held)} for i in range(len(said))]


LAYOUT = Layout(
    key="ms-swift",
    name="ms-swift",
    files=re.compile(r"(?:^|/)completions\.jsonl$"),
    needs=frozenset({"step", "prompt", "completion"}),
    fields={
        "step": ("step", "gen_step"),
        "prompt": ("prompt", "messages"),
        "completion": ("completion",),
        "reward": ("reward",),
        "advantage": ("advantages", "advantage"),
    },
    grouping=Grouping.PROMPT,
    components=_components,
    weighted=True,
    unpack=_unpack,
    source="swift/rlhf_trainers/grpo_trainer.py, log(): jsonl_writer.append(table); megatron and ray trainers",
    # a table of rows with a total of its own is somebody else's
    lacks=frozenset({"reward"}),
)
MEGATRON = replace(
    LAYOUT, key="ms-swift-megatron", needs=frozenset({"gen_step", "prompt", "completion"}), lacks=frozenset()
)
OLD = replace(
    LAYOUT, key="ms-swift-old", needs=frozenset({"step", "messages", "completion", "reward"}), lacks=frozenset()
)
