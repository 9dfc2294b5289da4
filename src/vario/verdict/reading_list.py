"""Which completions a person should read to see what a finding speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vario.run import Floats, Ints
from vario.samples import Samples

HOW_MANY = 8
A_GROUP = 2
"""At most so many answers to one prompt: eight copies of one answer teach as little as one."""
ROUNDING = 1e-6
"""Of the largest reward of a group: a spread below it is none, as where the series are counted."""
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it, without their whole part, fill an interval evenly, however many are taken."""
LATE = 0.5
"""Of the stretch in which a pattern holds, the part that is read: there it shows best."""


@dataclass(frozen=True, slots=True)
class ReadingList:
    """Completions by step and number in the step, and what they are."""

    what: str
    samples: tuple[tuple[int, int], ...]


Score = Callable[[Samples], Floats]


def _measure(name: str, sign: float = 1.0, tie: str = "reward") -> Score:
    """By one measure; ties by the reward, highest first."""

    def score(samples: Samples) -> Floats:
        first, second = samples.measures[name], samples.measures[tie]
        spread = float(np.nanmax(np.abs(second), initial=0.0)) or 1.0
        return np.asarray(sign * first + 1e-9 * np.nan_to_num(second) / spread)

    return score


def _size(sign: float) -> Score:
    def score(samples: Samples) -> Floats:
        length = samples.measures["length"]
        return np.asarray(sign * np.where(np.isfinite(length), length, samples.measures["size"]))

    return score


def _pull(samples: Samples) -> Floats:
    advantage = np.abs(samples.measures["advantage"])
    return np.where(np.isfinite(advantage), advantage, samples.measures["reward"])


def _flag(name: str) -> Score:
    """Those of which it is so; ties by the reward, highest first."""
    by_reward = _measure(name)

    def score(samples: Samples) -> Floats:
        return np.where(samples.measures[name] > 0.0, by_reward(samples), np.nan)

    return score


def _tied(samples: Samples) -> Floats:
    """Groups whose rewards are equal, those that are copies first."""
    reward = samples.measures["reward"]
    names = np.stack([samples.steps.astype(np.uint64), samples.groups])
    groups, group = np.unique(names, axis=1, return_inverse=True)
    group = group.reshape(-1)
    low, high = np.full(groups.shape[1], np.inf), np.full(groups.shape[1], -np.inf)
    np.fmin.at(low, group, reward)
    np.fmax.at(high, group, reward)
    several = np.bincount(group[np.isfinite(reward)], minlength=low.size) > 1
    tied = several & (high - low <= ROUNDING * np.maximum(np.abs(high), np.abs(low)))
    return np.where(tied[group], np.nan_to_num(samples.measures["copied"]), np.nan)


