"""GR105 learning-rate-zero."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import LearningRate
from vario.rules.base import Evidence, Severity, Sign, counted, lower, rule, set_


@rule(
    "GR105",
    "learning-rate-zero",
    Severity.CRITICAL,
    holds=2,
    causes=("the scheduler reached its end", "warm-up longer than the run"),
    turns=(set_("learning-rate", None, "check scheduler, max_steps and warm-up"), lower("warmup", "if it never ends")),
    explains=("policy-does-not-move", "reward-never-rises", "kl-pinned-near-zero"),
)
def learning_rate_zero(rate: LearningRate) -> Iterator[Sign]:
    """The learning rate is exactly zero while training goes on.

    What it shows:
        Ten or more logged steps at a learning rate of 0.
    Why it matters:
        Nothing changes from here on, whatever the other curves do.
    Evidence:
        Since which step.
    Looks like it but is not:
        The last step of a linear schedule; a first step of warm-up; a console that prints three decimals.
    What to change:
        Scheduler, max_steps, warm-up.
    How sure:
        High in a full-precision log.
    References:
        verl issue 6683
    """
    reading = rate.rate
    since = reading.since_below(1e-300)
    if since is not None and reading.points_since(since) >= 10:
        yield Evidence(
            f"learning-rate is 0 since step {since} ({counted(reading.points_since(since), 'point')})",
            ("learning-rate",),
            since,
        )
