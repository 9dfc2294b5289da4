"""The table as Parquet: a row a run, the columns of `Row`. polars is imported here, and only when it is asked for."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from vario.errors import ConfigError
from vario.surfaces.fleet.row import Row
from vario.surfaces.fleet.store import write_place

INTEGERS = frozenset({"last_step", "logged_steps", "best_step", "since", "detected_at"})
NUMBERS = frozenset({"best_value", "stake_hours", "stake_device_hours", "seconds"})
LISTS = frozenset({"findings"})
FLAGS = frozenset({"change_assumed"})


def check_parquet() -> None:
    """Say before the work begins that the table could not be written.

    Raises:
        ConfigError: polars is not installed.
    """
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise ConfigError("--output FILE.parquet: needs polars: `pip install 'vario[rollouts]'`") from error


def write_parquet(place: str, rows: Sequence[Row]) -> None:
    """Write the table to a file or an address.

    Raises:
        ConfigError: it cannot be written.
    """
    import polars as pl

    columns: dict[str, Any] = {}
    schema: dict[str, Any] = {}
    for field in dataclasses.fields(Row):
        values = [getattr(row, field.name) for row in rows]
        if field.name in LISTS:
            schema[field.name], columns[field.name] = pl.List(pl.String), [[_text(v) for v in some] for some in values]
        elif field.name in INTEGERS:
            schema[field.name], columns[field.name] = pl.Int64, values
        elif field.name in NUMBERS:
            schema[field.name], columns[field.name] = pl.Float64, values
        elif field.name in FLAGS:
            schema[field.name], columns[field.name] = pl.Boolean, values
        else:
            schema[field.name], columns[field.name] = pl.String, [None if v is None else _text(v) for v in values]
    stream = io.BytesIO()
    pl.DataFrame(columns, schema=schema).write_parquet(stream)
    write_place(place, stream.getvalue())


def _text(value: str) -> str:
    """Valid text: a path may hold bytes that are none."""
    return value.encode("utf-8", "replace").decode()
