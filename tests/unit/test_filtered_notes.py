"""Two notes on filters: a reward that stays in the middle, and groups that are dropped, because it was set so."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario.instruments import History, Look
from vario.run import Declared, KnobSetting, Run, Series, Setting
from vario.verdict.notes import notes_of

STEPS = np.arange(1, 31, dtype=np.int64)


def notes(
    levels: dict[str, float], *, filtered: bool | None = None, knob: Setting = None, default: bool = False
) -> dict[str, str]:
    """The notes on a run whose metrics stand at these levels."""
    run = Run(
        "run",
        "verl",
        "grpo",
        MappingProxyType({n: Series(n, STEPS, np.full(STEPS.size, v)) for n, v in levels.items()}),
        STEPS,
        declared=Declared(reward_filtered=filtered),
        knobs=MappingProxyType({"dynamic-filter": KnobSetting("dynamic-filter", "filter_groups", knob, default)}),
    )
    return {n.name: n.text for n in notes_of(Look(History(run), int(STEPS[-1])))}


@pytest.mark.parametrize(("filtered", "said"), [(True, True), (False, False), (None, False)])
def test_a_filtered_reward_stays_in_the_middle(filtered: bool | None, said: bool) -> None:
    assert ("reward-filtered-by-design" in notes({"reward/mean": 0.5}, filtered=filtered)) is said
    assert "reward-filtered-by-design" not in notes({}, filtered=filtered)


def test_dropped_groups_are_counted() -> None:
    text = notes({"signal/groups-dropped": 12.0})["groups-filtered-by-design"]
    assert "12 groups a step" in text
    assert "groups-filtered-by-design" not in notes({"signal/groups-dropped": 0.0})


@pytest.mark.parametrize("value", [True, "filter", "filters.keep_mixed"])
def test_tied_groups_are_taken_out_where_the_filter_is_on(value: Setting) -> None:
    text = notes({"signal/zero-variance-share": 0.6}, knob=value)["groups-filtered-by-design"]
    assert "60 %" in text
    assert "filter_groups" in text


@pytest.mark.parametrize(
    ("share", "value", "default"),
    [(0.6, False, False), (0.6, None, False), (0.6, True, True), (0.1, True, False)],
    ids=["off", "not known", "a default that nobody stated", "hardly any"],
)
def test_without_a_filter_tied_groups_are_no_design(share: float, value: Setting, default: bool) -> None:
    said = notes({"signal/zero-variance-share": share}, knob=value, default=default)
    assert "groups-filtered-by-design" not in said
