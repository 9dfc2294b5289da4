"""PF105 accuracy-at-chance."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.instruments.reading import PATIENCE
from vario.rules.base import Evidence, Severity, Sign, number, raise_, required, rule, too_early
from vario.stats.shape import MIN_POINTS


@rule(
    "PF105",
    "accuracy-at-chance",
    Severity.WARNING,
    holds=3,
    causes=("labels are noise", "learning rate too low", "chosen and rejected swapped for half of the data"),
    turns=(raise_("learning-rate", "if the margin does not move at all", 3.0),),
)
def accuracy_at_chance(preference: Preference) -> Iterator[Sign]:
    """Pairs are ranked no better than by a coin.

    What it shows:
        Accuracy within 0.4 to 0.6 over at least 60 points, without a trend.
    Why it matters:
        Nothing is learnt from these pairs.
    Evidence:
        The level and the points.
    Looks like it but is not:
        A margin that has begun to climb; exactly 0 at the first step (chosen and rejected tie while policy and reference are equal).
    What to change:
        Check the labels; then the learning rate.
    How sure:
        Medium. Information, and no warning, while the margin may rise by two standard deviations of its noise in 1,000
        rows at the fastest pace that its points allow.
    References:
        taxonomy of public threads, family J
    """
    accuracy = required(preference.accuracy, "preference/accuracy")
    if accuracy.points < 60 or not 0.4 <= accuracy.level <= 0.6:
        return
    margin = preference.margin
    if not accuracy.flat() or (margin.points >= MIN_POINTS and not margin.constant and not margin.stays()):
        return  # it has begun to learn, or may have
    if not margin.stays(rows=PATIENCE):
        yield from too_early("a margin that rises slowly", margin.gains_at_most())
    yield Evidence(
        f"accuracy stays at {number(accuracy.level)} over {accuracy.points} points",
        ("preference/accuracy",),
        int(accuracy.steps[0]),
    )
