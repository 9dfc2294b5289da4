"""Which run asks for attention, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.terminal.feeds import Lab, Nothing, lab, recorded, sampled, watched
from vario.surfaces.live.notices import Kind
from vario.surfaces.live.snapshot import Light, RunView, Snapshot, taken
from vario.surfaces.live.watched import ReviewPlan, Status, WatchedRun


def seen(feed: Lab) -> Snapshot:
    return taken(feed, feed.acknowledged, {}, 0.0)


@pytest.fixture(scope="module")
def judged() -> Lab:
    feed = lab("grpo-healthy", "grpo-length-hack", "grpo-reward-bug", "grpo-healthy-kl", rows=80)
    feed.runs.insert(0, WatchedRun("nothing", Nothing()))
    for _ in range(3):
        feed.turn()
    return feed


def test_what_needs_attention_stands_first(judged: Lab) -> None:
    runs = seen(judged).runs
    assert [(v.name, v.light) for v in runs] == [
        ("grpo-reward-bug", Light.CRITICAL),
        ("grpo-length-hack", Light.WARNING),
        ("nothing", Light.WAITING),
        ("grpo-healthy", Light.FINE),
        ("grpo-healthy-kl", Light.FINE),
    ]


def test_what_was_acknowledged_asks_no_more(judged: Lab) -> None:
    view = seen(judged).runs[0]
    names = [f.name for f in view.open]
    known = replace(view, acknowledged=dict.fromkeys(names, "known"))
    assert view.light is Light.CRITICAL
    assert known.light is Light.FINE
    assert [f.name for f in replace(view, acknowledged={names[0]: "known"}).open][-1] == names[0]


def test_open_findings_stand_by_severity_and_passed_ones_apart(judged: Lab) -> None:
    for view in seen(judged).runs:
        severities = [["critical", "warning", "info"].index(f.severity) for f in view.open]
        assert severities == sorted(severities)
        assert all(f.until is None for f in view.open)
        assert all(f.until is not None for f in view.passed)


def test_news_are_the_last_that_was_told(judged: Lab) -> None:
    view = seen(judged).runs[0]
    told = {n.subject: (n.kind, n.at) for n in judged.history if n.run == view.name}
    assert view.news
    assert all(told[name] == said for name, said in view.news.items())
    assert view.news["reward-function-broke"][0] is Kind.OPENED


def view_of(run: WatchedRun) -> RunView:
    return seen(Lab([run])).runs[0]


@pytest.mark.parametrize("status", [Status.STALLED, Status.LOST])
def test_a_process_that_stopped_is_a_warning(judged: Lab, status: Status) -> None:
    healthy = seen(judged).runs[-1]
    assert replace(healthy, status=status, seconds_per_row=2.0).light is Light.WARNING


def test_a_log_that_nobody_saw_grow_is_an_old_one_and_no_warning(judged: Lab) -> None:
    healthy = seen(judged).runs[-1]
    old = replace(healthy, status=Status.STALLED, seconds_per_row=None)
    assert (old.is_over, old.light) == (True, Light.FINE)
    assert replace(healthy, status=Status.LOST, seconds_per_row=None).light is Light.WARNING


def test_completions_that_are_due_ask_for_a_decision_until_they_are_read() -> None:
    run = watched("grpo-healthy", rows=60, run=sampled(recorded("grpo-healthy")))
    run.plan = ReviewPlan(every=50)
    run.look()
    view = view_of(run)
    assert view.has_samples
    assert len(view.review.queue) == 8
    assert view.light is Light.DECIDE
    run.reviewed(60, 0.0)
    assert view_of(run).light is Light.FINE


def test_a_snapshot_does_not_change_with_the_run() -> None:
    feed = lab("grpo-reward-bug", rows=100)
    feed.runs[0].troubles["torn"] = 1
    before = seen(feed)
    feed.runs[0].troubles["torn"] = 5
    feed.turn()
    feed.messages.append("later")
    assert before.runs[0].troubles == (("torn", 1),)
    assert before.runs[0].diagnosis is None
    assert before.messages == ()
    assert seen(feed).runs[0].diagnosis is not None
