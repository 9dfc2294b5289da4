"""LN105 truncation-high."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Truncation
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, percent, raise_, rule, set_

HIGH = 0.2
NOTABLE = 0.1
"""verl's documentation warns at 0.1, ScaleRL saw 10 to 15 % destabilise training: notable there, a warning from a fifth."""


@rule(
    "LN105",
    "truncation-high",
    Severity.WARNING,
    holds=2,
    causes=("the cap is below the natural length", "the end token is never produced", "length is rewarded"),
    turns=(
        raise_("max-completion-length", "cover the 95th percentile of natural lengths"),
        set_("overlong-filter", True, "keep cut samples out of the loss"),
    ),
    explains=("metric-over-budget",),
)
def truncation_high(truncation: Truncation) -> Iterator[Sign]:
    """A large share of completions is cut at the cap.

    What it shows:
        Over a tenth of the completions end at the maximum length; a warning from a fifth on.
    Why it matters:
        A cut answer cannot be right: the reward then measures length, and its gradient teaches it.
    Evidence:
        The share now, the cap.
    Looks like it but is not:
        A model with several end tokens, where proper endings are counted as cut: then the longest
        completions stay below the cap; a first batch of a model that has not learnt to end.
    What to change:
        A longer cap, an overlong filter, a penalty for a missing end token.
    How sure:
        High when the longest reach the cap.
    References:
        taxonomy of public threads, truncation (18 threads)
    """
    share = truncation.share
    if not truncation.believable or share.points < 5 or share.level <= NOTABLE:
        return
    since = share.since_above(NOTABLE / 2)
    if share.level <= HIGH:
        yield Grave(Severity.INFO)
    text = f"{percent(share.level)} of completions are cut"
    if truncation.cap:
        text += f" at {number(truncation.cap)} tokens"
    yield Evidence(text, ("length/truncated-share",), since)
    if truncation.cap is None:
        yield Doubt("the cap is not known: several end tokens could be counted as cuts")
