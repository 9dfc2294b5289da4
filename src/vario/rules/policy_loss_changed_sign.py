"""GR108 policy-loss-changed-sign."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import PolicyLoss
from vario.rules.base import Evidence, Severity, Sign, number, rule
from vario.stats.spread import running_median

LEAST = 72
"""A third of it is judged against a third, in eight blocks of three."""
FADED = 0.25
"""A loss that only fades out has changed no sign, whatever its last rounding says."""
SMOOTH = 15


@rule("GR108", "policy-loss-changed-sign", Severity.INFO, holds=3, pedantic=True)
def policy_loss_changed_sign(loss: PolicyLoss) -> Iterator[Sign]:
    """The policy loss went from one side of zero to the other.

    What it shows:
        A loss that lay on one side of zero over the first third and lies on the other over the last, beyond noise
        and at a quarter of its first size or more. A description, not an alarm.
    Why it matters:
        With one update per rollout and tokens that count alike the value is a preference in length: below zero
        the longer answers had the better advantage, above zero the shorter ones. With several updates it lies
        below zero while they improve their own batch.
    Evidence:
        The mean of both thirds, the step of the change, what the sign means in this run.
    Looks like it but is not:
        A loss that is 0 by construction, whose sign is that of a rounding error; one that fades to nothing with
        the spread of the rewards; one that swings around zero.
    What to change:
        Nothing for this alone: look at the length and the reward from that step on.
    How sure:
        High as a description; the sign of a surrogate is no direction of the reward.
    References:
        huggingface/trl issue 2703; token means: the loss is minus the covariance of advantage and length over the mean length
    """
    if loss.updates is None:
        raise NotReadable(
            "configuration", reason="without the updates per rollout the sign of a policy loss says nothing"
        )
    value = loss.value
    if loss.empty or value.points < LEAST:
        return
    third = value.points // 3
    first, last = value.values[:third], value.values[-third:]
    before, after = loss.side(first), loss.side(last)
    if before * after >= 0 or abs(float(last.mean())) < FADED * abs(float(first.mean())):
        return
    same = running_median(value.values, SMOOTH) * before > 0.0
    crossed = int(value.steps[min(int(same.nonzero()[0][-1]) + 1, value.points - 1)])
    yield Evidence(
        f"{value.name} lay near {number(float(first.mean()))} in the first third and lies near "
        f"{number(float(last.mean()))} in the last",
        (value.name,),
        crossed,
    )
    if loss.updates <= 1.0 and loss.centred:
        then, now = ("longer", "shorter") if before < 0 else ("shorter", "longer")
        yield Evidence(
            f"with one update per rollout that is a preference in length: {then} answers had the better advantage, "
            f"and {now} ones have it since"
        )
    elif loss.updates > 1.0:
        text = "raise the loss of their own batch" if after > 0 else "lower the loss of their own batch, as they should"
        yield Evidence(f"with {number(loss.updates)} updates per rollout it means that the later ones {text}")