def _some(samples: Samples) -> Floats:
    # evenly over the stretch, the same ones at every look
    return np.asarray(-(np.arange(len(samples)) % max(1, len(samples) // HOW_MANY)), dtype=np.float64)


HIGHEST = ("with the highest reward", _measure("reward"))
LOWEST = ("with the lowest reward", _measure("reward", -1.0, "size"))
LONGEST = ("that are longest", _size(1.0))
SHORTEST = ("that are shortest", _size(-1.0))
LOOPED = ("that loop most", _measure("looped"))
GARBLED = ("that are garbled", _flag("garbled"))
COPIED = ("that copy another", _flag("copied"))
CUT = ("that were cut", _flag("truncated"))
PULLING = ("with the largest advantages", _pull)
ANY = ("drawn evenly", _some)
TIED = ("of groups without a difference", _tied)

BY_FAMILY = {"RW": HIGHEST, "SG": TIED, "KL": HIGHEST, "EN": ANY, "LN": LONGEST, "TX": LOOPED, "RU": HIGHEST, "GR": PULLING, "CL": PULLING}  # fmt: skip
"""What shows a pattern of a family; families that are not here have nothing that a completion could show."""
BY_NAME = {
    "reward-collapsed": LOWEST,
    "reward-never-rises": HIGHEST,
    "reward-missing": LOWEST,
    "reward-function-broke": LOWEST,
    "reward-peaked-then-declined": LOWEST,
    "task-too-hard": HIGHEST,
    "policy-collapse": ANY,
    "mode-collapse": COPIED,
    "data-shift": ANY,
    "kl-spike": PULLING,
    "length-shrinking": SHORTEST,
    "length-hacking": LONGEST,
    "truncation-high": CUT,
    "truncation-never-ends": CUT,
    "truncation-biases-reward": CUT,
    "outputs-garbled": GARBLED,
    "outputs-duplicated": COPIED,
    "outputs-lose-diversity": COPIED,
    "length-diversity-collapsing": COPIED,
    "signal-from-shaping-only": HIGHEST,
    "tiny-spread-amplified": PULLING,
}
NOTHING_TO_READ = frozenset(
    {"non-finite", "learning-rate-zero", "run-has-converged", "reward-saturated", "resume-discontinuity",
     "policy-does-not-move", "train-eval-overfit", "capability-lost", "metric-over-budget", "component-saturated"}
)  # fmt: skip
"""Patterns of those families that no completion shows."""


def reading_list(code: str, name: str, since: int | None, until: int | None, samples: Samples) -> ReadingList | None:
    """The eight completions to read for a finding; None where reading would show nothing, or nothing was sampled.

    Args:
        code, name: the rule's.
        since, until: the stretch in which it holds; None for a side that is open.
        samples: of the run.
    """
    if name in NOTHING_TO_READ or not len(samples):
        return None
    order = BY_NAME.get(name, BY_FAMILY.get(code[:2]))
    if order is None:
        return None
    first, last = _stretch(samples, since, until, at_once=name.endswith("-spike"))
    stretch = samples.between(first, last)
    told = ((what, score(stretch)) for what, score in (order, ANY))  # any, where none is of that kind
    what, values = next((what, values) for what, values in told if np.isfinite(values).any())
    rows = np.flatnonzero(np.isfinite(values))
    chosen: list[int] = []
    taken: dict[tuple[int, int], int] = {}
    for row in rows[np.lexsort((*_apart(stretch.steps[rows]), -values[rows]))].tolist():
        group = int(stretch.steps[row]), int(stretch.groups[row])
        if taken.get(group, 0) < A_GROUP:
            taken[group] = taken.get(group, 0) + 1
            chosen.append(row)
        if len(chosen) == HOW_MANY:
            break
    where = f"of step {first}" if first == last else f"of steps {first} to {last}"
    return ReadingList(
        f"{len(chosen)} completions {where} {what}",
        tuple((int(stretch.steps[r]), int(stretch.numbers[r])) for r in chosen),
    )


def _apart(steps: Ints) -> tuple[Floats, Ints]:
    """Keys by which rows that are equally good to read come from steps all over the stretch, one of each step first."""
    found, which = np.unique(steps, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    begins = np.searchsorted(which[order], np.arange(found.size))
    rank = np.empty(which.size, dtype=np.int64)
    rank[order] = np.arange(which.size) - begins[which[order]]
    return (which * GOLDEN) % 1.0, rank


def _stretch(samples: Samples, since: int | None, until: int | None, *, at_once: bool) -> tuple[int, int]:
    """First and last sampled step to read from."""
    steps = np.unique(samples.steps)
    first = int(steps[0]) if since is None else since
    nearest = int(steps[np.argmin(np.abs(steps - first))])
    if at_once and since is not None:
        return nearest, nearest
    held = steps[(steps >= first) & (steps <= (until if until is not None else int(steps[-1])))]
    if not held.size:  # no step of it was sampled
        return nearest, nearest
    late = held[int(held.size * LATE) :]
    return int(late[0]), int(late[-1])
