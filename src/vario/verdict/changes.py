"""What to turn, from the value that is set to the one that is proposed, in the framework's own words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vario.rules.base import Turn
from vario.run import Run, Setting

FROM_ZERO = {"kl-coef": 0.001, "entropy-bonus": 0.001, "missing-eos-penalty": 1.0, "length-penalty": 0.001}
"""Where a factor has nothing to multiply: the smallest weight that recipes use."""


COUNTED = frozenset(
    {
        "batch-size",
        "group-size",
        "minibatches",
        "epochs",
        "max-completion-length",
        "staleness-bound",
        "warmup",
        "critic-warmup",
        "save-steps",
    }
)
"""Knobs that are whole numbers where they are set to one; a temperature of 1 may well become 1.2."""


@dataclass(frozen=True, slots=True)
class Change:
    """One knob to turn, in the framework's own words."""

    knob: str
    key: str | None
    current: Setting
    suggested: Setting
    why: str


def change_of(turn: Turn, run: Run) -> Change | None:
    """The change that a turn means for this run; None where the knob stands there, or has no way to go."""
    knob = run.knobs.get(turn.knob)
    current = knob.current if knob is not None else None
    inverse = knob is not None and knob.inverse
    if turn.factor is not None:
        if turn.knob == "minibatches" and turn.factor < 1.0 and run.declared.updates_per_rollout == 1.0:
            return None  # there is one already
        suggested = _scaled(turn, current, inverse=inverse)
        if suggested is not None and suggested == current:
            return None
        if current == 0 and suggested is None and isinstance(current, int | float) and turn.factor < 1.0:
            return None  # it is at zero already: nothing to lower
    else:
        suggested = not turn.to if inverse and isinstance(turn.to, bool) else turn.to
        if isinstance(suggested, bool) and knob is not None and not isinstance(current, bool):
            suggested = None  # no switch here: a path, a share, a name
        if suggested is not None and current == suggested:
            return None
    return Change(turn.knob, knob.key if knob is not None else None, current, suggested, turn.why)


def _scaled(turn: Turn, current: Setting, *, inverse: bool) -> Setting:
    if turn.factor is None or isinstance(current, bool) or not isinstance(current, int | float):
        return None
    if current == 0:
        return None if turn.factor < 1.0 else FROM_ZERO.get(turn.knob)
    if inverse and turn.factor == 0.0:
        return None
    value = current / turn.factor if inverse else current * turn.factor
    if not isinstance(current, int) or turn.knob not in COUNTED:
        return float(f"{value:.2g}")
    whole = round(value)
    if whole == current:
        whole = math.ceil(value) if value > current else math.floor(value)
    return max(1, whole)
