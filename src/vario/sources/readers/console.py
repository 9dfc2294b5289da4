"""Console logs: what a trainer printed, with colours, prefixes and everything else that was printed.

Every line is asked by the grammars of `console_lines`; what they find is kept apart by who said it
(a stream: one kind of line). At the end the stream that looks most like training is the run, with
those that count by the same steps (`console_streams`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from vario.errors import Malformed, NothingReadable
from vario.sources.readers.console_lines import (
    ANSI,
    RANK,
    RAY,
    REPEATED,
    STEP,
    Said,
    as_dict,
    cells_in,
    dicts_in,
    epoch_in,
    flat,
    has_words,
    held_out,
    is_record,
    label_of,
    listed_in,
    pairs_in,
    plain_number,
    step_in,
    verl_line,
)
from vario.sources.readers.console_streams import Stream, Streams
from vario.sources.readers.jsonl import unwrapped
from vario.sources.readers.metric_words import kinds_of, of_a_step
from vario.sources.readers.parser import Lines, feed_all, finish_with
from vario.sources.rows import BESIDE, EVALUATION, STEP_KEYS, Table, step_number

MAX_LINE = 1 << 20
MAX_STREAMS = 400
"""Kinds of lines that are told apart; a log with more is prose, and new kinds are not followed."""
CERTAIN_ROWS = 8
"""After so many rows in a grammar of its own, prose is no longer searched for pairs, unless it has told of a training too."""
MAX_AROUND = 600
"""Text around a dict that is searched for pairs (characters)."""
MAX_OPEN_LINES = 400
"""A dict printed over more lines is not one."""
MAX_BETWEEN = 40
"""So many lines of others may come between those of a dict."""
_BANNER = re.compile(r"={5,}\s*Step (\d+)/(\d+)\s*={5,}")
_BULLET = re.compile(
    r"^\s*[•-]\s+([A-Za-z][\w .()/@-]*?):\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan)(\s*%)?\s*(?:s|tokens|ms|GB)?(?:\s*\(.*\))?\s*$"
)
_SECTION = re.compile(r"(?:(Training|Validation) Results|((?:Validation )?Timing)|(Performance) Metrics):\s*$")
_TABLE_STEP = re.compile(r"Train step (\d+)/\d+ done")
_TITLE = re.compile(r"^ +Step (\d+) *$")
_LATE_STEP = re.compile(r"(?i)\bstep (\d+):\s*$")
_HEADING = re.compile(rb"tep \d+(?::\s*$|/\d+ (?:done|=)|\s*(?:\x1b\[\d*m)?$)")
"""A line that only says the step of what follows, in one of the ways above."""
_CHUNK = re.compile(rb'^[\[,]?\{"stream_name"\s*:')
_ASSIGNED = re.compile(rb"[:=] {0,8}(?:[-+]?\.?\d|nan|tensor|np\.|\[)")
"""Something that is given a number."""
_COUNTS = re.compile(rb"(?:tep|ter|tion|pdate)[ #:]{1,2}\d+.*[,;|]")
"""A list behind a count."""
_CONTINUED = re.compile(r"""\s*['"{}\[\])(]|\s+[-+\d.nN]""")
"""What a further line of a dict begins with."""
_DRAWN = "│┃╭╰╒╘┏└┌╞├"
"""What a line of a printed table or panel begins with: there is no prose in it."""
_GRID_OPENS, _GRID_CLOSES = ("╒", "┏", "┌"), ("╘", "└", "┗")


def recognises(_path: Path, head: bytes) -> bool:
    """Text of any kind; it is asked last."""
    return b"\0" not in head


class _Block:
    """Numbers that are printed over several lines under a step: a section with bullets, or a table."""

    def __init__(self, kind: str, step: int) -> None:
        self.kind, self.step = kind, step
        self.section: str | None = None
        self.inside = False
        self.row: dict[str, object] = {}

    def take(self, line: str, whole: bool) -> bool:
        """Take a line; False where it says nothing in this grammar."""
        if self.kind == "bullets":
            if line.rstrip()[-1:] == ":" and (found := _SECTION.search(line)):
                words = found[2] or found[3] or ("Validation" if found[1] == "Validation" else "")
                self.section = "/".join([*words.split(" "), ""]) if words else ""
                return True
            found = _BULLET.match(line) if whole and self.section is not None else None
            value = plain_number(found[2]) if found else None
            if found and value is not None:
                self.row[f"{self.section}{found[1]}"] = value / 100.0 if found[3] else value
            return found is not None
        if any(corner in line for corner in _GRID_OPENS):
            self.inside = True
        elif any(corner in line for corner in _GRID_CLOSES):
            self.inside = False
        elif self.inside and "│" in line:
            self.row.update(cells_in(line, whole))
        else:
            return False
        return True


class _Open:
    """A dict that is printed over several lines and has not ended."""

    def __init__(self, step: int | None, before: str, first: str) -> None:
        self.step, self.before, self.parts = step, before, [first]
        self.between = 0


class _Shape:
    """What the keys of a row say of it."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        spelled = {k.lower().replace(" ", "_"): k for k in keys}
        self.clock = next((spelled[k] for k in STEP_KEYS if k in spelled), None)
        self.known = bool(kinds_of(keys)) or any(k.startswith(EVALUATION) for k in keys)
        self.of_a_step = of_a_step(keys) or all(k.startswith(EVALUATION) or k in BESIDE for k in keys)
        self.of_an_update = "epoch" in keys or not kinds_of(keys).isdisjoint({"gradient", "rate"})
        self.scoped = any("/" in k for k in keys)


class ConsoleLog:
    """The rows among the lines."""

    def __init__(self, name: str) -> None:
        self.table = Table(name, "console")
        self._path = name
        self._lines = Lines(MAX_LINE)
        self._streams = Streams()
        self._order = 0
        self._certain = 0
        self._searches = True
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._block: dict[str, _Block] = {}
        self._open: dict[str, _Open] = {}
        self._late: dict[str, int] = {}
        self._inner: dict[str, Lines] = {}
        self._rank = self._first_rank = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if b"\r" in data:
            data = data.replace(b"\r", b"\n")  # a bar that is drawn again ends its line so
        for line in filter(None, self._lines.cut(data)):
            # most lines of a log say nothing: they are passed by as fast as can be
            if (
                b"step:" in line
                or b"{'" in line
                or b'{"' in line
                or (b"tep " in line and _HEADING.search(line))
                or (self._searches and _may_say(line))
                or (self._block and (b"\xe2" in line or b"  - " in line or line.rstrip()[-1:] == b":"))
                or self._open
                or self._late
                or b"Validation Results:" in line
            ):
                self._raw(line, whole=True)

    def _raw(self, line: bytes, whole: bool) -> None:
        if b'"stream_name"' in line[:40] and _CHUNK.match(line):
            self._chunk(line)
            return
        if b"\x1b" in line:
            line = ANSI.sub(b"", line)
        source = ""
        if b"pid=" in line[:160] and (ray := RAY.match(line)):
            source = ray[1].decode("utf-8", "replace")
            line = line[ray.end() :]
            if b"[repeated " in line:
                line = REPEATED.sub(b"", line)
        self._line(line, source, whole)

    def _chunk(self, line: bytes) -> None:
        """Output that a notebook service wrapped in JSON, piece by piece."""
        try:
            loaded = json.loads(line.strip().lstrip(b"[,").rstrip(b"],"))
        except (ValueError, RecursionError):
            self.table.ignored += 1
            return
        if isinstance(loaded, dict) and isinstance(loaded.get("data"), str):
            cutter = self._inner.setdefault(str(loaded.get("stream_name")), Lines(MAX_LINE))
            for piece in cutter.cut(loaded["data"].replace("\r", "\n").encode("utf-8", "replace")):
                self._raw(piece, whole=True)

    def _line(self, raw: bytes, source: str, whole: bool) -> None:
        self._rank = ""
        if (b"ank" in raw[:8] or b"efault" in raw[:9] or b"]:" in raw[:6]) and (ranked := RANK.match(raw[:40])):
            self._rank = (ranked[1] or ranked[2] or ranked[3]).decode()
            raw = raw[ranked.end() :]
            source = f"{source}@{self._rank}"
        if source in self._open and self._continue(source, raw.decode("utf-8", "replace")):
            return
        late = self._late.pop(source, None)
        if b"step:" in raw and (said := verl_line(raw.decode("utf-8", "replace"), whole)):
            self._add(said, source)
            return
        if b"{'" in raw or b'{"' in raw:
            if self._dict(raw.decode("utf-8", "replace"), source, late, whole):
                return
        elif b"tep " in raw and self._heading(raw.decode("utf-8", "replace"), source):
            return
        if b"Validation Results:" in raw and source not in self._block:
            self._block[source] = _Block("bullets", 0)  # before the first step: the initial validation
        if source in self._block and self._block[source].take(raw.decode("utf-8", "replace"), whole):
            return
        if self._searches and _may_say(raw):
            self._prose(raw.decode("utf-8", "replace"), source, whole)

    def _heading(self, line: str, source: str) -> bool:
        """A line that only says the step of what follows."""
        if found := _BANNER.search(line):
            self._begin(source, _Block("bullets", int(found[1])))
        elif found := _TABLE_STEP.search(line):
            self._begin(source, _Block("grid", int(found[1])))
        elif (found := _TITLE.match(line)) and (source not in self._block or self._block[source].kind == "titled"):
            self._begin(source, _Block("titled", int(found[1])))
        elif found := _LATE_STEP.search(line):
            self._late[source] = int(found[1])
        return found is not None

    def _begin(self, source: str, block: _Block) -> None:
        self._end(source)
        self._block[source] = block

    def _end(self, source: str) -> None:
        block = self._block.pop(source, None)
        if block is not None and block.row:
            self._add(Said(block.kind, block.step, block.row), source)

    def _dict(self, line: str, source: str, late: int | None, whole: bool) -> bool:
        found = dicts_in(line, whole)
        if found is None:
            start = line.find("{'")
            if whole and start >= 0 and "}" not in line and (start == 0 or line[:start].rstrip()[-1:] == ":"):
                self._open[source] = _Open(late, line[:start], line[start:])
                return True
            return False
        before, row, around = found
        extra: dict[str, object] = {}
        if len(around) < MAX_AROUND and ("=" in around or ":" in around):
            extra, _ = pairs_in(around)
        self._add_dict(before, row, extra if len(extra) >= 2 else {}, source, late)
        return True

    def _add_dict(
        self, before: str, row: dict[str, object], extra: dict[str, object], source: str, late: int | None
    ) -> None:
        labelled = label_of(before, row) if not extra else ("pairs:" + ",".join(list(extra)[:2]), None)
        if labelled is None or is_record(row):
            return
        label, step = labelled
        if step is None and "step" in before.lower() and (said := STEP.search(before)):
            step = int(said[1])
        if step is None and late is not None and "epoch" not in row and any("/" in k for k in row):
            step = late  # scoped keys are a trainer's: after "Step 3:" a model's text may show dicts too
        row = held_out(flat(unwrapped({**extra, **row})), before[-80:])
        if step is None and has_words(row) and not any(k in row for k in STEP_KEYS):
            return
        self._add(Said(f"dict:{label}", step, row), source)

    def _continue(self, source: str, line: str) -> bool:
        """A further line of an open dict; False where it is none."""
        opened = self._open[source]
        if len(opened.parts) > MAX_OPEN_LINES or opened.between > MAX_BETWEEN:
            del self._open[source]
            self.table.ignored += 1
            return False
        if not _CONTINUED.match(line):
            opened.between += 1
            return False
        opened.parts.append(line)
        if line.rstrip().endswith("}"):
            del self._open[source]
            row = as_dict(" ".join(opened.parts))
            if row:
                self._add_dict(opened.before, row, {}, source, opened.step)
        return True

    def _prose(self, line: str, source: str, whole: bool) -> None:
        if line.lstrip()[:1] in _DRAWN:
            return
        if not whole and line.rstrip()[-1:] != "%":
            line = line.rstrip().rpartition(" ")[0]  # the last word may go on
        row, head = pairs_in(line)
        if len(row) < 2 or " | " in line:
            listed, start = listed_in(line)
            if len(listed) > len(row):
                row, head = listed, start
        if not row:
            return
        if "epoch" not in row and "Epoch" not in row and (epoch := epoch_in(line)) is not None:
            row["epoch"] = epoch
        row = held_out(row, head)
        named = [k for k in row if k.lower() not in ("step", "epoch", "time")][:2]
        self._add(Said("pairs:" + ",".join(named), step_in(line), row), source)

    def _add(self, said: Said, source: str) -> None:
        shape = self._shape(said.row)
        step, clock = said.step, ""
        if step is None and shape.clock is not None:
            step, clock = step_number(said.row[shape.clock]), shape.clock
        # rows that count by different words, or by none, are of different kinds; so are dicts of samples beside those of steps
        name = said.stream if step is None else f"{said.stream}#{clock}"
        is_dict = name.startswith("dict:")
        if is_dict and not shape.of_a_step and not shape.scoped:
            name += "~"
        elif is_dict and step is None and shape.of_an_update:
            name += "+"
        if self._rank:
            self._first_rank = self._first_rank or self._rank
            name = name if self._rank == self._first_rank else f"{name}@{self._rank}"
        stream = self._streams.current.get(name)
        if stream is None:
            if len(self._streams.current) >= MAX_STREAMS or not shape.known:
                return
            stream = self._streams.current[name] = self._stream(name, source, step)
        self._order += 1
        if not stream.add(Said(name, step, said.row), self._order):
            new = self._stream(name, source, step)
            new.add(Said(name, step, said.row), self._order)
            self._streams.restart(stream, new)
        if stream.kinds and (stream.certain or (is_dict and shape.of_a_step and len(said.row) >= 3)):
            self._certain += 1
            if self._certain == CERTAIN_ROWS:
                told = (s for s in self._streams.current.values() if not s.certain and not s.is_dict)
                self._searches = any(s.is_training for s in told)

    def _stream(self, name: str, source: str, step: int | None) -> Stream:
        certain = not name.startswith(("dict:", "pairs:"))
        return Stream(name, self._path, source=source, certain=certain, stepped=step is not None)

    def _shape(self, row: dict[str, object]) -> _Shape:
        """What the keys of a row say; rows with the same keys are many."""
        keys = tuple(row)
        shape = self._shapes.get(keys)
        if shape is None:
            if len(self._shapes) > MAX_STREAMS:
                self._shapes.clear()
            shape = self._shapes[keys] = _Shape(keys)
        return shape

    def close(self) -> None:
        """Choose the stream that is the run, and take those that count by the same steps."""
        rest = self._lines.rest()
        if rest.strip():
            self._raw(rest, whole=False)
        for cutter in self._inner.values():
            if left := cutter.rest():
                self._raw(left, whole=False)
        for source in list(self._block):
            self._rank = source.partition("@")[2]
            self._end(source)
        self.table.ignored += len(self._open) + self._lines.dropped
        self._open.clear()
        chosen = self._streams.choose()
        if chosen is None:
            return
        main, warnings = chosen
        main.table.ignored += self.table.ignored
        main.table.warnings += self.table.warnings
        main.table.warnings += [f"{Path(self._path).name}: {w}" for w in warnings]
        self.table = main.table


def _may_say(line: bytes) -> bool:
    """Whether a line of prose can hold numbers with names."""
    return (
        ((b"=" in line or b":" in line) and (_ASSIGNED.search(line) is not None or b"\x1b" in line))
        or _COUNTS.search(line) is not None
        or b"stream_name" in line
    )


def start(path: Path) -> ConsoleLog:
    """A parser for this file."""
    return ConsoleLog(str(path))


def read(path: Path) -> Table:
    """Read what was printed.

    Raises:
        NothingReadable: no line says anything about a training.
    """
    parser = start(path)
    feed_all(parser, path)
    return finish(parser, path)


def finish(parser: ConsoleLog, path: Path) -> Table:
    """The table of a parser that has been fed the whole file.

    Raises:
        NothingReadable: no line says anything about a training.
    """
    try:
        return finish_with(parser, path, "no line of metrics")
    except Malformed as error:
        if "no line of metrics" not in str(error):
            raise
        raise NothingReadable(
            f"{path}: text in no known format: no row of metrics in it; vario reads trainer_state.json, JSON lines, CSV, "
            "TensorBoard, W&B, trackio, MLflow, Parquet, notebooks, and console logs of the usual trainers"
        ) from error
