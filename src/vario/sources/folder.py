"""What lies in a folder: logs, checkpoints, configurations. Follows no loop, fails on no permission."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from vario.errors import NothingReadable

CHECKPOINT = re.compile(r"^checkpoint-(\d+)$")
MAX_DEPTH = 3
MAX_ENTRIES = 20_000
HEAD_BYTES = 4096


@dataclass(slots=True)
class Found:
    """Paths of interest below a folder, nearest first."""

    states: list[Path] = field(default_factory=list)
    checkpoints: list[tuple[int, Path]] = field(default_factory=list)
    rows: list[Path] = field(default_factory=list)
    configs: list[Path] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    denied: list[str] = field(default_factory=list)
    others: int = 0
    cut: bool = False


def head_of(path: Path) -> bytes:
    """The first bytes, empty when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        return b""


def is_regular(path: Path) -> bool:
    """Whether it is a file that ends: no pipe, no device. A link that leads nowhere is left to the reader."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def look(folder: Path) -> Found:
    """List a folder up to three levels down; symbolic links to folders are not followed."""
    found = Found()
    seen = 0
    base = len(folder.parts)
    for where, folders, files in os.walk(
        folder, onerror=lambda e: found.denied.append(str(e.filename)), followlinks=False
    ):
        here = Path(where)
        depth = len(here.parts) - base
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < MAX_DEPTH else []
        if found.cut:
            break
        checkpoint = CHECKPOINT.search(here.name)
        if checkpoint:
            found.checkpoints.append((int(checkpoint[1]), here))
        for name in sorted(files):
            seen += 1
            if seen > MAX_ENTRIES:
                found.cut = True
                break
            path = here / name
            if not is_regular(path):
                found.others += 1
            elif name == "trainer_state.json":
                found.states.append(path)
            elif name == "training_args.bin" or (name in {"config.json", "config.yaml", "config.yml"} and depth <= 1):
                found.configs.append(path)
            elif path.suffix in {".jsonl", ".ndjson"}:
                found.rows.append(path)
            elif path.suffix == ".parquet" and here.name == "completions":
                found.files.add("completions.parquet")
            else:
                found.others += 1
    found.checkpoints.sort()
    return found


def nothing(folder: Path, found: Found) -> NothingReadable:
    """The message for a folder without a log."""
    if found.denied and not (found.others or found.rows):
        return NothingReadable(f"{folder}: no permission to read it ({found.denied[0]}); check its owner and mode")
    holds = f"it holds {found.others} other files" if found.others else "it is empty"
    return NothingReadable(
        f"{folder}: no trainer_state.json and no .jsonl of rows here or up to {MAX_DEPTH} levels down ({holds}). "
        "TRL writes trainer_state.json into checkpoint-N/ folders; trainer.save_state() writes it into output_dir."
    )
