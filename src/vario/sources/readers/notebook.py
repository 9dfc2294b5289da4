"""Jupyter notebooks: the progress tables and the printed lines among their outputs.

Nothing of a notebook is run or shown: tables are read for their cells, texts as console logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from vario.errors import Malformed
from vario.sources.opening import open_log
from vario.sources.readers.console import ConsoleLog
from vario.sources.readers.metric_words import kinds_of
from vario.sources.rows import Table, number

MAX_BYTES = 1 << 30
MAX_TABLE = 64 << 20
"""A larger table of HTML is no progress table (characters)."""


def recognises(path: Path, head: bytes) -> bool:
    """By its ending or its field `cells`."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"{") and (".ipynb" in path.suffixes[-2:] or b'"cells"' in head[:400])


class _Cells(HTMLParser):
    """The tables of an HTML text as lists of rows of texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  (the parser's signature)
        """A table, a row or a cell begins."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        """A cell ends."""
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        """Text of a cell."""
        if self._cell is not None:
            self._cell.append(data)


def _outputs(notebook: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Kind and text of each output; `html` or `text`."""
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else []:
            if not isinstance(output, dict):
                continue
            data = output.get("data")
            html = data.get("text/html") if isinstance(data, dict) else None
            if html is not None:
                yield "html", _joined(html)
            elif (text := output.get("text")) is not None:
                yield "text", _joined(text)
            elif isinstance(data, dict) and "text/plain" in data:
                yield "text", _joined(data["text/plain"])


def _joined(text: object) -> str:
    return "".join(t for t in text if isinstance(t, str)) if isinstance(text, list) else str(text)


def _tables(html: str, name: str) -> Iterator[Table]:
    """Every progress table: a header that starts with Step, and rows of numbers."""
    if "<table" not in html or len(html) > MAX_TABLE:
        return
    parser = _Cells()
    parser.feed(html)
    for rows in parser.tables:
        if len(rows) < 2 or not rows[0] or rows[0][0] not in ("Step", "Epoch"):
            continue
        header = ["loss" if h == "Training Loss" else "eval_loss" if h == "Validation Loss" else h for h in rows[0]]
        table = Table(name, "notebook")
        for cells in rows[1:]:
            if len(cells) == len(header):
                # "No log" and empty cells were not logged at that step
                table.add({k: v for k, v in zip(header, cells, strict=True) if number(v) is not None})
        table.flush()
        if table.rows:
            yield table


def _weight(table: Table) -> float:
    return float(table.rows * len(kinds_of(table.series())) ** 2)


def read(path: Path) -> Table:
    """Read the table or the printed lines that look most like a training.

    Raises:
        Malformed: it is no notebook, or no output holds rows of metrics.
    """
    with open_log(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Malformed(f"{path}: a notebook of more than {MAX_BYTES >> 30} GiB; export its log as text")
    try:
        loaded = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path}: broken notebook ({str(error)[:120]})") from error
    if not isinstance(loaded, dict):
        raise Malformed(f"{path}: no notebook: a mapping with cells was expected")
    found: list[Table] = []
    printed = ConsoleLog(str(path))
    for kind, text in _outputs(loaded):
        if kind == "html":
            found += _tables(text, str(path))
        else:
            printed.feed(text.encode("utf-8", "replace") + b"\n")
    printed.close()
    printed.table.flush()
    if printed.table.rows > 1:
        found.append(printed.table)
    if not found:
        raise Malformed(f"{path}: no progress table and no row of metrics among the notebook's outputs")
    found.sort(key=_weight)
    best = found[-1]
    best.kind = "notebook"
    if best.index_steps:
        best.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    others = [t for t in found[:-1] if t.rows >= 5]
    if others:
        best.warnings.append(
            f"{path.name}: {len(others) + 1} trainings among its outputs; the one with most metrics was read"
        )
    return best
