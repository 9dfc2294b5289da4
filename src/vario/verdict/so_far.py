"""What a run too short for any test shows already: states that hold in every row, and what moved. Nothing is judged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Look, Reading
from vario.rules.base import number, percent

LN2 = 0.693
"""Sigmoid preference loss of a model that does not tell chosen from rejected."""
SHOWN = 6
"""Moves that are told; more would be a table."""
MOVED = 0.2
"""Share of its size by which a metric must change from first to last to be told."""
MUCH = 0.2
"""Truncated share from which on it is told (the same as the rule's)."""
FAR = 0.5
"""A behaviour weight below it throws away more than half of the gradient."""
SMALL_GAP = 0.01
"""Gap per token (nats) that numerics explain."""
ORDER = (
    "reward/mean", "reward/component/", "preference/margin", "preference/chosen-reward", "kl/reference", "length/mean",
    "entropy/mean", "eval/score", "eval/preference", "engine/", "preference/",
)  # fmt: skip
"""What is told first."""


def so_far(look: Look) -> list[str]:
    """Two sentences at most; none where there is nothing to tell."""
    said = []
    if now := list(states(look)):
        said.append(f"In every row so far: {'; '.join(now)}.")
    if moved := moves(look):
        said.append(f"From the first row to the last, not tested: {', '.join(moved)}.")
    return said


def states(look: Look) -> Iterator[str]:
    """What is the same in every row so far."""
    yield from _cut(look)
    yield from _groups(look)
    yield from _weights(look)
    yield from _pairs(look)


def _all_cut(look: Look) -> bool:
    cut = look.find("length/truncated-share")
    return cut is not None and float(cut.values.min()) >= 0.95


def _cut(look: Look) -> Iterator[str]:
    cut, longest, cap = (
        look.find("length/truncated-share"),
        look.find("length/max"),
        look.history.run.declared.max_length,
    )
    if cut is None or float(cut.values.min()) < MUCH:
        return
    least = float(cut.values.min())
    # the mean of the longest of each batch cannot be below the share that reached the cap, times the cap
    if cap and longest is not None and float(longest.values.max()) < least * cap:
        yield (
            f"{cut.key} is {number(least)} or more although the longest completion has {number(float(longest.values.max()))} "
            f"of {number(cap)} tokens: it counts proper endings"
        )
    else:
        first = "; a longer cap comes before any other change" if _all_cut(look) else ""
        yield f"{percent(least)} or more of the completions are cut{first}"


def _groups(look: Look) -> Iterator[str]:
    zero, within = look.find("signal/zero-variance-share"), look.find("reward/std/within-group")
    reward, gradient = look.find("reward/mean"), look.find("gradient/norm")
    if (zero is not None and float(zero.values.min()) == 1.0) or (within is not None and not within.values.any()):
        level = "" if reward is None else f" at a reward of {number(float(reward.values[-1]))}"
        if _all_cut(look):
            why = "cut answers cannot differ"
        elif reward is not None and float(reward.values[-1]) > 0.0:
            why = "solved, or a fallback value; the log cannot tell"
        else:
            why = "nothing tells good from bad"
        yield f"every group is tied{level}: {why}"
        return
    differ = (zero is not None and float(zero.values.max()) < 0.95) or (
        zero is None and within is not None and float(within.values.min()) > 0.0
    )
    if differ and gradient is not None and not gradient.values.any():
        yield "the gradient is exactly 0 while groups differ: its path from the loss to the weights may be cut"


def _weights(look: Look) -> Iterator[str]:
    weight, gap = look.find("behaviour-weight/mean"), look.find("engine/kl")
    if weight is None or gap is None or float(weight.values.max()) >= FAR:
        return
    if float(np.abs(gap.values).max()) < SMALL_GAP:
        yield (
            f"the behaviour weight is {number(float(weight.values.max()))} while the gap a token is small: a product over "
            "the sequence shrinks with its length; take its geometric mean"
        )


def _pairs(look: Look) -> Iterator[str]:
    loss, held = look.find("loss/total"), look.find("eval/preference/accuracy")
    # other losses of pairs have other values where nothing is told apart
    sigmoid = look.history.run.algorithm == "dpo" and look.history.run.config.get("loss_type", "sigmoid") == "sigmoid"
    if (
        sigmoid
        and look.find("preference/margin") is not None
        and loss is not None
        and float(loss.values[-1]) > 0.95 * LN2
    ):
        yield f"the loss is {number(float(loss.values[-1]))}; a model that tells nothing apart has ln 2 = {LN2}"
    if held is not None and float(held.values.max()) <= 0.5:
        yield f"the held-out accuracy is {number(float(held.values[-1]))}: no better than a coin"


def moves(look: Look) -> list[str]:
    """First and last values of what changed by a fifth or more."""
    found: list[tuple[int, str]] = []
    for name in look.history.run.series:
        rank = next((i for i, start in enumerate(ORDER) if name.startswith(start)), None)
        reading: Reading | None = look.find(name, least=2)
        if rank is None or reading is None or name.endswith("/std"):
            continue
        first, last = float(reading.values[0]), float(reading.values[-1])
        if first != last and abs(last - first) >= MOVED * max(abs(first), abs(last)):
            found.append((rank, f"{name} from {number(first)} to {number(last)}"))
    return [text for _, text in sorted(found, key=lambda f: f[0])[:SHOWN]]
