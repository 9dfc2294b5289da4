"""KL109 kl-penalty-outweighs-reward."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record, Reward
from vario.rules.base import Evidence, Severity, Sign, lower, number, required, rule


@rule(
    "KL109",
    "kl-penalty-outweighs-reward",
    Severity.WARNING,
    holds=3,
    turns=(lower("kl-coef", "the penalty is larger than what the score can gain"),),
)
def kl_penalty_outweighs_reward(record: Record, reward: Reward) -> Iterator[Sign]:
    """The KL penalty is larger than the score itself.

    What it shows:
        The mean penalty exceeds the whole span that the raw score has covered.
    Why it matters:
        The optimum of what is trained is to return to the reference.
    Evidence:
        Penalty and span, in reward units.
    Looks like it but is not:
        A penalised reward that falls while the raw score rises and the penalty stays small.
    What to change:
        A smaller coefficient, or a scaled reward.
    How sure:
        High: both are in the log.
    References:
        taxonomy of public threads, kl_drift_no_gain
    """
    penalty = required(record.find("reward/kl-penalty/mean"), "reward/kl-penalty/mean")
    if penalty.points < 20:
        return
    span = max(reward.total.high - reward.total.low, abs(reward.total.high))
    if -penalty.level > span > 0.0:
        yield Evidence(
            f"the penalty costs {number(-penalty.level)}, the score spans {number(span)}",
            ("reward/kl-penalty/mean", "reward/mean"),
            penalty.since_below(-span),
        )
