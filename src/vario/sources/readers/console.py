"""Console logs: what a trainer printed, with colours, prefixes and everything else that was printed.

Every line is asked by the grammars of `console_lines`; what they find is kept apart by who said it
(a stream: one kind of line). At the end the stream that looks most like training is the run, with
those that count by the same steps.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.run import Series
from vario.sources.readers.console_lines import (
    ANSI,
    RAY,
    REPEATED,
    STEP,
    Said,
    as_dict,
    cells_in,
    dicts_in,
    label_of,
    pairs_in,
    piped_in,
    plain_number,
    step_in,
    verl_line,
)
from vario.sources.readers.jsonl import unwrapped
from vario.sources.readers.metric_words import kinds_of
from vario.sources.readers.parser import Lines, read_all
from vario.sources.rows import EVALUATION, MAX_STEP, STEP_KEYS, Table, number, step_number

MAX_LINE = 1 << 20
MAX_STREAMS = 400
"""Kinds of lines that are told apart; a log with more is prose, and new kinds are not followed."""
CERTAIN_ROWS = 5
"""After so many rows in a grammar of its own, plain prose is no longer searched for pairs."""
MAX_AROUND = 600
"""Text around a dict that is searched for pairs (characters)."""
MAX_OPEN_LINES = 400
"""A dict printed over more lines is not one."""
NEIGHBOUR = 1.3
"""A stream that speaks at most so often as the main one is one row a step, not one a sample."""
_BANNER = re.compile(r"={5,}\s*Step (\d+)/(\d+)\s*={5,}")
_BULLET = re.compile(
    r"^\s*[•*-]\s+([A-Za-z][\w .()/-]*?):\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan)\s*(?:s|%|tokens|ms|GB)?(?:\s*\(.*\))?\s*$"
)
_SECTION = re.compile(r"(Training|Validation) Results:")
_TABLE_STEP = re.compile(r"Train step (\d+)/\d+ done")
_LATE_STEP = re.compile(r"(?i)\bstep (\d+):\s*$")
_CHUNK = re.compile(rb'^[\[,]?\{"stream_name"\s*:')


def recognises(_path: Path, head: bytes) -> bool:
    """Text of any kind; it is asked last."""
    return b"\0" not in head


class _Stream:
    """Rows of one kind of line."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.table = Table(path, "console")
        self.kinds: set[str] = set()
        self.keys: set[str] = set()
        self.counted = 0
        self.own_steps = 0
        self.fractions = False
        self.followed: dict[int, int | None] = {}

    def add(self, said: Said, followed: int | None) -> None:
        """Take a row; one without a step takes the step that was said last, or its own count."""
        row = said.row
        if fresh := row.keys() - self.keys:
            self.keys |= fresh
            self.kinds |= kinds_of(fresh)
        step = said.step
        if step is None:
            step = next((s for k in STEP_KEYS if k in row and (s := step_number(row[k])) is not None), None)
        if step is None:
            lowered = {k.lower().replace(" ", "_"): k for k in row}
            step = next(
                (s for k in STEP_KEYS if k in lowered and (s := step_number(row[lowered[k]])) is not None), None
            )
        if step is not None:
            self.own_steps += 1
        else:
            only_evaluation = all(k.startswith(EVALUATION) or k == "epoch" for k in row) or "train_runtime" in row
            self.counted += not only_evaluation
            step = max(self.counted, 1)
            self.followed[step] = followed
        self.fractions = self.fractions or any(map(_is_fraction, row.values()))
        self.table.add(row, step=step)

    def on_steps_said(self) -> dict[str, Series]:
        """Its series at the steps that were said last before each row; empty where none was."""
        made: dict[str, Series] = {}
        for key, series in self.table.series().items():
            at = [self.followed.get(s) if not self.own_steps else s for s in series.steps.tolist()]
            ok = np.array([a is not None for a in at], dtype=bool)
            if ok.all() and ok.size:
                made[key] = Series(key, np.array(at, dtype=np.int64), series.values)
        return made

    @property
    def is_metrics(self) -> bool:
        """Whether it can be rows of a training: whole numbers without a step are counts or single samples."""
        return bool(self.kinds) and (self.fractions or self.own_steps > 0)

    @property
    def weight(self) -> float:
        return float(self.table.rows * len(self.kinds) ** 2)


