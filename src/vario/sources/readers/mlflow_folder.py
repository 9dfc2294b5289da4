"""MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/KEY`, a line `time value step` a point."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from vario.errors import Malformed
from vario.sources.readers.mlflow_values import setting
from vario.sources.rows import MAX_KEYS, Table

MAX_PARAM = 1 << 16
RUN = re.compile(rb"(?m)^run_(?:id|uuid):")
DELETED = re.compile(rb"(?m)^lifecycle_stage:\s*['\"]?deleted")


def is_run(folder: Path) -> bool:
    """Whether the folder is one run of a file store that logged a metric and was not deleted."""
    meta, metrics = folder / "meta.yaml", folder / "metrics"
    if not (metrics.is_dir() and meta.is_file()):
        return False
    try:
        with meta.open("rb") as stream:
            text = stream.read(MAX_PARAM)
        # a model that was logged has metrics too, and no run's id of its own
        return bool(RUN.search(text)) and not DELETED.search(text) and any(metrics.iterdir())
    except OSError:
        return False


def read(folder: Path) -> Table:
    """Read one run's folder.

    Raises:
        Malformed: it holds no point.
    """
    table = Table(str(folder), "mlflow")
    metrics = folder / "metrics"
    for key, path in _files(metrics):
        steps, values = _points(path, table)
        if steps:
            table.put(key, np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))
    for key, path in _files(folder / "params"):
        with path.open("rb") as stream:
            name, value = setting(key, stream.read(MAX_PARAM).decode("utf-8", "replace").strip())
        table.config[name] = value
    if not table.rows:
        raise Malformed(f"{folder}: an MLflow run without a point in metrics/")
    return table


def _files(folder: Path) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    for where, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(files):
            path = Path(where) / name
            if path.is_file() and len(found) < MAX_KEYS:
                found.append((path.relative_to(folder).as_posix(), path))
    return found


def _points(path: Path, table: Table) -> tuple[list[int], list[float]]:
    steps: list[int] = []
    values: list[float] = []
    with path.open("rb") as stream:
        for line in stream:
            parts = line.split()
            # behind the step may stand the data set that was measured
            if not line.endswith(b"\n") or len(parts) < 2:
                table.ignored += 1  # a line that is still being written may end in half a number
                continue
            try:
                steps.append(int(parts[2]) if len(parts) > 2 else len(steps))
                values.append(float(parts[1]))
            except ValueError:
                steps = steps[: len(values)]
                table.ignored += 1
    return steps, values
