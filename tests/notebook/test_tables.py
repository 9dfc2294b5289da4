"""A run as a table: every value of every series stands where it was logged, and nothing stands elsewhere."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

import vario
from tests.conftest import golden_runs
from vario.errors import ConfigError
from vario.run import Run, Series

GAPS = {
    "reward/mean": ([1, 2, 5], [0.5, math.nan, math.inf]),
    "eval/score/mean": ([0, 5, 40], [0.1, 0.2, 0.3]),
    "kl/reference": ([], []),
}
"""Series with steps of their own: one step is in both, one metric was never logged."""


def gappy() -> Run:
    series = {
        name: Series(name, np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))
        for name, (steps, values) in GAPS.items()
    }
    run = vario.read(golden_runs()[0])
    return replace(run, series=MappingProxyType(series), logged_steps=series["reward/mean"].steps)


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_pandas_value_by_value(path) -> None:
    pytest.importorskip("pandas")
    run = vario.read(path)
    table = run.to_pandas()
    assert list(table.columns) == list(run.series)
    assert table.index.name == "step"
    assert table.index.tolist() == sorted({s for series in run.series.values() for s in series.steps.tolist()})
    for name, series in run.series.items():
        np.testing.assert_array_equal(table.loc[series.steps, name], series.values)
        assert table[name].drop(series.steps).isna().all()


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_polars_value_by_value(path) -> None:
    pytest.importorskip("polars")
    run = vario.read(path)
    table = run.to_polars()
    assert table.columns == ["step", *run.series]
    assert table["step"].to_list() == run.to_pandas().index.tolist()
    for name, series in run.series.items():
        held = table.select("step", name).drop_nulls()
        assert held["step"].to_list() == series.steps.tolist()
        np.testing.assert_array_equal(held[name].to_numpy(), series.values)


def test_what_was_not_logged_and_what_was_logged_as_nan() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    run = gappy()
    table = run.to_pandas()
    assert table.index.tolist() == [0, 1, 2, 5, 40]
    np.testing.assert_array_equal(table["reward/mean"], [math.nan, 0.5, math.nan, math.inf, math.nan])
    assert table["kl/reference"].isna().all()
    assert table.dtypes.tolist() == [np.dtype(np.float64)] * 3
    assert isinstance(table, pandas.DataFrame)
    other = run.to_polars()
    held = other["reward/mean"].to_list()
    assert [held[0], held[1], held[3], held[4]] == [None, 0.5, math.inf, None]
    assert math.isnan(held[2]), "logged, and not a number"
    assert other.dtypes == [polars.Int64, *[polars.Float64] * 3]


def test_a_run_without_a_row() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    run = vario.read(golden_runs()[0]).until(-1)
    assert run.to_pandas().shape == (0, 0)
    assert run.to_polars().shape == (0, 1)


@pytest.mark.parametrize(("package", "extra"), [("pandas", "notebook"), ("polars", "parquet")])
def test_without_the_library_it_says_what_to_install(package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install 'vario\[{extra}\]'"):
        getattr(gappy(), f"to_{package}")()
