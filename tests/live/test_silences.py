"""What people say of a finding on a surface that tells nobody ends with the finding, and no sooner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.growing import Growing, breaking
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.live.wishes import LiveWishes, WatchOptions

FINDING = "reward-function-broke"
HOUR = 3600.0


def resolved(subject: str) -> Notice:
    return Notice(Kind.RESOLVED, "run", subject, 9, "info", "high", f"{subject} no longer holds", "", 1.7e9)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(LiveWishes(WatchOptions(state=str(tmp_path / "state.sqlite"))), clock=lambda: 1.7e9, speaks=False)


@pytest.fixture
def watched(desk: Desk, tmp_path: Path) -> WatchedRun:
    made = WatchedRun("run", Growing(breaking(), 1000))
    desk.admit(made, str(tmp_path / "run"))
    return made


def test_an_acknowledgement_ends_when_its_finding_resolves(desk: Desk, watched: WatchedRun) -> None:
    desk.acknowledge(watched, FINDING, "we know")
    desk.handle(watched, [resolved("kl-spike")])
    assert desk.silences(watched)[FINDING].keys() == {"acknowledged"}
    desk.handle(watched, [resolved(FINDING)])
    assert desk.silences(watched) == {}


def test_a_mute_for_hours_outlives_the_finding_and_one_without_ends_with_it(desk: Desk, watched: WatchedRun) -> None:
    desk.mute(watched, FINDING, "too loud", 1.7e9 + HOUR)
    desk.mute(watched, "kl-spike", "too loud", None)
    desk.handle(watched, [resolved(FINDING), resolved("kl-spike")])
    assert desk.silences(watched).keys() == {FINDING}


def test_a_finding_that_resolves_makes_no_store_where_none_stands(desk: Desk, watched: WatchedRun, tmp_path: Path) -> None:
    desk.handle(watched, [resolved(FINDING)])
    assert list(tmp_path.iterdir()) == []
