"""Any table of samples: the words that people use, or the ones that vario.toml gives ([samples])."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts.base import HELD_OUT, Grouping, Layout

ANYWHERE = re.compile(rf"(?:^|/)(?:(?P<eval>{HELD_OUT}(?:/[^/]*)?)|[^/]*)$")
WORDS: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "gen_step", "training_step", "iteration"),
    "group": ("group", "group_id", "group_index", "prompt_id", "uid", "task_id", "example_id"),
    "prompt": ("prompt", "input", "question", "query", "messages"),
    "completion": ("completion", "response", "output", "answer", "generation", "text"),
    "reward": ("reward", "score", "total_reward", "rewards"),
    "advantage": ("advantage", "advantages"),
    "length": ("length", "completion_length", "response_length", "num_tokens", "response_tokens", "completion_tokens"),
    "truncated": ("truncated", "is_truncated", "finish_reason", "stop_reason"),
    "source": ("source", "data_source", "dataset", "env"),
}


def _components(names: Iterable[str]) -> list[str]:
    return [n for n in names if n.startswith((COMPONENT, "rewards/"))]


def mapped(mapping: Mapping[str, str]) -> Layout:
    """The layout of a dump whose columns the user named: column of ours to key of theirs."""
    fields = {name: (key,) for name, key in mapping.items() if not name.startswith(COMPONENT)}
    named = {name: key for name, key in mapping.items() if name.startswith(COMPONENT)}
    rest = {name: keys for name, keys in WORDS.items() if name not in fields}
    return Layout(
        key="mapped",
        name="generic",
        files=ANYWHERE,
        needs=frozenset(),
        fields={**rest, **fields},
        grouping=Grouping.COLUMN if "group" in fields else Grouping.PROMPT,
        components=(lambda held: [n for n in named if n in held]) if named else _components,
        unpack=(lambda row: ({**row, **{n: row[k] for n, k in named.items() if k in row}},)) if named else None,
        source="the mapping of vario.toml or --samples-map",
    )


LAYOUT = Layout(
    key="generic",
    name="generic",
    files=ANYWHERE,
    needs=frozenset(),
    fields=WORDS,
    grouping=Grouping.PROMPT,
    components=_components,
    source="words in common use",
)
BY_GROUP = replace(LAYOUT, key="generic-by-group", grouping=Grouping.COLUMN)


def layout_of(held: set[str]) -> Layout | None:
    """How a table with these columns is read, if it holds samples at all."""
    if not held & set(WORDS["reward"]):
        return None
    grouped = bool(held & set(WORDS["group"]))
    # a log of metrics has a reward and a mean length too: without a text, only a group or a prompt makes it a sample
    told = held & set(WORDS["length"]) and (grouped or held & set(WORDS["prompt"]))
    if not held & set(WORDS["completion"]) and not told:
        return None
    return BY_GROUP if grouped else LAYOUT
