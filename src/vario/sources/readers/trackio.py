"""trackio: one SQLite file per project, a row of JSON per logged step."""

from __future__ import annotations

import json
from pathlib import Path

from vario.errors import Malformed
from vario.sources.readers.jsonl import MAX_LINE
from vario.sources.readers.sqlite import MAGIC, columns_of, opened
from vario.sources.rows import Table


def recognises(path: Path, head: bytes) -> bool:
    """A database with trackio's table of metrics."""
    if not head.startswith(MAGIC):
        return False
    try:
        return {"run_name", "step", "metrics"} <= columns_of(path, "metrics")
    except Malformed:
        return False


def runs(path: Path) -> list[str]:
    """The names of the runs, oldest first; a name that stands for several runs is told apart by its id."""
    with opened(path) as connection:
        if "run_id" not in columns_of(path, "metrics"):
            return [
                str(r[0]) for r in connection.execute("SELECT run_name FROM metrics GROUP BY run_name ORDER BY MIN(id)")
            ]
        found = connection.execute(
            "SELECT run_name, run_id FROM metrics GROUP BY run_id, run_name ORDER BY MIN(id)"
        ).fetchall()
    names = [str(name) for name, _ in found]
    return [n if names.count(n) == 1 else f"{n}@{str(run)[:8]}" for n, (_, run) in zip(names, found, strict=True)]


def read(path: Path, run: str | None = None) -> Table:
    """Read one run of a project, by its name; the only one without a name.

    Raises:
        Malformed: there is no such run, or it logged nothing.
    """
    known = runs(path)
    if not known:
        raise Malformed(f"{path}: a trackio project without a run that logged anything")
    run = known[0] if run is None else run
    if run not in known:
        raise Malformed(f"{path}: no run {run!r}; it holds {', '.join(known[:10])}")
    name, _, short = run.partition("@") if run not in {r.partition("@")[0] for r in known} else (run, "", "")
    table = Table(f"{path}", "trackio")
    with opened(path) as connection:
        has_id = "run_id" in columns_of(path, "metrics")
        where, values = "run_name = ?", [name]
        if short and has_id:
            where, values = "run_name = ? AND substr(run_id, 1, 8) = ?", [name, short]
        # the step is trackio's own count: the trainer's, where it logged one, comes first
        for step, text in connection.execute(f"SELECT step, metrics FROM metrics WHERE {where} ORDER BY id", values):
            row = _mapping(text)
            if row is None or not table.add({"_step": step, **row}):
                table.ignored += 1
        if {"config", "run_name"} <= columns_of(path, "configs"):
            for (text,) in connection.execute("SELECT config FROM configs WHERE run_name = ? ORDER BY id", [name]):
                table.config.update({k: v for k, v in (_mapping(text) or {}).items() if not k.startswith("_")})
    table.flush()
    if not table.rows:
        raise Malformed(f"{path}: run {run!r} logged no number")
    return table


def _mapping(text: object) -> dict[str, object] | None:
    if not isinstance(text, str | bytes) or len(text) > MAX_LINE:
        return None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None
