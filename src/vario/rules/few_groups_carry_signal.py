"""SG104 few-groups-carry-signal."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Duplication, Reward, Signal
from vario.rules.base import Aside, Evidence, Severity, Sign, percent, raise_, rule, set_

COPIES = 0.8
"""Share of completions that copy a sibling from which sampling is narrow, whatever is rewarded."""


@rule(
    "SG104",
    "few-groups-carry-signal",
    Severity.INFO,
    holds=3,
    turns=(
        set_("dynamic-filter", True, "resample tied groups"),
        raise_("group-size", "more tries per prompt: more groups with spread"),
        raise_("temperature", "where completions of a group are copies of each other", 1.2),
    ),
)
def few_groups_carry_signal(signal: Signal, reward: Reward, duplication: Duplication | None) -> Iterator[Sign]:
    """Less than half of the groups have any spread.

    What it shows:
        The share of tied groups is above one half over the last tenth of the run.
    Why it matters:
        The effective batch is that much smaller than the configured one.
    Evidence:
        The share now and at the start; how many completions are copies, where they are at hand.
    Looks like it but is not:
        The solved tail of a good run, and small groups: at success rate p and group size G a share
        p^G + (1-p)^G is tied by chance alone.
    What to change:
        Dynamic sampling, larger groups, prompts of middle difficulty; where the completions of a group are copies
        of each other, a higher sampling temperature.
    How sure:
        High for the share; what it costs depends on the rest.
    References:
        taxonomy of public threads, zero_advantage
    """
    dead = signal.dead_share
    if dead is None or dead < 0.5 or reward.total.points < 20:
        return
    share = reward.share_of_ceiling
    if share is not None and share > 0.85:
        yield Aside("the tail of a task that gets solved")
    reading = signal.reading
    yield Evidence(
        f"{percent(dead)} of the groups are tied (at the start {percent(reading.start) if signal.zero_share is not None else 'not known'})",
        (reading.name,),
        reading.since_above(0.5) if signal.zero_share is not None else None,
    )
    if duplication is not None and duplication.within is not None and duplication.within.level > COPIES:
        within = duplication.within
        yield Evidence(
            f"sampling is narrow: {percent(within.level)} of the completions are copies of a sibling in their group"
            f" ({percent(within.start)} at the start)",
            (within.name,),
        )
