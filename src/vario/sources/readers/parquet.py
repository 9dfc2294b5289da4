"""Parquet tables with a row a step. Needs polars."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.run import Floats, Ints
from vario.sources.opening import is_packed, open_log
from vario.sources.readers.jsonl import SAMPLES
from vario.sources.readers.metric_words import SAMPLE_KEYS, of_a_step
from vario.sources.rows import MAX_STEP, STEP_KEYS, Table

MAGIC = b"PAR1"


def recognises(_path: Path, head: bytes) -> bool:
    """By the magic bytes."""
    return head.startswith(MAGIC)


def panicked(error: BaseException) -> bool:
    """Whether polars gave up on what is broken deeper down: its panics are no `Exception`."""
    return type(error).__name__ == "PanicException"


def holds_samples(path: Path) -> bool:
    """Whether its rows are samples, by its columns; False where that cannot be told."""
    try:
        import polars
    except ImportError:
        return False
    try:
        columns = set(polars.read_parquet_schema(path))
    except BaseException as error:
        if isinstance(error, polars.exceptions.PolarsError | OSError) or panicked(error):
            return False
        raise
    return len(SAMPLE_KEYS & columns) >= 2 and not of_a_step(columns)


def read(path: Path) -> Table:
    """Read the columns of numbers; texts that are numbers count as such.

    Raises:
        NothingReadable: polars is not installed, or the rows are samples.
        Malformed: no rows of numbers, or a damaged file.
    """
    try:
        import polars
    except ImportError as error:
        raise NothingReadable(f"{path}: Parquet needs `pip install 'vario[parquet]'`") from error
    try:
        with open_log(path) as stream:
            frame = polars.read_parquet(io.BytesIO(stream.read()) if is_packed(stream) else path)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise Malformed(f"{path}: damaged Parquet ({str(error)[:120]}); is it still being written?") from error
    except BaseException as error:
        if not panicked(error):
            raise
        raise Malformed(f"{path}: damaged Parquet ({str(error)[:120]}); is it still being written?") from error
    if len(SAMPLE_KEYS & set(frame.columns)) >= 2 and not of_a_step(frame.columns):
        raise NothingReadable(f"{path}: {SAMPLES}")
    table = Table(str(path), "parquet")
    columns: dict[str, tuple[Ints, Floats]] = {}
    for name, kind in frame.schema.items():
        numbers = _numbers(frame[name], kind, polars)
        if numbers is None:
            table.texts += 1
            continue
        held = np.flatnonzero(numbers.is_not_null().to_numpy())
        columns[name] = (held, numbers.drop_nulls().to_numpy().astype(np.float64))
    where: Ints = np.arange(1, frame.height + 1, dtype=np.int64)
    clock = next((k for k in STEP_KEYS if k in columns and columns[k][0].size), None)
    table.index_steps = clock is None
    if clock is not None:
        rows, steps = columns[clock]
        whole = np.isfinite(steps) & (np.abs(steps) < MAX_STEP) & (np.floor(steps) == steps)
        where[rows[whole]] = steps[whole].astype(np.int64)
        placed = np.zeros(frame.height, dtype=bool)
        placed[rows[whole]] = True
        table.ignored += int((~placed).sum())
        columns = {k: (held[placed[held]], values[placed[held]]) for k, (held, values) in columns.items()}
    columns = {k: v for k, v in columns.items() if k not in STEP_KEYS and v[0].size}
    if not columns:
        raise Malformed(f"{path}: no column of numbers beside the step")
    table.put_rows(where, columns)
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    return table


def _numbers(column: Any, kind: Any, polars: Any) -> Any:  # noqa: ANN401  (polars is not always installed)
    """The column as floats with nulls; None where it holds no number."""
    if kind.is_numeric() or kind == polars.Boolean:
        return column.cast(polars.Float64)
    if kind != polars.String:
        return None
    cast = column.cast(polars.Float64, strict=False)
    return cast if cast.null_count() < len(cast) else None
