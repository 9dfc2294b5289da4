"""What to turn, from the value that is set to the one that is proposed, in the framework's own words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vario.instruments.kl import TO_REFERENCE
from vario.rules.base import Turn
from vario.run import KnobSetting, Run, Setting

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
    """One knob to turn, in the framework's own words.

    Attributes:
        current: what it is set to; None where that is not known.
        assumed: that is the framework's default: no configuration of the run says it, and nothing that was logged denies it.
    """

    knob: str
    key: str | None
    current: Setting
    suggested: Setting
    why: str
    assumed: bool = False

    @property
    def stands(self) -> str:
        """How it stands, in two words; empty where that is not known."""
        return "" if self.current is None else stands(self.current, assumed=self.assumed)


def stands(current: Setting, *, assumed: bool) -> str:
    """`now 0.001`, or `default 0.001` where only that is known."""
    return f"{'default' if assumed else 'now'} {current}"


def change_of(turn: Turn, run: Run) -> Change | None:
    """The change that a turn means for this run; None where the knob stands there, or has no way to go."""
    knob = run.knobs.get(turn.knob)
    assumed = knob is not None and knob.is_default
    current = None if knob is None or (assumed and _denied(knob, run)) else knob.current
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
    key = knob.key if knob is not None else None
    return Change(turn.knob, key, current, suggested, turn.why, assumed and current is not None)


def _denied(knob: KnobSetting, run: Run) -> bool:
    """Whether the log shows that a default does not stand: KL is logged where it costs something, cuts come at the cap."""
    if isinstance(knob.current, bool) or not isinstance(knob.current, int | float):
        return False
    if knob.knob == "kl-coef" and knob.current == 0:
        return any(len(run.series.get(name, ())) for name in TO_REFERENCE)
    if knob.knob == "max-completion-length":
        longest, cut = run.series.get("length/max"), run.series.get("length/truncated-share")
        if longest is None or cut is None or not len(longest) or not len(cut):
            return False
        was_cut = bool((cut.finite()[1] > 0.0).any())
        lengths = longest.finite()[1]
        return was_cut and lengths.size > 0 and float(lengths.max()) != knob.current
    return False


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
