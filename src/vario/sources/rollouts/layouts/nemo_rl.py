"""NeMo-RL: {log_dir}/exp_NNN/train_data_step{N}.jsonl and val_data_step{N}.jsonl, written without being asked for.

Every field is a list of one (a micro-batch of one sample). `N` is the step of the log, from 1; up to v0.4 the training
file was numbered from 0, one below its row of the log, which nothing in the file tells. A validation before training
is step 0. No field names the group: the generations of one prompt stand in a row, unless samples were filtered.

Training files hold the texts of the messages without their roles. `token_loss_mask` tells them apart: it has a run of
ones for each turn that was sampled, and the environment's answers (the last one too) stand between and behind the runs.
Files without the mask tell no length: `input_lengths` counts the prompt too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vario.sources.rollouts.layouts.base import Grouping, Layout, Row
from vario.sources.rollouts.layouts.conversation import entries, items, parted, split

ENVIRONMENT = "Environment:"
"""What the built-in environments begin their answers with."""


def _unpack(row: Row) -> list[Row]:
    one = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in row.items()}
    mask = items(one.get("token_loss_mask"))
    content = one.get("content")
    messages = [content] if isinstance(content, str) else items(content)
    if any(entries(m) for m in messages):
        prompt, completion = parted(messages)
    else:
        prompt, completion = split(messages, _sampled(messages, mask, one.get("input_lengths")))
    agent = one.get("agent_ref")
    return [
        {
            "prompt": prompt,
            "completion": completion,
            "reward": one.get("rewards"),
            "advantage": one.get("advantages"),
            "length": float(sum(1 for m in mask if m)) if mask else None,
            "source": entries(agent).get("name") if entries(agent) else agent,
        }
    ]


def _sampled(texts: Sequence[object], mask: Sequence[object], length: object) -> list[int]:
    """Which texts the policy wrote, counted from the end: every other one, as many as the mask has runs."""
    if len(texts) < 2:
        return list(range(len(texts)))
    whole = mask[: int(length)] if isinstance(length, int | float) else mask
    runs = sum(1 for before, here in zip((0, *whole), whole, strict=False) if here and not before)
    last = len(texts) - 1
    if runs:
        last -= 0 if whole[-1] else 1
        return sorted(range(last, -1, -2)[:runs])
    text = texts[last]
    return [last - 1 if isinstance(text, str) and text.startswith(ENVIRONMENT) else last]


LAYOUT = Layout(
    key="nemo-rl",
    name="nemo-rl",
    files=re.compile(r"(?:^|/)(?:train|(?P<eval>val))_data_step(?P<step>\d+)\.jsonl$"),
    needs=frozenset({"content", "rewards"}),
    fields={name: (name,) for name in ("prompt", "completion", "reward", "advantage", "length", "source")},
    grouping=Grouping.CONSECUTIVE,
    unpack=_unpack,
    source="nemo_rl/algorithms/grpo.py (log_data), utils/logger.py log_batched_dict_as_jsonl, data/llm_message_utils.py",
)
