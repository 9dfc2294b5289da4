"""Promises that every instrument, every rule and the diagnosis keep, whatever was logged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vario
from tests.effort import tries
from vario.catalogue import METRICS
from vario.errors import NotReadable
from vario.instruments import INSTRUMENTS, History, Look
from vario.run import Run
from vario.sources import interpret
from vario.sources.rows import Table
from vario.verdict import to_json

FEW = settings(max_examples=tries(60), derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
FEWER = settings(FEW, max_examples=tries(80))

GROUPED = ("reward", "reward_std", "frac_reward_zero_std", "rewards/a/mean", "rewards/b/mean", "kl", "entropy", "loss", "grad_norm",
           "learning_rate", "clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/high_max",
           "completions/mean_length", "completions/min_length", "completions/max_length", "completions/mean_terminated_length",
           "completions/clipped_ratio", "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean",
           "sampling/sampling_logp_difference/max", "eval_reward", "eval_loss", "step_time", "num_tokens")  # fmt: skip
PAIRS = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected",
         "eval_rewards/margins", "eval_rewards/accuracies", "loss", "grad_norm", "learning_rate", "entropy", "eval_loss")  # fmt: skip
CANONICAL = ("reward/mean", "kl/reference", "kl/update", "entropy/mean", "length/mean", "length/truncated-share", "ratio/mean",
             "gradient/norm", "loss/policy", "loss/value", "value/explained-variance", "value/clip-fraction", "clip/fraction/total",
             "signal/zero-variance-share", "reward/std/within-group", "importance-weight/mean", "behaviour-weight/mean",
             "engine/logprob-gap/mean", "eval/score/mean", "systems/step-time")  # fmt: skip
EVERYTHING = tuple(name.replace("*", "part") for name in METRICS)
CONFIG: tuple[Mapping[str, object], ...] = (
    {},
    {"beta": 0.0, "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "trl_version": "1.16.0"},
    {"beta": 0.04, "max_completion_length": 100, "scale_rewards": "group", "trl_version": "0.22.0", "generation_batch_size": 64},
    {"normalize_advantages": False, "beta": 0.05},
)
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 1e-320, 1.0, -1.0)

Row = dict[str, object]


class Log:
    """Rows and a configuration; shown by what they were made from."""

    def __init__(self, rows: list[Row], config: Mapping[str, object], made_from: str = "") -> None:
        self.rows, self.config, self.made_from = rows, config, made_from

    def __repr__(self) -> str:
        return f"<{len(self.rows)} rows of {self.made_from}>"


def column(kind: str, n: int, rng: np.random.Generator, scale: float) -> np.ndarray:
    t = np.linspace(0.0, 1.0, n)
    noise = rng.normal(size=n)
    shapes = {
        "noise": noise,
        "walk": np.cumsum(noise),
        "rise": t + 0.1 * noise,
        "fall": 1.0 - t + 0.1 * noise,
        "zero": np.zeros(n),
        "constant": np.full(n, 0.5),
        "step": (t > 0.6) + 0.05 * noise,
        "peak": np.minimum(t, 1.2 - t) + 0.02 * noise,
        "share": np.clip(0.5 + 0.3 * noise, 0.0, 1.0),
        "positive": np.exp(noise),
        "explode": np.exp(np.minimum(np.arange(n) * 0.7, 200.0)),
        "ones": np.round(np.clip(t, 0.0, 1.0)),
        "nan": np.full(n, np.nan),
        "inf": np.full(n, np.inf),
    }
    return shapes[kind] * scale


KINDS = ("noise", "walk", "rise", "fall", "zero", "constant", "step", "peak", "share", "positive", "explode", "ones", "nan", "inf")


@st.composite
def logs(draw: st.DrawFn, *, clean: bool = False) -> Log:
    keys = draw(st.sampled_from((GROUPED, GROUPED, PAIRS, CANONICAL, EVERYTHING)))
    n = draw(st.sampled_from((1, 2, 3, 5, 9, 24, 31, 60, 90, 150)))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    kinds = KINDS[:12] if clean else KINDS
    columns = {}
    for key in keys:
        if rng.random() < 0.15:
            continue
        scale = 1.0 if rng.random() < 0.7 else float(10.0 ** rng.integers(-12, 12))
        columns[key] = column(str(rng.choice(kinds)), n, rng, scale)
        if not clean and rng.random() < 0.4:
            at = rng.integers(0, n, size=max(1, n // 10))
            columns[key][at] = rng.choice(ODD, size=at.size)
    steps = np.arange(1, n + 1) * draw(st.sampled_from((1, 1, 10)))
    if not clean:
        order = draw(st.sampled_from(("sorted", "sorted", "shuffled", "repeated", "gaps")))
        if order == "shuffled":
            rng.shuffle(steps)
        elif order == "repeated" and n > 4:
            steps = np.concatenate((steps[: n - n // 4], steps[n // 2 : n // 2 + n // 4]))
        elif order == "gaps":
            steps = steps + np.cumsum(rng.random(n) < 0.1) * 1000
    gaps = draw(st.booleans())
    rows: list[Row] = []
    for i, step in enumerate(steps.tolist()):
        row: Row = {"step": step}
        for key, values in columns.items():
            if key.startswith("eval"):
                continue
            if not (gaps and rng.random() < 0.2):
                row[key] = float(values[i])
        rows.append(row)
        evals: Row = {k: float(v[i]) for k, v in columns.items() if k.startswith("eval")}
        if evals and i % 5 == 4:
            rows.append({"step": step} | evals)
    config = draw(st.sampled_from(CONFIG))
    return Log(rows, config, f"{keys[0]} seed {seed} clean {clean} steps {steps[:2].tolist()} gaps {gaps} {config}")


def build(log: Log, last: int | None = None) -> Run:
    table = Table("run", "test")
    for row in log.rows:
        if last is None or int(str(row["step"])) <= last:
            table.add(row)
    table.config.update(log.config)
    return interpret(table)


def document(run: Run) -> dict[str, object]:
    """The diagnosis, less what says of the file (not of the run) what was in it."""
    made = json.loads(json.dumps(to_json(vario.diagnose(run)), allow_nan=False))
    for key in ("warnings", "events", "unmapped", "unsettled", "ignored_lines"):
        made["run"].pop(key)
    for check in made["unknown"]:
        check.pop("enable")  # see test_how_to_enable_is_not_forgotten
    return made


@FEW
@given(logs())
@pytest.mark.parametrize("kind", INSTRUMENTS, ids=lambda k: k.__name__)
def test_an_instrument_reads_or_says_why_not(kind: type, log: Log) -> None:
    run = build(log)
    before = {n: (s.steps.copy(), s.values.copy()) for n, s in run.series.items()}
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            history = History(run)
            here = []
            for step in np.unique(run.logged_steps[[0, run.logged_steps.size // 2, -1]] if run.logged_steps.size else []):
                try:
                    read = kind.read(Look(history, int(step)))  # type: ignore[attr-defined]
                    assert read is not None
                    here.append(type(read).__name__)
                except NotReadable as error:
                    assert str(error)
                    assert error.missing or error.reason
                    here.append(str(error))
            seen.append(here)
    assert seen[0] == seen[1]
    for name, (steps, values) in before.items():
        np.testing.assert_array_equal(run.series[name].steps, steps)
        np.testing.assert_array_equal(run.series[name].values, values)


@settings(FEW, max_examples=tries(300))
@given(logs())
def test_a_diagnosis_of_anything(log: Log) -> None:
    run = build(log)
    before = {n: s.values.copy() for n, s in run.series.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = vario.diagnose(run)
        made = to_json(diagnosis)
        again = to_json(vario.diagnose(build(log)))
    assert diagnosis.broken == ()
    assert made == again
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    for name, values in before.items():
        np.testing.assert_array_equal(run.series[name].values, values)
    last = run.last_step
    for finding in diagnosis.findings:
        for when in (finding.since, finding.detected_at, finding.until):
            assert when is None or (last is not None and run.first_step is not None and run.first_step <= when <= last)


@settings(FEW, max_examples=tries(150))
@given(logs(clean=True), st.floats(0.2, 1.0))
def test_nothing_looks_ahead(log: Log, share: float) -> None:
    run = build(log)
    if not run.logged_steps.size:
        return
    cut = int(run.logged_steps[int((run.logged_steps.size - 1) * share)])
    short = build(log, cut)
    if (short.framework, short.algorithm, short.framework_version, sorted(short.series)) != (
        run.framework, run.algorithm, run.framework_version, sorted(run.until(cut).series),
    ):  # fmt: skip
        return  # what a key means was settled by a later row
    if dict(short.declared.component_weights) != dict(run.declared.component_weights):
        return
    assert document(run.until(cut)) == document(short)


def test_how_to_enable_is_not_forgotten() -> None:
    rows: list[Row] = [{"step": i, "reward": 0.5 + 0.01 * (i % 7), "reward_std": 0.1, "frac_reward_zero_std": 0.5} for i in range(1, 41)]
    late: list[Row] = [row | ({"kl": 0.01} if i >= 30 else {}) for i, row in enumerate(rows)]
    assert build(Log(late, {})).until(20).enable == build(Log(rows, {})).enable


def _scaled(rows: list[Row], factor: float) -> list[Row]:
    def is_reward(key: str) -> bool:
        return key.startswith("reward") or key == "eval_reward"

    return [{k: v * factor if is_reward(k) and isinstance(v, float) else v for k, v in row.items()} for row in rows]


@FEWER
@given(logs(clean=True), st.sampled_from((1e-3, 0.5, 4.0, 1024.0)))
def test_units_of_the_reward_do_not_matter(log: Log, factor: float) -> None:
    one, other = build(log), build(Log(_scaled(log.rows, factor), log.config))
    a, b = vario.diagnose(one, replay=False), vario.diagnose(other, replay=False)
    for name in one.series:
        if name in a.readings and name in b.readings:
            assert (a.readings[name].direction, a.readings[name].shape) == (b.readings[name].direction, b.readings[name].shape), name


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_do_not_matter_for_a_learning_curve(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    rows: list[Row] = [
        {"step": i, "reward": float(1 - np.exp(-i / 40) + 0.05 * rng.normal()), "reward_std": 0.3, "frac_reward_zero_std": 0.2, "kl": 0.01 * i}
        for i in range(1, 121)
    ]
    a, b = vario.diagnose(build(Log(rows, {}))), vario.diagnose(build(Log(_scaled(rows, factor), {})))
    assert a.verdict.trajectory == b.verdict.trajectory
    assert a.readings["reward/mean"].direction == b.readings["reward/mean"].direction == "up"
