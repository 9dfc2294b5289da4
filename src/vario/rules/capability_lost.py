"""RU114 capability-lost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import HeldOutSets, Reading
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, lower, number, raise_, rule
from vario.run import Level

SDS = 3.0
"""Standard deviations of one evaluation by which the last ones must lie below the value before RL."""
MATERIAL = 0.03
"""Share of that value which must be lost at the least: evaluation sets wobble by a point or two from run to run."""
LAST = 2
"""Evaluations in a row that must lie below."""
EARLY = 0.05
"""A first evaluation later than this share of the run is no value before RL any more."""


@rule(
    "RU114",
    "capability-lost",
    Severity.WARNING,
    holds=1,
    causes=("the policy has drifted on what the reward does not see", "too much of one kind of data"),
    turns=(
        raise_("kl-coef", "holds what the reward does not pay for"),
        lower("learning-rate", "fewer capabilities are overwritten for the same gain"),
    ),
)
def capability_lost(sets: HeldOutSets) -> Iterator[Sign]:
    """The model can no longer do something that it could before.

    What it shows:
        A held-out score other than the trained task's has fallen below its value before RL, beyond its own scatter.
    Why it matters:
        The reward never sees it, and no later step of the same kind brings it back.
    Evidence:
        Which set, before and now, since when. Sets are never averaged.
    Looks like it but is not:
        One bad evaluation; a set that scatters as much as it fell; the trained task itself falling (that is overfitting).
    What to change:
        Take an earlier checkpoint; a larger KL coefficient, a lower learning rate, or some of the lost data in the mix.
    How sure:
        High with a declared baseline; medium where the first evaluation of the run stands for it.
    References:
        taxonomy of public threads, train_up_eval_down
    """
    fallen = []
    for name, score in sets.sets.items():
        if score.key == sets.trained:
            continue
        before = sets.before.get(name)
        start = before.level if before is not None else float(score.values[0])
        error = _error(score, before)
        bound = start - max(SDS * error, MATERIAL * abs(start))
        if bool((score.values[-LAST:] < bound).all()):
            fallen.append((name, score, start, error, before))
    for name, score, start, error, before in fallen:
        yield Evidence(
            f"{name} is {number(float(score.values[-LAST:].mean()))}, {number(start)} before RL; "
            f"one evaluation scatters by {number(error)}",
            (name,),
            int(score.steps[int(np.argmax(score.values < start - SDS * error))]),
        )
        if before is None:
            yield Excluded("two evaluations in a row lie below; one could be an accident")
            if int(score.steps[0]) > EARLY * int(score.steps[-1]):
                yield Doubt("the first evaluation came late, and may be past the loss")
    if fallen and sets.trained is None:
        yield Doubt("which of the sets is the trained task's is not declared (held-out = … in vario.toml)")


def _error(score: Reading, before: Level | None) -> float:
    """Scatter of one evaluation: of neighbouring differences, and of the baseline's own where it is known."""
    steps = np.diff(score.values)
    scatter = float(np.median(np.abs(steps))) * 1.4826 / 2.0**0.5 if steps.size >= 3 else 0.0
    return max(scatter, before.spread if before is not None else 0.0)
