"""KL112 kl-over-budget."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Budgets
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, rule
from vario.rules.metric_over_budget import bound_of


@rule(
    "KL112",
    "kl-over-budget",
    Severity.WARNING,
    causes=("the run has gone further than its owner allowed it to",),
    turns=(
        raise_("kl-coef", "makes further drift cost something"),
        lower("learning-rate", "each step moves the policy less"),
    ),
    bound=True,
)
def kl_over_budget(budgets: Budgets) -> Iterator[Sign]:
    """KL has left the bound that its owner set.

    What it shows:
        KL to the reference lies beyond a bound declared under [budgets], in the unit stated there.
    Why it matters:
        How much drift a model may have is a decision about its use; no constant fits every task, estimator and length.
    Evidence:
        The level, the bound, both in the budget's unit, and since when.
    Looks like it but is not:
        One batch beyond the bound; KL per token held against a bound per sequence (it is converted by the length).
    What to change:
        A larger KL coefficient, then a lower learning rate; or take the last checkpoint within the bound.
    How sure:
        High: a comparison with what was declared.
    References:
        methods, KL: which number is it?
    """
    for held in budgets.on(kl=True):
        if held.over():
            unit = f" {held.unit}"
            converted = "" if held.scale == 1.0 else ", converted by the mean length"
            yield Evidence(
                f"{held.reading.name} is {number(held.level)}{unit}{converted}; your budget is {bound_of(held)}{unit}",
                (held.reading.name,),
                held.since(),
            )
