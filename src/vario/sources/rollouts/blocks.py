"""Blocks: samples as tables of one shape, a few whole steps at a time, out of whatever a framework wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import polars as pl

from vario.errors import SourceError
from vario.sources.fast_json import loads
from vario.sources.opening import cut_short
from vario.sources.readers.parquet import panicked
from vario.sources.rollouts.columns import COLUMNS, COMPONENT, CONVERT, step_of
from vario.sources.rollouts.dumps import DumpFile, Piece
from vario.sources.rollouts.layouts import Layout
from vario.sources.rollouts.layouts.base import Row

BLOCK_BYTES = 24 << 20
"""Bytes of file after which a table is closed, at the next change of the step."""
STEP_BYTES = 512 << 20
"""No step is held beyond this: what follows is counted as a part of its own."""
MAX_LINE = 256 << 20
MAX_TROUBLES = 20
TABLE_ROWS = 1_024
"""Rows of a table at a time, where each has to be taken apart."""
_PLAIN = frozenset({str, int, float, type(None)})
"""Types that a whole column of them becomes a column at once."""
_ODD = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
"""What a row that is not as its framework writes it makes of the code that takes it apart."""


@dataclass
class Troubles:
    """What could not be used, counted; the first of each kind in words."""

    lines: int = 0
    rows: int = 0
    texts: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Keep a sentence, unless there are many."""
        if len(self.texts) < MAX_TROUBLES:
            self.texts.append(text)


