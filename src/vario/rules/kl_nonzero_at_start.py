"""KL108 kl-nonzero-at-start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Kl, Record
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, rule


@rule(
    "KL108",
    "kl-nonzero-at-start",
    Severity.WARNING,
    holds=1,
    lasting=True,
    causes=(
        "another reference than the start model",
        "an adapter on top of a tuned model",
        "another chat template or mask",
    ),
    explains=("kl-penalty-outweighs-reward",),
)
def kl_nonzero_at_start(kl: Kl, record: Record) -> Iterator[Sign]:
    """KL is large at the very first step, before any update.

    What it shows:
        The first logged KL, at step 1 or 0, is above 0.02 nats a token.
    Why it matters:
        Policy and reference start as the same model: anything else means that they are not.
    Evidence:
        The first value and the second.
    Looks like it but is not:
        Kernel noise below 1e-3; a log that starts late or averages over many steps; a resumed run.
    What to change:
        Merge the adapter before training; load the reference from the same path.
    How sure:
        High at step 1.
    References:
        huggingface/trl issues 3194 and 495
    """
    reference = kl.reference
    bound = 0.02 if kl.unit == "nats/token" else 2.0
    if int(reference.steps[0]) > 1 or record.events or reference.points < 5:
        return
    first = float(reference.values[0])
    averaged = record.declared.steps_per_row != 1.0
    if first > bound and first > 0.5 * float(np.median(reference.values[:5])):
        if averaged:
            # the first row may hold many steps, and drift with them
            yield Grave(Severity.INFO)
            yield Doubt("how many steps the first row averages over is not known to be one")
        yield Evidence(
            f"kl is {number(first)} {kl.unit} at step {int(reference.steps[0])}",
            (reference.name,),
            int(reference.steps[0]),
        )
