"""LN102 length-shrinking."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Length, Reward, Witness
from vario.rules.base import Evidence, Severity, Sign, lower, number, raise_, rule, set_


@rule(
    "LN102",
    "length-shrinking",
    Severity.WARNING,
    holds=3,
    causes=(
        "length or truncation is punished",
        "a reward that short answers satisfy",
        "per-sequence loss normalisation",
    ),
    turns=(
        set_("loss-type", None, "token-level aggregation (dapo, dr_grpo) removes the pull towards short answers"),
        lower("length-penalty", "if there is one"),
        raise_("max-completion-length", "if long answers are cut and punished"),
    ),
    explains=("metric-over-budget",),
)
def length_shrinking(
    length: Length, reward: Reward | None, components: Components | None, witness: Witness | None
) -> Iterator[Sign]:
    """Completions shrink, and what they are for shrinks with them.

    What it shows:
        The mean length fell to two thirds of its start or less, and a score falls with it: the total,
        a component, or a score nobody optimises.
    Why it matters:
        Answers lose the work that made them right.
    Evidence:
        Both falls.
    Looks like it but is not:
        A model that stops rambling: length falls and every score holds or rises.
    What to change:
        The length term of the reward, the loss aggregation, the cap.
    How sure:
        High when both moves are significant.
    References:
        taxonomy of public threads, length_collapse (7 threads)
    """
    mean = length.mean
    if mean.points < 30 or length.growth > 0.67 or not mean.fell():
        return
    scores = [witness.score] if witness is not None else []
    scores += list(components.means.values()) if components is not None else []
    scores += [reward.total] if reward is not None else []
    for score in scores:
        lost = score.high - score.level
        fell = score.fell()
        if fell and lost > 0.2 * abs(score.high) and lost > 2.0 * score.noise_sd:
            yield Evidence(
                f"mean length fell from {number(mean.start)} to {number(mean.level)} tokens",
                ("length/mean",),
                mean.onset_of_move(),
            )
            yield Evidence(f"{score.name} fell from {number(score.high)} to {number(score.level)}", (score.name,))
            return
