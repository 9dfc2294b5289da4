"""The rules on samples: on logs of real trainers, and on the completions that TRL wrote beside some of them.

`sampled` counts a run's completions into the series that a reduction of rollouts gives. It is a plain second
implementation for small files: a few hundred tokens a completion, deflate where the real one compresses with zstd.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

import vario
from tests.real import PLACES, OnRealLog, after, drawn
from vario.run import Floats, Run, Series
from vario.sources.sampled import SampleOptions

LEAST_GROUPS = 3
"""Groups that an effect and its standard error are taken from."""

@dataclass(frozen=True)
class Batch:
    """The completions of one step, in groups of one prompt.

    `lengths`, `rewards`, `task`, `cut`: shape (groups, group size). `task` is what nobody shaped.
    """

    prompts: list[str]
    texts: list[str]
    lengths: Floats
    rewards: Floats
    task: Floats | None
    cut: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    advantages: Floats

    @property
    def groups(self) -> Iterator[list[str]]:
        """The texts of each group."""
        size = self.lengths.shape[1]
        return (self.texts[i : i + size] for i in range(0, len(self.texts), size))


Alter = Callable[[int, Batch], Batch]
"""A fault in the samples: the batch of a step as it would have been."""


def batches(run: Path) -> Iterator[tuple[int, Batch]]:
    """The batches of a run of TRL that logged its completions, by step."""
    import polars as pl

    config = json.loads((run / "config.json").read_text())
    rewards = json.loads((run / "rewards.json").read_text())
    weights = dict(zip(rewards["names"], rewards["weights"], strict=True))
    size = int(config["num_generations"])
    for path in sorted((run / "completions").glob("*.parquet")):
        table = pl.read_parquet(path)
        step, texts = int(table["step"][0]), [text or "" for text in table["completion"].to_list()]
        scores = {name: np.nan_to_num(table[name].to_numpy()).reshape(-1, size) for name in weights}
        total = np.sum([w * scores[name] for name, w in weights.items()], axis=0)
        lengths = np.array([len(text) for text in texts], dtype=float).reshape(-1, size)
        task, cut = scores.get("correctness"), lengths >= config["max_completion_length"]
        yield (
            step,
            Batch(table["prompt"].to_list(), texts, lengths, total, task, cut, table["advantage"].to_numpy()),
        )


@cache
def sampled(run: Path, alter: Alter | None = None) -> dict[str, Series]:
    """Every series that the rules on samples read, counted from the completions of a run."""
    found: dict[str, dict[int, float]] = {}
    first = 0.0
    for step, recorded in batches(run):
        batch = alter(step, recorded) if alter is not None else recorded
        first = first or float(batch.rewards.std(ddof=1))
        for name, value in (*_texts(batch), *_lengths(batch), *_rewards(batch, first)):
            found.setdefault(name, {})[step] = value
    return {
        name: Series("completions", np.array(sorted(at), dtype=np.int64), np.array([at[s] for s in sorted(at)]))
        for name, at in found.items()
    }


def with_samples(log: str, alter: Alter | None = None) -> Run:
    """A recorded run with what its completions say; what the trainer logged itself stays."""
    place, _, name = log.partition("/")
    if alter is None:
        return vario.read(PLACES[place] / name)
    run = vario.read(PLACES[place] / name, samples=SampleOptions(read=False))
    return replace(run, series=MappingProxyType(sampled(PLACES[place] / name, alter) | dict(run.series)))


def _texts(batch: Batch) -> Iterator[tuple[str, float]]:
    asked: dict[str, set[str]] = {}
    for prompt, text in zip(batch.prompts, batch.texts, strict=True):
        asked.setdefault(text, set()).add(prompt)
    known = set("".join(batch.prompts))
    yield "text/distinct-share", len(asked) / len(batch.texts)
    yield "text/duplicate-share/across-prompts", float(np.mean([len(asked[t]) > 1 for t in batch.texts]))
    copies = [sum(n for n in Counter(group).values() if n > 1) / len(group) for group in batch.groups]
    yield "text/duplicate-share/within-group", float(np.mean(copies))
    together = [_size("\n".join(group)) / max(sum(map(_size, group)), 1) for group in batch.groups]
    yield "text/group-diversity", float(np.mean(together))
    yield "text/repetition-share", float(np.mean([_looped(text) for text in batch.texts]))
    yield "text/empty-share", float(np.mean([not text.strip() for text in batch.texts]))
    yield "text/garbled-share", float(np.mean([any(not c.isascii() and c not in known for c in t) for t in batch.texts]))


def _size(text: str) -> int:
    packed = zlib.compressobj(6, zlib.DEFLATED, -15)
    return len(packed.compress(text.encode()) + packed.flush())


def _looped(text: str) -> float:
    """Share of the text inside the longest exact loop that it ends in, three times around at least."""
    best, n = 0, len(text)
    for period in range(1, n // 3 + 1):
        same = 0
        while same + period < n and text[n - 1 - same] == text[n - 1 - same - period]:
            same += 1
        if same >= 2 * period:
            best = max(best, same + period)
    return best / max(n, 1)


def _lengths(batch: Batch) -> Iterator[tuple[str, float]]:
    yield "length/std/within-group", float(np.sqrt((batch.lengths.std(axis=1, ddof=1) ** 2).mean()))
    logs = np.log(np.maximum(batch.lengths, 1.0))
    apart = (logs - logs.mean(axis=1, keepdims=True))[~batch.cut]
    if apart.size >= 32 and apart.std() > 1e-6:
        yield "length/bimodality/within-group", _coefficient(apart)
        yield "length/bimodality/separation", _separation(apart)
    ranked = [(_ranks(a), _ranks(b)) for a, b in zip(batch.lengths, batch.rewards, strict=True)]
    mixed = [(a, b) for a, b in ranked if a.any() and b.any()]
    if len(mixed) >= LEAST_GROUPS:
        both, one = np.array([a @ b for a, b in mixed]), np.array([(a @ a) * (b @ b) for a, b in mixed]) ** 0.5
        rho = both.sum() / one.sum()
        yield "length/reward-correlation/within-group", float(rho)
        yield "length/reward-correlation/se", _error(both - rho * one, one.sum())


def _rewards(batch: Batch, first: float) -> Iterator[tuple[str, float]]:
    spread, span = batch.rewards.std(axis=1, ddof=1), np.ptp(batch.rewards, axis=1)
    yield "reward/std/within-group", float(np.sqrt((spread**2).mean()))
    yield "samples/reward/mean", float(batch.rewards.mean())
    yield "samples/zero-variance-share", float((span < 1e-6).mean())
    yield "samples/truncated-share", float(batch.cut.mean())
    yield "signal/zero-variance-share", float((span < 1e-6).mean())
    yield "signal/tiny-spread-share", float(((span > 1e-6) & (spread < 0.05 * first)).mean())
    yield "advantage/max", float(np.max(batch.advantages))
    if batch.task is not None:
        failed = (batch.task.max(axis=1) <= 0.0) & (batch.task.min(axis=1) >= 0.0)
        yield "signal/shaping-only-share", float((failed & (span > 1e-6)).mean())
    gaps, sizes = [], []
    for cut, rewards in zip(batch.cut, batch.rewards, strict=True):
        if cut.any() and not cut.all():
            gaps.append(rewards[cut].mean() - rewards[~cut].mean())
            sizes.append(cut.sum() * (~cut).sum() / cut.size)
    if len(gaps) >= LEAST_GROUPS:
        gap, size = np.array(gaps), np.array(sizes)
        mean = float(gap @ size / size.sum())
        yield "reward/truncated-gap/within-group", mean
        yield "reward/truncated-gap/se", _error(size * (gap - mean), size.sum())


def _error(residuals: Floats, scale: float) -> float:
    return float(np.sqrt((residuals**2).sum() * residuals.size / (residuals.size - 1)) / scale)


def _ranks(values: Floats) -> Floats:
    """Ranks about their mean, ties shared."""
    below = (values[:, None] > values).sum(axis=1) + 0.5 * (values[:, None] == values).sum(axis=1)
    return np.asarray(below - below.mean(), dtype=float)


def _coefficient(x: Floats) -> float:
    n, z = x.size, (x - x.mean()) / x.std()
    skew = (z**3).mean() * np.sqrt(n * (n - 1)) / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * ((z**4).mean() - 3.0) + 6.0)
    return float((skew**2 + 1.0) / (excess + 3.0 * (n - 1) ** 2 / ((n - 2) * (n - 3))))


def _separation(x: Floats) -> float:
    """Distance of two Gaussians in their own spreads; 0 where one fits as well or the smaller holds under a tenth."""
    weight, means, sd = 0.5, np.quantile(x, [0.2, 0.8]), np.full(2, max(x.std() / 2.0, 1e-3))
    for _ in range(60):
        parts = np.array([weight, 1.0 - weight])[:, None] * _bell(x, means, sd)
        share = parts / np.maximum(parts.sum(axis=0), 1e-300)
        size = share.sum(axis=1) + 1e-9
        weight, means = float(size[0] / x.size), share @ x / size
        sd = np.sqrt(np.maximum((share * (x - means[:, None]) ** 2).sum(axis=1) / size, 1e-3))
    two = np.log(np.maximum(parts.sum(axis=0), 1e-300)).sum()
    one = np.log(np.maximum(_bell(x, np.array([x.mean()]), np.array([x.std()]))[0], 1e-300)).sum()
    if 2.0 * (two - one) - 3.0 * np.log(x.size) < 6.0 or min(weight, 1.0 - weight) < 0.1:
        return 0.0
    return float(abs(means[1] - means[0]) / np.sqrt((sd**2).mean()))


def _bell(x: Floats, means: Floats, sd: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * ((x - means[:, None]) / sd[:, None]) ** 2) / sd[:, None] / np.sqrt(2.0 * np.pi))


VERL = "corpus/verl-gsm8k-q7b-base"

REAL = (
    OnRealLog(
        "signal-from-shaping-only",
        "fires",
        "lab/format_only_hack-s0",
        "provoked",
        "no answer is right from the first step on, and the tag that is paid beside it still differs",
    ),
    OnRealLog(
        "signal-from-shaping-only",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "the task's parser fails from step 60 on; the format still differs",
        {
            "rewards/correctness/mean": after(60, np.zeros_like),
            "rewards/correctness/std": after(60, np.zeros_like),
        },
    ),
    OnRealLog("signal-from-shaping-only", "clear", "golden/grpo-healthy", "recorded", "a format learnt with the task"),
    OnRealLog("signal-from-shaping-only", "clear", "lab/truncation-s0", "provoked", "few right answers, not none"),
    OnRealLog("signal-from-shaping-only", "unknown", "golden/grpo-all-zero", "provoked", "one function: no shaping"),
    OnRealLog(
        "tiny-spread-amplified",
        "fires",
        VERL,
        "injected",
        "scores within a hundredth, and the advantages that this run did log",
        {
            "critic/score/max": after(40, lambda v: 0.512 + 0.0 * v),
            "critic/score/min": after(40, lambda v: 0.503 + 0.0 * v),
        },
    ),
    OnRealLog(
        "tiny-spread-amplified",
        "clear",
        VERL,
        "injected",
        "the same scores with advantages that shrink as they do",
        {
            "critic/score/max": after(40, lambda v: 0.512 + 0.0 * v),
            "critic/score/min": after(40, lambda v: 0.503 + 0.0 * v),
            "critic/advantages/max": after(40, lambda v: 0.006 * v),
        },
    ),
    OnRealLog("tiny-spread-amplified", "clear", VERL, "recorded", "0/1 scores: full spread while any is left"),
    OnRealLog("tiny-spread-amplified", "unknown", "golden/grpo-healthy", "recorded", "TRL logs neither end of rewards"),
    OnRealLog(
        "metric-contradicts-samples",
        "fires",
        "golden/grpo-healthy",
        "injected",
        "several end tokens: proper endings count as cut, and the longest stays below the cap of 40",
        {"completions/clipped_ratio": lambda v, _: 0.97 + 0.0 * v},
    ),
    OnRealLog(
        "metric-contradicts-samples",
        "clear",
        "golden/grpo-length-hack",
        "provoked",
        "as many are cut, and the longest are as long as the cap",
    ),
    OnRealLog("metric-contradicts-samples", "clear", "golden/grpo-healthy", "recorded", "next to none are cut"),
    OnRealLog(
        "length-buys-reward",
        "unknown",
        "golden/grpo-length-hack",
        "provoked",
        "length and reward rise together, which without samples says nothing of answers to one prompt",
    ),
    OnRealLog("outputs-repeat", "unknown", "golden/grpo-length-hack", "provoked", "TRL counts no loops"),
    OnRealLog(
        "outputs-repeat",
        "fires",
        "logs/slime-synthetic.jsonl",
        "injected",
        "answers long enough for slime to look at, more and more of them loops (a synthetic file: no slime run is at hand)",
        {"rollout/repetition_frac": drawn(lambda over: 0.9 * over, 0.01)},
    ),
)
