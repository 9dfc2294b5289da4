"""What going on may bring: a forecast with an 80 % interval, and silence where it knows no more than "no change"."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from vario.instruments import Kl, Look, Reading, Reward, Witness
from vario.stats.forecast import LEAST, forecast
from vario.stats.laws import entropy_ceiling, overoptimisation_peak

AHEAD = 0.25
"""How far the forecast looks, as a share of the run so far; farther, all families of curves disagree."""
SILENT = ("peaked", "declining", "too-short", "flat-low", "saturated")
"""Shapes after which no saturating curve goes on: a drop is not forecast at all."""


@dataclass(frozen=True, slots=True)
class Upside:
    """Gain if the run goes on for `steps` more, the present regime lasting.

    Attributes:
        expected: median gain of `by`; None where nothing can be told, `method` then says why.
        interval80: its 80 % interval. chance: probability of any gain beyond the noise of one evaluation.
        laws: secondary readings, each a sentence: where a law of the literature holds on this run.
        fan: the forecast level on the way: step, low, expected, high (80 %); the first one is now.
    """

    expected: float | None
    interval80: tuple[float, float] | None
    method: str
    by: str | None = None
    steps: int | None = None
    level: float | None = None
    chance: float | None = None
    laws: tuple[str, ...] = ()
    fan: tuple[tuple[int, float, float, float], ...] = ()


BREAKS = ("non-finite", "learning-rate-zero", "reward-function-broke")
"""Findings after which the score goes on by no curve that it followed before."""


def upside_of(look: Look, score: Reading | None, trajectory: str, open_names: Collection[str] = ()) -> Upside:
    """Forecast the held-out score where it has enough points, else the score that is trained on.

    Args:
        look: the run as it stands. score: what is trained on. trajectory: its, in a word.
        open_names: of the findings that hold.
    """
    witness = look.instrument(Witness)
    held_out = witness.score if isinstance(witness, Witness) else look.find("eval/preference/margin", least=LEAST)
    ranked = held_out if held_out is not None and held_out.points >= LEAST else score
    laws = tuple(_laws(look))
    broke = next((name for name in BREAKS if name in open_names), None)
    if broke is not None:
        by = ranked.name if ranked is not None else None
        return Upside(None, None, f"cannot tell: after {broke} no curve of before goes on", by, laws=laws)
    if ranked is None or ranked.points < LEAST:
        return Upside(None, None, f"cannot tell: fewer than {LEAST} points of a score", laws=laws)
    if trajectory in SILENT and ranked is score:
        return Upside(None, None, f"cannot tell: no curve goes on from {trajectory}", ranked.name, laws=laws)
    reward = look.instrument(Reward)
    ceiling = reward.ceiling if isinstance(reward, Reward) and ranked is reward.total else None
    made = forecast(ranked.values, AHEAD, worth=0.5 * ranked.noise_sd, ceiling=ceiling)
    if made is None:
        return Upside(None, None, "cannot tell: the score does not move", ranked.name, laws=laws)
    if made.skill <= 0.0:
        why = 'cannot tell: earlier forecasts of this run were no better than "no change"'
        return Upside(None, None, why, ranked.name, laws=laws)
    more = math.ceil(AHEAD * (int(ranked.steps[-1]) - int(ranked.steps[0]) + 1))
    method = f"mixture of saturating curves on {ranked.name}, {more} more steps, if the present regime lasts"
    if made.widened > 1.0:
        method += f"; interval {made.widened:.1f} times as wide, as far as earlier forecasts missed"
    last = int(ranked.steps[-1])
    fan = tuple((last + round(share / AHEAD * more), low, level, high) for share, low, level, high in made.fan)
    return Upside(
        made.gain, (made.gain_low, made.gain_high), method, ranked.name, more, made.expected, made.chance, laws, fan
    )


def _laws(look: Look) -> list[str]:
    said = []
    reward, entropy = look.find("reward/mean", least=LEAST), look.find("entropy/mean", least=LEAST)
    knobs = look.history.run.knobs
    steered = any(
        (k := knobs.get(name)) is not None and not k.is_default and k.current not in (None, 0, 0.0, False)
        for name in ("entropy-bonus", "clip-high", "kl-coef")
    )
    if reward is not None and entropy is not None and not steered and reward.points == entropy.points:
        found = entropy_ceiling(reward.values, entropy.values)
        if found is not None:
            said.append(
                f"reward against entropy: {found.ceiling:.3g} [{found.low:.3g}, {found.high:.3g}] if entropy keeps being "
                f"spent at this price ({100 * found.left:.0f} % of it is left)"
            )
    said += _overoptimisation(look)
    return said


def _overoptimisation(look: Look) -> list[str]:
    kl, witness = look.instrument(Kl), look.instrument(Witness)
    if not isinstance(kl, Kl) or not isinstance(witness, Witness):
        return []
    steps = [*witness.score.steps.tolist(), look.step]
    spent = np.array([max(kl.reference.level_at(step), 0.0) for step in steps])
    if kl.unit == "nats/token":
        length = look.find("length/mean", least=LEAST)
        if length is None:
            return []
        # the length of that step: where it doubles, the last one would stretch the whole way there
        spent *= [length.level_at(step) for step in steps]
    found = overoptimisation_peak(spent[:-1], witness.score.values)
    if found is None:
        return []
    return [
        f"score against KL: the form R = d(a - b ln d) peaks at {found.kl:.3g} [{found.low:.3g}, {found.high:.3g}] nats a "
        f"sequence; the run stands at {float(spent[-1]):.3g}"
    ]
