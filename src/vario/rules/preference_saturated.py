"""PF104 preference-saturated."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Evidence, Severity, Sign, number, required, rule


@rule("PF104", "preference-saturated", Severity.INFO, holds=3)
def preference_saturated(preference: Preference) -> Iterator[Sign]:
    """Every training pair is ranked right: nothing is left to learn from these pairs.

    What it shows:
        Training accuracy at 0.99 or more for a third of the run.
    Why it matters:
        Further epochs sharpen what is settled.
    Evidence:
        Since when.
    Looks like it but is not:
        Small batches that hit 1.0 by chance.
    What to change:
        Stop, or harder pairs.
    How sure:
        High.
    References:
        taxonomy of public threads, dpo_saturated
    """
    accuracy = required(preference.accuracy, "preference/accuracy")
    if accuracy.points < 30 or accuracy.level < 0.99:
        return
    since = accuracy.since_above(0.98)
    if since is not None and accuracy.points_since(since) >= accuracy.points / 3:
        yield Evidence(f"accuracy is {number(accuracy.level)} since step {since}", ("preference/accuracy",), since)
