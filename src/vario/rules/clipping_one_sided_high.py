"""CL104 clipping-one-sided-high."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Clipping, Entropy, Signal, Witness
from vario.rules.base import Aside, Doubt, Evidence, Severity, Sign, lower, number, percent, raise_, required, rule

LEAST = 20
SOME = 0.002
"""Recipes hold 0.001 to 0.05 of all tokens: less than this on a side is next to nothing."""
TIMES = 5.0
LEFT = 0.7
"""Of the start: what is left when nearly a third is gone. A collapse is said by entropy-collapsing, much later."""


@rule(
    "CL104",
    "clipping-one-sided-high",
    Severity.INFO,
    holds=3,
    causes=("a policy that becomes sure of what it does already", "an upper bound that holds rare good tokens back"),
    turns=(
        raise_("clip-high", "gives rare tokens with an advantage room", 1.4),
        lower("learning-rate", "slows the sharpening"),
    ),
)
def clipping_one_sided_high(
    clipping: Clipping, entropy: Entropy | None, signal: Signal | None, witness: Witness | None
) -> Iterator[Sign]:
    """Nearly all clipping is on the high side.

    What it shows:
        The high-side share is five times the low side's, above 0.2 % of tokens; and whether the policy narrows
        meanwhile: entropy or the spread inside groups loses a third, or the held-out score falls.
    Why it matters:
        Good tokens are held back; with falling entropy that is how exploration dies.
    Evidence:
        Both shares; entropy, spread and held-out score as far as they are logged.
    Looks like it but is not:
        Clipping balanced within noise; next to none; strong preferences being learnt, as with a raised upper
        bound, while entropy and spread hold or a held-out score rises: healthy.
    What to change:
        A larger upper bound (clip-higher), then a smaller learning rate.
    How sure:
        Medium with a sign of collapse; a detail where nothing is logged that could show one.
    References:
        DAPO, arXiv 2503.14476; seed texts of the project
    """
    sides = required(clipping.low, "clip/fraction/low"), required(clipping.high, "clip/fraction/high")
    if min(side.points for side in sides) < LEAST:
        return
    low, high = (float(np.mean(side.values[-LEAST:])) for side in sides)
    if high <= SOME or high <= TIMES * low or (witness is not None and witness.score.rises()):
        return
    narrows = [*_narrows(entropy, signal, witness)]
    if not narrows and (entropy is not None or witness is not None):
        return
    if not narrows:
        yield Aside("nothing is logged that tells learning from collapsing")
        yield Doubt("without entropy or a held-out score it may as well be healthy")
    yield Evidence(f"{percent(high)} of tokens clip high, {percent(low)} low", tuple(side.name for side in sides))
    yield from narrows


def _narrows(entropy: Entropy | None, signal: Signal | None, witness: Witness | None) -> Iterator[Evidence]:
    if entropy is not None and entropy.mean.falls() and entropy.share_left < LEFT:
        yield Evidence(
            f"entropy fell to {percent(entropy.share_left)} of its start",
            ("entropy/mean",),
            entropy.mean.onset_of_move(),
        )
    within = signal.within if signal is not None else None
    if within is not None and within.falls() and within.level < LEFT * within.start:
        yield Evidence(
            f"the spread inside groups fell from {number(within.start)} to {number(within.level)}", (within.name,)
        )
    if witness is not None and witness.score.fell():
        yield Evidence(
            f"the {witness.source} fell from {number(witness.score.high)} to {number(witness.score.level)}",
            (witness.score.name,),
        )
