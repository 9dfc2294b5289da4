"""RU103 run-has-converged."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, percent, rule


@rule(
    "RU103",
    "run-has-converged",
    Severity.INFO,
    holds=3,
    explains=(
        "reward-plateaued",
        "reward-saturated",
        "signal-collapsed-solved",
        "few-groups-carry-signal",
        "component-saturated",
    ),
)
def run_has_converged(reward: Reward, signal: Signal | None) -> Iterator[Sign]:
    """The reward has settled at a high level and most groups are solved.

    What it shows:
        A plateau or ceiling at 90 % of the highest possible reward or more.
    Why it matters:
        More steps on this data buy next to nothing.
    Evidence:
        Level, ceiling, share of tied groups.
    Looks like it but is not:
        A plateau in the middle, where something is still to be gained.
    What to change:
        Stop, or harder data.
    How sure:
        High with a known ceiling.
    References:
        prime-rl pull request 2280
    """
    share = reward.share_of_ceiling
    total = reward.total
    if share is None or share < 0.9 or total.points < 40:
        return
    late = total.late
    if late is not None and late.rises() and late.change > 0.05 * abs(total.level):
        return
    yield Evidence(
        f"reward/mean is {number(total.level)} of at most {number(reward.ceiling or 0.0)}, and hardly rises any more",
        ("reward/mean",),
        total.since_above(0.85 * (reward.ceiling or 0.0)),
    )
    if signal is not None and signal.dead_share is not None:
        yield Evidence(f"{percent(signal.dead_share)} of the groups are tied", (signal.reading.name,))