def blocks(piece: Piece, troubles: Troubles) -> Iterator[pl.DataFrame]:
    """The samples of a piece: tables with the columns of `COLUMNS`, `reward.*` and `evaluation`; no step in two of them.

    What is broken is counted in `troubles`, and the rest given.
    """
    held: list[pl.DataFrame] = []
    size = 0
    for one in piece.files:
        last = held[-1]["step"][-1] if held and held[-1].height else None
        try:
            for frame in _of_file(one, piece, troubles):
                if held and size > BLOCK_BYTES and frame.height and frame["step"][0] != last:
                    yield pl.concat(held, how="diagonal")
                    held, size = [], 0
                held.append(frame)
                size += int(frame.estimated_size())
                last = frame["step"][-1] if frame.height else last
        except (SourceError, OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
            troubles.say(f"{one.name}: cannot be read ({_why(error)}); the other files were used")
        except BaseException as error:
            if not panicked(error):
                raise
            troubles.say(f"{one.name}: damaged ({str(error)[:160]}); the other files were used")
    if held:
        yield pl.concat(held, how="diagonal")


def objects_of(one: DumpFile, piece: Piece, troubles: Troubles) -> Iterator[tuple[Row, int | None]]:
    """The rows of a file as they were written, with all their keys, and the step that each names itself."""
    for line, _ in _objects(one, piece, troubles):
        try:
            yield from ((row, _step(row, one.layout)) for row in _rows(line, one.layout, Troubles()))
        except _ODD:
            continue


def _of_file(one: DumpFile, piece: Piece, troubles: Troubles) -> Iterator[pl.DataFrame]:
    if one.is_table and one.layout.unpack is None:
        yield from _of_table(one, _scanned(one), troubles)
    else:
        yield from _of_rows(one, _objects(one, piece, troubles), troubles)


def _scanned(one: DumpFile) -> pl.LazyFrame:
    if one.place.endswith(".parquet"):
        return pl.scan_parquet(one.source())
    separator = "\t" if one.place.endswith(".tsv") else ","
    return pl.scan_csv(one.source(), separator=separator, infer_schema=False, truncate_ragged_lines=True)


def _objects(one: DumpFile, piece: Piece, troubles: Troubles) -> Iterator[tuple[Row, int]]:
    """What a file holds, object by object, and the bytes of each."""
    if one.is_table:
        lazy = _scanned(one)
        total = int(lazy.select(pl.len()).collect().item())
        for first in range(0, total, TABLE_ROWS):
            part = lazy.slice(first, TABLE_ROWS).collect()
            size = int(part.estimated_size()) // part.height
            yield from ((row, size) for row in part.iter_rows(named=True))
    elif one.place.endswith(".pt"):
        from vario.sources.rollouts.pickled import objects

        yield from ((row, 0) for row in objects(one))
    else:
        with one.open() as stream:
            yield from _lines(stream, one, piece, troubles)


def _rows(line: Row, layout: Layout, troubles: Troubles) -> Iterator[Row]:
    """The rows of one object, without padding and failures."""
    for row in layout.unpack(line) if layout.unpack is not None else (line,):
        if layout.keep is not None and not layout.keep(row):
            troubles.rows += 1
        else:
            yield row


def _lines(stream: IO[bytes], one: DumpFile, piece: Piece, troubles: Troubles) -> Iterator[tuple[Row, int]]:
    """The objects of a file and their bytes; of a part of it, those of the steps that begin there."""
    previous: object = None
    if piece.start:
        previous = _step_before(stream, piece.start, one.layout)
    at = stream.tell() if piece.start else 0
    begun = piece.start == 0
    if one.place.endswith(".json"):
        document = loads(stream.read(MAX_LINE))
        yield from (
            (row, 64) for row in (document if isinstance(document, list) else [document]) if isinstance(row, dict)
        )
        return
    last: Row | None = None
    layout, whole = one.layout, not piece.start and piece.end is None
    while line := _next_line(stream, one, troubles):
        here, at = at, at + len(line)
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            troubles.say(f"{one.name}: a line of more than {MAX_LINE >> 20} MiB; what follows it was not read")
            return
        stripped = line.strip()
        if not stripped:
            continue
        try:
            found = loads(stripped)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            troubles.lines += begun  # before, the piece that it stands behind counts it
            continue
        if not whole:
            # beyond its edges alone: which step a line is of costs as much as reading it
            if not begun and _step(found, layout) == previous:
                continue
            if (
                piece.end is not None
                and here >= piece.end
                and _step(found, layout) != (previous if last is None else _step(last, layout))
            ):
                return
            begun, last = True, found
        yield found, len(line)


def _next_line(stream: IO[bytes], one: DumpFile, troubles: Troubles) -> bytes:
    """The next line; none where the file ends or is damaged from here on."""
    try:
        line = stream.readline(MAX_LINE)
    except (SourceError, OSError) as error:
        troubles.say(f"{one.name}: cannot be read to its end ({str(error)[:160]}); what stands before was used")
        return b""
    if not line and cut_short(stream):
        troubles.say(f"{one.name}: cut off while packed, or still being written; what stands before was used")
    return line


def _step(row: Row, layout: Layout) -> int | None:
    for key in layout.fields.get("step", ()):
        if key in row:
            value = row[key]
            return step_of(value[0] if isinstance(value, list) and value else value)
    return None


def _step_before(stream: IO[bytes], start: int, layout: Layout) -> object:
    """The step of the line before the first that begins at `start` or later; the stream then stands at that one."""
    back = 1 << 16
    while True:
        begin = max(0, start - 1 - back)
        stream.seek(begin)
        # the byte before `start` belongs to the line before, also where a line begins at `start` itself
        lines = (stream.read(start - 1 - begin) + stream.readline()).split(b"\n")
        for line in reversed(lines if begin == 0 else lines[1:]):
            try:
                found = loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return _step(found, layout)
        if begin == 0:
            return None
        back *= 8


def _why(error: Exception) -> str:
    """What went wrong, without what was read: an error of a table of texts quotes them."""
    quoting = isinstance(error, pl.exceptions.ComputeError) and "parquet" not in str(error).lower()
    return type(error).__name__ if quoting else str(error)[:160]


class _Columns:
    """Rows on their way to a table."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.clear()
        self._plans: dict[tuple[str, ...], tuple[list[str | None], list[str]]] = {}
        self._converters = [CONVERT[name] for name in layout.fields]

    def clear(self) -> None:
        """Begin a new table."""
        self.values: dict[str, list[Any]] = {name: [] for name in self.layout.fields}
        self.components: dict[str, dict[int, float]] = {}
        self.rows = 0
        self.bytes = 0

    def add(self, row: Row) -> None:
        """Take what the layout names of a row; a component is a number, and never a text that looks like one."""
        signature = tuple(row)
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = self._planned(row)
        keys, named = plan
        # what is a text or a number already is converted with its whole column, in `frame`
        values = [
            None if key is None else value if type(value := row[key]) in _PLAIN else convert(value)
            for key, convert in zip(keys, self._converters, strict=True)
        ]
        parts = {name: float(value) for name in named if isinstance(value := row[name], int | float) and value == value}
        # only now: a row that cannot be converted leaves nothing behind
        for column, value in zip(self.values.values(), values, strict=True):
            column.append(value)
        for name, number in parts.items():
            self.components.setdefault(name, {})[self.rows] = number
        self.rows += 1

    def _planned(self, row: Row) -> tuple[list[str | None], list[str]]:
        """Which key holds each column in rows with these keys, and which are reward functions."""
        keys = [next((k for k in keys if k in row), None) for keys in self.layout.fields.values()]
        return keys, [n for n in self.layout.components(tuple(row)) if n in row]

    def frame(self) -> pl.DataFrame:
        """The table of the rows so far."""
        made = {name: _series(name, self.values.get(name, [None] * self.rows), kind) for name, kind in COLUMNS.items()}
        for name, found in self.components.items():
            label = _whole(_component(name))
            made[label] = pl.Series(label, [found.get(i) for i in range(self.rows)], dtype=pl.Float64)
        return pl.DataFrame(made)


def _series(name: str, values: list[Any], kind: pl.DataType) -> pl.Series:
    try:
        column = pl.Series(name, values, dtype=kind)
    except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError):
        convert = CONVERT[name]
        values = [convert(value) if type(value) in _PLAIN else value for value in values]
    else:
        return column.fill_nan(None) if kind.is_float() else column
    try:
        return pl.Series(name, values, dtype=kind, strict=False)
    except UnicodeEncodeError:
        whole = [_whole(value) if isinstance(value, str) else value for value in values]
        return pl.Series(name, whole, dtype=kind, strict=False)


def _whole(text: str) -> str:
    """A text without half characters (surrogates), which JSON can hold and UTF-8 cannot: they count as garbled."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _component(name: str) -> str:
    return COMPONENT + name.removeprefix(COMPONENT).removeprefix("rewards/")


def _of_rows(one: DumpFile, lines: Iterable[tuple[Row, int]], troubles: Troubles) -> Iterator[pl.DataFrame]:
    layout = one.layout
    columns = _Columns(layout)
    step: object = None
    for line, size in lines:
        try:
            for row in _rows(line, layout, troubles):
                now = _step(row, layout)
                if columns.bytes > BLOCK_BYTES and (now != step or columns.bytes > STEP_BYTES):
                    yield _placed(columns.frame(), one)
                    columns.clear()
                step = now
                columns.add(row)
        except _ODD as error:
            troubles.lines += 1
            troubles.say(f"{one.name}: a line that is not as {layout.name} writes it ({type(error).__name__})")
        columns.bytes += size
    if columns.rows:
        yield _placed(columns.frame(), one)


def _of_table(one: DumpFile, lazy: pl.LazyFrame, troubles: Troubles) -> Iterator[pl.DataFrame]:
    schema = lazy.collect_schema()
    layout = one.layout
    taken = {name: key for name, keys in layout.fields.items() if (key := next((k for k in keys if k in schema), None))}
    components = [n for n in layout.components(schema.names()) if schema[n].is_numeric() or schema[n] == pl.Boolean]
    texts = not schema.names() or all(kind == pl.String for kind in schema.values())
    if texts:  # CSV: everything is text
        components = list(layout.components(schema.names()))
    wanted = list(dict.fromkeys([*taken.values(), *components]))
    total = int(lazy.select(pl.len()).collect().item())
    for first, count in _slices(one, lazy, taken.get("step"), total):
        raw = lazy.select(wanted).slice(first, count).collect()
        made: dict[str, pl.Series] = {
            name: _converted(raw[taken[name]], name) if name in taken else pl.Series([None] * raw.height, dtype=kind)
            for name, kind in COLUMNS.items()
        }
        for name in components:
            numbers = raw[name].cast(pl.Float64, strict=False)
            if numbers.null_count() < raw.height or not texts:
                made[_component(name)] = numbers
        yield _placed(pl.DataFrame(made), one)
    if not total:
        troubles.say(f"{one.name}: a table without rows")


def _slices(one: DumpFile, lazy: pl.LazyFrame, step: str | None, total: int) -> Iterator[tuple[int, int]]:
    """First row and count of parts of a table that divide no step."""
    parts = max(1, -(-one.size // BLOCK_BYTES))
    if one.step is not None or step is None or parts == 1:
        yield 0, total
        return
    changes = lazy.select(step).with_row_index("row").filter(pl.col(step) != pl.col(step).shift()).collect()
    edges = changes["row"].to_list()
    first = 0
    for edge in [*edges, total]:
        if edge - first >= total / parts or edge == total:
            yield first, edge - first
            first = edge


def _converted(column: pl.Series, name: str) -> pl.Series:
    kind, wanted = column.dtype, COLUMNS[name]
    if kind == wanted:
        return column
    simple = kind.is_numeric() or kind == pl.Boolean or kind == pl.String
    if simple and wanted.is_numeric():
        return column.cast(pl.Float64, strict=False).cast(wanted, strict=False)
    if simple and wanted == pl.String and name not in ("prompt", "completion"):
        return column.cast(pl.String)
    convert = CONVERT[name]
    return _series(name, [convert(v) for v in column.to_list()], wanted)


def _placed(frame: pl.DataFrame, one: DumpFile) -> pl.DataFrame:
    step = pl.col("step")
    if one.step is not None:
        step = step.fill_null(one.step)
    return frame.with_columns(step=step.fill_null(0), evaluation=pl.lit(one.held_out), place=pl.lit(one.place))
