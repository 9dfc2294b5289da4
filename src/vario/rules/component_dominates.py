"""RW111 component-dominates."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Reward
from vario.rules.base import Evidence, Severity, Sign, number, percent, rule, set_


@rule(
    "RW111",
    "component-dominates",
    Severity.INFO,
    pedantic=True,
    holds=3,
    turns=(set_("component-weight", None, "lower the weight of the one that takes the gain, or make it a gate"),),
)
def component_dominates(components: Components, reward: Reward) -> Iterator[Sign]:
    """One reward function takes nearly all of the gain.

    What it shows:
        At least 80 % of the rise of the total comes from one of several weighted components.
    Why it matters:
        The cheap part of the reward is learnt, the wanted part may not be.
    Evidence:
        The share of the gain, and the level of the others.
    Looks like it but is not:
        Components that learn in turn: format first, correctness later.
    What to change:
        Weights, or a gate: score correctness only where the format is right.
    How sure:
        Medium; high when another component stands at its floor.
    References:
        taxonomy of public threads, format_hacking
    """
    if len(components.weighted) < 2 or not components.weights or not reward.rises():
        return
    gains = {n: components.gain(n) for n in components.weighted}
    rise = sum(g for g in gains.values() if g > 0.0)
    if rise <= 0.0:
        return
    best = max(gains, key=lambda n: gains[n])
    if gains[best] < 0.8 * rise:
        return
    weakest = min((n for n in gains if n != best), key=lambda n: gains[n])
    reading = components.means[weakest]
    if components.means[best].level >= 0.97 and reading.level >= 0.9:
        return
    if reading.level >= 0.9:
        return
    yield Evidence(
        f"{best} brings {percent(gains[best] / rise)} of the rise of the reward; {weakest} stays near {number(reading.level)}",
        (components.means[best].name, reading.name),
        components.means[best].onset_of_move(),
    )
