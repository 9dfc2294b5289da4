"""The keys under which vario logs what it measures itself beside a run, and the metric that each of them is.

A training imports this: it loads nothing else.
"""

from __future__ import annotations

import re

PHASES = {
    "generation": "systems/rollout-time",
    "reward": "systems/reward-time",
    "logprob": "systems/logprob-time",
    "train": "systems/train-time",
    "sync": "systems/sync-time",
    "wait": "systems/wait-time",
    "checkpoint": "systems/checkpoint-time",
    "evaluation": "systems/eval-time",
}
"""Phases of a step as `vario.live` calls them, each with the metric that holds its seconds."""
OWN_WORDS = {
    "vario/step_time": "systems/step-time",
    **{f"vario/phase/{phase}": metric for phase, metric in PHASES.items()},
    "vario/gpu/power_min": "systems/power/min",
    "vario/gpu/power_max": "systems/power/max",
    "vario/gpu/memory_share": "systems/memory-share",
    "vario/gpu/memory_share_low": "systems/memory-share/low",
    "vario/gpu/memory_gib": "systems/memory",
    "vario/gpu/use": "systems/device-use",
    "vario/host/memory_share": "systems/host-memory-share",
    "vario/host/rss_gib": "systems/host-memory",
    "vario/host/use": "systems/host-use",
    "vario/attention_entropy/mean": "attention/entropy/mean",
    "vario/attention_entropy/min": "attention/entropy/layer-min",
}
"""What each key means. Events have a name of their own: `event_key`."""
EVENT_METRIC = "systems/background/*/time"
NAME_LENGTH = 40
"""Characters of an event's name in a key: names become columns of a log."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def event_name(name: str) -> str:
    """A name that can stand in a key: letters, digits, dots, dashes and underscores, at most 40; `other` where nothing is left."""
    return _NOT_IN_A_NAME.sub("-", name)[:NAME_LENGTH].strip("-.") or "other"


def event_key(name: str) -> str:
    """The key that holds for how many seconds of a row the work of this name ran."""
    return f"vario/event/{event_name(name)}_s"
