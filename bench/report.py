"""Time and size of `vario report` as a whole process: the bundled run, and 5,000 steps of 60 metrics.

    python bench/report.py [--repeats 5] [--json FILE]

Bars: 1.5 s for the bundled run (tests/golden/grpo-drift), 2 MB for the long one. The long log is
made as bench/speed.py makes it, in a temporary folder. The least time of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from shared import table
from speed import measure, synthesise

ROOT = Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "tests/golden/grpo-drift"
STEPS, METRICS = 5_000, 60
SECONDS, BYTES = 1.5, 2_000_000
LIMIT = 300.0


def report(run: Path, file: Path, repeats: int, *options: str) -> dict[str, float]:
    """Least wall and processor seconds, most memory, and the size of the file."""
    command = [sys.executable, "-m", "vario.surfaces.cli", "report", str(run), "-o", str(file), *options]
    seen = [measure(command, LIMIT) for _ in range(repeats)]
    if any(code != 0 for *_, code in seen):
        raise SystemExit(f"{' '.join(command)}: failed")
    return {
        "seconds": min(s[0] for s in seen),
        "processor_seconds": min(s[1] for s in seen),
        "memory_mb": max(s[2] for s in seen),
        "bytes": file.stat().st_size,
    }


def main() -> int:
    """Print the table; the exit code is 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long"
        long.mkdir()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
            other.submit(synthesise, long, STEPS, METRICS).result()
        made = {
            "bundled run, HTML": report(BUNDLED, Path(folder) / "a.html", options.repeats),
            "bundled run, Markdown": report(BUNDLED, Path(folder) / "a.md", options.repeats),
            f"{STEPS} x {METRICS}, HTML": report(long, Path(folder) / "b.html", options.repeats),
            f"{STEPS} x {METRICS}, HTML, --no-replay": report(
                long, Path(folder) / "c.html", options.repeats, "--no-replay"
            ),
        }
    print(
        table(
            [
                (
                    name,
                    f"{m['seconds']:.2f}",
                    f"{m['processor_seconds']:.2f}",
                    f"{m['memory_mb']:.0f}",
                    f"{m['bytes'] / 1000:.0f}",
                )
                for name, m in made.items()
            ],
            ("report", "seconds", "processor", "MB of memory", "KB"),
        )
    )
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    kept = made["bundled run, HTML"]["seconds"] <= SECONDS and all(m["bytes"] <= BYTES for m in made.values())
    print("bars kept" if kept else f"a bar is missed: {SECONDS} s for the bundled run, {BYTES / 1e6:g} MB")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
