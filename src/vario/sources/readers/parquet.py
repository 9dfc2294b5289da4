"""Parquet tables with a row a step. Needs polars."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.run import Floats, Ints
from vario.sources.rows import STEP_KEYS, Table

MAGIC = b"PAR1"


def recognises(_path: Path, head: bytes) -> bool:
    """By the magic bytes."""
    return head.startswith(MAGIC)


def read(path: Path) -> Table:
    """Read the numeric columns.

    Raises:
        NothingReadable: polars is not installed. Malformed: no rows of numbers, or a damaged file.
    """
    try:
        import polars
    except ImportError as error:
        raise NothingReadable(f"{path}: Parquet needs `pip install 'vario[parquet]'`") from error
    try:
        frame = polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise Malformed(f"{path}: damaged Parquet ({str(error)[:120]}); is it still being written?") from error
    table = Table(str(path), "parquet")
    numeric = [n for n, t in frame.schema.items() if t.is_numeric() or t == polars.Boolean]
    table.texts += len(frame.columns) - len(numeric)
    steps = None
    for key in STEP_KEYS:
        if key in numeric and frame[key].null_count() == 0:
            steps = frame[key].cast(polars.Int64, strict=False)
            if steps.null_count() == 0:
                break
            steps = None
    if steps is None:
        table.index_steps = True
        where: Ints = np.arange(1, frame.height + 1, dtype=np.int64)
    else:
        where = steps.to_numpy().astype(np.int64)
    columns: dict[str, tuple[Ints, Floats]] = {}
    for name in numeric:
        column = frame[name]
        held = np.flatnonzero(column.is_not_null().to_numpy())
        columns[name] = (held, column.drop_nulls().cast(polars.Float64).to_numpy().astype(np.float64))
    table.put_rows(where, columns)
    if not any(k not in STEP_KEYS and held.size for k, (held, _) in columns.items()):
        raise Malformed(f"{path}: no column of numbers beside the step")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    return table
