"""The monitoring callbacks that people copy from tutorials, as a baseline on the same runs.

Written from their description (trainer callbacks for GRPO, PPO and DPO that circulate in blog posts):
each looks at one metric at every logged row, warns at a fixed threshold, and puts a straight line
through the last 50 values. What they print as a warning is an alarm here. A line is information:
nobody says from which slope on it means anything, so we say it moves when it covers 30 % of the
level, which is the deviation that the same texts call worth a look. Metrics are found by vario's
names, which is kind: under their own keys several callbacks would see nothing of TRL's logs.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import vario
from vario.run import Run

NAME = "callbacks"
WINDOW = 50
LEAST = 10
"""Rows before a line is put through them: what the callbacks ask for."""
MOVED = 0.3
"""A deviation of 30 % from the baseline "deserves investigation"."""
STD_LOW = 0.05
COMPONENT_STD_LOW = 0.01
LENGTH_STD_LOW = 10.0
LENGTH_COLLAPSED, LENGTH_EXPLODED = 0.5, 2.0
TRUNCATED = 0.2
CLIPPED_MUCH, CLIPPED_LITTLE = 0.4, 0.01
POLICY_CLIPPED_MUCH = 0.3
POLICY_CLIP_KEYS = ("policy/clipfrac_avg", "clip_ratio/low", "clip_ratio/high")
ASYMMETRIC = 0.8
ENTROPY_LOW = 1.0
KL_WARNING, KL_STOP = 0.5, 1.0
KL_STILL = 1e-3
RATIO_HIGH, RATIO_LOW = 2.0, 0.5

NO_SIGNAL = ("few-groups-carry-signal", "signal-collapsed-solved", "signal-collapsed-unsolved", "reward-saturated")
COMPONENT_STILL = ("component-saturated", "component-dead")
COLLAPSING = ("entropy-collapsing", "mode-collapse")


@dataclass
class History:
    """The last 50 values of each metric, as the callbacks keep them."""

    values: dict[str, deque[float]] = field(default_factory=dict)
    first: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Take one value; the first ten are the baseline."""
        self.values.setdefault(name, deque(maxlen=WINDOW)).append(value)
        begun = self.first.setdefault(name, [])
        if len(begun) < LEAST:
            begun.append(value)

    def moved(self, name: str) -> float | None:
        """What the line through the last values covers, relative to their mean; None with fewer than ten."""
        kept = self.values.get(name, ())
        if len(kept) < LEAST:
            return None
        level = abs(float(np.mean(kept)))
        if level == 0.0:
            return 0.0
        return float(np.polyfit(range(len(kept)), list(kept), 1)[0]) * len(kept) / level


Row = dict[str, float]
Said = tuple[str, tuple[str, ...], str]
"""What is said: severity, the rules it means, and the words."""


def reward_std(row: Row, history: History) -> Iterator[Said]:
    """Spread of rewards below 0.05, or going down."""
    for name in ("reward/std/within-group", "reward/std/batch"):
        if name in row:
            if row[name] < STD_LOW:
                yield "warning", NO_SIGNAL, "reward std below 0.05"
            if (moved := history.moved(name)) is not None and moved < -MOVED:
                yield "info", NO_SIGNAL, "reward std goes down"
            return


def partial_rewards(row: Row, history: History) -> Iterator[Said]:
    """A reward function without spread, or going down."""
    for name, value in row.items():
        if not name.startswith("reward/component/"):
            continue
        if name.endswith("/std") and value < COMPONENT_STD_LOW:
            yield "warning", COMPONENT_STILL, "a component has no spread"
        elif name.endswith("/mean") and (moved := history.moved(name)) is not None and moved < -MOVED:
            yield "info", ("component-falls-while-total-rises",), "a component goes down"


def lengths(row: Row, history: History) -> Iterator[Said]:
    """Length against its first rows, its line, its spread, and truncation."""
    if "length/mean" in row:
        kept, first = history.values["length/mean"], history.first["length/mean"]
        if len(kept) >= LEAST:
            ratio = float(np.mean(kept)) / max(float(np.mean(first)), 1e-9)
            if ratio < LENGTH_COLLAPSED:
                yield "warning", ("length-shrinking",), "length below half of its baseline"
            elif ratio > LENGTH_EXPLODED:
                yield "warning", ("length-growing", "length-hacking"), "length above twice its baseline"
        moved = history.moved("length/mean") or 0.0
        if abs(moved) > MOVED:
            yield "info", ("length-growing", "length-hacking") if moved > 0 else ("length-shrinking",), "length drifts"
    if row.get("length/std", LENGTH_STD_LOW) < LENGTH_STD_LOW:
        yield "warning", ("length-diversity-collapsing",), "lengths within 10 tokens"
    if row.get("length/truncated-share", 0.0) > TRUNCATED:
        yield "warning", ("truncation-high",), "over a fifth truncated"


def clip_ratio(row: Row, history: History) -> Iterator[Said]:
    """Clipped share of both sides, and how uneven they are; silent while both are 0."""
    high, low = row.get("clip/fraction/high", 0.0), row.get("clip/fraction/low", 0.0)
    both = high + low
    if both <= 0.0:
        return
    if both > CLIPPED_MUCH:
        yield "warning", ("clip-fraction-high",), "over 40 % clipped"
    if both < CLIPPED_LITTLE:
        yield "warning", ("clip-fraction-negligible",), "under 1 % clipped"
    elif abs(high - low) / both > ASYMMETRIC:
        yield "info", ("clipping-one-sided-high" if high > low else "clipping-one-sided-low",), "clipping is one-sided"
    if (history.moved("clip/fraction/high") or 0.0) > MOVED:
        yield "info", ("clip-fraction-growing",), "high-side clipping goes up"


