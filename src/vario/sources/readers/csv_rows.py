"""CSV and TSV: a header of keys, one row a step; also what W&B's charts and TensorBoard export.

What TensorBoard exports (`Wall time,Step,Value`) does not say which tag it is of: the name of the file does,
`run-NAME-tag-TAG.csv` as TensorBoard gives it, else the whole name. Slashes are lost in it: `train_` and `eval_`
at its start are read as scopes.
"""

from __future__ import annotations

import re
from copy import copy, deepcopy
from functools import cache
from pathlib import Path

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.run import Floats, Ints
from vario.sources.readers.jsonl import SAMPLES
from vario.sources.readers.metric_words import SAMPLE_KEYS, of_a_step
from vario.sources.readers.parser import Lines, feed_all, finish_with
from vario.sources.rows import STEP_KEYS, Table, number, step_number

MAX_LINE = 4 << 20
MAX_COLUMNS = 20_000
MAX_NAME = 200
MAX_QUOTED_LINES = 500
"""A quoted text of more lines is a stray quote."""
ROWS_AT_ONCE = 4096
DELIMITERS = (",", "\t", ";")
_NO_NAME = re.compile(r"[{}=\[\]]|: |^\s*\d|\.$")
_CHART = re.compile(r"^(?P<run>.+) - (?P<key>.+?)(?P<bound>__MIN|__MAX)?$")
"""How W&B names the columns of a chart's export: run, key, and the bounds of the run's band."""
_SCALARS = ["wall time", "step", "value"]
"""The header of TensorBoard's export."""
_TAG = re.compile(r"^run-.*?-tag-(.+)$")
_SCOPE = re.compile(r"^(train|eval|val|test)_")
_DECIMAL_COMMA = re.compile(r"^\s*[-+]?\d+,\d+(?:[eE][-+]?\d+)?\s*$")
_WORDS = {"true": 1.0, "false": 0.0}


def recognises(path: Path, head: bytes) -> bool:
    """A header of at least two names, and a second line with as many cells, some of them numbers."""
    lines = head.decode("utf-8-sig", "replace").splitlines()
    if len(lines) < 2:
        return False
    delimiter = _delimiter(lines[0])
    if delimiter is None:
        return False
    names, cells = _split(lines[0], delimiter), _split(lines[1], delimiter)
    if len(lines) == 2 and len(head) >= 4096:  # a row that does not end within the head
        cells += [""] * (len(names) - len(cells))
    named = [n for n in names if n.strip() and number(n) is None]
    numbers = sum(bool(c.strip()) and number(c) is not None for c in cells)
    if len(named) < max(2, len(names) - 1) or any(len(n) >= MAX_NAME for n in names):
        return False
    if any(s in {".csv", ".tsv"} for s in path.suffixes[-2:]):
        return len(names) == len(cells) or lines[1].count('"') % 2 == 1  # a text may go on in the next line
    # a log may begin with two lines that have as many commas: there the names are no plain words
    plain = not any(_NO_NAME.search(n) for n in names) and len(set(named)) == len(named)
    return len(names) == len(cells) and numbers >= 1 and plain


def _delimiter(line: str) -> str | None:
    counts = {d: line.count(d) for d in DELIMITERS}
    best = max(DELIMITERS, key=counts.__getitem__)
    return best if counts[best] else None


