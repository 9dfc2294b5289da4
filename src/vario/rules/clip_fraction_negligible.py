"""CL106 clip-fraction-negligible."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping
from vario.rules.base import Evidence, Severity, Sign, number, raise_, rule


@rule(
    "CL106",
    "clip-fraction-negligible",
    Severity.INFO,
    holds=3,
    pedantic=True,
    turns=(raise_("learning-rate", "if KL hardly moves either", 2.0),),
)
def clip_fraction_negligible(clipping: Clipping) -> Iterator[Sign]:
    """Nothing is ever clipped although batches are reused.

    What it shows:
        A clipped share of exactly zero for 40 points with more than one update per rollout.
    Why it matters:
        With reuse some clipping is expected: zero means tiny steps, or no advantage.
    Evidence:
        The share and the updates per rollout.
    Looks like it but is not:
        One update per rollout: the ratio is one and zero is right (note clip-zero-is-on-policy).
    What to change:
        Look at the learning rate and at the share of tied groups.
    How sure:
        Medium.
    References:
        verl issue 791
    """
    if clipping.updates is None or clipping.updates <= 1.0 or clipping.total.points < 40:
        return
    if float(np.max(clipping.total.values[-40:])) <= 0.0:
        yield Evidence(
            f"no token was clipped over 40 points, with {number(clipping.updates)} updates per rollout",
            (clipping.total.name,),
        )
