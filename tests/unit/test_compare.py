"""Two runs beside each other: where they part at equal steps, samples and KL, what differs, and the branch of the ladder."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

from tests.unit.simulated_series import noise
from vario.run import Declared, Run, Series, Setting
from vario.verdict import Diagnosis, diagnose
from vario.verdict.compare import Comparison, Departure, _along, compare, rises
from vario.verdict.ladder import Rung

N = 120


def steps(n: int = N, every: int = 1, first: int = 1) -> np.ndarray:
    return first + every * np.arange(n, dtype=np.int64)


def run_of(
    series: Mapping[str, np.ndarray | Series],
    *,
    at: np.ndarray | None = None,
    config: Mapping[str, Setting] | None = None,
    declared: Declared | None = None,
) -> Run:
    places = steps() if at is None else at
    made = {k: v if isinstance(v, Series) else Series(k, places[: v.size], v) for k, v in series.items()}
    return Run("r", "trl", "grpo", MappingProxyType(made), places, config=config or {}, declared=declared or Declared())


def compared(*runs: Run) -> Comparison:
    return compare([diagnose(run, replay=False) for run in runs])


def climb(seed: int, top: float = 0.6, size: float = 0.02, n: int = N) -> np.ndarray:
    return 0.2 + top * np.minimum(np.linspace(0.0, 1.0, n) / 0.6, 1.0) + size * noise(np.random.default_rng(seed), n, 0.3)


def parted(comparison: Comparison, axis: str) -> dict[str, Departure]:
    return {d.metric: d for d in comparison.departures if d.axis == axis}


def test_the_same_run_parts_from_itself_nowhere() -> None:
    run = run_of({"reward/mean": climb(0), "kl/reference": np.linspace(0.0, 0.1, N)}, config={"beta": 0.04})
    made = compared(run, run)
    assert made.departures == ()
    assert made.settings == {}
    assert all(row.values[0] == row.values[1] for row in made.equal_kl)


def test_two_seeds_of_one_recipe_part_nowhere() -> None:
    parting = 0
    for seed in range(0, 20, 2):
        a, b = ({"reward/mean": climb(s), "entropy/mean": 2.0 - climb(s + 50)} for s in (seed, seed + 1))
        parting += bool(compared(run_of(a), run_of(b)).departures)
    assert parting <= 1


def test_where_a_metric_parts_with_both_levels_at_the_end() -> None:
    lower = climb(1) - np.where(np.arange(N) >= 70, 0.3, 0.0)
    found = parted(compared(run_of({"reward/mean": climb(0)}), run_of({"reward/mean": lower})), "steps")
    assert set(found) == {"reward/mean"}
    departure = found["reward/mean"]
    assert abs(departure.at - 71) <= 6
    assert departure.first == pytest.approx(0.8, abs=0.03)
    assert departure.other == pytest.approx(0.5, abs=0.03)
    assert departure.run == 1


def test_departures_are_told_in_the_order_in_which_they_came() -> None:
    def later(at: int, seed: int) -> np.ndarray:
        return climb(seed) - np.where(np.arange(N) >= at, 0.3, 0.0)

    a = run_of({"entropy/mean": climb(0), "length/mean": climb(1), "reward/mean": climb(2)})
    b = run_of({"entropy/mean": later(80, 3), "length/mean": later(30, 4), "reward/mean": later(55, 5)})
    assert [d.metric for d in compared(a, b).departures if d.axis == "steps"] == ["length/mean", "reward/mean", "entropy/mean"]


def test_only_what_both_log_and_no_clock_is_compared() -> None:
    rates = np.linspace(1e-6, 0.0, N)
    a = run_of({"reward/mean": climb(0), "entropy/mean": climb(1), "learning-rate": rates})
    b = run_of({"reward/mean": climb(2), "length/mean": climb(3), "learning-rate": rates + 1e-6})
    assert compared(a, b).departures == ()


def test_a_longer_run_is_compared_where_both_were() -> None:
    longer = np.concatenate((climb(1), np.full(200, 0.1)))
    found = compared(run_of({"reward/mean": climb(0)}), run_of({"reward/mean": longer}, at=steps(N + 200)))
    assert found.departures == (), "what came after the shorter one ended has no counterpart"


def test_runs_that_never_met_are_not_compared() -> None:
    apart = run_of({"reward/mean": climb(1) - 5.0}, at=steps(first=1000))
    assert compared(run_of({"reward/mean": climb(0)}), apart).departures == ()


def test_rows_need_not_fall_on_the_same_steps() -> None:
    lower = climb(1, n=60) - np.where(np.arange(60) >= 35, 0.3, 0.0)
    sparse = run_of({"reward/mean": lower}, at=steps(60, every=2, first=2))
    found = parted(compared(run_of({"reward/mean": climb(0)}), sparse), "steps")
    assert abs(found["reward/mean"].at - 72) <= 12


def test_evaluations_are_compared_though_they_begin_later_and_end_earlier() -> None:
    def with_evaluations(values: np.ndarray, seed: int) -> Run:
        at = steps(values.size, every=10, first=10)
        series = {"eval/score/mean": Series("eval_reward", at, values), "reward/mean": climb(seed, n=10 * values.size + 5)}
        return run_of(series, at=steps(10 * values.size + 5))

    ups, rng = np.linspace(0.2, 0.8, 40), np.random.default_rng(0)
    a = with_evaluations(ups + 0.01 * rng.standard_normal(40), 0)
    b = with_evaluations(ups + 0.01 * rng.standard_normal(40) - np.where(np.arange(40) >= 20, 0.3, 0.0), 1)
    found = parted(compared(a, b), "steps")
    assert set(found) == {"eval/score/mean"}
    assert abs(found["eval/score/mean"].at - 210) <= 55


def test_at_equal_samples_a_larger_batch_is_not_ahead() -> None:
    small = run_of({"reward/mean": climb(0, n=240)}, at=steps(240), declared=Declared(batch_completions=64.0))
    large = run_of({"reward/mean": climb(1, n=120)}, at=steps(120), declared=Declared(batch_completions=128.0))
    made = compared(small, large)
    assert "reward/mean" in parted(made, "steps"), "half the steps: it is ahead at each"
    assert "reward/mean" not in parted(made, "samples"), "the same samples at the same place"
    assert not any(note.startswith("at equal samples") for note in made.notes)


def test_tokens_stand_for_samples_but_not_beside_completions() -> None:
    tokens = {"reward/mean": climb(0), "systems/tokens": 1000.0 * np.arange(1, N + 1)}
    both = compared(run_of(tokens), run_of({**tokens, "reward/mean": climb(1) - 0.3}))
    assert "reward/mean" in parted(both, "samples")
    mixed = compared(run_of(tokens), run_of({"reward/mean": climb(1) - 0.3}, declared=Declared(batch_completions=64.0)))
    assert parted(mixed, "samples") == {}
    assert "at equal samples: some log completions and others tokens, which cannot be compared" in mixed.notes


def test_what_is_not_logged_is_said() -> None:
    made = compared(run_of({"reward/mean": climb(0)}), run_of({"reward/mean": climb(1), "kl/reference": climb(2)}))
    assert made.notes == ("at equal samples: run 1, 2 does not log it", "at equal KL: run 1 logs none that moved")
    assert made.equal_kl == ()


def with_kl(seed: int, per_nat: float, top: float, name: str = "kl/reference") -> Run:
    kl = np.linspace(0.001, top, N)
    return run_of({name: kl, "reward/mean": 0.2 + per_nat * kl + 0.005 * noise(np.random.default_rng(seed), N, 0.3)})


def test_at_equal_kl_the_dearer_gain_shows() -> None:
    cheap, dear = with_kl(0, 4.0, 0.1), with_kl(1, 2.0, 0.2)
    made = compared(cheap, dear)
    assert parted(made, "steps") == {} or set(parted(made, "steps")) == {"kl/reference"}
    assert set(parted(made, "KL")) == {"reward/mean"}
    assert len(made.equal_kl) == 5
    assert [row.score for row in made.equal_kl] == ["reward/mean"] * 5
    for row in made.equal_kl:
        first, second = row.values
        assert first is not None and second is not None
        assert first == pytest.approx(0.2 + 4.0 * row.kl, abs=0.02)
        assert second == pytest.approx(0.2 + 2.0 * row.kl, abs=0.02)
    assert max(row.kl for row in made.equal_kl) <= 0.1, "no farther than the one that spent less"


def test_a_kl_that_only_scatters_is_no_place() -> None:
    rng = np.random.default_rng(0)
    still = run_of({"reward/mean": climb(0), "kl/reference": 0.02 + 0.002 * noise(rng, N, 0.3)})
    made = compared(still, with_kl(1, 4.0, 0.1))
    assert made.equal_kl == ()
    assert "at equal KL: run 1 logs none that moved" in made.notes


def test_kl_that_was_spent_does_not_come_back() -> None:
    back = np.concatenate((np.linspace(0.001, 0.1, N // 2), np.linspace(0.1, 0.02, N // 2)))
    made = compared(run_of({"kl/reference": back, "reward/mean": climb(0)}), with_kl(1, 4.0, 0.1))
    assert max(row.kl for row in made.equal_kl) > 0.08
    assert all(row.values[0] is not None for row in made.equal_kl)


def test_a_spike_of_kl_was_not_spent() -> None:
    calm, other = with_kl(0, 4.0, 0.1), with_kl(1, 4.0, 0.1)
    spiked = calm.series["kl/reference"].values.copy()
    spiked[30:32] = 50.0
    made = compared(run_of({"kl/reference": spiked, "reward/mean": calm.series["reward/mean"]}), other)
    assert max(row.kl for row in made.equal_kl) <= 0.1
    assert all(None not in row.values for row in made.equal_kl)
    assert parted(made, "KL") == {}


def test_points_beyond_the_grid_are_in_none_of_its_cells() -> None:
    where, values = np.arange(100.0), np.where(np.arange(100) < 50, 1.0, 9.0)
    made = _along(where, values, np.linspace(10.0, 49.0, 40))
    assert made is not None
    assert made.tolist() == [1.0] * 40
    assert _along(where[::5], values[::5], np.linspace(10.0, 49.0, 40)) is None, "most cells are empty"


def test_a_token_s_kl_and_a_sequence_s_are_not_the_same() -> None:
    made = compared(with_kl(0, 4.0, 0.1), with_kl(1, 0.02, 20.0, "kl/reference/sequence"))
    assert made.equal_kl == ()
    assert parted(made, "KL") == {}
    assert "at equal KL: some log kl/reference and others kl/reference/sequence, which cannot be compared" in made.notes
    alike = compared(with_kl(0, 0.04, 10.0, "kl/reference/sequence"), with_kl(1, 0.02, 20.0, "kl/reference/sequence"))
    assert len(alike.equal_kl) == 5


def test_settings_that_differ_and_no_names() -> None:
    a = run_of({"reward/mean": climb(0)}, config={"lr": 1e-6, "beta": 0.04, "run_name": "a", "trainer.output_dir": "x", "only": 1})
    b = run_of({"reward/mean": climb(1)}, config={"lr": 2e-6, "beta": 0.04, "run_name": "b", "trainer.output_dir": "y"})
    assert compared(a, b).settings == {"lr": (1e-6, 2e-6), "only": (1, None)}
    assert compared(a, b, b).settings == {"lr": (1e-6, 2e-6, 2e-6), "only": (1, None, None)}


def test_three_runs_are_held_against_the_first() -> None:
    made = compared(*(run_of({"reward/mean": climb(seed) - drop}) for seed, drop in ((0, 0.0), (1, 0.3), (2, -0.3))))
    assert [(d.run, d.other > d.first) for d in made.departures if d.axis == "steps"] == [(1, False), (2, True)]
    assert made.branch is None, "the ladder takes two"


# the ladder


def flat(seed: int) -> np.ndarray:
    return 0.3 + 0.05 * noise(np.random.default_rng(seed), N, 0.3)


@pytest.mark.parametrize(
    ("train", "test", "rung"),
    [
        (flat(0), climb(1), Rung.DATA),
        (flat(0), flat(1), Rung.SETUP),
        (flat(0), climb(1)[:15], Rung.TOO_EARLY),
        (climb(0), flat(1), None),
        (climb(0), climb(1), None),
        (climb(0)[:15], climb(1), None),
    ],
    ids=["data", "set-up", "test run too short", "rises", "both rise", "too short to say"],
)
def test_the_second_run_is_the_one_on_the_test_set(train: np.ndarray, test: np.ndarray, rung: Rung | None) -> None:
    made = compared(run_of({"reward/mean": train}), run_of({"reward/mean": test}))
    assert (made.branch.rung if made.branch is not None else None) is rung
    if rung is Rung.SETUP:
        assert made.branch is not None
        assert [t.knob for t in made.branch.turns] == ["batch-size", "learning-rate"]


def test_pairs_have_no_ladder() -> None:
    pair = run_of({"preference/margin": flat(0)})
    assert compared(pair, run_of({"preference/margin": climb(1)})).branch is None


def seen(values: np.ndarray) -> Diagnosis:
    return diagnose(run_of({"reward/mean": values}), replay=False)


@pytest.mark.parametrize(
    ("values", "risen"),
    [
        (climb(0), True),
        (flat(0), False),
        (np.zeros(N), False),
        (1.0 - climb(0), False),
        (0.8 + 0.01 * noise(np.random.default_rng(0), N, 0.3), False),
        (climb(0)[:10], None),
    ],
    ids=["climbs", "noise", "zero", "falls", "a level that never moved", "too short"],
)
def test_whether_a_reward_has_risen(values: np.ndarray, risen: bool | None) -> None:
    assert rises(seen(values)) is risen
