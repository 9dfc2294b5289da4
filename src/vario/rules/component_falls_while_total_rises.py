"""RW112 component-falls-while-total-rises."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Reward
from vario.rules.base import Evidence, Severity, Sign, number, raise_, rule, set_


@rule(
    "RW112",
    "component-falls-while-total-rises",
    Severity.WARNING,
    holds=3,
    causes=("two reward functions pull apart", "a cheap component is exploited at the cost of a dear one"),
    explains=("component-dominates", "outputs-duplicated", "outputs-lose-diversity", "signal-from-shaping-only"),
    turns=(
        set_("component-weight", None, "raise the weight of the one that falls, or make it a gate"),
        raise_("kl-coef", "limits the exploitation"),
    ),
)
def component_falls_while_total_rises(components: Components, reward: Reward) -> Iterator[Sign]:
    """The total rises while one of the reward functions falls.

    What it shows:
        A significant fall of one component during a significant rise of the total.
    Why it matters:
        The sum hides the loss: often the part that falls is the one that was meant.
    Evidence:
        Both changes, in units of each function.
    Looks like it but is not:
        A penalty term that shrinks because it is obeyed (its fall is a gain); trade within noise.
    What to change:
        Weights or a gate; then read samples from both ends of the fall.
    How sure:
        High: both moves pass the trend test.
    References:
        taxonomy of public threads, reward_hacking
    """
    if not reward.rises() or len(components.means) < 2:
        return
    for name, reading in components.means.items():
        if components.weights.get(name, 1.0) < 0.0:
            continue
        fell = reading.fell()
        lost = reading.high - reading.level
        if fell and lost > 2.0 * reading.noise_sd and lost > 0.2 * max(abs(reading.high), 1e-9):
            yield Evidence(
                f"{name} fell from {number(reading.high)} to {number(reading.level)} while reward/mean rose "
                f"from {number(reward.total.start)} to {number(reward.total.level)}",
                (reading.name, "reward/mean"),
                reading.onset_of_move(),
            )
