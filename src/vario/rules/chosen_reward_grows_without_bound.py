"""PF107 chosen-reward-grows-without-bound."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, lower, number, raise_, required, rule

LEAST = 60
FAR = 5.0
"""Implicit reward, beta times nats: at a beta of 0.1 the chosen answers have become e**50 times as likely. Recorded
healthy runs end below 1.2."""
STEADY = 0.5
"""Share of the whole run's rate at which the last half still climbs."""


@rule(
    "PF107",
    "chosen-reward-grows-without-bound",
    Severity.WARNING,
    holds=3,
    causes=("too many passes over few pairs", "learning rate too high", "beta too small"),
    turns=(
        raise_("preference-beta", "it is the price of KL here, and KL is probably too high"),
        lower("learning-rate", "smaller steps"),
        lower("epochs", "fewer passes over the pairs"),
    ),
)
def chosen_reward_grows_without_bound(preference: Preference) -> Iterator[Sign]:
    """The chosen answers become more and more likely, far beyond what ranking them takes.

    What it shows:
        A chosen reward above 5 that still climbs in the last half at half of its rate or more; a warning where
        every pair has long been ranked right, or the held-out margin no longer gains.
    Why it matters:
        The chosen reward is KL spent on these very answers. Where it climbs without end they are being learnt by
        heart, or a flaw that they share is.
    Evidence:
        The chosen reward then and now; what says that nothing is gained by it.
    Looks like it but is not:
        A chosen reward that rises a little and settles; a likelihood term on chosen answers that raises it while
        the held-out margin follows; a margin that grows because the rejected side falls.
    What to change:
        Check KL to the reference on sampled answers; a larger beta, a smaller learning rate, fewer epochs.
    How sure:
        High with a held-out margin that stands; low without any.
    References:
        Rafailov et al. 2024, arXiv 2406.02900 (over-optimisation in direct alignment)
    """
    chosen = required(preference.chosen, "preference/chosen-reward")
    if chosen.points < LEAST or chosen.level < FAR or not chosen.rises() or chosen.shape is None:
        return
    late = chosen.late
    if late is None or not late.rises() or late.slope < STEADY * chosen.shape.gain / chosen.points:
        return
    accuracy, held_out = preference.accuracy, preference.held_out
    settled = accuracy.since_above(0.985) if accuracy is not None else None
    half = int(chosen.steps[chosen.points // 2])
    against: list[Evidence] = []
    if held_out is not None:
        gained = held_out.level - held_out.level_at(half, 3)
        if gained > 0.2 * max(abs(held_out.level), 1e-9):
            return  # held-out pairs gain with it
        against.append(
            Evidence(
                f"the held-out margin went from {number(held_out.level_at(half, 3))} at step {half} to {number(held_out.level)}",
                (held_out.name,),
            )
        )
    if accuracy is not None and settled is not None and accuracy.points_since(settled) >= accuracy.points / 2:
        against.append(Evidence(f"every pair is ranked right since step {settled}", (accuracy.name,)))
    if not against:
        yield Grave(Severity.INFO)
        yield Doubt("nothing logged says that it is more than the pairs ask for")
    yield Evidence(
        f"the chosen reward rose from {number(chosen.start)} to {number(chosen.level)} and goes on",
        (chosen.name,),
        chosen.onset_of_move(),
    )
    yield from against
