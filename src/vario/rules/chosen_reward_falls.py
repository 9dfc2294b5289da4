"""PF103 chosen-reward-falls."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, required, rule


@rule(
    "PF103",
    "chosen-reward-falls",
    Severity.WARNING,
    holds=3,
    causes=("chosen and rejected too alike", "learning rate too high"),
    turns=(
        raise_("sft-weight", "holds the likelihood of chosen answers"),
        lower("learning-rate", "smaller steps"),
        raise_("preference-beta", "holds to the reference"),
    ),
)
def chosen_reward_falls(preference: Preference) -> Iterator[Sign]:
    """The likelihood of the chosen answers falls with that of the rejected ones.

    What it shows:
        A significant fall of the chosen reward by more than a third of the margin.
    Why it matters:
        The margin grows by unlearning: mass goes to answers that are in neither set.
    Evidence:
        The chosen reward then and now, against the margin.
    Looks like it but is not:
        Both fall while the margin and held-out accuracy rise and the chosen one falls slowly
        (note preference-both-fall-margin-rises).
    What to change:
        A likelihood term on chosen answers; smaller learning rate.
    How sure:
        Medium; high when the held-out margin falls too.
    References:
        taxonomy of public threads, dpo_both_drop (10 threads)
    """
    chosen, margin = required(preference.chosen, "preference/chosen-reward"), preference.margin
    if chosen is None or chosen.points < 40 or not chosen.fell():
        return
    fall = chosen.start - chosen.level
    if fall > 0.34 * max(abs(margin.level), 1e-9) and fall > 0.3 and fall > 2.0 * chosen.noise_sd:
        yield Evidence(
            f"the chosen reward fell from {number(chosen.start)} to {number(chosen.level)} at a margin of {number(margin.level)}",
            ("preference/chosen-reward", "preference/margin"),
            chosen.onset_of_move(),
        )
