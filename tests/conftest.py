"""Shared paths. The labelled runs of the project lie in tests/golden; others may lie beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED = Path(os.environ.get("VARIO_SHARED", ROOT.parent / "shared"))


def golden_runs() -> list[Path]:
    return sorted(p.parent for p in GOLDEN.glob("*/label.json"))


@pytest.fixture(scope="session")
def golden() -> Path:
    return GOLDEN
