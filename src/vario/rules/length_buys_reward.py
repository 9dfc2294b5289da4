"""LN108 length-buys-reward."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length, LengthPays, Reward, Scores
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, number, percent, rule, set_

NOTABLE = 0.2
STRONG = 0.5
"""Rank correlation inside groups. Runs of the lab whose longer answers are right reach .4; paid length is .5 to .9."""
MOVED = 1.3
"""Mean length against its start: the seeds' own bound for drift against the baseline."""
LONGER = 1.3


@rule(
    "LN108",
    "length-buys-reward",
    Severity.WARNING,
    holds=3,
    causes=("a length term in the reward", "a reward model that likes long answers", "brevity paid above correctness"),
    turns=(
        set_("length-penalty", None, "an explicit price (or none, where short answers are paid)"),
        set_("loss-type", None, "normalise: token-level aggregation without a division by each answer's length"),
        set_("component-weight", None, "less weight on the length term"),
    ),
)
def length_buys_reward(pays: LengthPays, length: Length, reward: Reward, scores: Scores | None) -> Iterator[Sign]:
    """Among the answers to one prompt, length decides the reward.

    What it shows:
        Rank correlation of length and reward inside groups beyond three standard errors, the mean length moving
        the way that pays, the reward rising, and another score left behind. Information where the correlation
        alone is strong.
    Why it matters:
        What is being bought is tokens, or their absence: the reward has a length bias, and the policy has found it.
    Evidence:
        The correlation with its error, the length then and now, the score that stays behind.
    Looks like it but is not:
        Easy prompts that are short and solved (correlations here are inside groups, never over the batch);
        answers that need their working: right ones are longer and every score rises; a correlation of a
        single batch; wrong answers that ramble (longer, not paid).
    What to change:
        An explicit length term, or normalisation; then the weights of the reward functions.
    How sure:
        High with the correlation; low from the mean lengths of right and wrong answers, where prompts are mixed.
    References:
        seed texts of the project (length-reward correlation)
        taxonomy of public threads, length_explosion and length_collapse
    """
    if not reward.rises():
        return
    mean, growth = length.mean, length.growth
    behind = scores.left_behind() if scores is not None else None
    if pays.inside is not None:
        now = pays.inside.now
        along = growth >= MOVED if now > 0.0 else growth <= 1.0 / MOVED
        if not pays.inside.sure or abs(now) < NOTABLE or (scores is not None and behind is None):
            return
        if not along or behind is None:
            if abs(now) < STRONG:
                return
            yield Grave(Severity.INFO)
        if scores is None:
            yield Doubt("one reward and no held-out score: longer thinking that helps looks the same")
        name = pays.inside.reading.name
        what = "longer" if now > 0.0 else "shorter"
        yield Evidence(
            f"{what} answers to one prompt score higher: rank correlation {number(now)} ± {number(pays.inside.error)}",
            (name,),
            mean.onset_of_move() if along else None,
        )
    else:
        solved, unsolved = pays.solved, pays.unsolved
        assert solved is not None and unsolved is not None
        ratio, first = solved.level / max(unsolved.level, 1e-9), solved.start / max(unsolved.start, 1e-9)
        along = growth >= MOVED
        if ratio < LONGER or ratio < 1.2 * first or not along or (scores is not None and behind is None):
            return
        yield Grave(Severity.INFO)
        yield Doubt("right and wrong answers come from different prompts")
        yield Evidence(
            f"right answers are {percent(ratio)} as long as wrong ones, {percent(first)} at the start",
            (solved.name, unsolved.name),
            mean.onset_of_move(),
        )
    if along:
        yield Evidence(
            f"mean length went from {number(mean.start)} to {number(mean.level)} tokens while the reward rose",
            ("length/mean", "reward/mean"),
        )
    if behind is not None:
        yield Excluded("answers that need their working: not every score rises")
        yield Evidence(f"{behind.name} stays behind: {number(behind.level)} now", (behind.name,))
