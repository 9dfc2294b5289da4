"""Words that the keys of a training's metrics have, whatever the trainer: what tells metrics from other numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

KINDS_OF_METRIC = {
    "reward": re.compile(r"(?i)reward|score|return|accuracy|acc\b"),
    "kl": re.compile(r"(?i)(^|[^a-z])kl"),
    "loss": re.compile(r"(?i)loss"),
    "entropy": re.compile(r"(?i)entropy"),
    "length": re.compile(r"(?i)len"),
    "margin": re.compile(r"(?i)margin"),
    "rate": re.compile(r"(?i)(^|[^a-z])lr|learning.?rate"),
    "gradient": re.compile(r"(?i)grad|norm"),
    "clip": re.compile(r"(?i)clip"),
    "advantage": re.compile(r"(?i)adv"),
    "timing": re.compile(r"^(timing(_s)?|timeperf)/"),
}
_OF_A_STEP = re.compile(
    r"(?i)(^|[^a-z])kl|loss|entropy|margin|(^|[^a-z])lr|learning.?rate|grad|clip|epoch|mean|avg|average|std"
)


def kinds_of(keys: Iterable[str]) -> set[str]:
    """Which kinds of metric the keys speak of."""
    return {kind for key in keys for kind, pattern in KINDS_OF_METRIC.items() if pattern.search(key)}


def of_a_step(keys: Iterable[str]) -> bool:
    """Whether a key speaks of an update or of an average: one completion has a reward and a length, but none of these."""
    return any(_OF_A_STEP.search(key) for key in keys)


SAMPLE_KEYS = frozenset(
    {"prompt", "prompts", "completion", "completions", "input", "output", "messages", "content", "response", "responses",
     "trajectory", "conversation", "question", "answer", "text", "chosen", "rejected", "episode"}
)  # fmt: skip
"""Keys under which a row holds what was asked and answered."""


def is_sample(row: Mapping[str, object]) -> bool:
    """Whether a row is one sample with its texts: its reward is that of one answer, and no step's."""
    if row.keys().isdisjoint(SAMPLE_KEYS):
        return False
    return sum(isinstance(row[k], str | list) for k in SAMPLE_KEYS & row.keys()) >= 2 and not of_a_step(row)