@cache
def _patterns(delimiter: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Cells of a line, and a quoted cell that does not end."""
    d = re.escape(delimiter)
    return (
        re.compile(rf'(?:^|{d})(?:\s*"((?:[^"]++|"")*+)"[^{d}]*|([^{d}]*))'),
        re.compile(rf'(?:^|{d})\s*"(?:[^"]++|"")*+$'),
    )


def _split(line: str, delimiter: str) -> list[str]:
    """The cells of a line. The `csv` module would refuse texts above a limit that is set for the whole process."""
    if '"' not in line:
        return line.split(delimiter)
    return [quoted.replace('""', '"') or plain for quoted, plain in _patterns(delimiter)[0].findall(line)]


class DelimitedRows:
    """Rows under a header. An empty cell was not logged; a last line without its newline may be half a number."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "csv")
        self._name = Path(name).name
        self._lines = Lines(MAX_LINE)
        self._header: list[str] | None = None
        self._names: list[str] = []
        self._delimiter = ","
        self._rows: list[list[str]] = []
        self._open: list[str] = []
        self._open_size = 0
        self._at = 0
        self._ragged, self._first_ragged = 0, 0
        self._clock: str | None = None
        self._count = 0
        self._unfinished = False
        self.samples = False

    def __deepcopy__(self, memo: dict[int, object]) -> DelimitedRows:
        """One that goes on by itself; the rows that wait are shared."""
        made = copy(self)
        made.table, made._lines = deepcopy(self.table, memo), deepcopy(self._lines, memo)
        made._rows, made._open = list(self._rows), list(self._open)
        return made

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self._lines.cut(data):
            self._at += 1
            if line or self._open:
                self._line(line.decode("utf-8-sig" if self._header is None else "utf-8", "replace").rstrip("\r"))

    def _line(self, line: str) -> None:
        if self._open:
            if not self._closes(line):
                return
            line = "\n".join(self._open)
            self._open, self._open_size = [], 0
        if not line.strip():
            return
        if self._header is None:
            self._delimiter = _delimiter(line) or ","
        if '"' in line and line.count('"') % 2 and _patterns(self._delimiter)[1].search(line):
            self._open, self._open_size = [line], len(line)
            return
        self._row(line)

    def _closes(self, line: str) -> bool:
        """Take a further line of a quoted text; whether the text ends in it."""
        self._open.append(line)
        self._open_size += len(line)
        if line.count('"') % 2:
            return True
        if len(self._open) > MAX_QUOTED_LINES or self._open_size > MAX_LINE:
            first, *rest = self._open
            self._open, self._open_size = [], 0
            self.table.ignored += bool(first)
            self._leave_out(self._at - len(rest))
            for other in rest:  # the quote was a stray one: the lines behind it are rows
                self._row(other)
        return False

    def _leave_out(self, at: int) -> None:
        self._first_ragged = self._first_ragged or at
        self._ragged += 1

    def _row(self, line: str) -> None:
        cells = _split(line, self._delimiter)
        if self._header is None:
            self._header = [c.strip() for c in cells]
            self._names = self._keys(self._header)[:MAX_COLUMNS]
            self.samples = len(SAMPLE_KEYS & set(self._names)) >= 2 and not of_a_step(self._names)
            return
        if len(cells) != len(self._header):
            self.table.ignored += 1
            self._leave_out(self._at)
            return
        if cells[0].strip() == self._header[0] and [c.strip() for c in cells] == self._header:
            return  # the header again: another run was appended
        self._rows.append(cells)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        if self.samples:
            self._rows = []
            return
        columns = list(zip(*self._rows, strict=True))
        rows = len(self._rows)
        self._rows = []
        steps, placed = self._steps(columns, rows)
        ready: dict[str, tuple[Ints, Floats]] = {}
        for name, cells in zip(self._names, columns, strict=False):
            if name in STEP_KEYS or not name or name in ready:
                continue
            column = self._column(cells, placed)
            if column[0].size:
                ready[name] = column
        self._count += rows
        if ready:
            self.table.put_rows(steps, ready)

    def _column(self, cells: tuple[str, ...], placed: list[int]) -> tuple[Ints, Floats]:
        """The rows of a column that hold a number, and the numbers."""
        held, texts = placed, cells
        if "" in cells or len(placed) < len(cells):
            held = [i for i in placed if cells[i]]
            texts = tuple(cells[i] for i in held)
        try:
            values = list(map(float, texts))
        except ValueError:
            found = [(i, self._number(c)) for i, c in zip(held, texts, strict=True) if c and not c.isspace()]
            held, values = [i for i, v in found if v is not None], [v for _, v in found if v is not None]
            self.table.texts += len(found) - len(held)
        return np.array(held, dtype=np.int64), np.array(values, dtype=np.float64)

    def _number(self, cell: str) -> float | None:
        if self._delimiter == ";" and _DECIMAL_COMMA.match(cell):
            cell = cell.replace(",", ".")
        found = number(cell)
        return _WORDS.get(cell.strip().lower()) if found is None else found

    def _steps(self, columns: list[tuple[str, ...]], rows: int) -> tuple[Ints, list[int]]:
        """The step of each row, and the rows that have one."""
        if self._clock is None:
            for key in STEP_KEYS:
                if key in self._names and any(step_number(c) is not None for c in columns[self._names.index(key)]):
                    self._clock = key
                    break
            else:
                self._clock = ""
        if not self._clock:
            self.table.index_steps = True
            return np.arange(self._count + 1, self._count + rows + 1, dtype=np.int64), list(range(rows))
        found = [step_number(c) for c in columns[self._names.index(self._clock)]]
        placed = [i for i, s in enumerate(found) if s is not None]
        lost = rows - len(placed)
        if lost and self._unfinished and found[-1] is None:
            lost -= 1  # its step has not been written yet
        self.table.ignored += lost
        return np.array([s or 0 for s in found], dtype=np.int64), placed

    def close(self) -> None:
        """Settle the last rows."""
        rest = self._lines.rest()
        if rest.strip() and self._header is not None and not self._open and b'"' not in rest:
            # the file may still grow: only the last cell can be half a number, and it is left out
            cells = rest.decode("utf-8", "replace").split(self._delimiter)[:-1][: len(self._header) - 1]
            if cells:
                self._rows.append(cells + [""] * (len(self._header) - len(cells)))
                self._unfinished = True
        self.table.ignored += bool(self._open) + self._lines.dropped
        self._flush()
        if self._ragged:
            more = f"{self._ragged} rows have" if self._ragged > 1 else "a row has"
            self.table.warnings.append(
                f"{self._name}: {more} not as many cells as the header and {'were' if self._ragged > 1 else 'was'} "
                f"left out; the first ends in line {self._first_ragged}"
            )

    def _keys(self, names: list[str]) -> list[str]:
        """The header's names; those of an export as the tracker had them."""
        if [n.lower() for n in names] == _SCALARS:
            stem = self._name.split(".csv")[0].split(".tsv")[0]
            tagged = _TAG.match(stem)
            return ["_timestamp", "Step", _SCOPE.sub(r"\1/", tagged[1] if tagged else stem)]
        charts = [_CHART.match(n) for n in names]
        runs = dict.fromkeys(c["run"] for c in charts if c)
        bounded = any(c and c["bound"] for c in charts)
        if not runs or (not bounded and any(not c and n not in STEP_KEYS for n, c in zip(names, charts, strict=True))):
            return names
        if len(runs) > 1:
            self.table.warnings.append(
                f"{self._name}: columns of {len(runs)} runs ({', '.join(list(runs)[:3])}); export the chart of one run, "
                "or name its columns with --map METRIC=COLUMN"
            )
        plain = [n if c is None or len(runs) > 1 else c["key"] for n, c in zip(names, charts, strict=True)]
        return ["" if c and c["bound"] else n for n, c in zip(plain, charts, strict=True)]


def start(path: Path) -> DelimitedRows:
    """A parser for this file."""
    return DelimitedRows(str(path))


def read(path: Path) -> Table:
    """Read one file.

    Raises:
        Malformed: there was no row of numbers. NothingReadable: the rows are samples.
    """
    parser = start(path)
    feed_all(parser, path)
    return finish(parser, path)


def finish(parser: DelimitedRows, path: Path) -> Table:
    """The table of a parser that has been fed the whole file.

    Raises:
        Malformed: there was no row of numbers. NothingReadable: the rows are samples.
    """
    try:
        return finish_with(parser, path, "no row of numbers under the header")
    except Malformed as error:
        if parser.samples:
            raise NothingReadable(f"{path}: {SAMPLES}") from error
        raise
