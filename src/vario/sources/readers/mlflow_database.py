"""MLflow's SQLite store: every point of every metric, by run."""

from __future__ import annotations

import math
from pathlib import Path

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


def runs(path: Path) -> list[str]:
    """Runs that logged anything and were not deleted, as `experiment/name@id`, oldest first."""
    with opened(path) as connection:
        found = connection.execute(
            "SELECT experiments.name, runs.name, runs.run_uuid FROM runs "
            "LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id "
            "WHERE runs.lifecycle_stage = 'active' AND runs.run_uuid IN (SELECT DISTINCT run_uuid FROM metrics) "
            "ORDER BY runs.start_time"
        ).fetchall()
    return [f"{experiment}/{name}@{run[:8]}" for experiment, name, run in found]


def read(path: Path, run: str | None = None) -> Table:
    """Read one run, named as `runs` names it or by its id.

    Raises:
        Malformed: there is no such run.
    """
    known = runs(path)
    chosen = known[:1] if run is None else [r for r in known if run in (r, r.partition("@")[2], r.rpartition("@")[0])]
    short = chosen[0].rpartition("@")[2] if chosen else (run or "")[:8]
    table = Table(str(path), "mlflow")
    with opened(path) as connection:
        rows = connection.execute(
            "SELECT key, step, CASE WHEN is_nan THEN NULL ELSE value END FROM metrics "
            "WHERE substr(run_uuid, 1, 8) = ? ORDER BY key, timestamp, step",
            [short],
        ).fetchall()
        for key, value in connection.execute("SELECT key, value FROM params WHERE substr(run_uuid, 1, 8) = ?", [short]):
            name, known_value = setting(str(key), str(value))
            table.config[name] = known_value
    points: dict[str, tuple[list[int], list[float]]] = {}
    for key, step, value in rows:
        steps, values = points.setdefault(str(key), ([], []))
        steps.append(int(step))
        values.append(math.nan if value is None else float(value))
    for key, (steps, values) in points.items():
        table.put(key, np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))
    if not table.rows:
        raise Malformed(f"{path}: no run {run!r} with metrics; it holds {', '.join(known[:10]) or 'none'}")
    return table
