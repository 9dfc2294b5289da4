"""Words that the keys of a training's metrics have, whatever the trainer: what tells metrics from other numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
}


def kinds_of(keys: Iterable[str]) -> set[str]:
    """Which kinds of metric the keys speak of."""
    return {kind for key in keys for kind, pattern in KINDS_OF_METRIC.items() if pattern.search(key)}
