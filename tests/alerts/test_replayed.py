"""Recorded runs, watched as if they grew: whom the default options would have disturbed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import vario
from tests.alerts.world import SOON, Clock, Kept
from tests.conftest import GOLDEN, ROOT, SHARED
from vario.rules.engine import looks_between
from vario.run import Run
from vario.surfaces.alerts.dispatcher import Dispatcher
from vario.surfaces.alerts.message import Alert
from vario.surfaces.alerts.policy import LOSS_TRENDS, AlertOptions
from vario.surfaces.live.watched import Polled, Status, WatchedRun

sys.path.insert(0, str(ROOT / "bench"))
from shared import labels_of

LAB = SHARED / "lab" / "runs"
needs_lab = pytest.mark.skipif(not LAB.is_dir(), reason=f"no labelled runs at {LAB} (set VARIO_SHARED)")
LOOK_SECONDS = 600.0


@dataclass
class Growing:
    """A recorded run that comes a look at a time, ten minutes apart."""

    name: str
    run: Run
    clock: Clock = field(default_factory=Clock)
    rows: int = 0

    def poll(self) -> Polled:
        self.clock.pass_(LOOK_SECONDS)
        total = int(self.run.logged_steps.size)
        self.rows = min(next(looks_between(self.rows, total), total), total)
        ended = self.rows >= total
        run = self.run if ended else self.run.until(int(self.run.logged_steps[self.rows - 1]))
        return Polled(run, ended=ended)


@cache
def alerts_of(path: Path) -> tuple[Alert, ...]:
    source = Growing(path.name, vario.read(path))
    watched = WatchedRun(path.name, source, clock=source.clock.now)
    channel = Kept()
    options = AlertOptions(picture=False)
    sender = Dispatcher(options, [channel], clock=source.clock.now, steady=source.clock.monotonic)
    while watched.status is not Status.ENDED:
        for notice in watched.look():
            sender.offer(notice, watched)
        assert sender.settle(SOON)
    assert sender.close(SOON)
    assert sender.failures == {}
    return tuple(channel.got)


def healthy() -> list[str]:
    return [
        run
        for run, label in labels_of(LAB).items()
        if {"healthy", "insufficient_data"} & set(label["expected_findings"])
    ]


@needs_lab
def test_some_labelled_runs_are_healthy() -> None:
    assert {"rloo_healthy-s0", "ppo_healthy-s0", "healthy_long-s0", "dpo_healthy-s0"} <= set(healthy())


@needs_lab
@pytest.mark.parametrize("name", healthy())
def test_a_healthy_run_disturbs_nobody(name: str) -> None:
    """But for completions that nobody has read in 200 steps, which is no fault of the run."""
    told = [f"{a.subject} at {a.step}" for a in alerts_of(LAB / name)]
    assert told == (["review-due at 210"] if name == "healthy_long-s0" else [])


@needs_lab
def test_one_cause_is_one_alert() -> None:
    alerts = alerts_of(LAB / "reward_parser_bug_midrun-s0")
    assert [(a.subject, a.kind, a.severity) for a in alerts] == [
        ("reward-function-broke", "opened", "critical"),
        ("review-due", "review-due", "info"),
    ]
    assert alerts[0].step == 110, "ten rows after it broke"


@needs_lab
@pytest.mark.parametrize("name", ["ppo_value_fail-s0", "lr_too_high-s0", "grad_spike_midrun-s0"])
def test_a_trend_of_a_loss_is_never_told(name: str) -> None:
    assert {a.subject for a in alerts_of(LAB / name)} & set(LOSS_TRENDS) == set()


@pytest.mark.parametrize(
    ("name", "told"), [("grpo-healthy", []), ("rloo-healthy", []), ("grpo-reward-bug", ["reward-function-broke"])]
)
def test_recorded_runs_of_the_project(name: str, told: list[str]) -> None:
    assert [a.subject for a in alerts_of(GOLDEN / name) if a.subject != "review-due"] == told
