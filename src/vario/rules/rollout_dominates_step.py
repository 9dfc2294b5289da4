"""SY102 rollout-dominates-step."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Generation, Length
from vario.rules.base import (
    Doubt,
    Evidence,
    Excluded,
    Grave,
    Severity,
    Sign,
    lower,
    number,
    percent,
    raise_,
    rule,
    set_,
)

DOMINATES = 2 / 3
"""Generation takes twice as long as everything else together. Public reports of generation-bound runs give 72 to 76 %;
rldoctor 0.2.0 takes 70 % as the usual share where it is not logged."""
GREW = 0.1
"""Share of the step that generation must have won before it counts as growing."""
SLOWED = 1.25
"""And the seconds themselves must have grown by a quarter: a share also grows when the update gets faster."""
LENGTHENED = 0.5
"""Growth of the lengths explains growth of the time where it is at least half as large."""
FEW = 20


@rule(
    "SY102",
    "rollout-dominates-step",
    Severity.INFO,
    holds=1,
    causes=(
        "long completions, and a few that are far longer than the rest",
        "too little memory or too few sequences at once in the sampling engine",
        "a synchronous trainer, whose devices wait while it samples",
    ),
    turns=(
        raise_("staleness-bound", "samples made while the update runs cost no time of their own"),
        lower("max-completion-length", "the longest completion sets how long generation takes", 0.75),
        set_("engine-memory", None, "a larger cache lets the engine run more sequences at once"),
    ),
)
def rollout_dominates_step(generation: Generation, length: Length | None) -> Iterator[Sign]:
    """Generation takes most of the step: more than twice as much as all the rest together.

    What it shows:
        Generation, or the trainer's wait for samples, takes over two thirds of the step time. A warning only where
        that share has grown by a tenth of the step and the lengths do not say why.
    Why it matters:
        Devices that wait for tokens learn nothing; halving generation is worth more than any faster update.
    Evidence:
        The share, the seconds of generation and of the step; how both have moved.
    Looks like it but is not:
        Generation that runs beside the update (asynchronous): only the wait for it counts. A share that grows
        because the update got faster. A large share at a steady pace: usual for long answers, so no more than
        information.
    What to change:
        Let samples be made beside the update, within a bound on their staleness; shorten what may be generated;
        give the sampling engine more memory. Then look for stragglers (rollout-long-tail).
    How sure:
        High from twenty steps on. What would be gained by another layout is not measured.
    References:
        taxonomy of public threads, slow_rollout (10): 72 to 76 % of the step; prime-rl, pull request 1318: a fifth
        of the throughput lost within five steps at constant length; rldoctor 0.2.0, cost model: 0.70
    """
    share = generation.share
    if share.level <= DOMINATES:
        return
    what = "waiting for samples" if generation.waits else "generation"
    metrics = (generation.seconds.name, generation.step.name)
    since = share.since_above(DOMINATES)
    yield Evidence(
        f"{what} takes {percent(share.level)} of the step: {number(generation.seconds.level)} of {number(generation.step.level)} s",
        metrics,
        int(share.steps[0]) if since is None else since,
    )
    if generation.in_use is not None:
        yield Evidence(f"devices compute {percent(generation.in_use.level)} of the time", (generation.in_use.name,))
    if share.points < FEW:
        yield Doubt(f"seen at {share.points} step{'s' if share.points > 1 else ''} only")
        return
    seconds = generation.seconds
    if not (share.rises() and share.level - share.start > GREW and seconds.level > SLOWED * seconds.start > 0.0):
        yield Excluded("usual for long answers: the share has been about the same since the start")
        return
    yield Evidence(f"it was {percent(share.start)} at the start, {number(seconds.start)} s of generation then", metrics)
    grown = seconds.level / seconds.start - 1.0
    if length is None:
        yield Doubt("lengths are not logged: longer answers would explain it")
    elif length.growth - 1.0 > LENGTHENED * grown:
        yield Excluded(
            f"lengths explain it: {number(length.mean.start)} tokens at the start, {number(length.mean.level)} now"
        )
        return
    else:
        yield Excluded(
            f"not explained by length: {number(length.mean.start)} tokens at the start, {number(length.mean.level)} now"
        )
    yield Grave(Severity.WARNING)
