"""What a training process imports stays light: numpy and the standard library."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

HEAVY = ("torch", "transformers", "pandas", "polars", "rich", "yaml", "scipy", "matplotlib", "textual", "orjson", "jinja2", "mcp", "starlette", "uvicorn")


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, vario; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_diagnosis_loads_no_surface_that_it_does_not_show() -> None:
    """Templates, servers, figures and trackers wait for the command that needs them."""
    heavy = ("jinja2", "mcp", "starlette", "uvicorn", "matplotlib", "pandas", "sqlalchemy", "textual", "torch")
    code = (
        "import sys; from vario.surfaces.cli import main; "
        "main(['diagnose', 'tests/golden/grpo-healthy-kl', '--exit-zero', '--no-samples']); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"
