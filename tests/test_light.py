"""What a training process imports stays light: numpy and the standard library."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "transformers", "pandas", "polars", "rich", "yaml", "scipy", "matplotlib", "textual", "orjson")


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, vario; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
