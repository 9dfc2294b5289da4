"""What was special about the batch behind a spike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import RULES
from vario.run import Run, Series
from vario.samples import Samples
from vario.sources.dialects import DIALECTS
from vario.verdict.dossier import JUMPS, LEAST, MOST, Dossier, dossier

STEPS = tuple(range(10, 210, 10))


def sampled(steps: Sequence[int], a_step: int = 4) -> Samples:
    n = len(steps) * a_step
    return Samples(
        ("completions",),
        np.repeat(np.asarray(steps, dtype=np.int64), a_step),
        np.tile(np.arange(a_step), len(steps)).astype(np.int64),
        np.zeros(n, dtype=np.uint64),
        MappingProxyType({}),
        n,
    )


def run_of(columns: Mapping[str, np.ndarray], steps: Sequence[int] = STEPS, *, samples: bool = True, how: str = "") -> Run:
    at = np.asarray(steps, dtype=np.int64)
    return Run(
        "run", "trl", "grpo",
        MappingProxyType({n: Series("dump", at, np.asarray(v, dtype=np.float64), counted=True) for n, v in columns.items()}),
        at,
        samples=sampled(steps) if samples else None,
        how_to_sample=how,
    )  # fmt: skip


def noisy(level: float, seed: int, n: int = len(STEPS)) -> np.ndarray:
    return level * (1.0 + 0.03 * np.random.default_rng(seed).standard_normal(n))


def like_its_neighbours() -> dict[str, np.ndarray]:
    return {
        "text/entropy/mean": noisy(4.0, 1),
        "samples/prompt-repeats-share": noisy(0.2, 2),
        "length/mean": noisy(300.0, 3),
        "reward/std/batch": noisy(0.4, 4),
        "signal/solved-share": noisy(0.3, 5),
    }


def told(name: str, since: int | None, run: Run, metrics: Sequence[str] = ("kl/reference",)) -> Dossier:
    made = dossier(name, since, metrics, run)
    assert made is not None
    return made


def test_only_what_begins_at_one_step_has_a_batch() -> None:
    names = {rule.name for rule in RULES}
    assert names >= JUMPS
    run = run_of(like_its_neighbours())
    for name in names - JUMPS:
        assert dossier(name, 100, (), run) is None
    for name in JUMPS:
        assert dossier(name, None, (), run) is None
        assert told(name, 100, run).step == 100


@pytest.mark.parametrize(("metric", "value"), [("length/mean", 900.0), ("text/entropy/mean", 1.0), ("signal/solved-share", 0.0)])
def test_one_measure_that_differs_is_named(metric: str, value: float) -> None:
    columns = like_its_neighbours()
    columns[metric][STEPS.index(120)] = value
    made = told("kl-spike", 120, run_of(columns))
    assert made.step == 120
    assert [d.metric for d in made.differences] == [metric]
    (one,) = made.differences
    assert one.here == value
    assert one.usual == pytest.approx(float(np.median(columns[metric][3:11])))
    assert one.spreads > 3.0
    assert made.compared == 5
    assert made.text.startswith("the batch of step 120 differs from those before it: ")
    assert f"{metric} {value:.3g} ({one.usual:.3g} before)" in made.text


def test_a_batch_like_the_others_says_so() -> None:
    made = told("kl-spike", 120, run_of(like_its_neighbours()))
    assert made.differences == ()
    assert made.text == (
        "the batch of step 120 is like those before it in all 5 measures of its samples: look at the update, not at the data"
    )


def test_what_differs_most_comes_first_and_five_are_told() -> None:
    columns = {f"reward/component/f{i}/mean": noisy(1.0, i) for i in range(9)}
    for i in range(9):
        columns[f"reward/component/f{i}/mean"][11] = 3.0 + i
    made = told("reward-collapsed", 120, run_of(columns))
    assert len(made.differences) == MOST
    assert made.compared == 9
    spreads = [d.spreads for d in made.differences]
    assert spreads == sorted(spreads, reverse=True)
    assert made.text.count(" before)") == MOST


def test_the_finding_itself_is_no_news() -> None:
    columns = like_its_neighbours()
    columns["length/mean"][11] = 900.0
    made = told("length-jumped", 120, run_of(columns), ("length/mean",))
    assert made.differences == ()
    assert made.compared == 4


def test_the_optimiser_is_not_the_batch() -> None:
    columns = like_its_neighbours() | {"kl/reference": noisy(0.1, 6), "gradient/norm": noisy(1.0, 7), "length/mean/se": noisy(1.0, 8)}
    for metric in ("kl/reference", "gradient/norm", "length/mean/se"):
        columns[metric][11] = 50.0
    made = told("entropy-spike", 120, run_of(columns))
    assert (made.compared, made.differences) == (5, ())


def test_a_constant_needs_more_than_rounding_to_differ() -> None:
    columns = {"length/mean": np.full(len(STEPS), 300.0)}
    columns["length/mean"][11] = 305.0
    assert told("kl-spike", 120, run_of(columns)).differences == ()
    columns["length/mean"][11] = 340.0
    assert len(told("kl-spike", 120, run_of(columns)).differences) == 1


def test_the_nearest_sampled_step_is_taken() -> None:
    run = run_of(like_its_neighbours())
    assert told("kl-spike", 123, run).step == 120
    assert told("kl-spike", 118, run).step == 120
    far = told("kl-spike", 300, run)
    assert far.step is None
    assert far.text == "no completion of step 300 or near it was written down"


def test_the_first_batch_has_nothing_before_it() -> None:
    run = run_of(like_its_neighbours())
    for step in STEPS[:LEAST]:
        made = told("kl-spike", step, run)
        assert made.compared == 0
        assert made.text == f"the batch of step {step} has no sampled steps before it to be held against"
    assert told("kl-spike", STEPS[LEAST], run).compared == 5


def test_values_that_are_not_finite_are_not_compared() -> None:
    columns = like_its_neighbours()
    columns["length/mean"][11] = np.nan
    columns["text/entropy/mean"][5] = np.inf
    made = told("kl-spike", 120, run_of(columns))
    assert made.compared == 4
    assert all(np.isfinite(d.spreads) for d in made.differences)


@pytest.mark.parametrize("since", STEPS[2:])
def test_nothing_after_the_step_is_looked_at(since: int) -> None:
    columns = like_its_neighbours()
    columns["length/mean"][9:] *= 3.0
    columns["text/entropy/mean"][14] = 0.5
    run = run_of(columns)
    for name in ("length-jumped", "data-shift", "kl-spike"):
        assert dossier(name, since, ("kl/reference",), run.until(since)) == dossier(name, since, ("kl/reference",), run)


def test_a_gap_that_comes_later_changes_nothing() -> None:
    """What counts as near is told by the steps up to this one."""
    steps = [10, 20, 30, 40, 50, 60, *range(200, 4200, 400)]
    columns = {"length/mean": np.full(len(steps), 300.0)}
    run = run_of(columns, steps)
    assert told("kl-spike", 90, run).step is None
    assert told("kl-spike", 90, run.until(90)).step is None


def test_without_samples_it_says_how_to_have_them() -> None:
    ways = {d.name: d.samples for d in DIALECTS}
    assert ways["trl"]
    for framework, how in ways.items():
        made = told("kl-spike", 120, run_of({"kl/reference": noisy(0.1, 0)}, samples=False, how=how))
        assert (made.step, made.differences, made.compared) == (None, (), 0)
        assert made.text.startswith("what was in the batch of step 120 cannot be told without its completions")
        assert made.text.endswith(f": {how}" if how else "completions"), framework
