"""CL104 clipping-one-sided-high."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping, Entropy
from vario.rules.base import Evidence, Severity, Sign, percent, raise_, required, rule


@rule(
    "CL104",
    "clipping-one-sided-high",
    Severity.INFO,
    holds=3,
    pedantic=True,
    turns=(raise_("clip-high", "gives advantaged tokens room", 1.4),),
)
def clipping_one_sided_high(clipping: Clipping, entropy: Entropy | None) -> Iterator[Sign]:
    """Nearly all clipping is on the high side.

    What it shows:
        The high-side share is five times the low side's, above 0.2 % of tokens.
    Why it matters:
        Good tokens are held back; with falling entropy that is how exploration dies.
    Evidence:
        Both shares, and entropy.
    Looks like it but is not:
        Clipping balanced within noise; clip-higher set on purpose with entropy settled.
    What to change:
        A larger upper bound (clip-higher).
    How sure:
        Medium.
    References:
        DAPO, arXiv 2503.14476
    """
    sides = required(clipping.low, "clip/fraction/low"), required(clipping.high, "clip/fraction/high")
    if min(side.points for side in sides) < 20:
        return
    low, high = (float(np.mean(side.values[-20:])) for side in sides)
    if high > 0.002 and high > 5.0 * low:
        if entropy is not None and entropy.mean.falls():
            yield Evidence(f"entropy fell to {percent(entropy.share_left)} of its start", ("entropy/mean",))
        yield Evidence(f"{percent(high)} of tokens clip high, {percent(low)} low", tuple(side.name for side in sides))
