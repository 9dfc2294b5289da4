"""LN107 lengths-bimodal."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Bimodality, Length, Scores
from vario.instruments.reading import Reading
from vario.rules.base import Aside, Doubt, Evidence, Grave, Severity, Sign, number, rule, set_

COEFFICIENT = 5.0 / 9.0
"""The coefficient of a uniform distribution; on log length 0 to 3 % of skewed single modes lie above."""
APART = 2.0
"""Spreads between the modes: two Gaussians closer than that have one hump."""
DIP = 0.05
NARROW = 0.1
"""Spread inside groups, as a share of the mean length, below which two modes are a matter of a token or two."""


def _two_modes(bimodality: Bimodality, *, at_start: bool) -> bool:
    def value(reading: Reading | None) -> float | None:
        return None if reading is None else reading.start if at_start else reading.level

    dip, coefficient, apart = value(bimodality.dip), value(bimodality.coefficient), value(bimodality.separation)
    if dip is not None and dip < DIP:
        return True
    return coefficient is not None and coefficient > COEFFICIENT and (apart is None or apart > APART)


@rule(
    "LN107",
    "lengths-bimodal",
    Severity.INFO,
    holds=3,
    causes=("very short and very long answers both pay better than those between", "two habits, and nothing to choose"),
    turns=(
        set_("component-weight", None, "look at what the reward pays at both lengths"),
        set_("length-penalty", None, "pay the same for every length between"),
    ),
)
def lengths_bimodal(bimodality: Bimodality, length: Length | None, scores: Scores | None) -> Iterator[Sign]:
    """Completions of one prompt are either short or long.

    What it shows:
        Log lengths inside groups, cut completions left out, have two modes: the dip test, or the bimodality
        coefficient with two modes over two spreads apart. A warning where a score falls meanwhile.
    Why it matters:
        Group-relative training likes extremes: short guesses and long padding can both beat honest answers.
    Evidence:
        Coefficient, separation or p, then and now.
    Looks like it but is not:
        A long tail (skewed, one mode); answers that have all but converged to one length, where a few strays make
        a large coefficient (the spread is then small); a pile at the cap (cut completions are left out); two kinds
        of prompts (lengths are taken relative to the group); a start model that had two habits from the first batch.
    What to change:
        Look at the reward of short, middle and long answers to one prompt.
    How sure:
        Medium; low from the coefficient alone.
    References:
        seed texts of the project (bimodal lengths within groups)
        bimodality coefficient: https://doi.org/10.3389/fpsyg.2013.00700
    """
    within = bimodality.within
    if within is not None and length is not None and within.level < NARROW * length.mean.level:
        return
    if not _two_modes(bimodality, at_start=False):
        return
    if _two_modes(bimodality, at_start=True):
        yield Aside("it was so from the first batches")
    falling = scores.falling() if scores is not None else None
    if falling is not None:
        yield Grave(Severity.WARNING)
        yield Evidence(f"{falling.name} has fallen over the run", (falling.name,))
    if bimodality.dip is None and bimodality.separation is None:
        yield Doubt("from the coefficient alone, without the distance between the modes")
    if bimodality.dip is not None and bimodality.dip.level < DIP:
        dip = bimodality.dip
        yield Evidence(f"the dip test gives p = {number(dip.level)}", (dip.name,), dip.since_below(DIP))
    if bimodality.coefficient is not None and bimodality.coefficient.level > COEFFICIENT:
        c = bimodality.coefficient
        text = f"bimodality of log length inside groups is {number(c.level)}, {number(c.start)} at the start"
        if bimodality.separation is not None:
            text += f"; the modes lie {number(bimodality.separation.level)} spreads apart"
        yield Evidence(text, (c.name,), c.since_above(COEFFICIENT))
