"""The simulated runs of the benches: deterministic, coherent, and every injected fault really shows in the log."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import faults
import simulated
from faults import FAULTS, Injected, faulty
from simulated import KINDS, MEMORIES, SHAPES, healthy

from vario.run import Run

MOST = float("inf")


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def values(run: Run, name: str) -> np.ndarray:
    return run.series[name].values


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_draws_the_same_run(kind: str) -> None:
    first, again = (healthy(rng(3), "saturating", 0.5, 60, kind) for _ in range(2))
    other = healthy(rng(4), "saturating", 0.5, 60, kind)
    assert list(first.series) == list(again.series)
    assert all(np.array_equal(values(first, n), values(again, n)) for n in first.series)
    assert not np.array_equal(values(first, "gradient/norm"), values(other, "gradient/norm"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [*SHAPES, "constant"])
def test_every_shape_is_a_finite_run(kind: str, shape: str) -> None:
    run = healthy(rng(5), shape, "mix", 60, kind)
    assert run.logged_steps.size == 60
    assert all(np.isfinite(s.values).all() for s in run.series.values())


@pytest.mark.parametrize("memory", MEMORIES)
def test_noise_has_its_memory(memory: float | str) -> None:
    drawn = simulated.noise(rng(6), 20_000, memory)
    lag = float(np.corrcoef(drawn[:-1], drawn[1:])[0, 1])
    assert lag == pytest.approx(0.45 if memory == "mix" else memory, abs=0.04)
    assert float(drawn.std()) == pytest.approx(1.0, abs=0.1)


def test_tied_groups_follow_the_chance_of_success() -> None:
    def tied(difficulty: float) -> tuple[float, float]:
        plan = simulated.plan_grpo(rng(7), "constant", 400)
        plan.success, plan.weights, plan.difficulty = (
            {"correctness": np.full(400, 0.8)},
            {"correctness": 1.0},
            difficulty,
        )
        plan.group = 8
        run = simulated.drawn(rng(8), plan, 0.0, "")
        return float(values(run, "signal/zero-variance-share").mean()), float(values(run, "reward/mean").mean())

    share, mean = tied(0.0)
    assert mean == pytest.approx(0.8, abs=0.02)
    assert share == pytest.approx(0.8**8 + 0.2**8, abs=0.06)
    assert tied(2.5)[0] > share + 0.1, "prompts of different difficulty tie more groups"


def test_metrics_of_a_batch_agree_with_one_another() -> None:
    plan = simulated.plan_grpo(rng(9), "linear", 80)
    plan.success["format"], plan.weights["format"] = np.full(80, 0.9), 0.5
    plan.within_logged = False
    run = simulated.drawn(rng(10), plan, 0.5, "")
    p, batch = values(run, "reward/component/correctness/mean"), plan.prompts * plan.group
    spread = np.sqrt(batch / (batch - 1) * p * (1 - p))
    assert values(run, "reward/component/correctness/std") == pytest.approx(spread)
    assert values(run, "reward/mean") == pytest.approx(p + 0.5 * values(run, "reward/component/format/mean"))
    assert (values(run, "length/min") <= values(run, "length/mean")).all()
    assert (values(run, "length/mean") <= values(run, "length/max")).all()
    assert values(run, "length/max").max() <= plan.cap


def test_learning_raises_kl_and_lowers_entropy() -> None:
    run = healthy(rng(20), "saturating", 0.0, 200)
    for name, up in (("reward/mean", True), ("kl/reference", True), ("entropy/mean", False)):
        y = values(run, name)
        assert (np.median(y[-40:]) > np.median(y[:10])) is np.bool_(up), name


def late(run: Injected, name: str) -> float:
    """Level of the last tenth."""
    y = values(run.run, name)
    return float(np.median(y[-max(y.size // 10, 3) :]))


def ratio(run: Injected, name: str) -> float:
    """Level of the last tenth against that of the 20 rows before the onset."""
    series = run.run.series[name]
    rows_before = 20 * int(run.run.declared.steps_per_row or 1)
    near = (series.steps <= run.onset_step) & (series.steps > run.onset_step - rows_before)
    before = float(np.median(series.values[near]))
    return late(run, name) / before if before else float("nan")


def jump(run: Injected, name: str) -> float:
    """Level of the 15 rows after the onset against that of the 15 before."""
    y, at = values(run.run, name), run.onset_row
    return float(np.median(y[at : at + 15]) / np.median(y[at - 15 : at]))


def peak(run: Injected, name: str) -> float:
    """The first row of the fault against the 15 before it."""
    y, at = values(run.run, name), run.onset_row
    return float(y[at] / np.median(y[at - 15 : at]))


def lost(run: Injected, name: str) -> float:
    """Share of rows without a number."""
    return float(np.isnan(values(run.run, name)).mean())


def offset(run: Injected, name: str) -> float:
    """Jump of a signed metric, in its own noise before it."""
    y, at = values(run.run, name), run.onset_row
    return float((np.median(y[at : at + 15]) - np.median(y[:at])) / y[:at].std())


SHOWS = {
    "policy-collapse": (ratio, "reward/mean", 0.0, 0.2),
    "reward-function-broke": (jump, "reward/mean", 0.0, 0.75),
    "kl-runaway": (ratio, "kl/reference", 30.0, MOST),
    "kl-up-reward-flat": (ratio, "kl/reference", 4.5, MOST),
    "kl-up-reward-down": (ratio, "reward/mean", 0.0, 0.75),
    "peak-then-decline": (ratio, "reward/mean", 0.0, 0.7),
    "random-reward": (late, "kl/reference", 0.3, MOST),
    "kl-pinned": (late, "kl/reference", 0.0, 5e-4),
    "kl-spike": (peak, "kl/reference", 10.0, MOST),
    "kl-reset": (jump, "kl/reference", 0.0, 0.3),
    "kl-negative": (late, "kl/reference", -1.0, -0.01),
    "kl-nonzero-at-start": (late, "kl/reference", 0.35, MOST),
    "kl-penalty-outweighs": (late, "reward/kl-penalty/mean", -MOST, -2.0),
    "entropy-collapse": (ratio, "entropy/mean", 0.0, 0.1),
    "entropy-explosion": (ratio, "entropy/mean", 2.0, MOST),
    "entropy-spike": (peak, "entropy/mean", 8.0, MOST),
    "mode-collapse": (late, "signal/zero-variance-share", 0.85, 1.0),
    "length-hack": (late, "reward/component/length/mean", 0.4, 1.0),
    "length-collapse": (ratio, "length/mean", 0.0, 0.5),
    "length-jump": (jump, "length/mean", 1.4, MOST),
    "length-growth": (ratio, "length/mean", 1.5, MOST),
    "length-diversity-lost": (ratio, "length/max", 0.0, 0.7),
    "truncation-grows": (late, "length/truncated-share", 0.3, 1.0),
    "truncation-from-the-start": (late, "length/truncated-share", 0.9, 1.0),
    "nan-gradient": (lost, "gradient/norm", 0.3, 1.0),
    "reward-nan": (lost, "reward/mean", 0.05, 0.2),
    "gradient-spike": (peak, "gradient/norm", 10.0, MOST),
    "gradient-growth": (ratio, "gradient/norm", 4.0, MOST),
    "gradient-vanishes": (ratio, "gradient/norm", 0.0, 1e-9),
    "learning-rate-zero": (late, "learning-rate", 0.0, 0.0),
    "learning-too-slow": (late, "kl/reference", 0.0, 6e-4),
    "reward-all-zero": (late, "reward/mean", 0.0, 0.0),
    "task-too-hard": (late, "reward/mean", 0.0, 0.03),
    "saturation": (late, "signal/zero-variance-share", 0.9, 1.0),
    "component-dead": (late, "reward/component/style/mean", 0.0, 0.0),
    "component-falls": (late, "reward/component/correctness/mean", 0.0, 0.25),
    "proxy-hack": (ratio, "eval/score/mean", 0.0, 0.6),
    "eval-never-rises": (late, "eval/score/mean", 0.0, 0.45),
    "signal-drops": (jump, "signal/zero-variance-share", 1.4, MOST),
    "clipping-grows": (ratio, "clip/fraction/total", 4.0, MOST),
    "clipping-high": (late, "clip/fraction/total", 0.12, MOST),
    "clipping-high-side": (late, "clip/fraction/high", 0.015, MOST),
    "clipping-low-side": (late, "clip/fraction/low", 0.015, MOST),
    "ratio-leaves-one": (late, "ratio/mean", 1.4, MOST),
    "engine-gap": (late, "engine/logprob-gap/mean", 0.1, MOST),
    "stale-rollouts": (late, "staleness/mean", 6.0, MOST),
    "behaviour-weight-off": (late, "behaviour-weight/mean", 0.4, 0.6),
    "data-shift": (jump, "length/mean", 1.3, MOST),
    "resume-with-jumps": (jump, "gradient/norm", 2.0, MOST),
    "loss-jump": (offset, "loss/total", 8.0, MOST),
    "value-diverges": (ratio, "loss/value", 8.0, MOST),
    "value-blind": (late, "value/explained-variance", -1.0, -0.2),
    "value-clipped": (late, "value/clip-fraction", 0.4, 1.0),
    "dpo-overtrained": (late, "preference/margin", 15.0, MOST),
    "dpo-overfits": (ratio, "eval/preference/margin", 0.0, 0.95),
    "dpo-chosen-falls": (late, "preference/chosen-reward", -MOST, -0.8),
    "dpo-label-noise": (late, "preference/accuracy", 0.4, 0.6),
    "dpo-saturated": (late, "preference/accuracy", 0.99, 1.0),
    "step-time-jump": (jump, "systems/step-time", 1.7, MOST),
    "memory-creep": (late, "systems/memory-share", 0.9, 1.0),
    "reward-scale-drifts": (ratio, "reward/mean", 4.0, MOST),
}  # fmt: skip
"""Fault -> how it shows: a measure of one metric, and the range that a healthy twin lies outside of."""


def test_every_fault_says_how_it_shows() -> None:
    assert set(SHOWS) == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_shows_and_its_healthy_twin_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, metric, low, high = SHOWS[name]
    for seed in range(3):
        assert low <= measure(faulty(rng(seed), name, rows=150), metric) <= high, f"{name} does not show in {metric}"
    twin = dataclasses.replace(FAULTS[name], inject=lambda _plan: None)
    monkeypatch.setitem(faults.FAULTS, name, twin)
    healthy_twin = faulty(rng(0), name, rows=150)
    if metric in healthy_twin.run.series:
        assert not low <= measure(healthy_twin, metric) <= high, "the range holds healthy runs, too"
