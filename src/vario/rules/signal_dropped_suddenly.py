"""SG103 signal-dropped-suddenly."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Signal
from vario.rules.base import Evidence, Severity, Sign, number, rule
from vario.stats.spread import median


@rule(
    "SG103",
    "signal-dropped-suddenly",
    Severity.WARNING,
    holds=2,
    causes=("other data from there on", "the reward changed", "the policy collapsed onto one answer"),
)
def signal_dropped_suddenly(signal: Signal, reward: Reward) -> Iterator[Sign]:
    """The learning signal fell from one step to the next.

    What it shows:
        A level shift down of the within-group spread, or up of the share of tied groups.
    Why it matters:
        Learning ends here, whatever the reward still does.
    Evidence:
        The step, and the levels before and after.
    Looks like it but is not:
        The slow decline of a task that gets solved; a signal that comes back to where it usually was.
    What to change:
        Look at what changed at that step: data, reward code, sampling settings.
    How sure:
        Medium to high by the size of the jump.
    References:
        level-shift detector of the statistics bench
    """
    if reward.rises():
        return  # groups that tie because the reward rises are being solved
    for reading, bad_up in ((signal.zero_share, True), (signal.within, False)):
        if reading is None:
            continue
        for shift in reading.shifts:
            if shift.up != bad_up:
                continue
            still = reading.level > shift.before + 0.5 * (shift.after - shift.before)
            if still != bad_up:
                continue  # it came back
            before = median(reading.values[: max(reading.points - reading.points_since(shift.step), 1)])
            usual = max(before, shift.before) if bad_up else min(before, shift.before)
            big = shift.after - usual > 0.3 if bad_up else shift.after < 0.4 * usual
            if big and not (reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.9):
                yield Evidence(
                    f"{reading.name} jumped from {number(shift.before)} to {number(shift.after)}",
                    (reading.name,),
                    shift.step,
                )
