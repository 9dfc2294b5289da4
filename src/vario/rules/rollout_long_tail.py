"""SY105 rollout-long-tail."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Requests
from vario.rules.base import (
    Aside,
    Doubt,
    Evidence,
    Excluded,
    Severity,
    Sign,
    lower,
    number,
    percent,
    raise_,
    rule,
    set_,
)

FAR = 3.0
"""Slowest over mean: had all begun together, two thirds of the engine's places would stand empty on average."""
COSTLY = 0.5
"""Share of the step from which generation is what the run waits for; below it a tail costs little."""
AT_CAP = 0.95


@rule(
    "SY105",
    "rollout-long-tail",
    Severity.INFO,
    holds=3,
    causes=(
        "a few completions that run to the cap",
        "tools, sandboxes or judges that some samples wait for",
        "all samples of a batch are awaited before the update begins",
    ),
    turns=(
        lower("max-completion-length", "the cap bounds the slowest sample", 0.75),
        set_("overlong-filter", True, "samples that are cut then teach nothing, and may be cut early"),
        raise_("staleness-bound", "unfinished samples can go on in the next step (partial rollouts)"),
    ),
)
def rollout_long_tail(requests: Requests) -> Iterator[Sign]:
    """A few slow completions hold up the batch.

    What it shows:
        The slowest rollout takes over three times as long as the mean one, and generation over half of the step.
    Why it matters:
        A step ends with its last sample: the engine runs nearly empty while the others are long done.
    Evidence:
        Slowest and mean, by time where requests are timed, by length elsewhere, and the share of places left empty.
    Looks like it but is not:
        A long tail beside a short generation phase: it costs next to nothing. Lengths that differ as answers do
        (twice the mean and less). Where the phase is not timed a long tail is no more than a detail.
    What to change:
        A lower cap on length; leave samples that are cut out of the loss; let unfinished ones go on in the next step.
    How sure:
        Medium where requests are timed, low by lengths: engines fill empty places with waiting samples.
    References:
        taxonomy of public threads, slow_rollout: generation as long on 16 nodes as on 4 (verl issue 2751), 120 of
        130 seconds idle (verl issue 3114)
    """
    ratio = requests.ratio
    if ratio.level <= FAR or (requests.share is not None and requests.share < COSTLY):
        return
    names = (requests.slowest.name, requests.mean.name)
    unit = "s" if requests.timed else "tokens"
    yield Evidence(
        f"the slowest rollout takes {number(requests.slowest.level)} {unit}, the mean one {number(requests.mean.level)}: {number(ratio.level)} times as much",
        names,
        ratio.since_above(FAR),
    )
    yield Evidence(f"{percent(requests.idle)} of the engine's places stand empty if all begin together", names)
    if requests.share is None:
        yield Aside("generation is not timed: whether the tail costs anything is not known")
    else:
        yield Evidence(f"generation takes {percent(requests.share)} of the step")
    if not requests.timed:
        yield Doubt("judged by lengths: requests are not timed")
        if requests.cap and requests.slowest.level >= AT_CAP * requests.cap:
            yield Excluded(f"the longest end at the cap of {number(requests.cap)} tokens: a lower one bounds the tail")
    yield Doubt("an engine that has samples waiting fills the empty places")
