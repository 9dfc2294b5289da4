"""rLLM: {base}/episodes/{train|val}_step_{N}_epoch_{E}/episode_*.json, with rllm.episode_logging.log_episodes=true.

One episode a file; `N` is the step of the log, from 1. A row is a trajectory: episodes of several agents hold several,
and each agent's are groups of their own, as advantages are taken. `is_correct` is the episode's. Episodes that ended
in an error are left out. No token counts are written.
"""

from __future__ import annotations

import re

from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts.base import Grouping, Layout, Row, named_components
from vario.sources.rollouts.layouts.conversation import SAMPLED, entries, items

LIMITS = frozenset({"max_prompt_length_exceeded", "max_response_length_exceeded", "max_turns_exceeded"})
FINISHED = "env_done"
SINGLE = frozenset({"", "default", "None"})


def _unpack(row: Row) -> list[Row]:
    reason = row.get("termination_reason")
    correct = row.get("is_correct")
    known = {
        "step": row.get("training_step"),
        "truncated": True if reason in LIMITS else False if reason == FINISHED else None,
        "failed": reason == "error",
        **({COMPONENT + "is_correct": correct} if isinstance(correct, bool) else {}),
    }
    trajectories = [entries(t) for t in items(row.get("trajectories"))]
    if not trajectories and known["failed"]:
        return [known]
    return [{**known, **_trajectory(t, row.get("task_hash"))} for t in trajectories]


def _trajectory(trajectory: Row, task: object) -> Row:
    steps = [entries(s) for s in items(trajectory.get("steps"))]
    name = str(trajectory.get("name", ""))
    first = items(steps[0].get("chat_completions")) if steps else ()
    answered = max((i for i, m in enumerate(first) if entries(m).get("role") == SAMPLED), default=len(first))
    said = [answer for s in steps if (answer := _answer(s)) is not None]
    return {
        "group": None if task is None else str(task) if name in SINGLE else f"{task}/{name}",
        "prompt": list(first[:answered]) or None,
        "completion": said or None,
        "reward": trajectory.get("reward"),
    }


def _answer(step: Row) -> object:
    """What the policy said in a step: the response, or its last message."""
    said = step.get("model_response")
    if isinstance(said, str) and said:
        return said
    turns = [m for m in items(step.get("chat_completions")) if entries(m).get("role") == SAMPLED]
    return turns[-1] if turns else None


LAYOUT = Layout(
    key="rllm",
    name="rllm",
    files=re.compile(r"(?:^|/)(?:(?P<eval>val)|[^/]+?)_step_(?P<step>\d+)_epoch_\d+/episode_[^/]+\.json$"),
    needs=frozenset({"training_step", "trajectories", "task"}),
    fields={name: (name,) for name in ("step", "group", "prompt", "completion", "reward", "truncated")},
    grouping=Grouping.COLUMN,
    components=named_components,
    unpack=_unpack,
    keep=lambda row: row.get("failed") is not True,
    source="rllm/utils/episode_logger.py log_episode; rllm/workflows/workflow.py TerminationReason",
)
