"""Several TensorBoard files of one run: restarts, several writers, and ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vario.errors import Malformed, SourceError
from vario.run import Event, Floats, Ints
from vario.sources.growing import Growing
from vario.sources.opening import open_log
from vario.sources.readers import tensorboard
from vario.sources.readers.parser import PIECE
from vario.sources.readers.tensorboard import EventFile
from vario.sources.rows import Table, kind_of

Columns = dict[str, tuple[Ints, Floats]]
FRESH = 2
"""A later file that starts at such a step was started anew, not resumed."""


def read_together(paths: list[Path], growing: Growing | None = None) -> Table:
    """One table from the event files of a run.

    A file that begins after another ended is a restart: from its first step on it counts. Files
    written side by side are several writers: each keeps its tags, and of a tag that two of them
    write the longer series counts, with what the other has before or behind it.

    Raises:
        Malformed: none holds a scalar.
    """
    opened = [_parsed(path, growing) for path in sorted(paths)]
    table = Table(str(paths[0] if len(paths) == 1 else Path(paths[0]).parent), "tensorboard")
    for one in opened:
        one.note_end()
        table.warnings += one.table.warnings
        table.ignored += one.table.ignored
        table.texts += one.table.texts
    for one in sorted(opened, key=lambda f: -f.began):  # a restart may have changed a setting
        for key, value in one.table.config.items():
            table.config.setdefault(key, value)
    files = sorted((f for f in opened if f.has_points), key=lambda f: f.first_wall)
    if not files:
        lost = f" ({table.warnings[0]})" if table.warnings else ""
        raise Malformed(f"{paths[0]}: an event file without scalars; was anything logged before it was cut off?{lost}")
    columns: dict[str, tuple[Ints, Floats]] = {}
    shared: set[str] = set()
    ended = -np.inf
    for one in files:
        mine = one.columns()
        is_restart = one.first_wall >= ended
        if is_restart:
            columns = _restarted(table, columns, mine, Path(one.table.path).name)
        for tag, theirs in mine.items():
            known = columns.get(tag)
            if known is None or not known[0].size:
                columns[tag] = theirs
            elif is_restart:
                columns[tag] = (np.concatenate([known[0], theirs[0]]), np.concatenate([known[1], theirs[1]]))
            else:
                columns[tag] = _beside(known, theirs)
                shared.add(tag)
        ended = max(ended, one.last_wall)
    if shared:
        table.warnings.append(
            f"{len(shared)} metrics come from several files written at the same time (processes of one run?); "
            "of each the longer series counts"
        )
    for tag, (steps, values) in columns.items():
        table.put(tag, steps, values)
    table.flush()
    return table


def _restarted(table: Table, before: Columns, mine: Columns, name: str) -> Columns:
    """What stays of the earlier columns when a later file goes on, or begins anew."""
    common = {
        tag: steps
        for tag, (steps, _) in mine.items()
        if kind_of((tag,)) == "train" and tag in before and before[tag][0].size
    }
    if not common:
        return before
    # what is logged once in each session, at step 0 say, does not tell where the training went on
    most = max(s.size for s in common.values())
    first = min(int(s.min()) for s in common.values() if 2 * s.size >= most)
    last = max(int(s.max()) for tag, (s, _) in before.items() if tag in mine and s.size)
    if first <= FRESH and last > first:
        table.warnings.append(f"{name}: the training was started anew; the newest start was read")
        return {}
    if first > last:
        return before
    table.events.append(Event("resume", first, f"resumed at step {first}; the steps up to {last} were run again"))
    return {tag: (s[s < first], v[s < first]) for tag, (s, v) in before.items()}


def _beside(one: tuple[Ints, Floats], other: tuple[Ints, Floats]) -> tuple[Ints, Floats]:
    """The longer of two series, and of the shorter what lies outside it (clocks of two machines may differ)."""
    longer, shorter = (one, other) if one[0].size >= other[0].size else (other, one)
    outside = (shorter[0] < longer[0].min()) | (shorter[0] > longer[0].max())
    return np.concatenate([shorter[0][outside], longer[0]]), np.concatenate([shorter[1][outside], longer[1]])


def _parsed(path: Path, growing: Growing | None) -> EventFile:
    known = None if growing is None else growing.parser(tensorboard, path)
    if isinstance(known, EventFile):
        return known
    parser = tensorboard.start(path)
    try:
        with open_log(path) as stream:
            while piece := stream.read(PIECE):
                parser.feed(piece)
    except SourceError as error:
        parser.table.warnings.append(str(error))
    return parser
