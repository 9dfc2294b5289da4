"""TX104 outputs-duplicated."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Duplication, Reward, Scores
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, lower, percent, raise_, rule

HALF = 0.5
GAIN = 0.3
"""Above the first batches by so much: tasks with few possible answers have copies from the start."""
LOST = 0.15


@rule(
    "TX104",
    "outputs-duplicated",
    Severity.WARNING,
    holds=2,
    causes=("one answer pays for every prompt", "the prompt no longer reaches the policy", "the policy has collapsed"),
    turns=(
        raise_("kl-coef", "holds to the reference, which reads the prompt"),
        lower("learning-rate", "from the last checkpoint that tells prompts apart"),
        raise_("temperature", "samples more widely", 1.2),
    ),
)
def outputs_duplicated(duplication: Duplication, reward: Reward | None, scores: Scores | None) -> Iterator[Sign]:
    """The same completion answers different prompts.

    What it shows:
        Half or more of the completions also answer another prompt of their batch, far more than at the start.
    Why it matters:
        An answer that does not depend on the question is no answer: reward for it is a hole in the reward.
    Evidence:
        The share of copies across prompts then and now, and inside groups.
    Looks like it but is not:
        Copies inside a group alone (a solved prompt has one right answer); a task with few possible answers
        (yes or no, a class): copies from the start; a choice that has been learnt to be answered by its letter,
        with every score rising; empty completions (counted apart).
    What to change:
        Read the answer that is given to all, and close what pays it; KL, a smaller learning rate.
    How sure:
        High where a score falls or nothing rises; lower where all rise.
    References:
        taxonomy of public threads, mode_collapse
    """
    across, empty = duplication.across, duplication.empty
    if across.level < HALF or across.level < across.start + GAIN:
        return
    if empty is not None and across.level - empty.level < GAIN:
        return
    falling = scores.falling() if scores is not None else None
    if reward is None:
        yield Doubt("no reward is known: a task with few answers, learnt, looks like this")
    elif falling is None and reward.rises() and reward.lost() < LOST:
        yield Grave(Severity.INFO)
        yield Doubt("nothing falls: a task with few answers, learnt, looks like this")
    else:
        yield Excluded("a choice that is answered by its letter: the scores do not rise")
    yield Evidence(
        f"{percent(across.level)} of completions also answer another prompt, {percent(across.start)} at the start",
        (across.name,),
        across.since_above(0.5 * (across.start + across.level)),
    )
    if duplication.within is not None:
        yield Evidence(
            f"{percent(duplication.within.level)} are copies of a sibling in their group", (duplication.within.name,)
        )
    if falling is not None:
        yield Evidence(f"{falling.name} has fallen over the run", (falling.name,))
