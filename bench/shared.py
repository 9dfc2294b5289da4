"""What the benches share: where the labelled runs lie, intervals, small tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_folder() -> Path:
    """Folder of the labelled material: `VARIO_SHARED`, or `../shared` beside the repository."""
    return Path(os.environ.get("VARIO_SHARED", REPOSITORY.parent / "shared"))


def labels_of(runs: Path) -> dict[str, dict]:
    """Labels by run id, in alphabetical order; empty where the folder is absent."""
    if not runs.is_dir():
        return {}
    return {p.parent.name: json.loads(p.read_text("utf-8")) for p in sorted(runs.glob("*/label.json"))}


def vocabulary_of(runs: Path) -> dict[str, dict]:
    """The vocabulary that lies beside a folder of runs."""
    return json.loads((runs.parent / "vocabulary.json").read_text("utf-8"))


def raw_log(run: Path) -> Path:
    """The log of a labelled run as its owner has it."""
    return next(p for p in sorted((run / "raw").iterdir()) if p.is_file())


def wilson(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if n == 0:
        return 0.0, 1.0
    p = right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(right: int, n: int) -> str:
    """`12/14 = 86 % [60, 96]`."""
    if n == 0:
        return "0/0"
    low, high = wilson(right, n)
    return f"{right}/{n} = {100 * right / n:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def table(rows: Iterable[Sequence[object]], head: Sequence[str]) -> str:
    """Aligned columns, the first one left, the others right."""
    cells = [list(head), *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
