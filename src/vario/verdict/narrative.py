"""The verdict in plain sentences: what happens, what it costs, why, what to do."""

from __future__ import annotations

from vario.instruments import Look, Reading
from vario.instruments.kl import TO_REFERENCE
from vario.rules.base import Severity, number
from vario.rules.engine import Incident
from vario.verdict.advice import Advice
from vario.verdict.checkpoint import BestCheckpoint
from vario.verdict.so_far import so_far
from vario.verdict.trajectory import Trajectory

SAYS = {
    "rising": "The score still rises",
    "slowing": "The score still rises, at less than half its earlier rate",
    "plateau": "The score is flat now",
    "peaked": "The score rose, peaked, and has lost a material part of its gain",
    "declining": "The score falls",
    "noise": "The score has never left the interval of its own noise",
    "flat-low": "The score stands at its floor",
    "saturated": "The score is at its ceiling, or constant at a high value",
    "too-short": "The run is too short to judge",
}
NO_SCORE = "No reward is logged under a key that is known; `vario metrics` shows what is."
REGIME = {"up": "climbs", "flat": "stays within its noise", "down": "falls"}


def narrate(
    look: Look,
    score: Reading | None,
    trajectory: Trajectory,
    regime: str,
    advice: Advice,
    best: BestCheckpoint | None,
    incidents: tuple[Incident, ...],
    witnesses: frozenset[str],
    tensions: tuple[str, ...] = (),
) -> str:
    """A few sentences, each from what was measured."""
    said = [f"{SAYS[trajectory.word]} ({trajectory.why})."] if score is not None else [NO_SCORE]
    if trajectory.word == "too-short":
        said += so_far(look)
    if regime != "unknown":
        said.append(_over_the_last_half(regime, trajectory.word))
    elif (
        score is not None
        and not any(n in look.history.run.series for n in TO_REFERENCE)
        and look.find("preference/margin") is None
    ):
        said.append(
            "KL to a reference is not logged: what the gain costs in drift cannot be seen." + _substitutes(look)
        )
    said += [f"{t[0].upper()}{t[1:]}." for t in tensions]
    causes = [i for i in incidents if i.severity >= Severity.WARNING and i.until is None]
    if causes:
        names = ", ".join(i.rule.name for i in causes[:3])
        said.append(f"Found: {names}.")
    said.append(f"{advice.action.replace('-', ' ').capitalize()}: {advice.why}.")
    if best is not None and advice.action in ("stop", "intervene") and best.step < look.step:
        where = (
            "saved"
            if best.saved
            else f"nearest saved: {best.nearest_saved}"
            if best.nearest_saved is not None
            else "no checkpoint lies beside the log"
        )
        said.append(f"Best so far is step {best.step} by {best.by} ({best.value:.3g}; {where}).")
    missing = [w for w in ("held-out score", "KL") if {"held-out score": "held-out", "KL": "kl"}[w] not in witnesses]
    if trajectory.word in ("rising", "slowing") and missing and look.find("preference/margin") is None:
        said.append(f"The reward alone proves nothing: missing as a witness: {', '.join(missing)}.")
    return " ".join(said)


ENDS = {
    "plateau": ("flat", "it went flat within that half"),
    "saturated": ("flat", "it went flat within that half"),
    "peaked": ("down", "it turned within that half"),
    "declining": ("down", "it turned within that half"),
    "noise": ("flat", "by less than its noise hides"),
    "flat-low": ("flat", "by less than its noise hides"),
    "rising": ("up", "it turned within that half"),
    "slowing": ("up", "it turned within that half"),
}
"""How the score goes at the end by its trajectory, and why the last half as a whole may say otherwise."""


def _over_the_last_half(regime: str, trajectory: str) -> str:
    """What KL and the score did over the last half; where the score's end is another, both are said to be so."""
    _, kl, _, reward = regime.split("-")
    if kl == reward == "flat":
        return "Over the last half neither KL nor the score leaves its noise."
    both = f"KL {REGIME[kl]} while the score {REGIME[reward]}"
    if kl == reward:
        both = f"both KL and the score {REGIME[kl].removesuffix('s')}"
    ends, why = ENDS.get(trajectory, (reward, ""))
    if ends == reward or reward == "flat":
        return f"Over the last half {both}."
    return f"Over the last half taken together {both}; {why}."


SUBSTITUTES = ("kl/update", "entropy/mean", "length/mean")
"""What shows that a policy moves where no reference is logged."""


def _substitutes(look: Look) -> str:
    """What else moved, in one sentence."""
    moved = []
    for name in SUBSTITUTES:
        reading = look.find(name, least=24)
        if reading is None or reading.shape is None:
            continue
        if reading.shape.moved and abs(reading.level - reading.start) > 0.1 * abs(reading.start):
            moved.append(f"{name} went from {number(reading.start)} to {number(reading.level)}")
        else:
            moved.append(f"{name} stays near {number(reading.level)}")
    return f" In its place: {', '.join(moved)}." if moved else ""
