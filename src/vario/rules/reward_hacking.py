"""RU105 reward-hacking."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Review, Reward, Witness
from vario.rules.base import Evidence, Severity, Sign, number, percent, raise_, rule, set_

LOST = 0.4
"""Share of its best level that the witness must have lost: less is overfitting, or drift, before it is hacking."""
CLEAR_SDS = 3.0
MARKED = 0.3
"""Share of well-paid completions that a person called hacked: three of ten are no slip of the reader's."""
LEAST = 8
"""Evaluations: two means of three and something between them."""


@rule(
    "RU105",
    "reward-hacking",
    Severity.CRITICAL,
    holds=3,
    causes=("the optimised reward has a loophole",),
    turns=(
        set_("component-weight", None, "close the loophole, or give the trusted signal weight"),
        raise_("kl-coef", "only delays"),
    ),
    explains=(
        "reward-up-eval-not",
        "component-falls-while-total-rises",
        "component-dominates",
        "length-growing",
        "length-shrinking",
        "reward-peaked-then-declined",
        "truncation-high",
        "entropy-exploding",
        "policy-collapse",
        "kl-rises-without-reward",
        "length-hacking",
        "gradient-growing",
        "length-diversity-collapsing",
        "few-groups-carry-signal",
        "format-hacking",
        "reward-plateaued",
    ),
)
def reward_hacking(reward: Reward, witness: Witness | None, review: Review | None) -> Iterator[Sign]:
    """The optimised reward rises while a score that nobody optimises falls, or people find it hacked.

    What it shows:
        A significant rise of the training reward, with a held-out or weight-0 score that has lost at
        least 40 % of its best level; or with completions that it pays well and of which a person marked three in
        ten or more as hacked (`vario samples RUN --review`).
    Why it matters:
        The run optimises against what it is for. Said only with a signal that stands near the truth.
    Evidence:
        Both scores, then and now; how many completions were marked.
    Looks like it but is not:
        An evaluation with other settings; noise in a small held-out set; early overfitting.
    What to change:
        Stop; use the checkpoint at the witness's best; close the loophole before going on.
    How sure:
        High: two opposite significant moves.
    References:
        taxonomy of public threads, reward_hacking (10 threads); Gao et al., arXiv 2210.10760
    """
    if witness is None and review is None:
        raise NotReadable(
            "eval/score/mean", reason="no held-out score, no reward logged with weight 0 and no marks of a person"
        )
    if not reward.rises():
        return
    rose = Evidence(
        f"reward/mean rose from {number(reward.total.start)} to {number(reward.total.level)}", ("reward/mean",)
    )
    marked = review is not None and review.share >= MARKED
    if review is not None and marked:
        yield Evidence(
            f"a person marked {len(review.hacked)} of {len(review.paid)} well-paid completions as hacked"
            f" ({percent(review.share)})",
            ("reward/mean",),
            review.hacked[0].step,
            told=True,
        )
        yield rose
    if witness is None or witness.score.points < LEAST:
        return
    score = witness.score
    if witness.fell() and witness.lost() > LOST and witness.best - witness.now > CLEAR_SDS * score.noise_sd:
        if not marked:
            yield rose
        yield Evidence(
            f"{score.name} ({witness.source}) fell from {number(witness.best)} to {number(witness.now)}",
            (score.name,),
            score.since_below(0.5 * (witness.best + witness.now)),
        )
