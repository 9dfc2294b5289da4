"""Jupyter notebooks: the progress tables and the printed lines among their outputs.

Nothing of a notebook is run or shown: tables are read for their cells, texts as console logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from vario.errors import Malformed
from vario.sources.merging import agree, take_over
from vario.sources.opening import read_whole
from vario.sources.readers.console import ConsoleLog
from vario.sources.readers.metric_words import kinds_of
from vario.sources.rows import Table, number, step_number

MAX_BYTES = 1 << 30
MAX_TABLE = 64 << 20
"""A larger table of HTML is no progress table (characters)."""
MIN_ROWS = 5
"""A training with fewer rows is not told of beside another."""
_TAG = re.compile(r"(?i)<(/?)(table|tr|td|th)\b[^<>]*>")
_ANY_TAG = re.compile(r"<[^<>]*>")
_HEADERS = {"Training Loss": "loss", "Validation Loss": "eval_loss"}
"""What the Trainer's table calls two of its columns."""


def recognises(path: Path, head: bytes) -> bool:
    """By its ending or its field `cells`."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"{") and (".ipynb" in path.suffixes[-2:] or b'"cells"' in head[:400])


def _cells(html: str) -> Iterator[list[list[str]]]:
    """The tables of an HTML text as lists of rows of texts.

    A scan for tags, not a parser of HTML: it takes time in proportion to the text, whatever stands in it.
    """
    rows: list[list[str]] = []
    begun = -1
    for tag in _TAG.finditer(html):
        closes, name = tag[1] == "/", tag[2].lower()
        if begun >= 0 and rows:  # a cell ends where it is closed, and where anything else begins
            rows[-1].append(unescape(_ANY_TAG.sub("", html[begun : tag.start()])).strip())
            begun = -1
        if name == "table":
            if rows:
                yield rows
            rows = []
        elif name == "tr" and not closes:
            rows.append([])
        elif name in ("td", "th") and not closes and rows:
            begun = tag.end()
    if rows:
        yield rows


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
    if isinstance(text, list):
        return "".join(t for t in text if isinstance(t, str))
    return text if isinstance(text, str) else ""


def _tables(html: str, name: str) -> Iterator[Table]:
    """Every progress table: a header that starts with Step, and rows of numbers."""
    if "<table" not in html.lower():
        return
    for rows in _cells(html):
        if len(rows) < 2 or not rows[0] or rows[0][0] not in ("Step", "Epoch"):
            continue
        clock, *header = (_HEADERS.get(h, h) for h in rows[0])
        table = Table(name, "notebook", index_steps=clock == "Epoch")
        for first, *cells in filter(None, rows[1:]):
            step = step_number(first)
            if step is None or len(cells) != len(header):
                table.ignored += 1
                continue
            # "No log" and empty cells were not logged at that step
            table.add({k: v for k, v in zip(header, cells, strict=True) if v and number(v) is not None}, step=step)
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
    data = read_whole(path, MAX_BYTES, "export the notebook's log as text")
    try:
        loaded = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path}: broken notebook ({str(error)[:120]})") from error
    if not isinstance(loaded, dict):
        raise Malformed(f"{path}: no notebook: a mapping with cells was expected")
    found: list[Table] = []
    printed = ConsoleLog(str(path))
    too_large = 0
    for kind, text in _outputs(loaded):
        if kind == "html" and len(text) > MAX_TABLE:
            too_large += 1
        elif kind == "html":
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
        best.warnings.append(
            f"{path.name}: rows without a step; the order of the rows, or the epoch, is used as the step"
        )
    if too_large:
        best.warnings.append(f"{path.name}: {too_large} outputs of more than {MAX_TABLE >> 20} MiB were not looked at")
    others = 0
    for other in reversed(found[:-1]):
        if agree(best, other):
            take_over(best, other)
        elif other.rows >= MIN_ROWS:
            others += 1
    if others:
        best.warnings.append(
            f"{path.name}: {others + 1} trainings among its outputs; the one with most metrics was read"
        )
    return best
