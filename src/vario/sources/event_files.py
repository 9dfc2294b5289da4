"""Several TensorBoard files of one run: restarts, several writers, and ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vario.errors import Malformed, SourceError
from vario.run import Event, Floats, Ints
from vario.sources.opening import open_log
from vario.sources.readers.parser import PIECE
from vario.sources.readers.tensorboard import EventFile, start
from vario.sources.rows import Table, kind_of

FRESH = 2
"""A later file that starts at such a step was started anew, not resumed."""


def read_together(paths: list[Path]) -> Table:
    """One table from the event files of a run.

    A file that begins after another ended is a restart: from its first step on it counts. Files
    written side by side are several writers: each keeps its tags, and of a tag that two of them
    write the longer series counts.

    Raises:
        Malformed: none holds a scalar.
    """
    opened = [_parsed(path) for path in sorted(paths)]
    files = sorted((f for f in opened if f.has_points), key=lambda f: f.first_wall)
    if not files:
        raise Malformed(f"{paths[0]}: an event file without scalars; was anything logged before it was cut off?")
    table = Table(str(paths[0] if len(paths) == 1 else Path(paths[0]).parent), "tensorboard")
    for one in opened:
        one.note_end()
        table.warnings += one.table.warnings
        table.ignored += one.table.ignored
        for key, value in one.table.config.items():
            table.config.setdefault(key, value)
    columns: dict[str, tuple[Ints, Floats]] = {}
    ended = -np.inf
    for one in files:
        mine = {tag: (steps, values) for tag, (steps, _, values) in one.columns().items()}
        train = [int(s.min()) for tag, (s, _) in mine.items() if kind_of((tag,)) == "train" and tag in columns]
        if train and one.first_wall >= ended:
            first = min(train)
            before = max(int(s.max()) for tag, (s, _) in columns.items() if tag in mine)
            if first <= FRESH and before > first:
                table.warnings.append(
                    f"{Path(one.table.path).name}: the training was started anew; the newest start was read"
                )
                columns = {}
            elif first <= before:
                table.events.append(
                    Event("resume", first, f"resumed at step {first}; the steps up to {before} were run again")
                )
                columns = {tag: (s[s < first], v[s < first]) for tag, (s, v) in columns.items()}
        for tag, (steps, values) in mine.items():
            known = columns.get(tag)
            if known is None or not known[0].size:
                columns[tag] = (steps, values)
            elif one.first_wall >= ended:
                columns[tag] = (np.concatenate([known[0], steps]), np.concatenate([known[1], values]))
            elif steps.size > known[0].size:
                columns[tag] = (steps, values)
        ended = max(ended, one.last_wall)
    for tag, (steps, values) in columns.items():
        table.put(tag, steps, values)
    table.flush()
    return table


def _parsed(path: Path) -> EventFile:
    parser = start(path)
    try:
        with open_log(path) as stream:
            while piece := stream.read(PIECE):
                parser.feed(piece)
    except SourceError as error:
        parser.table.warnings.append(str(error))
    return parser