class ConsoleLog:
    """The rows among the lines."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "console")
        self._path = name
        self._lines = Lines(MAX_LINE)
        self._streams: dict[str, _Stream] = {}
        self._certain = 0
        self._step: dict[str, int] = {}
        self._block: dict[str, tuple[str, int, dict[str, object]]] = {}
        self._open: dict[str, tuple[int | None, list[str]]] = {}
        self._late: dict[str, int] = {}
        self._inner: dict[str, Lines] = {}
        self._section: dict[str, str] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self._lines.cut(data):
            # most lines of a log say nothing: they are passed by as fast as can be
            if (
                b"step:" in line
                or b"{'" in line
                or b'{"' in line
                or b"\xe2" in line
                or b"====" in line
                or b" done" in line
                or b"tep " in line
                or self._certain < CERTAIN_ROWS
                or self._open
            ):
                self._raw(line, whole=True)

    def _raw(self, line: bytes, whole: bool) -> None:
        if b'"stream_name"' in line[:40] and _CHUNK.match(line):
            self._chunk(line)
            return
        if b"\x1b" in line:
            line = ANSI.sub(b"", line)
        if b"\r" in line:
            *pieces, last = line.rstrip(b"\r").split(b"\r")
            for piece in pieces:
                self._line(piece, whole=True)
            line = last
        self._line(line, whole)

    def _chunk(self, line: bytes) -> None:
        """Output that a notebook service wrapped in JSON, piece by piece."""
        try:
            loaded = json.loads(line.strip().lstrip(b"[,").rstrip(b"],"))
        except (ValueError, RecursionError):
            self.table.ignored += 1
            return
        if isinstance(loaded, dict) and isinstance(loaded.get("data"), str):
            cutter = self._inner.setdefault(str(loaded.get("stream_name")), Lines(MAX_LINE))
            for piece in cutter.cut(loaded["data"].encode("utf-8", "replace")):
                self._raw(piece, whole=True)

    def _line(self, raw: bytes, whole: bool) -> None:
        source = ""
        if b"pid=" in raw[:160] and (ray := RAY.match(raw)):
            source = ray[1].decode("utf-8", "replace")
            raw = REPEATED.sub(b"", raw[ray.end() :])
        if source in self._open:
            self._continue(source, raw.decode("utf-8", "replace"))
            return
        structured = (
            b"step:" in raw
            or b"{'" in raw
            or b'{"' in raw
            or b"\xe2\x94\x82" in raw
            or b"\xe2\x80\xa2" in raw
            or b"=====" in raw
            or b"Results:" in raw
            or b" done" in raw
        )
        late = raw.rstrip().endswith(b":") and b"tep " in raw
        if not structured and not late and (self._certain >= CERTAIN_ROWS or not _ASSIGNED.search(raw)):
            return
        line = raw.decode("utf-8", "replace")
        if structured and self._structured(line, source, whole):
            return
        if late and (found := _LATE_STEP.search(line)):
            self._late[source] = int(found[1])
            return
        if self._certain < CERTAIN_ROWS:
            self._prose(line, source, whole)

    def _structured(self, line: str, source: str, whole: bool) -> bool:
        if "step:" in line and (said := verl_line(line, whole)):
            self._add(said, source, certain=True)
            return True
        if found := _BANNER.search(line):
            self._close_block(source)
            self._block[source] = ("block", int(found[1]), {})
            self._section[source] = ""
            return True
        if found := _TABLE_STEP.search(line):
            self._close_block(source)
            self._block[source] = ("table", int(found[1]), {})
            return True
        if found := _SECTION.search(line):
            self._section[source] = "Validation/" if found[1] == "Validation" else ""
        if source in self._block:
            kind, _, row = self._block[source]
            if kind == "table" and "│" in line:
                row.update(cells_in(line))
                return True
            if kind == "block" and (found := _BULLET.match(line)):
                number = plain_number(found[2])
                if number is not None:
                    row[self._section.get(source, "") + found[1]] = number
                return True
        return self._dict(line, source)

    def _dict(self, line: str, source: str) -> bool:
        found = dicts_in(line)
        if found is None:
            stripped = line.lstrip()
            if stripped.startswith(("{'", '{"')) and "}" not in stripped:
                self._open[source] = (self._late.pop(source, None), [stripped])
                return True
            return False
        before, row, around = found
        label, step = label_of(before)
        extra = pairs_in(around, whole=True) if len(around) < MAX_AROUND and ("=" in around or ":" in around) else {}
        flat = unwrapped({**extra, **row} if len(extra) >= 2 else row)
        if step is None and "step" in before.lower():
            said_step = STEP.search(before)
            step = int(said_step[1]) if said_step else None
        if len(extra) >= 2:
            label = "pairs:" + ",".join(sorted(extra)[:6])
        counted_by = next((k for k in STEP_KEYS if k in flat), "")
        self._add(Said(f"dict:{label}:{counted_by}", step, flat), source, certain=len(row) >= 3)
        return True

    def _continue(self, source: str, line: str) -> None:
        step, parts = self._open[source]
        parts.append(line)
        if line.rstrip().endswith("}"):
            del self._open[source]
            row = as_dict(" ".join(parts))
            if row:
                self._add(Said("dict:over lines", step, row), source, certain=step is not None)
        elif len(parts) > MAX_OPEN_LINES:
            del self._open[source]

    def _prose(self, line: str, source: str, whole: bool) -> None:
        step = step_in(line)
        row = pairs_in(line, whole) if "=" in line or ":" in line else {}
        if line.count(" | ") >= 3 and whole:
            piped = piped_in(line)
            if len(piped) > len(row):
                row = piped
        if len(row) >= 2 or (row and step is not None):
            self._add(Said("pairs:" + ",".join(sorted(row)), step, row), source, certain=False)

    def _add(self, said: Said, source: str, *, certain: bool) -> None:
        stream = self._streams.get(said.stream)
        if stream is None:
            if len(self._streams) >= MAX_STREAMS:
                return
            stream = self._streams[said.stream] = _Stream(said.stream, self._path)
        stream.add(said, self._step.get(source))
        if said.step is not None:
            self._step[source] = said.step
        self._certain += certain and bool(stream.kinds)

    def _close_block(self, source: str) -> None:
        if source in self._block:
            kind, step, row = self._block.pop(source)
            if row:
                self._add(Said(kind, step, row), source, certain=True)

    def close(self) -> None:
        """Choose the stream that is the run, and take those that count by the same steps."""
        rest = self._lines.rest()
        if rest.strip():
            self._raw(rest, whole=False)
        for cutter in self._inner.values():
            if left := cutter.rest():
                self._raw(left, whole=False)
        for source in list(self._block):
            self._close_block(source)
        for source, (_, parts) in list(self._open.items()):
            self._open.pop(source)
            self.table.ignored += bool(parts)
        ranked = sorted((s for s in self._streams.values() if s.is_metrics), key=lambda s: s.weight, reverse=True)
        if not ranked:
            return
        main = ranked[0]
        warnings, ignored = self.table.warnings, self.table.ignored + self._lines.dropped
        self.table = main.table
        self.table.flush()
        self.table.warnings += warnings
        self.table.ignored += ignored
        self.table.index_steps = not main.own_steps
        taken = set(main.keys)
        for other in ranked[1:]:
            if not main.own_steps or other.table.rows > NEIGHBOUR * main.table.rows or other.keys & taken:
                continue
            for key, series in other.on_steps_said().items():
                self.table.put(key, series.steps, series.values)
                taken.add(key)


def _is_fraction(value: object) -> bool:
    found = number(value)
    return found is not None and abs(found) < MAX_STEP and found != int(found)


_ASSIGNED = re.compile(rb"[:=] {0,2}(?:[-+]?[\d.]|nan|tensor|np\.|\[)| \| [A-Za-z. ]+ [-\d.]+")
"""Something that is given a number."""


def start(path: Path) -> ConsoleLog:
    """A parser for this file."""
    return ConsoleLog(str(path))


def read(path: Path) -> Table:
    """Read what was printed.

    Raises:
        NothingReadable: no line says anything about a training.
    """
    try:
        return read_all(start(path), path, "no line of metrics")
    except Malformed as error:
        if "no line of metrics" not in str(error):
            raise
        raise NothingReadable(
            f"{path}: text in no known format: no row of metrics in it; vario reads trainer_state.json, JSON lines, CSV, "
            "TensorBoard, W&B, trackio, MLflow, Parquet, notebooks, and console logs of the usual trainers"
        ) from error
