"""trackio: one SQLite file per project, a row of JSON per logged step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vario.errors import Malformed
from vario.sources.readers.jsonl import MAX_LINE
from vario.sources.readers.sqlite import MAGIC, columns_of, opened
from vario.sources.rows import Table


class _Run(NamedTuple):
    label: str
    name: object
    key: object


def recognises(path: Path, head: bytes) -> bool:
    """A database with trackio's table of metrics."""
    if not head.startswith(MAGIC):
        return False
    try:
        return {"run_name", "step", "metrics"} <= columns_of(path, "metrics")
    except Malformed:
        return False


def _runs(path: Path) -> list[_Run]:
    """The runs, oldest first; projects of the first releases know them by name only."""
    columns = columns_of(path, "metrics")
    if not columns:
        return []  # it has just been made
    key = "run_id" if "run_id" in columns else "NULL"
    with opened(path) as connection:
        found = connection.execute(
            f"SELECT run_name, {key}, MIN(id) FROM metrics GROUP BY 1, 2 ORDER BY MIN(id)"
        ).fetchall()
    names = [str(name) for name, _, _ in found]
    return [
        _Run(n if names.count(n) == 1 else f"{n}@{str(run)[:8]}", name, run)
        for n, (name, run, _) in zip(names, found, strict=True)
    ]


def runs(path: Path) -> list[str]:
    """The names of the runs, oldest first; a name that stands for several runs is told apart by its id."""
    return [run.label for run in _runs(path)]


def read(path: Path, run: str | None = None) -> Table:
    """Read one run of a project, by its name; the only one without a name.

    Raises:
        Malformed: there is no such run, or it logged nothing.
    """
    known = _runs(path)
    if not known:
        raise Malformed(f"{path}: a trackio project without a run that logged anything")
    chosen = known[0] if run is None else next((r for r in known if r.label == run), None)
    if chosen is None:
        raise Malformed(f"{path}: no run {run!r}; it holds {', '.join(r.label for r in known[:10])}")
    table = Table(f"{path}", "trackio")
    settings = columns_of(path, "configs")
    with opened(path) as connection:
        where, values = _is(chosen, columns_of(path, "metrics"))
        # the step is trackio's own count: the trainer's, where it logged one, comes first
        for step, text in connection.execute(f"SELECT step, metrics FROM metrics WHERE {where} ORDER BY id", values):
            row = _mapping(text)
            if row is None or not table.add({"_step": step, **row}):
                table.ignored += 1
        if {"config", "run_name"} <= settings:
            where, values = _is(chosen, settings)
            for (text,) in connection.execute(f"SELECT config FROM configs WHERE {where} ORDER BY id", values):
                table.config.update({k: v for k, v in (_mapping(text) or {}).items() if not k.startswith("_")})
    table.flush()
    if not table.rows:
        raise Malformed(f"{path}: run {chosen.label!r} logged no number")
    return table


def _is(run: _Run, columns: set[str]) -> tuple[str, list[object]]:
    """The condition for one run's rows, and its values."""
    if run.key is not None and "run_id" in columns:
        return "run_name = ? AND run_id = ?", [run.name, run.key]
    return "run_name = ?", [run.name]


def _mapping(text: object) -> dict[str, object] | None:
    """A row's numbers and texts; images and tables name their type, and their sizes are no metrics."""
    if not isinstance(text, str | bytes) or len(text) > MAX_LINE:
        return None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    return {k: v for k, v in loaded.items() if not (isinstance(v, Mapping) and "_type" in v)}
