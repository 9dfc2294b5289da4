"""JSON lines: one object per logged step. Split on newline only: U+2028 is text."""

from __future__ import annotations

import json
from pathlib import Path

from vario.errors import Malformed, NothingReadable
from vario.sources.fast_json import loads
from vario.sources.readers.metric_words import is_sample
from vario.sources.readers.parser import Lines, feed_all, finish_with
from vario.sources.rows import STEP_KEYS, Table

MAX_LINE = 4 << 20
"""A longer line is no row of metrics; it is skipped and counted (bytes)."""
WRAPPERS = ("data", "logs", "metrics")
"""Where loggers put the metrics of a step beside its number (verl's file logger writes `data`)."""


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first bytes look like JSON objects on lines."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{") or is_wrapped_output(text):
        return False
    if any(name in {".jsonl", ".ndjson"} for name in path.suffixes[-2:]):
        return True
    first = text.split(b"\n", 1)[0].strip()
    try:
        return isinstance(json.loads(first), dict) and b"\n" in text
    except (ValueError, RecursionError):
        return False


def is_wrapped_output(text: bytes) -> bool:
    """Whether JSON objects hold what a program printed, piece by piece, as notebook services keep it."""
    return text.lstrip(b"[ \r\n").startswith(b'{"stream_name"')


class JsonLines:
    """Every row that parses; broken, half-written and foreign lines are counted."""

    def __init__(self, name: str, kind: str = "jsonl") -> None:
        self.table = Table(name, kind)
        self._name = Path(name).name
        self._lines = Lines(MAX_LINE)
        self._at = 0
        self._broken, self._first_broken = 0, 0
        self.samples = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self._lines.cut(data):
            self._at += 1
            if line:
                self._line(line)

    def _line(self, line: bytes) -> None:
        line = line.strip()
        if not line:
            return
        try:
            row = loads(line)
        except (ValueError, RecursionError):
            self.table.ignored += 1
            self._first_broken = self._first_broken or self._at
            self._broken += 1
            return
        if isinstance(row, dict) and is_sample(row):
            self.samples += 1
        elif not isinstance(row, dict) or not self.table.add(unwrapped(row)):
            self.table.ignored += 1

    def close(self) -> None:
        """A last line without its newline counts if it is whole."""
        rest = self._lines.rest()
        if rest.strip():
            self._at += 1
            self._line(rest)
        self.table.ignored += self._lines.dropped
        if self._broken:
            where = (
                f"line {self._first_broken}"
                if self._broken == 1
                else f"{self._broken} lines, the first is line {self._first_broken}"
            )
            self.table.warnings.append(f"{self._name}: {where} could not be parsed and was left out")
        if self.samples:
            self.table.warnings.append(
                f"{self._name}: {self.samples} rows are samples with their texts, and no metrics"
            )


def unwrapped(row: dict[str, object]) -> dict[str, object]:
    """The metrics of a row that keeps them one level down, beside its step."""
    for key in WRAPPERS:
        inner = row.get(key)
        if isinstance(inner, dict) and any(k in row for k in STEP_KEYS):
            return {**{k: v for k, v in row.items() if k != key}, **inner}
    return row


def start(path: Path) -> JsonLines:
    """A parser for this file."""
    return JsonLines(str(path))


def read(path: Path) -> Table:
    """Read every row that parses.

    Raises:
        Malformed: no line gave a row. NothingReadable: all of them are samples.
    """
    parser = start(path)
    feed_all(parser, path)
    return finish(parser, path)


def finish(parser: JsonLines, path: Path) -> Table:
    """The table of a parser that has been fed the whole file.

    Raises:
        Malformed: no line gave a row. NothingReadable: all of them are samples.
    """
    try:
        return finish_with(parser, path, "no line holds a row of metrics; expected one JSON object a line with a step")
    except Malformed as error:
        if parser.samples:
            raise NothingReadable(f"{path}: {SAMPLES}") from error
        raise


SAMPLES = "rows of samples (prompts, answers, their rewards), and no row of metrics; give the trainer's own log"
