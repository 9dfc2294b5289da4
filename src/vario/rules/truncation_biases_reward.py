"""LN109 truncation-biases-reward."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import TruncationGap
from vario.rules.base import (
    Apart,
    Aside,
    Doubt,
    Evidence,
    Excluded,
    Grave,
    Severity,
    Sign,
    number,
    percent,
    raise_,
    rule,
    set_,
)

SIZE = 0.25
"""Of the rewards' spread: a smaller gap moves few advantages."""
SOME, HIGH = 0.05, 0.2
"""Share of cut completions: under a twentieth the gap has little to act on; a fifth is the warning of truncation-high."""


@rule(
    "LN109",
    "truncation-biases-reward",
    Severity.WARNING,
    holds=3,
    causes=("the cap is below the natural length", "the reward scores unfinished text", "running on is paid"),
    explains=("truncation-high",),
    turns=(
        raise_("max-completion-length", "let the answers end by themselves"),
        set_("overlong-filter", True, "keep cut samples out of the loss"),
        set_("missing-eos-penalty", None, "where running into the cap pays"),
    ),
)
def truncation_biases_reward(truncation: TruncationGap) -> Iterator[Sign]:
    """Being cut at the cap decides the reward.

    What it shows:
        Cut completions score otherwise than finished siblings of the same prompt: beyond three standard errors, by
        a quarter of the rewards' spread. A warning where a fifth is cut, information from a twentieth on.
    Why it matters:
        The reward then measures the cap. Where cut answers lose, shorter is safer than correct; where they win,
        running on is what is learnt.
    Evidence:
        The gap with its error, the share that is cut.
    Looks like it but is not:
        Hard prompts that are long and wrong (the gap is inside groups, never over the batch); a handful of cuts;
        a penalty on overlong answers, which is meant to make the gap; a gap within its own error.
    What to change:
        A longer cap first, so that it covers natural lengths; else cut samples out of the loss.
    How sure:
        High with the share of cuts and the rewards' spread.
    References:
        seed texts of the project (truncated against finished)
        taxonomy of public threads, truncation (18 threads)
    """
    gap, share, spread = truncation.gap, truncation.share, truncation.spread
    if not gap.sure or (truncation.priced and gap.now < 0.0):
        return
    if spread is not None and abs(gap.now) < SIZE * spread.level:
        return
    if share is None or spread is None:
        yield Doubt("how many are cut, or how far rewards spread, is not known")
    if share is not None:
        if share.level < SOME:
            return
        if share.level < HIGH:
            yield Grave(Severity.INFO)
    if truncation.filtered:
        yield Aside("cut completions are left out of the loss; they still stand in their group's mean")
    if gap.now < 0.0:
        yield Apart("length-hacking", "cut answers lose: it is not length that pays")
    side = "less" if gap.now < 0.0 else "more"
    yield Excluded("long hard prompts: cut and finished answers to the same prompt are compared")
    yield Evidence(
        f"cut completions score {number(abs(gap.now))} ± {number(gap.error)} {side} than finished ones of their group",
        (gap.reading.name,),
        share.since_above(SOME) if share is not None else None,
    )
    if share is not None:
        yield Evidence(f"{percent(share.level)} of completions are cut", (share.name,))
