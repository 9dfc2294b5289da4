"""RU113 metric-over-budget."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Budgets, Held
from vario.rules.base import Evidence, Severity, Sign, number, rule


def bound_of(held: Held) -> str:
    """The bound that is left, in words."""
    budget = held.budget
    if budget.most is not None and held.level > budget.most:
        return f"at most {number(budget.most)}"
    return f"at least {number(budget.least or 0.0)}"


@rule("RU113", "metric-over-budget", Severity.WARNING, causes=("a bound that its owner set was left",), bound=True)
def metric_over_budget(budgets: Budgets) -> Iterator[Sign]:
    """A metric has left the bound that its owner set.

    What it shows:
        A metric (length, entropy, reward spread, that of a component, clip fraction, truncation) lies beyond a bound
        declared under [budgets]. KL has a rule of its own.
    Why it matters:
        The owner knows what the model is for: a bound of theirs stands above every rule of thumb.
    Evidence:
        The level, the bound, and since when.
    Looks like it but is not:
        One batch beyond the bound: the level is the median of the last tenth of the points.
    What to change:
        What this metric follows; the other findings say what moves it.
    How sure:
        High: a comparison with what was declared.
    References:
        none: the bound is the user's own
    """
    for held in budgets.on(kl=False):
        if held.over():
            yield Evidence(
                f"{held.reading.name} is {number(held.level)}; your budget is {bound_of(held)}",
                (held.reading.name,),
                held.since(),
            )
