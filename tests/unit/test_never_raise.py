"""Whatever finite numbers a run holds: forecasts, arrivals, departures, laws, phases and rates are finite, or None."""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.effort import tries
from vario.instruments import History, Kl, Look, Reading
from vario.run import Declared, Run, Series
from vario.stats.arrival import arrival
from vario.stats.departure import departure
from vario.stats.forecast import forecast
from vario.stats.laws import entropy_ceiling, overoptimisation_peak
from vario.verdict import diagnose, to_json
from vario.verdict.phases import phases_of
from vario.verdict.rate import rate_of

LARGEST = 1e100
"""Readers hand on nothing larger (`vario.sources.rows.LARGEST`)."""
LONGEST = 130
REGIMES = {f"kl-{k}-reward-{r}" for k in ("up", "flat", "down") for r in ("up", "flat", "down")}

quick = settings(max_examples=tries(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

wild = st.one_of(
    st.floats(-LARGEST, LARGEST),
    st.floats(-10.0, 10.0),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-300, 1e-12, LARGEST, -LARGEST]),
)


@st.composite
def likely(draw: st.DrawFn, size: int) -> np.ndarray:
    """A walk, noise, a climb, steps or stretches of one value, of any size and at any place."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    noise = rng.standard_normal(size)
    kind = draw(st.sampled_from(["noise", "walk", "climb", "step", "held", "binary"]))
    values = {
        "noise": noise,
        "walk": np.cumsum(noise),
        "climb": np.linspace(0.0, 5.0, size) + noise * draw(st.sampled_from([0.0, 0.1, 1.0])),
        "step": np.where(np.arange(size) > size // 2, 4.0, 0.0) + 0.1 * noise,
        "held": np.repeat(noise, 9)[:size],
        "binary": (noise > 0.5).astype(float),
    }[kind]
    scale = 10.0 ** draw(st.sampled_from([-300, -100, -9, -2, 0, 3, 30, 90]))
    return np.asarray(values * scale + draw(st.sampled_from([0.0, 1.0, -3.0, 1e6])) * scale)


def values(least: int = 0) -> st.SearchStrategy[np.ndarray]:
    return st.integers(least, LONGEST).flatmap(lambda n: st.one_of(arrays(np.float64, n, elements=wild), likely(n)))


@st.composite
def logged(draw: st.DrawFn) -> Series:
    """A series at steps of its own."""
    made = draw(values())
    gaps = draw(st.sampled_from([1, 7, 100]))
    first = draw(st.sampled_from([-3, 0, 1, 500]))
    return Series("key", first + gaps * np.arange(made.size, dtype=np.int64), made)


def is_finite(value: object) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(is_finite(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, list | tuple):
        return all(is_finite(v) for v in value)
    return value is None or isinstance(value, str) or math.isfinite(value)  # type: ignore[arg-type]


bound = st.one_of(st.none(), wild, st.sampled_from([0.0, 1.0]))


@quick
@given(values(), st.sampled_from([0.25, 1.0]), bound, bound)
@example(np.concatenate((np.full(30, 1.0), [0.999])), 0.25, 1.0, None)
@example(np.linspace(1.5, 0.2, 60), 1.0, 1.0, 0.3)
def test_forecast(series: np.ndarray, ahead: float, ceiling: float | None, floor: float | None) -> None:
    if ceiling is not None and floor is not None and floor > ceiling:
        floor, ceiling = ceiling, floor
    made = forecast(series, ahead, ceiling=ceiling, floor=floor)
    if made is None:
        return
    assert is_finite(made)
    assert made.low <= made.expected <= made.high
    assert made.gain_low <= made.gain <= made.gain_high
    assert 0.0 <= made.chance <= 1.0
    if ceiling is not None:
        assert made.high <= ceiling
    if floor is not None:
        assert made.low >= floor


@quick
@given(logged(), wild)
def test_arrival(series: Series, at: float) -> None:
    made = arrival(series.steps, series.values, at)
    if made is None:
        return
    last, span = int(series.steps[-1]), int(series.steps[-1] - series.steps[0])
    assert last <= made.earliest <= made.step <= last + 10 * span + 1
    assert made.latest is None or made.latest >= made.step


@quick
@given(values(), values())
def test_departure(a: np.ndarray, b: np.ndarray) -> None:
    at = departure(a, b)
    assert at is None or 0 <= at < min(a.size, b.size)
    assert departure(a, a) is None


@quick
@given(st.integers(0, LONGEST).flatmap(lambda n: st.tuples(*(st.one_of(arrays(np.float64, n, elements=wild), likely(n)),) * 2)))
def test_laws(both: tuple[np.ndarray, np.ndarray]) -> None:
    assert is_finite(entropy_ceiling(*both))
    assert is_finite(overoptimisation_peak(*both))


def look_at(**series: Series) -> Look:
    made = {name.replace("__", "/"): s for name, s in series.items() if len(s)}
    steps = np.unique(np.concatenate([s.steps for s in series.values()]))
    return Look(History(Run("run", "trl", "grpo", MappingProxyType(made), steps)), int(steps[-1]) if steps.size else 0)


def readings(kl: Series, reward: Series) -> tuple[Kl | None, Reading | None]:
    look = look_at(kl__reference=kl, reward__mean=reward)
    found = look.instrument(Kl)
    return found if isinstance(found, Kl) else None, look.find("reward/mean")


@quick
@given(logged(), logged())
def test_phases(kl: Series, reward: Series) -> None:
    found = phases_of(*readings(kl, reward))
    assert all(is_finite(p) for p in found)
    assert all(p.regime in REGIMES for p in found)
    assert all(p.first <= p.last for p in found)
    assert all(a.last < b.first and a.regime != b.regime for a, b in pairwise(found))


@quick
@given(logged())
def test_rate(reward: Series) -> None:
    made = rate_of(look_at(reward__mean=reward).find("reward/mean"))
    assert is_finite(made)
    if made is not None:
        assert made.before[0] <= made.before[1] <= made.before[2]
        assert made.now[0] <= made.now[1] <= made.now[2]


@settings(quick, max_examples=15)
@given(logged(), logged(), logged(), st.sampled_from([None, 0.0, 1.0, 1e6]))
def test_the_whole_diagnosis(kl: Series, reward: Series, entropy: Series, target: float | None) -> None:
    named = {"kl/reference": kl, "reward/mean": reward, "entropy/mean": entropy}
    made = {name: s for name, s in named.items() if len(s)}
    steps = np.unique(np.concatenate([s.steps for s in named.values()]))
    run = Run("run", "trl", "grpo", MappingProxyType(made), steps, declared=Declared(target=target))
    diagnosis = diagnose(run, replay=False)
    assert diagnosis.broken == ()
    json.dumps(to_json(diagnosis), allow_nan=False)
