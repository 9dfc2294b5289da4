"""RW109 reward-missing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record
from vario.rules.base import Evidence, Severity, Sign, rule


@rule(
    "RW109",
    "reward-missing",
    Severity.WARNING,
    holds=1,
    lasting=True,
    causes=("the reward function returned None or NaN", "a verifier timed out"),
)
def reward_missing(record: Record) -> Iterator[Sign]:
    """Rewards are missing: null or NaN where a number belongs.

    What it shows:
        Steps at which a reward, or one of its components, was logged without a value.
    Why it matters:
        Samples without reward drop out of the batch in silence, and what drops out is never random.
    Evidence:
        Which metric, at which steps, how many.
    Looks like it but is not:
        Rows of reused rollouts, which carry no reward keys at all.
    What to change:
        Count verifier errors apart from zeros; return 0.0 only where the answer is wrong.
    How sure:
        High: it is in the log.
    References:
        taxonomy of public threads, verifier_bug
    """
    for name, steps in record.non_finite().items():
        if name.startswith("reward/"):
            yield Evidence(f"{name} has no finite value at {len(steps)} steps, first at {steps[0]}", (name,), steps[0])
