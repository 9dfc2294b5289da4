"""CSV and TSV: a header of keys, one row a step; also what W&B's charts and TensorBoard export."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from vario.run import Floats, Ints
from vario.sources.readers.parser import Lines, read_all
from vario.sources.rows import STEP_KEYS, Table, number, step_number

MAX_LINE = 4 << 20
MAX_COLUMNS = 20_000
ROWS_AT_ONCE = 4096
DELIMITERS = (",", "\t", ";")
_CHART = re.compile(r"^(?P<run>.+) - (?P<key>.+?)(?P<bound>__MIN|__MAX)?$")
"""How W&B names the columns of a chart's export: run, key, and the bounds of the run's band."""


def recognises(path: Path, head: bytes) -> bool:
    """A header of at least two names, and a second line with as many cells, some of them numbers."""
    lines = head.decode("utf-8-sig", "replace").splitlines()
    if len(lines) < 2:
        return False
    delimiter = _delimiter(lines[0])
    if delimiter is None:
        return False
    names = next(csv.reader([lines[0]], delimiter=delimiter))
    cells = next(csv.reader([lines[1]], delimiter=delimiter))
    if len(lines) == 2 and len(head) >= 4096:  # a row that does not end within the head
        cells += [""] * (len(names) - len(cells))
    named = sum(number(n) is None and bool(n.strip()) for n in names)
    numbers = sum(bool(c.strip()) and number(c) is not None for c in cells)
    named_so = any(s in {".csv", ".tsv"} for s in path.suffixes[-2:])
    short = all(len(n) < 200 for n in names)
    return len(names) == len(cells) and named >= max(2, len(names) - 1) and short and (numbers >= 1 or named_so)


def _delimiter(line: str) -> str | None:
    counts = {d: line.count(d) for d in DELIMITERS}
    best = max(DELIMITERS, key=counts.__getitem__)
    return best if counts[best] else None


class DelimitedRows:
    """Rows under a header. An empty cell was not logged; a last line without its newline may be half a number."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "csv")
        self._name = Path(name).name
        self._lines = Lines(MAX_LINE)
        self._names: list[str] | None = None
        self._delimiter = ","
        self._rows: list[list[str]] = []
        self._open: str | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self._lines.cut(data):
            self._line(line)

    def _line(self, raw: bytes) -> None:
        line = raw.decode("utf-8-sig" if self._names is None else "utf-8", "replace").rstrip("\r")
        if self._open is not None:
            line = f"{self._open}\n{line}"
            self._open = None
        if not line.strip():
            return
        if line.count('"') % 2:
            if len(line) < MAX_LINE:
                self._open = line  # a quoted text that holds a newline
            return
        if self._names is None:
            self._delimiter = _delimiter(line) or ","
            self._names = _keys(next(csv.reader([line], delimiter=self._delimiter)))[:MAX_COLUMNS]
            return
        cells = next(csv.reader([line], delimiter=self._delimiter)) if '"' in line else line.split(self._delimiter)
        if len(cells) != len(self._names):
            self.table.ignored += 1
            return
        if cells == self._names:
            return  # the header again: another run was appended
        self._rows.append(cells)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._rows or self._names is None:
            return
        columns = list(zip(*self._rows, strict=True))
        rows = len(self._rows)
        self._rows = []
        steps = self._steps(columns, rows)
        if steps is None:
            self.table.ignored += rows
            return
        ready: dict[str, tuple[Ints, Floats]] = {}
        for name, cells in zip(self._names, columns, strict=True):
            if name in STEP_KEYS or not name or name in ready:
                continue
            held = np.flatnonzero(np.fromiter((bool(c) and not c.isspace() for c in cells), bool, rows))
            if not held.size:
                continue
            try:
                values = np.array([cells[i] for i in held.tolist()], dtype=np.float64)
            except ValueError:
                found = [(i, v) for i in held.tolist() if (v := number(cells[i])) is not None]
                self.table.texts += int(held.size) - len(found)
                held = np.array([i for i, _ in found], dtype=np.int64)
                values = np.array([v for _, v in found], dtype=np.float64)
            ready[name] = (held, values)
        self.table.put_rows(steps, ready)

    def _steps(self, columns: list[tuple[str, ...]], rows: int) -> Ints | None:
        assert self._names is not None
        for key in STEP_KEYS:
            if key in self._names:
                found = [step_number(c) for c in columns[self._names.index(key)]]
                if all(s is not None for s in found):
                    return np.array(found, dtype=np.int64)
        if self.table.rows and not self.table.index_steps:
            return None
        self.table.index_steps = True
        return np.arange(self.table.rows + 1, self.table.rows + rows + 1, dtype=np.int64)

    def close(self) -> None:
        """Settle the last rows."""
        rest = self._lines.rest()
        if rest.strip() and self._names is not None and self._open is None:
            # the file may still grow: only the last cell can be half a number, and it is left out
            cells = rest.decode("utf-8", "replace").split(self._delimiter)[:-1][: len(self._names) - 1]
            if cells and b'"' not in rest:
                self._rows.append(cells + [""] * (len(self._names) - len(cells)))
        if self._open is not None:
            self.table.ignored += 1
        self.table.ignored += self._lines.dropped
        self._flush()


def _keys(header: list[str]) -> list[str]:
    """The header's names; those of a chart's export without the run and its bounds, where there is one run."""
    names = [n.strip() for n in header]
    charts = [_CHART.match(n) for n in names]
    if any(c and c["bound"] for c in charts):
        runs = {c["run"] for c in charts if c}
        if len(runs) == 1:
            return ["" if c and c["bound"] else c["key"] if c else n for n, c in zip(names, charts, strict=True)]
    return names


def start(path: Path) -> DelimitedRows:
    """A parser for this file."""
    return DelimitedRows(str(path))


def read(path: Path) -> Table:
    """Read one file.

    Raises:
        Malformed: there was no row of numbers.
    """
    return read_all(start(path), path, "no row of numbers under the header")
