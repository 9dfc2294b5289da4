"""RU111 train-eval-overfit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Preference
from vario.rules.base import Evidence, Severity, Sign, lower, number, required, rule


@rule(
    "RU111",
    "train-eval-overfit",
    Severity.WARNING,
    holds=3,
    turns=(lower("epochs", "fewer passes over the data"), lower("learning-rate", "smaller steps")),
    explains=("margin-plateaued",),
)
def train_eval_overfit(preference: Preference) -> Iterator[Sign]:
    """The training margin grows while the held-out margin falls.

    What it shows:
        A significant rise in training with a held-out margin that peaked and lost a fifth.
    Why it matters:
        Pairs are memorised; the best checkpoint is behind.
    Evidence:
        Both margins.
    Looks like it but is not:
        A held-out margin that is merely smaller.
    What to change:
        Stop at the held-out best; fewer epochs.
    How sure:
        Medium; evaluations are few.
    References:
        taxonomy of public threads, train_up_eval_down
    """
    held = required(preference.held_out, "eval/preference/margin")
    if held.points < 6 or not preference.margin.rises():
        return
    best = float(np.max(held.values))
    last = float(np.median(held.values[-3:]))
    if best > 0.0 and last < 0.8 * best and int(np.argmax(held.values)) < held.points - 3:
        yield Evidence(
            f"held-out margin fell from {number(best)} to {number(last)}, training margin is {number(preference.margin.level)}",
            ("eval/preference/margin", "preference/margin"),
            int(held.steps[int(np.argmax(held.values))]),
        )
