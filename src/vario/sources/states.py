"""One history from the state files of a run: each checkpoint of the Trainer holds the history up to it."""

from __future__ import annotations

from pathlib import Path

from vario.errors import SourceError
from vario.run import Event
from vario.sources.folder import CHECKPOINT
from vario.sources.readers import trainer_state
from vario.sources.rows import Table


def home_of(state: Path) -> Path:
    """The output folder that a state file belongs to."""
    return state.parent.parent if CHECKPOINT.search(state.parent.name) else state.parent


def read_states(states: list[Path], home: Path) -> tuple[Table | None, list[str]]:
    """The longest history, with the rows that only others have; and what could not be read.

    After a resume from an earlier checkpoint the later files hold another history from there on.
    The longest history counts: times of files do not survive a copy. So until a resumed run has
    passed the branch it left, that branch is shown.
    """
    ordered = sorted(
        states, key=lambda p: (p.stat().st_mtime_ns if p.exists() else 0, p.parent.name != home.name, _step_of(p))
    )
    tables, failures = [], []
    for path in ordered:
        try:
            table = trainer_state.read(path)
            table.flush()
            tables.append(table)
        except SourceError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{path}: cannot be read ({error.strerror or error}); check its owner and mode")
    if not tables:
        return None, failures
    tables.sort(key=lambda t: max(t.logged_steps(), default=0))
    whole = tables[-1]
    for older in reversed(tables[:-1]):
        _stitch(whole, older)
    return whole, failures


def _step_of(path: Path) -> int:
    found = CHECKPOINT.search(path.parent.name)
    return int(found[1]) if found else 1 << 62


def _stitch(whole: Table, older: Table) -> None:
    """Note where two histories of one run part, and keep what only the older one holds."""
    ours, theirs = whole.series(), older.series()
    common: list[str] = [k for k in ("loss", "grad_norm", "reward", "epoch") if k in ours and k in theirs]
    parted: int | None = None
    for key in common:
        a, b = ours[key], theirs[key]
        at = {int(s): float(v) for s, v in zip(a.steps, a.values, strict=True)}
        for step, value in zip(b.steps.tolist(), b.values.tolist(), strict=True):
            if step in at and at[step] != value and (at[step] == at[step] or value == value):
                parted = step if parted is None else min(parted, step)
                break
    first = min(whole.logged_steps(), default=0)
    missing = any(s < first for s in older.logged_steps())
    if parted is not None and not any(e.kind == "resume" and e.step == parted for e in whole.events):
        repeated = int((older.logged_steps() >= parted).sum())
        whole.events.append(Event("resume", parted, f"resumed before step {parted}: {repeated} steps were run again"))
    if missing:
        whole.put_before(older, int(first))
        whole.events.append(
            Event("resume", int(first), f"the history starts again at step {first}; earlier rows are from {older.path}")
        )
