"""What a run was like, as a measure for another: the model before RL, or a healthy run of the same recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vario.errors import ConfigError
from vario.run import Level, Run

SCHEMA = "baseline/v1"
BEFORE = ("length/", "text/", "entropy/", "reward/", "eval/", "preference/", "signal/")
"""What a model before RL has: KL, ratios and gradients are those of a training."""
FIRST = 5
"""Rows at the start of a run that stand for the model before RL: the policy has hardly moved in them."""
OUTER = (1.0, 99.0)
"""Percentiles of a reference run that bound its range: single values must not."""


def baseline_of(run: Run, rows: int | None = FIRST) -> dict[str, Level]:
    """Level and spread of each metric over the first rows, or over all of them.

    Args:
        run: an evaluation of the model before RL (all rows), or a training (its first rows).
        rows: how many; None for all.
    """
    made = {}
    for name, series in run.series.items():
        values = series.finite()[1]
        values = (
            values if rows is None or (name.startswith("eval/") and values.size <= 1) else values[: _rows(name, rows)]
        )
        if values.size and name.startswith(BEFORE):
            made[name] = Level(float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0, values.size)
    return made


def _rows(name: str, rows: int) -> int:
    """The first evaluation alone is before training; the first rows of the training nearly are."""
    return 1 if name.startswith("eval/") else rows


def range_of(run: Run) -> dict[str, tuple[float, float]]:
    """Range of each metric over a whole run, outliers left out."""
    made = {}
    for name, series in run.series.items():
        values = series.finite()[1]
        if values.size >= 2 * FIRST:
            low, high = (float(q) for q in np.percentile(values, OUTER))
            made[name] = (low, high)
    return made


def baseline_document(run: Run, levels: Mapping[str, Level]) -> str:
    """The file that `vario baseline` writes."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "path": run.path,
            "framework": run.framework,
            "metrics": {n: {"level": v.level, "spread": v.spread, "points": v.points} for n, v in levels.items()},
        },
        indent=1,
    )


def read_baseline(path: Path) -> dict[str, Level]:
    """Read such a file.

    Raises:
        ConfigError: it is none; the message says what is wrong with it.
    """
    try:
        loaded: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{path}: no baseline can be read there ({error}); `vario baseline PATH` makes one"
        ) from error
    metrics = loaded.get("metrics") if isinstance(loaded, dict) and loaded.get("schema") == SCHEMA else None
    if not isinstance(metrics, dict):
        raise ConfigError(f"{path}: not a baseline ({SCHEMA}); `vario baseline PATH` makes one")
    made = {}
    for name, entry in metrics.items():
        numbers = _numbers(entry)
        if numbers is None:
            raise ConfigError(f"{path}: {name}: level, spread and points are numbers")
        made[str(name)] = Level(numbers[0], numbers[1], int(numbers[2]))
    return made


def _numbers(entry: object) -> tuple[float, float, float] | None:
    if not isinstance(entry, dict):
        return None
    values = [entry.get(key) for key in ("level", "spread", "points")]
    finite = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return (finite[0], finite[1], finite[2]) if len(finite) == 3 else None