def policy_ratio(row: Row, _history: History) -> Iterator[Said]:
    """The ratio outside 0.5 to 2, and the clipped share under the keys that this callback knows."""
    ratio = row.get("ratio/mean")
    if ratio is not None and not RATIO_LOW <= ratio <= RATIO_HIGH:
        yield "warning", ("ratio-far-from-one",), "extreme policy ratio"
    clipped = row.get("policy clip")
    if clipped is not None and clipped > POLICY_CLIPPED_MUCH:
        yield "warning", ("clip-fraction-high",), "over 30 % clipped"
    if clipped is not None and clipped < CLIPPED_LITTLE:
        yield "warning", ("clip-fraction-negligible",), "under 1 % clipped"


def entropy(row: Row, history: History) -> Iterator[Said]:
    """Entropy below 1 nat, or its line."""
    if "entropy/mean" not in row:
        return
    if row["entropy/mean"] < ENTROPY_LOW:
        yield "warning", COLLAPSING, "entropy below 1"
    moved = history.moved("entropy/mean") or 0.0
    if moved < -MOVED:
        yield "info", COLLAPSING, "entropy goes down"
    elif moved > MOVED:
        yield "info", ("entropy-exploding",), "entropy goes up"


def kl(row: Row, history: History) -> Iterator[Said]:
    """KL above 0.5 (warning) and 1 (stop), near zero, or going up while the reward does not."""
    name = next((n for n in ("kl/reference", "kl/reference/sequence") if n in row), None)
    if name is None:
        return
    if row[name] > KL_WARNING:
        yield "critical" if row[name] > KL_STOP else "warning", ("kl-runaway",), "KL above its threshold"
    moved, reward = history.moved(name), history.moved("reward/mean")
    if moved is None or reward is None:
        return
    if len(history.values[name]) == WINDOW and max(history.values[name]) < KL_STILL:
        yield "info", ("kl-pinned-near-zero",), "KL near zero"
    if moved > MOVED and reward <= 0.0:
        word = "kl-rises-while-reward-falls" if reward < -MOVED else "kl-rises-without-reward"
        yield "warning", (word,), "KL goes up, the reward does not"


def preference(row: Row, history: History) -> Iterator[Said]:
    """The margin not going up; chosen and rejected coming together."""
    if "preference/margin" not in row:
        return
    moved = history.moved("preference/margin")
    if moved is not None and moved <= 0.0:
        yield "info", ("margin-plateaued",), "the margin does not go up"
        if moved < -MOVED:
            yield "warning", ("rewards-converge",), "chosen and rejected approach each other"
    chosen = history.moved("preference/chosen-reward")
    if chosen is not None and chosen < -MOVED:
        yield "info", ("chosen-reward-falls",), "the chosen reward goes down"


CALLBACKS: tuple[Callable[[Row, History], Iterator[Said]], ...] = (
    reward_std, partial_rewards, lengths, clip_ratio, policy_ratio, entropy, kl, preference,
)  # fmt: skip


def judged(run: Run) -> dict:
    """What the callbacks say of a run, row by row, in the shape of `diagnosis/v1` as far as the scoreboard reads it."""
    columns: dict[int, Row] = {}
    for name, series in run.series.items():
        if name.startswith("eval/"):
            continue
        for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
            if np.isfinite(value):
                row = columns.setdefault(step, {})
                row[name] = value
                if series.key in POLICY_CLIP_KEYS:
                    row["policy clip"] = value
    history, findings = History(), dict[tuple[str, ...], dict]()
    for step in sorted(columns):
        for name, value in columns[step].items():
            history.add(name, value)
        for callback in CALLBACKS:
            for severity, names, words in callback(columns[step], history):
                known = findings.setdefault(names, _finding(names, step, words))
                known["lines"] += 1
                if _RANK[severity] > _RANK[known["severity"]]:
                    known["severity"] = severity
    said = list(findings.values())
    worst = any(f["severity"] != "info" for f in said)
    verdict = {"action": "intervene" if worst else "continue", "confidence": "-", "trajectory": "-", "regime": "-"}
    return {"verdict": verdict, "findings": said, "run": {"metrics": {}}, "seconds": 0.0}


_RANK = {"info": 0, "warning": 1, "critical": 2}


def _finding(names: tuple[str, ...], step: int, words: str) -> dict:
    return {"name": names[0], "also": list(names[1:]), "severity": "info", "confidence": "-", "audience": "default",
            "until": None, "since": step, "detected_at": step, "changes": [], "evidence": [words], "lines": 0}  # fmt: skip


def _document(path: str) -> dict:
    warnings.filterwarnings("ignore", message="Polyfit may be poorly conditioned")
    try:
        return judged(vario.read(path))
    except vario.errors.VarioError as error:
        return {"error": str(error)}


def documents(paths: dict[str, Path]) -> dict[str, dict]:
    """The callbacks over all files."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2), get_context("spawn")) as pool:  # polars has threads, which no fork survives
        return dict(zip(paths, pool.map(_document, map(str, paths.values())), strict=True))
