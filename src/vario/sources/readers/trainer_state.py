"""`trainer_state.json` of the transformers Trainer: `log_history`, one dict a logged step.

Read row by row, so that a file that was cut off still gives every row before the cut.
"""

from __future__ import annotations

import json
from pathlib import Path

from vario.errors import Malformed
from vario.sources.rows import Table

MARK = '"log_history"'
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
    text = path.read_text(encoding="utf-8", errors="replace")
    table = Table(str(path), "trainer_state")
    start = text.find(MARK)
    if start < 0:
        raise Malformed(f"{path}: no log_history in it; is it a trainer_state.json that was cut off near its start?")
    at = text.find("[", start)
    decoder = json.JSONDecoder()
    while 0 <= at < len(text):
        at += 1
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            break
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            table.ignored += 1
            table.warnings.append(f"{path.name}: cut off or broken after {table.rows} rows; the rest is lost")
            break
        if not isinstance(row, dict) or not table.add(row):
            table.ignored += 1
        at -= 1
    if at >= len(text) and not table.warnings:
        table.warnings.append(f"{path.name}: ends inside log_history after {table.rows} rows")
    if not table.rows:
        raise Malformed(f"{path}: log_history holds no row; was anything logged (logging_steps)?")
    outside = text[:start] + (text[at:] if at >= 0 else "")
    for key in _STATE:
        place = outside.find(f'"{key}":')
        if place >= 0:
            try:
                value, _ = decoder.raw_decode(outside, place + len(key) + 3 + (outside[place + len(key) + 3] == " "))
            except (ValueError, IndexError):
                continue
            if isinstance(value, str | int | float) or value is None:
                table.config[f"state.{key}"] = value
    return table
