"""TX103 outputs-garbled."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Garbling, Reward
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, lower, percent, raise_, rule
from vario.stats.spread import robust_sd

GAIN = 0.05
"""One completion in twenty more than at the start: less is a rare character, not a change."""
MANY = 0.2
FIRST = 30
SDS = 4.0
"""How far it must lie outside the scatter of the first batches."""
HOTTER = 1.3


@rule(
    "TX103",
    "outputs-garbled",
    Severity.WARNING,
    holds=2,
    causes=("entropy has run away", "a sampler that does not hold the trainer's weights", "a tail sampled too hot"),
    turns=(
        lower("temperature", "keeps the tail of the vocabulary out", 0.8),
        lower("learning-rate", "from the last checkpoint that writes text"),
        raise_("kl-coef", "holds to the reference"),
        lower("entropy-bonus", "if there is one: it pays for noise", 0.0),
    ),
)
def outputs_garbled(garbling: Garbling, entropy: Entropy | None, reward: Reward | None) -> Iterator[Sign]:
    """The completions hold characters or scripts that do not belong there.

    What it shows:
        The share of garbled completions has left the scatter of the first batches, by a twentieth or more;
        a warning from a fifth on, or where the reward does not rise.
    Why it matters:
        Broken characters and mixed scripts are the policy, or the sampler, coming apart.
    Evidence:
        The share then and now; entropy, where it has risen too.
    Looks like it but is not:
        Prompts in several languages, code, formulas: the same share from the first batch; a start model that is
        garbled and gets cleaner; a rare odd character; mixed languages in answers that still get better.
    What to change:
        Read samples. Cooler sampling, a smaller learning rate from an earlier checkpoint, some KL.
    How sure:
        High where entropy rose with it; lower while the reward still rises.
    References:
        taxonomy of public threads, gibberish and entropy_explosion
    """
    share = garbling.share
    first = share.values[: min(FIRST, share.points // 2)]
    if share.level < share.start + max(GAIN, SDS * robust_sd(first)):
        return
    paid = reward is not None and reward.rises() and reward.lost() < GAIN
    if paid:
        yield Doubt("the reward still rises: mixed scripts need not hurt the task")
    if paid or share.level < MANY:
        yield Grave(Severity.INFO)
    yield Evidence(
        f"{percent(share.level)} of completions are garbled, {percent(share.start)} at the start",
        (share.name,),
        share.since_above(0.5 * (share.start + share.level)),
    )
    if entropy is not None and entropy.share_left > HOTTER:
        yield Evidence(f"entropy is at {percent(entropy.share_left)} of its start", ("entropy/mean",))
