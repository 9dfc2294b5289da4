"""The one thread that calls the feed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.terminal.feeds import Lab, lab, watched
from vario.errors import StateError
from vario.surfaces.live.follower import Follower
from vario.surfaces.live.notices import Notice
from vario.surfaces.live.watched import WatchedRun


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


@contextmanager
def following(feed: Lab) -> Iterator[Follower]:
    follower = Follower(feed, lambda: None)
    follower.start()
    try:
        yield follower
    finally:
        follower.stop(5.0)


@dataclass
class Heard(Lab):
    """Remembers which threads call it."""

    threads: set[int] = field(default_factory=set)

    def turn(self) -> list[Notice]:
        self.threads.add(threading.get_ident())
        return super().turn()

    def acknowledge(self, run: WatchedRun, subject: str, reason: str) -> None:
        self.threads.add(threading.get_ident())
        super().acknowledge(run, subject, reason)

    def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
        self.threads.add(threading.get_ident())
        return super().acknowledged(run)


def test_every_call_comes_from_one_thread_that_is_not_this_one() -> None:
    feed = Heard([watched("grpo-reward-bug", rows=200)])
    with following(feed) as follower:
        until(lambda: feed.turns > 1)
        follower.ask("acknowledging", lambda: feed.acknowledge(feed.runs[0], "reward-function-broke", "known"))
        until(lambda: bool(follower.latest.runs[0].acknowledged))
    assert len(feed.threads) == 1
    assert threading.get_ident() not in feed.threads


def test_the_runs_are_known_before_the_first_turn_and_judged_after_it() -> None:
    feed = lab("grpo-reward-bug", rows=200)
    follower = Follower(feed, lambda: None)
    assert [v.name for v in follower.latest.runs] == ["grpo-reward-bug"]
    assert follower.latest.looked_at is None
    follower.start()
    until(lambda: follower.latest.looked_at is not None)
    assert follower.latest.runs[0].diagnosis is not None
    assert follower.stop(5.0)


def test_what_fails_is_counted_and_the_next_turn_comes() -> None:
    feed = lab("grpo-reward-bug", rows=200)
    feed.errors.extend([ValueError("torn"), ValueError("torn"), StateError("the database is locked")])
    with following(feed) as follower:
        until(lambda: follower.latest.runs[0].diagnosis is not None)
        failures = dict(follower.latest.failures)
    assert failures == {
        "a look at the runs failed: ValueError: torn": 2,
        "a look at the runs failed: the database is locked": 1,
    }


def test_a_panic_that_is_no_exception_does_not_end_it() -> None:
    class Panic(BaseException):
        pass

    feed = lab("grpo-reward-bug", rows=200)
    feed.errors.append(Panic("polars gave up"))  # type: ignore[arg-type]
    with following(feed) as follower:
        until(lambda: follower.latest.runs[0].diagnosis is not None)
        assert "Panic: polars gave up" in follower.latest.failures[0][0]


def test_runs_are_shown_where_nobody_can_say_what_was_acknowledged() -> None:
    @dataclass
    class Locked(Lab):
        def acknowledged(self, run: WatchedRun) -> Mapping[str, str]:
            raise StateError(f"the database is locked: {run.name}")

    with following(Locked([watched("grpo-reward-bug", rows=200)])) as follower:
        until(lambda: follower.latest.runs[0].diagnosis is not None)
        until(lambda: bool(follower.latest.failures))
        assert (
            follower.latest.failures[0][0] == "reading acknowledgements failed: the database is locked: grpo-reward-bug"
        )


def test_a_turn_that_hangs_holds_nobody_up() -> None:
    gate = threading.Event()

    @dataclass
    class Hung(Lab):
        def turn(self) -> list[Notice]:
            gate.wait()
            return super().turn()

    follower = Follower(Hung([watched("grpo-reward-bug")]), lambda: None)
    follower.start()
    until(lambda: follower.turning_since is not None)
    assert not follower.stop(0.01)
    gate.set()
    assert follower.stop(20.0)


def test_a_run_that_joins_is_seen() -> None:
    feed = lab("grpo-reward-bug", rows=200)
    with following(feed) as follower:
        until(lambda: follower.latest.looked_at is not None)
        feed.runs.append(watched("dpo-healthy", rows=200))
        until(lambda: len(follower.latest.runs) == 2 and all(v.diagnosis is not None for v in follower.latest.runs))
