"""KL106 kl-reset."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl, Record, Reward
from vario.rules.base import Evidence, Severity, Sign, number, rule

LEFT = 0.2


@rule(
    "KL106",
    "kl-reset",
    Severity.WARNING,
    holds=1,
    lasting=True,
    causes=("the reference was replaced by the current policy", "resumed with another reference"),
)
def kl_reset(kl: Kl, reward: Reward | None, record: Record) -> Iterator[Sign]:
    """KL fell towards zero from one step to the next, though the policy did not move back.

    What it shows:
        A level shift of KL down to less than a fifth within a dozen rows, with reward and entropy undisturbed.
    Why it matters:
        From here on drift is measured from another place: the KL budget starts anew, unseen.
    Evidence:
        The step, KL before and after, and what did not move.
    Looks like it but is not:
        A policy that really returns (reward and entropy move too); a reference that is synchronised by design.
    What to change:
        Resume with the original reference model, or add up both stretches.
    How sure:
        High when the rest is calm.
    References:
        taxonomy of public threads, resume_discontinuity
    """
    entropy = record.find("entropy/mean")
    for shift in kl.reference.shifts:
        if shift.up or shift.after > LEFT * shift.before or kl.still:
            continue
        if not shift.abrupt:
            continue
        calm = True
        for other in (reward.total if reward else None, entropy):
            if other is not None and any(abs(s.step - shift.step) <= 6 for s in other.shifts):
                calm = False
        if calm:
            yield Evidence(
                f"kl fell from {number(shift.before)} to {number(shift.after)} at step {shift.step}; reward and entropy did not move",
                (kl.reference.name,),
                shift.step,
            )
