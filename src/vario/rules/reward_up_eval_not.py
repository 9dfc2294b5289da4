"""RW108 reward-up-eval-not."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Witness
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, raise_, rule, set_

LOST = 0.25
"""Share of its best level that a witness must have lost to be called falling: evaluation sets wobble."""
LEAST = 10
"""Evaluations below which a score that stands proves nothing."""


@rule(
    "RW108",
    "reward-up-eval-not",
    Severity.WARNING,
    holds=3,
    causes=("over-optimisation of a proxy", "memorised prompts", "another decoder or prompt at evaluation"),
    turns=(
        raise_("kl-coef", "limits how far the proxy can be exploited"),
        set_("component-weight", None, "give the trusted component more weight"),
    ),
)
def reward_up_eval_not(reward: Reward, witness: Witness) -> Iterator[Sign]:
    """The training reward rises while a score nobody optimises stands or falls.

    What it shows:
        A significant rise of reward/mean with a flat or falling held-out or weight-0 score over the same steps.
    Why it matters:
        What is bought is not what is wanted: the gap is where reward hacking and overfitting show first.
    Evidence:
        Both changes over the run, in units.
    Looks like it but is not:
        An evaluation too small or too rare to show a rise; another temperature at evaluation.
    What to change:
        Read the highest-reward samples; hold closer to the reference; mend the reward.
    How sure:
        High when the witness falls; medium when it is flat.
    References:
        Gao et al. 2022, arXiv 2210.10760
    """
    score = witness.score
    if not reward.rises():
        return
    if score.falls() or (witness.fell() and witness.lost() > LOST):
        yield Evidence(
            f"reward/mean rose from {number(reward.total.start)} to {number(reward.total.level)} while {witness.source} "
            f"fell from {number(witness.best)} to {number(witness.now)}",
            ("reward/mean", score.name),
            witness.since_best(),
        )
    elif score.points >= LEAST and not reward.solved and witness.stands(reward.total.level - reward.total.start):
        yield Doubt("flat, not falling")
        yield Evidence(
            f"reward/mean rose to {number(reward.total.level)} while {witness.source} stays at {number(witness.now)}",
            ("reward/mean", score.name),
            int(score.steps[0]),
        )
