"""Step times and phases: what counts, what counts once, and what a row says."""

from __future__ import annotations

import os
import sys
import threading
import warnings

import pytest

from vario.catalogue.own_words import OWN_WORDS, PHASES
from vario.surfaces.live.steps import MOST_PHASES, ONCE, StepClock


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def passing() -> Time:
    return Time()


@pytest.fixture
def clock(passing: Time) -> StepClock:
    return StepClock(passing)


def step(clock: StepClock, passing: Time, **phases: float) -> None:
    clock.begin_step()
    for name, seconds in phases.items():
        with clock.phase(name):
            passing.go(seconds)
    clock.end_step()


def test_a_row_holds_the_step_and_its_phases(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    with clock.phase("generation"):
        passing.go(20.0)
    passing.go(1.0)
    with clock.phase("train"):
        passing.go(9.0)
    clock.end_step()
    assert clock.take() == {"vario/step_time": 30.0, "vario/phase/generation": 20.0, "vario/phase/train": 9.0}
    assert clock.take() == {}


def test_a_row_of_several_steps_holds_their_means(clock: StepClock, passing: Time) -> None:
    step(clock, passing, generation=20.0, train=10.0)
    passing.go(500.0)  # between two steps: no step's time
    step(clock, passing, generation=10.0)
    assert clock.take() == {"vario/step_time": 20.0, "vario/phase/generation": 15.0, "vario/phase/train": 5.0}


def test_a_checkpoint_is_no_mean(clock: StepClock, passing: Time) -> None:
    step(clock, passing, train=10.0)
    step(clock, passing, train=10.0)
    with clock.phase("checkpoint"):
        passing.go(60.0)
    assert clock.take() == {"vario/step_time": 10.0, "vario/phase/train": 10.0, "vario/phase/checkpoint": 60.0}


def test_time_that_somebody_else_took_is_added(clock: StepClock, passing: Time) -> None:
    step(clock, passing, train=10.0)
    clock.add("checkpoint", 7.0)
    clock.add("checkpoint", 2.0)
    clock.add("my own", 1.0)
    assert clock.take() == {
        "vario/step_time": 10.0,
        "vario/phase/train": 10.0,
        "vario/phase/checkpoint": 9.0,
        "vario/phase/my-own": 1.0,
    }


def test_what_has_no_step_yet_waits_for_one(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    with clock.phase("generation"):
        passing.go(20.0)
    with clock.phase("evaluation"):
        passing.go(5.0)
    assert clock.take() == {"vario/phase/evaluation": 5.0}
    clock.end_step()
    assert clock.take() == {"vario/step_time": 25.0, "vario/phase/generation": 20.0}


def test_phases_inside_each_other_count_once(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    with clock.phase("generation"):
        passing.go(3.0)
        with clock.phase("sync"):
            passing.go(2.0)
            with clock.phase("sync"):
                passing.go(1.0)
        passing.go(4.0)
    clock.end_step()
    assert clock.take() == {"vario/step_time": 10.0, "vario/phase/generation": 7.0, "vario/phase/sync": 3.0}


def test_phases_that_overlap_count_once(clock: StepClock, passing: Time) -> None:
    """Generation goes on in the background of the update; the moment belongs to what was begun last."""
    generation, train = clock.phase("generation"), clock.phase("train")
    clock.begin_step()
    generation.__enter__()
    passing.go(5.0)
    train.__enter__()
    passing.go(3.0)
    generation.__exit__(None, None, None)
    passing.go(2.0)
    train.__exit__(None, None, None)
    passing.go(1.0)
    clock.end_step()
    found = clock.take()
    assert found == {"vario/step_time": 11.0, "vario/phase/generation": 5.0, "vario/phase/train": 5.0}


def test_a_phase_over_several_rows_is_dealt_to_them(clock: StepClock, passing: Time) -> None:
    with clock.phase("generation"):
        for seconds in (10.0, 30.0):
            clock.begin_step()
            passing.go(seconds)
            clock.end_step()
            assert clock.take() == {"vario/step_time": seconds, "vario/phase/generation": seconds}


def test_a_loop_that_tells_only_ends_is_timed_from_end_to_end(clock: StepClock, passing: Time) -> None:
    for seconds in (3.0, 7.0, 9.0):
        passing.go(seconds)
        clock.end_step()
    assert clock.take() == {"vario/step_time": 8.0}


def test_a_step_that_broke_off_is_forgotten(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    passing.go(100.0)
    step(clock, passing, train=4.0)
    assert clock.take() == {"vario/step_time": 4.0, "vario/phase/train": 4.0}


def test_what_is_raised_in_a_phase_goes_through_and_ends_it(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    with pytest.raises(ZeroDivisionError), clock.phase("reward"):
        passing.go(2.0)
        raise ZeroDivisionError
    passing.go(5.0)
    clock.end_step()
    assert clock.take() == {"vario/step_time": 7.0, "vario/phase/reward": 2.0}


def test_a_phase_that_ends_twice_ends_once(clock: StepClock, passing: Time) -> None:
    phase = clock.phase("train")
    phase.__enter__()
    passing.go(1.0)
    for _ in range(3):
        phase.__exit__(None, None, None)
        passing.go(1.0)
    clock.end_step()
    clock.end_step()
    assert clock.take() == {"vario/step_time": 0.0, "vario/phase/train": 1.0}


def test_phases_are_columns_with_names_that_can_be_keys(clock: StepClock, passing: Time) -> None:
    clock.begin_step()
    with clock.phase("my own/phase\n"):
        passing.go(1.0)
    for i in range(3 * MOST_PHASES):
        with clock.phase(f"p{i}"):
            passing.go(1.0)
    clock.end_step()
    found = clock.take()
    assert found["vario/phase/my-own-phase"] == 1.0
    assert len(found) == MOST_PHASES + 1


def test_the_known_phases_have_metrics() -> None:
    assert PHASES.keys() >= ONCE
    assert all(f"vario/phase/{name}" in OWN_WORDS for name in PHASES)


def test_threads_together_take_no_longer_than_the_wall() -> None:
    clock = StepClock()
    ready = threading.Barrier(4)

    def work(name: str) -> None:
        ready.wait()
        for _ in range(50):
            with clock.phase(name):
                pass
            with clock.phase("train"):
                sum(range(2000))

    clock.begin_step()
    threads = [threading.Thread(target=work, args=(f"p{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.end_step()
    found = clock.take()
    phases = {key: seconds for key, seconds in found.items() if key != "vario/step_time"}
    assert set(phases) == {"vario/phase/train", *(f"vario/phase/p{i}" for i in range(4))}
    assert 0.0 < sum(phases.values()) <= found["vario/step_time"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_times_nothing_and_hangs_nowhere(clock: StepClock) -> None:
    with clock._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()  # with the lock taken, as another thread may have it
        if child == 0:
            clock.begin_step()
            with clock.phase("reward"):
                pass
            clock.end_step()
            os._exit(len(clock.take()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_real_time_passes() -> None:
    real = StepClock()
    real.begin_step()
    with real.phase("train"):
        sys.getsizeof(list(range(100_000)))
    real.end_step()
    found = real.take()
    assert 0.0 < found["vario/phase/train"] <= found["vario/step_time"] < 60.0
