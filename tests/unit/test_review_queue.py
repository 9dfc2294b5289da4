"""The completions that a person is asked to mark."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario.run import Run
from vario.samples import Samples
from vario.verdict.review import LATE, STRATA, review_queue

STEPS, A_STEP = tuple(range(10, 210, 10)), 16
N = len(STEPS) * A_STEP
FIRST_LATE = STEPS[-round(LATE * len(STEPS))]


def run_of(**measures: np.ndarray) -> Run:
    """Twenty sampled steps whose rewards are all different, in no order."""
    order = np.random.default_rng(0)
    held = {
        "reward": order.permutation(N) / N,
        "size": 100.0 + order.normal(0.0, 5.0, N),
        "looped": np.zeros(N),
        "entropy": 4.0 + order.normal(0.0, 0.1, N),
    } | measures
    samples = Samples(
        ("completions",),
        np.repeat(np.asarray(STEPS, dtype=np.int64), A_STEP),
        np.tile(np.arange(A_STEP), len(STEPS)).astype(np.int64),
        np.tile(np.arange(A_STEP) // 4, len(STEPS)).astype(np.uint64),
        MappingProxyType(held),
        N,
    )
    return Run("run", "trl", "grpo", MappingProxyType({}), np.asarray(STEPS, dtype=np.int64), samples=samples)


def late_rewards(run: Run) -> np.ndarray:
    assert run.samples is not None
    return run.samples.measures["reward"][run.samples.steps >= FIRST_LATE]


def test_nothing_to_mark() -> None:
    run = run_of()
    assert run.samples is not None
    assert review_queue(Run("run", "trl", "grpo", MappingProxyType({}), np.empty(0, dtype=np.int64)), 8) == []
    assert review_queue(run.until(5), 8) == []
    assert review_queue(run, 0) == []


def test_the_four_strata_take_turns() -> None:
    queue = review_queue(run_of(), 16)
    assert [q.stratum for q in queue] == [*STRATA] * 4
    assert len({(q.step, q.number) for q in queue}) == 16


def test_only_the_last_quarter_is_drawn_from() -> None:
    run = run_of()
    queue = review_queue(run, 10_000)
    assert len(queue) == late_rewards(run).size == 5 * A_STEP
    assert {q.step for q in queue} == {s for s in STEPS if s >= FIRST_LATE}


def test_top_and_bottom_are_the_best_and_the_worst_paid() -> None:
    run = run_of()
    queue = review_queue(run, 8)
    paid = {s: [q.reward for q in queue if q.stratum == s] for s in STRATA}
    assert paid["top"][0] == late_rewards(run).max()
    assert paid["bottom"][0] == late_rewards(run).min()
    assert paid["top"] == sorted(paid["top"], reverse=True)  # type: ignore[type-var]
    assert paid["bottom"] == sorted(paid["bottom"])  # type: ignore[type-var]


@pytest.mark.parametrize(("measure", "value"), [("size", 900.0), ("looped", 0.9), ("entropy", 0.2)])
def test_changed_is_what_is_least_like_the_first_quarter(measure: str, value: float) -> None:
    base = run_of().samples
    assert base is not None
    moved = np.array(base.measures[measure])
    moved[N - 3] = value
    (changed,) = [q for q in review_queue(run_of(**{measure: moved}), 4) if q.stratum == "changed"]
    assert (changed.step, changed.number) == (STEPS[-1], A_STEP - 3)


def test_the_same_queue_for_the_same_run() -> None:
    assert review_queue(run_of(), 24) == review_queue(run_of(), 24)
    assert review_queue(run_of(), 24)[:7] == review_queue(run_of(), 7)


def test_what_is_marked_is_left_out() -> None:
    run = run_of()
    first = review_queue(run, 8)
    marked = {(q.step, q.number) for q in first}
    second = review_queue(run, 8, marked)
    assert len(second) == 8
    assert not marked & {(q.step, q.number) for q in second}
    every = {(q.step, q.number) for q in review_queue(run, N)}
    assert review_queue(run, 8, every) == []
    assert len(review_queue(run, 8, set(list(every)[3:]))) == 3


def test_rewards_that_are_not_known() -> None:
    reward = np.array(run_of().samples.measures["reward"])  # type: ignore[union-attr]
    reward[::2] = np.nan
    queue = review_queue(run_of(reward=reward), 16)
    assert len(queue) == 16
    assert all(q.reward is None or np.isfinite(q.reward) for q in queue)
    assert all(q.reward is not None for q in queue if q.stratum in ("top", "bottom"))
    unknown = review_queue(run_of(reward=np.full(N, np.nan)), 16)
    assert [q.stratum for q in unknown] == [*STRATA] * 4
    assert {q.reward for q in unknown} == {None}


def test_measures_that_are_not_known() -> None:
    unknown = np.full(N, np.nan)
    queue = review_queue(run_of(size=unknown, looped=unknown, entropy=unknown), 8)
    assert len({(q.step, q.number) for q in queue}) == 8


def test_one_step_is_a_queue_too() -> None:
    run = run_of().until(STEPS[0])
    assert len(review_queue(run, 6)) == 6
