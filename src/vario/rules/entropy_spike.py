"""EN103 entropy-spike."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy
from vario.rules.base import Evidence, Severity, Sign, number, rule


@rule(
    "EN103",
    "entropy-spike",
    Severity.INFO,
    pedantic=True,
    holds=1,
    lasting=True,
    causes=(
        "strange data in that batch: look at its prompts and completions",
        "an update that went too far: see the gradient norm at that step",
    ),
)
def entropy_spike(entropy: Entropy) -> Iterator[Sign]:
    """Entropy jumped for a step or two and came back.

    What it shows:
        Values at least six times the local level that return within three points.
    Why it matters:
        A batch of strange samples; several of them announce instability.
    Evidence:
        Step, value, local level.
    Looks like it but is not:
        A lasting rise (entropy-exploding), or a change of data (data-shift).
    What to change:
        First look at that batch of data, and at the gradient norm of the step before: strange prompts, or an update
        that made the policy forget. Nothing else for one.
    How sure:
        High that it happened.
    References:
        spike rule of the statistics bench
    """
    if entropy.mean.spikes:
        step, value, local = entropy.mean.spikes[0]
        yield Evidence(
            f"entropy spiked to {number(value)} at step {step}, {number(local)} is usual", ("entropy/mean",), step
        )
