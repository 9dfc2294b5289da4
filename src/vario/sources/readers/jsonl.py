"""JSON lines: one object per logged step. Split on newline only: U+2028 is text."""

from __future__ import annotations

import json
from pathlib import Path

from vario.errors import Malformed
from vario.sources.rows import Table

MAX_LINE = 4 << 20
"""A longer line is no row of metrics; it is skipped and counted (bytes)."""


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first bytes look like JSON objects on lines."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{"):
        return False
    first = text.split(b"\n", 1)[0].strip()
    if path.suffix in {".jsonl", ".ndjson"}:
        return True
    try:
        return isinstance(json.loads(first), dict) and b"\n" in text
    except ValueError:
        return False


def read(path: Path) -> Table:
    """Read every row that parses; broken, half-written and foreign lines are counted.

    Raises:
        Malformed: no line gave a row.
    """
    table = Table(str(path), "jsonl")
    broken_at: list[int] = []
    with path.open("rb") as stream:
        for i, line in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), start=1):
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                table.ignored += 1
                while (rest := stream.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
                continue
            stripped = line.strip()
            if not stripped:
                continue
            try:
                row = json.loads(stripped)
            except (ValueError, RecursionError):
                table.ignored += 1
                broken_at.append(i)
                continue
            if not isinstance(row, dict) or not table.add(row):
                table.ignored += 1
    if not table.rows:
        raise Malformed(f"{path}: no line holds a row of metrics; expected one JSON object a line with a step")
    if broken_at:
        where = (
            f"line {broken_at[0]}"
            if len(broken_at) == 1
            else f"{len(broken_at)} lines, the first is line {broken_at[0]}"
        )
        table.warnings.append(f"{path.name}: {where} could not be parsed and was left out")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    return table
