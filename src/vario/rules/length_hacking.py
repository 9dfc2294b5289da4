"""RU106 length-hacking."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Length, LengthPays, Review, Reward, Witness
from vario.rules.base import Aside, Evidence, Severity, Sign, number, rule, set_


@rule(
    "RU106",
    "length-hacking",
    Severity.WARNING,
    holds=3,
    causes=("length itself is paid", "long answers hide errors from the reward model"),
    turns=(
        set_("length-penalty", None, "pay for answers, not for tokens"),
        set_("component-weight", None, "less weight on the length term"),
        set_("overlong-filter", True, "cut samples out of the loss"),
    ),
    explains=(
        "length-growing",
        "truncation-high",
        "component-dominates",
        "truncation-never-ends",
        "length-buys-reward",
        "truncation-biases-reward",
        "lengths-bimodal",
        "length-off-baseline",
        "reward-plateaued",
        "metric-over-budget",
        "component-falls-while-total-rises",
    ),
)
def length_hacking(
    length: Length,
    reward: Reward,
    components: Components | None,
    witness: Witness | None,
    pays: LengthPays | None,
    review: Review | None,
) -> Iterator[Sign]:
    """Length grows towards the cap and the reward follows length, not the task.

    What it shows:
        Length up by half or more and the total up, while the other reward functions, or the score nobody
        optimises, are flat or falling over the last half.
    Why it matters:
        Tokens are what is being learnt.
    Evidence:
        Length, the component that rises with it, the one that does not.
    Looks like it but is not:
        Thinking longer with a task score that rises too; answers that grow while, among those to one prompt,
        the shorter ones score higher (counted from completions).
    What to change:
        The length term, its weight, an overlong penalty.
    How sure:
        Medium; high when the task score falls. A suspicion where no task score is apart.
    References:
        taxonomy of public threads, length_explosion and reward_hacking
    """
    mean = length.mean
    if mean.points < 40 or length.growth < 1.5 or not (mean.rises()) or not reward.rises():
        return
    others = [witness.score] if witness is not None else []
    if components is not None and len(components.weighted) >= 2:
        others += [components.means[n] for n in components.weighted]
    inside = pays.inside if pays is not None else None
    if inside is not None and inside.sure and inside.now < 0.0:
        return  # among the answers to one prompt the shorter ones win: it is not length that pays
    late_total = reward.total.late
    if late_total is None or not others:
        return
    for score in others:
        late = score.late
        if late is None or (score.level >= 0.97 * max(score.high, 1e-9) and score.level > 0.9):
            continue
        if (
            not late.rises(0.1)
            and late.change < max(0.02 * abs(score.high), late.noise_sd)
            and late_total.rises(0.1)
            and late_total.change > 0.02
        ):
            yield Evidence(
                f"mean length grew from {number(mean.start)} to {number(mean.level)} tokens",
                ("length/mean",),
                mean.onset_of_move(),
            )
            yield Evidence(
                f"over the last half reward/mean gains {number(late_total.change)}, {score.name} {number(late.change)}",
                ("reward/mean", score.name),
            )
            if inside is not None and inside.sure:
                yield Evidence(
                    f"longer answers to one prompt score higher: rank correlation {number(inside.now)}"
                    f" ± {number(inside.error)}",
                    (inside.reading.name,),
                )
            if review is not None and review.clean:
                yield Aside(f"a person found none of {len(review.paid)} well-paid completions hacked")
            return
