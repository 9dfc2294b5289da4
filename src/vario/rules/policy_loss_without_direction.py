"""GR107 policy-loss-without-direction."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import PolicyLoss
from vario.rules.base import Evidence, Severity, Sign, number, rule

LEAST = 96
"""Half of it is judged, in eight blocks of six: fewer points hide a mean of half a standard deviation."""


@rule("GR107", "policy-loss-without-direction", Severity.INFO, holds=3, pedantic=True)
def policy_loss_without_direction(loss: PolicyLoss) -> Iterator[Sign]:
    """The policy loss swings around zero as chance would have it.

    What it shows:
        With several updates per rollout, a loss whose mean over the last half cannot be told from zero, and which
        changes its sign as often as noise of its memory does. A description, not an alarm.
    Why it matters:
        Later updates on a batch should lower its loss below zero; where they do not, they pull in no common
        direction. The reward says whether anything is lost.
    Evidence:
        The mean of the last half and the share of sign changes.
    Looks like it but is not:
        A loss that is 0 by construction: one update per rollout with centred advantages. A loss that is exactly
        0 for want of any advantage. A small loss of one sign, which does have a direction.
    What to change:
        Nothing for this alone. Where the reward stands as well, continuing brings nothing.
    How sure:
        High as a description; it foretells nothing by itself.
    References:
        the value of a surrogate is minus the mean advantage while the ratio is 1: huggingface/trl issue 2703
    """
    if loss.updates is None:
        raise NotReadable(
            "configuration", reason="without the updates per rollout a loss near 0 may be 0 by construction"
        )
    if loss.updates <= 1.0 or loss.empty or loss.value.points < LEAST:
        return
    late = loss.value.values[loss.value.points // 2 :]
    if loss.wanders(late):
        yield Evidence(
            f"{loss.value.name} swings around zero over the last half (mean {number(float(late.mean()))}, spread "
            f"{number(float(late.std()))})",
            (loss.value.name,),
            int(loss.value.steps[loss.value.points // 2]),
        )
