"""`trainer_state.json` of the transformers Trainer: `log_history`, one dict a logged step.

Read row by row from pieces of the file, so that a file that was cut off still gives every row
before the cut, and a large one needs no more memory than its columns.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import IO

from vario.errors import Malformed
from vario.sources.opening import open_log
from vario.sources.rows import Table

MARK = '"log_history"'
_OPENS = re.compile(r'"log_history"\s*:\s*\[')
_GAP = re.compile(r"[\s,]*")
PIECE = 1 << 20
MAX_ROW = 4 << 20
"""What does not close within so many characters is no row."""
_KEPT = 1 << 16
"""Characters kept of what stands before and behind the history."""
_STATE = ("global_step", "max_steps", "logging_steps", "eval_steps", "save_steps", "num_train_epochs",
          "best_metric", "best_model_checkpoint", "best_global_step", "train_batch_size")  # fmt: skip


def recognises(path: Path, head: bytes) -> bool:
    """By name, or by the field that only this file has."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{"):
        return False
    return path.name == "trainer_state.json" or MARK.encode() in head or b'"is_world_process_zero"' in head


def read(path: Path) -> Table:
    """Read the history; a truncated file gives the rows before the cut and a warning.

    Raises:
        Malformed: no row could be read.
    """
    table = Table(str(path), "trainer_state")
    with io.TextIOWrapper(open_log(path), encoding="utf-8", errors="replace") as stream:
        before, text = _to_history(stream, path)
        behind = _rows(stream, text, table, path.name)
    if not table.rows:
        lost = f" ({table.warnings[0]})" if table.warnings else ""
        raise Malformed(f"{path}: log_history holds no row{lost}; was anything logged (logging_steps)?")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    decoder = json.JSONDecoder()
    for key in _STATE:
        place = re.search(rf'"{key}"\s*:\s*', before + behind)
        if place is not None:
            try:
                value, _ = decoder.raw_decode(before + behind, place.end())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, str | int | float) or value is None:
                table.config[f"state.{key}"] = value
    return table


def _to_history(stream: IO[str], path: Path) -> tuple[str, str]:
    """The start of the file, and what was read behind the bracket that opens the history."""
    text, before = "", ""
    while piece := stream.read(PIECE):
        text += piece
        if found := _OPENS.search(text):
            return (before + text[: found.start()])[:_KEPT], text[found.end() :]
        before = (before + text[:-256])[:_KEPT]
        text = text[-256:]
    raise Malformed(f"{path}: no list log_history in it; is it a trainer_state.json that was cut off near its start?")


def _rows(stream: IO[str], text: str, table: Table, name: str) -> str:
    """Add every row to the table; returns what stands behind the history."""
    decoder = json.JSONDecoder()
    at, ended = 0, False
    while True:
        found = _GAP.match(text, at)
        at = found.end() if found is not None else at
        if at >= len(text) and not ended:
            text, at = stream.read(PIECE), 0
            ended = not text
            continue
        if at >= len(text):
            table.warnings.append(f"{name}: ends inside log_history after {table.rows} rows")
            return ""
        if text[at] == "]":
            return text[at + 1 :] + stream.read(_KEPT)
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if isinstance(error, ValueError) and not ended and len(text) - at < MAX_ROW:
                more = stream.read(max(PIECE, len(text) - at))
                text, at, ended = text[at:] + more, 0, not more
                continue
            table.ignored += 1
            table.warnings.append(f"{name}: cut off or broken after {table.rows} rows; the rest is lost")
            return ""
        if not isinstance(row, dict) or not table.add(row):
            table.ignored += 1
