"""MLflow's SQLite store: every point of every metric, by run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vario.errors import Malformed
from vario.sources.readers.mlflow_values import setting
from vario.sources.readers.sqlite import MAGIC, columns_of, opened
from vario.sources.rows import Table


def recognises(path: Path, head: bytes) -> bool:
    """A database with MLflow's table of metrics."""
    if not head.startswith(MAGIC):
        return False
    try:
        return {"run_uuid", "key", "value", "step"} <= columns_of(path, "metrics")
    except Malformed:
        return False


class _Run(NamedTuple):
    label: str
    key: str


def _runs(path: Path) -> list[_Run]:
    with opened(path) as connection:
        found = connection.execute(
            "SELECT experiments.name, runs.name, runs.run_uuid FROM runs "
            "LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id "
            "WHERE runs.lifecycle_stage = 'active' AND runs.run_uuid IN (SELECT DISTINCT run_uuid FROM metrics) "
            "ORDER BY runs.start_time"
        ).fetchall()
    return [_Run(f"{experiment}/{name}@{str(run)[:8]}", str(run)) for experiment, name, run in found]


def runs(path: Path) -> list[str]:
    """Runs that logged anything and were not deleted, as `experiment/name@id`, oldest first."""
    return [run.label for run in _runs(path)]


def read(path: Path, run: str | None = None) -> Table:
    """Read one run, named as `runs` names it or by its id.

    Raises:
        Malformed: there is no such run, or it does not say which of several.
    """
    known = _runs(path)
    chosen = [r for r in known if run in (r.label, r.key, r.label.rpartition("@")[0], r.label.rpartition("@")[2])]
    chosen = known if run is None else chosen
    if len(chosen) != 1:
        some = ", ".join(r.label for r in (chosen or known)[:10]) or "none"
        raise Malformed(f"{path}: {'several runs' if chosen else f'no run {run!r}'} with metrics; it holds {some}")
    key = chosen[0].key
    table = Table(str(path), "mlflow")
    with opened(path) as connection:
        rows = connection.execute(
            "SELECT key, step, CASE WHEN is_nan THEN NULL ELSE value END FROM metrics "
            "WHERE run_uuid = ? ORDER BY key, timestamp, step",
            [key],
        ).fetchall()
        for name, value in connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", [key]):
            name, known_value = setting(str(name), str(value))
            table.config[name] = known_value
    points: dict[str, tuple[list[int], list[float]]] = {}
    for name, step, value in rows:
        steps, values = points.setdefault(str(name), ([], []))
        steps.append(int(step))
        values.append(math.nan if value is None else float(value))
    for name, (steps, values) in points.items():
        table.put(name, np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))
    if not table.rows:
        raise Malformed(f"{path}: run {chosen[0].label!r} logged no metric")
    return table
