"""PF102 margin-grows-without-bound."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, required, rule


@rule(
    "PF102",
    "margin-grows-without-bound",
    Severity.WARNING,
    holds=3,
    causes=("pairs too easy", "too many epochs", "learning rate too high"),
    turns=(
        lower("learning-rate", "smaller steps"),
        raise_("preference-beta", "holds to the reference"),
        lower("epochs", "fewer passes over the pairs"),
    ),
    explains=(
        "gradient-vanished",
        "preference-saturated",
        "margin-plateaued",
        "chosen-reward-grows-without-bound",
    ),
)
def margin_grows_without_bound(preference: Preference) -> Iterator[Sign]:
    """The margin keeps growing long after every pair is ranked right.

    What it shows:
        Accuracy at 0.99 or more for half of the run with a margin above 8 nats that still grows.
    Why it matters:
        The loss is spent; what grows is certainty about pairs that were settled, and text degenerates.
    Evidence:
        Margin, accuracy and since when.
    Looks like it but is not:
        A margin that settles at a few nats; a held-out margin that grows with a held-out accuracy still rising.
    What to change:
        Stop earlier; smaller learning rate, larger beta.
    How sure:
        Medium: samples would tell.
    References:
        taxonomy of public threads, dpo_degenerate
    """
    margin, accuracy = preference.margin, required(preference.accuracy, "preference/accuracy")
    if margin.points < 40 or margin.level < 8.0:
        return
    since = accuracy.since_above(0.985)
    late = margin.late
    if since is not None and accuracy.points_since(since) >= accuracy.points / 2 and late is not None and late.rises():
        yield Evidence(
            f"accuracy is 1 since step {since}, the margin went on from {number(margin.level_at(since))} to {number(margin.level)}",
            ("preference/margin", "preference/accuracy"),
            since,
        )
