"""PF106 rewards-converge."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, lower, number, raise_, rule

LEAST = 40
LEFT = 0.5
"""Share of its best level that the margin has left."""
HELD = 0.8
"""A held-out margin at this share of its best has not been lost."""


@rule(
    "PF106",
    "rewards-converge",
    Severity.WARNING,
    holds=3,
    causes=("forgetting", "learning rate too high", "pairs of another kind"),
    turns=(
        lower("learning-rate", "the usual cause where a margin is lost again"),
        raise_("preference-beta", "holds the policy nearer to its reference"),
    ),
)
def rewards_converge(preference: Preference) -> Iterator[Sign]:
    """Chosen and rejected answers were told apart, and are less and less so.

    What it shows:
        A margin that rose, and has lost half of its best level beyond its noise.
    Why it matters:
        What was learnt of the preference is being lost; the checkpoint at the best margin is the better one.
    Evidence:
        The margin at its best and now, with chosen and rejected reward.
    Looks like it but is not:
        Noise of small batches; a margin that settles below its peak; harder pairs, where the held-out margin
        holds; a run that never told them apart.
    What to change:
        Go back to the best margin; a smaller learning rate, a larger beta.
    How sure:
        High where the held-out margin falls too; medium without one.
    References:
        Rafailov et al. 2023, arXiv 2305.18290 (implicit rewards of both answers)
    """
    margin, held_out = preference.margin, preference.held_out
    if margin.points < LEAST or margin.shape is None or not margin.fell():
        return
    lost = margin.high - margin.level
    if margin.high <= 3.0 * margin.noise_sd / 5**0.5 or margin.high - margin.start < 0.5 * lost:
        return
    if margin.level > LEFT * margin.high or lost < 2.0 * margin.noise_sd:
        return
    if held_out is None:
        yield Doubt("no held-out margin is logged: harder pairs look the same")
    elif held_out.level > HELD * held_out.high:
        return
    else:
        yield Excluded("not harder pairs: the held-out margin fell as well")
    best = margin.best_step()
    text = f"the margin fell from {number(margin.high)} around step {best} to {number(margin.level)}"
    sides = [(n, r) for n, r in (("chosen", preference.chosen), ("rejected", preference.rejected)) if r is not None]
    if len(sides) == 2:
        text += ": " + ", ".join(f"{n} {number(r.level_at(best))} to {number(r.level)}" for n, r in sides)
    yield Evidence(text, ("preference/margin", *(r.name for _, r in sides)), best)
