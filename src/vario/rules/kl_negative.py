"""KL107 kl-negative."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Kl
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule(
    "KL107",
    "kl-negative",
    Severity.WARNING,
    holds=3,
    causes=(
        "samples do not come from the policy that is scored",
        "padding or end-of-sequence masking",
        "sampling settings that are not pure",
    ),
)
def kl_negative(kl: Kl) -> Iterator[Sign]:
    """The KL estimate is negative and stays so.

    What it shows:
        A mean below zero beyond its noise over the last stretch.
    Why it matters:
        The true KL is never negative: a lasting negative mean says that the samples do not come from this policy.
    Evidence:
        The level with its noise.
    Looks like it but is not:
        A k1 estimate that dips below zero for a step; values within noise around zero at the start.
    What to change:
        top_p 1, top_k off, no minimum length; check masks of padding and end tokens.
    How sure:
        High when it lies three standard errors below zero.
    References:
        huggingface/trl issue 235
    """
    reference = kl.reference
    if reference.points < 20:
        return
    tail = reference.values[-20:]
    se = max(float(tail.std()), reference.noise_sd) / 20**0.5 * 2.0
    if float(tail.mean()) < -3.0 * se and float(tail.mean()) < -1e-4:
        yield Evidence(
            f"kl averages {number(float(tail.mean()))} {kl.unit} over the last 20 points",
            (reference.name,),
            reference.since_below(0.0),
        )
