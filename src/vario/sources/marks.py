"""Marks that people gave to completions: a file beside the run, a line a mark, the last one counts. No text is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from vario.errors import ConfigError
from vario.samples import Mark
from vario.sources.fast_json import loads

NAME = "vario-marks.jsonl"
WORDS = ("good", "bad", "hacked")


def marks_file(run: str) -> Path | None:
    """Where the marks of a run lie: in its folder, or beside its log; None for an address."""
    path = Path(run) if Path(run).exists() else Path(run.partition("#")[0])
    if "://" in run or run == "-":
        return None
    return path / NAME if path.is_dir() else path.parent / NAME


def read_marks(path: Path | None) -> Iterator[Mark]:
    """The marks in a file, the last of each completion; lines that are none are left out."""
    if path is None or not path.is_file():
        return
    last: dict[tuple[int, int], Mark] = {}
    for line in path.read_bytes().splitlines():
        try:
            found = loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(found, dict):
            continue
        step, number, word = found.get("step"), found.get("number"), found.get("mark")
        if isinstance(step, int) and isinstance(number, int) and word in WORDS:
            reward, known = found.get("reward"), found.get("known_at")
            last[step, number] = Mark(
                step,
                number,
                str(word),
                float(reward) if isinstance(reward, int | float) else None,
                known if isinstance(known, int) else None,
            )
    yield from sorted(last.values(), key=lambda m: (m.step, m.number))


def write_mark(path: Path, mark: Mark) -> None:
    """Add a mark at once, so that an interrupted review keeps what was said.

    Raises:
        ConfigError: the file cannot be written.
    """
    row = {
        "step": mark.step,
        "number": mark.number,
        "mark": mark.word,
        "reward": mark.reward,
        "known_at": mark.known_at,
    }
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise ConfigError(f"{path}: marks cannot be written ({error.strerror or error}); give --marks FILE") from error
