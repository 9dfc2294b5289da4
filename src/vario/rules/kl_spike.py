"""KL105 kl-spike."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import LOUD, Kl
from vario.rules.base import Aside, Evidence, Severity, Sign, lower, number, rule


@rule(
    "KL105",
    "kl-spike",
    Severity.INFO,
    holds=1,
    lasting=True,
    causes=(
        "a batch that the policy handles unlike its reference: look at what is different about it",
        "data of poor quality, or a reward function that fails on that batch",
        "a single token, where the estimator is an exponential (k3)",
    ),
    turns=(lower("max-grad-norm", "bounds what one batch can do"),),
)
def kl_spike(kl: Kl) -> Iterator[Sign]:
    """KL jumped for a step or two and came back.

    What it shows:
        Values at least six times the local level that return within three points.
    Why it matters:
        One is harmless; several before a rise announce trouble. The k3 estimator is an exponential
        and spikes on single tokens.
    Evidence:
        Steps, values and the local level.
    Looks like it but is not:
        The start of a runaway (it does not come back).
    What to change:
        First look at that batch: its prompts, its completions and their rewards, and what is different about them.
        Nothing else for one; smaller gradient bound or learning rate for a series.
    How sure:
        High that it happened; low that it matters.
    References:
        KL estimators, joschu.net/blog/kl-approx.html
    """
    spikes = kl.reference.spikes
    if spikes:
        step, value, local = max(spikes, key=lambda s: s[1] / max(s[2], 1e-12))
        if value < LOUD * local:
            yield Aside("isolated, and it came back")
        yield Evidence(
            f"kl spiked {len(spikes)} times, highest at step {step}: {number(value)} where {number(local)} is usual",
            (kl.reference.name,),
            spikes[0][0],
        )
